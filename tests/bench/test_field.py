"""The bench's published algorithms keep the sensitivities that their papers prove; our simulation is our release."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from bench.auto_choice import FIXED, compared
from bench.selection import dp_ngrams, dp_sips, limit, mad, mad2r, ours, policy_gaussian, policy_laplace
from bench.selection.accounting import Purse, purse
from bench.selection.field import rows
from bench.selection.holdings import Holdings, clicks_of, sessions_of
from bench.selection.our_plans import our_plan
from bench.selection.weighted_gaussian import equal_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from querycloak.audits.guarantees.runs import in_memory
from querycloak.engines import Engine
from querycloak.logs.searchlog import read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.keys.selection_plan import Selection
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import aol, write

people = st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=8), min_size=2, max_size=25)
LAW = settings(max_examples=60, deadline=None)


def holdings(sets: list[set[int]], keys: int = 10) -> Holdings:
    pairs = [(user, key) for user, mine in enumerate(sets) for key in sorted(mine)]
    user, key = np.array(pairs, np.int64).reshape(-1, 2).T
    return Holdings(user.copy(), key.copy(), len(sets), keys)


def without(held: Holdings, user: int) -> Holdings:
    return held.kept(held.user != user)


@LAW
@given(people, st.floats(0.3, 4.0), st.sampled_from([2, 5, 8]))
def test_one_user_moves_the_weights_of_mad_by_length_one(sets: list[set[int]], cutoff: float, degree: int) -> None:
    def weights(held: Holdings) -> np.ndarray:
        each = 1 / np.sqrt(np.maximum(held.of_users(), 1))[held.user]
        return mad.adaptive_weights(held, each, cutoff, least=1, degree=degree)

    held = holdings(sets)
    moved = weights(held) - weights(without(held, 0))
    assert np.linalg.norm(moved) <= 1 + 1e-9
    own = sorted(sets[0].difference(*sets[1:]))
    assert moved[own].max(initial=0) <= 1 / math.sqrt(max(len(own), 1)) + 1e-9  # what the threshold counts on


@LAW
@given(people, st.lists(st.floats(0.5, 1.0), min_size=10, max_size=10), st.floats(0.3, 4.0))
def test_one_user_moves_the_biased_weights_of_mad2r_by_length_one(
    sets: list[set[int]], biases: list[float], cutoff: float
) -> None:
    def weights(held: Holdings) -> np.ndarray:
        each = mad2r.biased_weights(held, np.array(biases))
        return mad.adaptive_weights(held, each, cutoff, least=4, degree=8)

    held = holdings(sets)
    lengths = np.bincount(held.user, mad2r.biased_weights(held, np.array(biases)) ** 2, minlength=held.users)
    assert lengths.max() <= 1 + 1e-9
    assert np.linalg.norm(weights(held) - weights(without(held, 0))) <= 1 + 1e-9


@LAW
@given(people, st.floats(0.3, 4.0))
def test_policies_are_contractive(sets: list[set[int]], cutoff: float) -> None:
    held = holdings(sets)
    fewer = without(held, 0)
    descended = [policy_gaussian._descended(each.user, each.key, 10, cutoff) for each in (held, fewer)]
    assert np.linalg.norm(descended[0] - descended[1]) <= 1 + 1e-9
    filled = [policy_laplace._filled(each.user, each.key, 10, cutoff) for each in (held, fewer)]
    assert np.abs(filled[0] - filled[1]).sum() <= 1 + 1e-9
    assert max(descended[0].max(), filled[0].max()) <= cutoff + 1e-9


def test_the_threshold_lets_keys_of_one_user_out_as_rarely_as_it_says() -> None:
    # Gopi et al., Theorem 5.1, with its formula typed here a second time.
    spend = Purse(squared=0.04, own=5e-7)
    by_hand = max(1 / math.sqrt(t) + 5 * norm.ppf((1 - 5e-7) ** (1 / t)) for t in range(1, 101))
    assert spend.threshold(100) == pytest.approx(by_hand, rel=1e-9)


def test_no_rounds_spend_more_than_the_purse() -> None:
    spend = purse(1.0, 1e-6)
    assert sum(spend.part(share).squared for share in (0.1, 0.9)) == pytest.approx(spend.squared)
    assert spend.own == 5e-7


def shared_keys(number: int = 60) -> Holdings:
    """Key k is held by 30 k users, each of whom holds one more key of their own."""
    sets = [{key, 100 + 30 * key * key + user} for key in range(1, 8) for user in range(number * key // 2)]
    return holdings(sets, keys=10_000)


@pytest.mark.parametrize("select", [policy_gaussian, dp_sips, mad, mad2r])
def test_algorithms_bring_out_what_many_share_and_nothing_else(select: object) -> None:
    held = shared_keys()
    given = {"alpha": 2.0} if select is policy_gaussian else {}
    found = select.select(held, purse(8.0, 1e-6), np.random.default_rng(1), most=10, **given)  # type: ignore[attr-defined]
    assert set(found.tolist()) == set(range(1, 8))
    assert set(policy_laplace.select(held, (8.0, 1e-6), np.random.default_rng(1), most=10, alpha=9.0)) == set(found)
    assert set(limit.select(held, (8.0, 1e-6), np.random.default_rng(1))) == set(found)


def test_dp_ngrams_bring_out_sequences_of_items_that_came_out() -> None:
    parts = [(a, b, -1) for a, b in combinations(range(3), 2)] + [(0, 1, 2), (7, 8, -1)]
    keys = {part: number for number, part in enumerate(parts)}
    mine = [keys[part] for part in parts[:4]]
    sets = [set(mine) for _ in range(200)] + [{keys[7, 8, -1]}]
    held = holdings(sets, keys=len(parts))
    held = Holdings(held.user, held.key, held.users, held.keys, np.array(parts))
    found = dp_ngrams.select(held, purse(8.0, 1e-6), np.random.default_rng(1), most=10)
    assert found.tolist() == [0, 1, 2, 3]


def test_a_simulated_selection_is_a_released_one_where_noise_decides_nothing(
    tmp_path: Path, duckdb_engine: Engine
) -> None:
    people = [
        (f"u{user}", f"12:{place:02}:00", f"query {(user * place) % 40}", "1", f"http://{user % 3}.example/")
        for user in range(400)
        for place in range(1, 9)
    ]
    log = read(write(tmp_path / "log.tsv", aol(people)), engine=duckdb_engine)
    held, budget = clicks_of(log), (400.0, 1e-6)
    names: tuple[Selection, ...] = ("laplace", "gaussian", "weighted", "multi-round")
    for name in names:
        draw = np.random.default_rng(1)
        simulated = ours.select(held, our_plan(name, "clicks", held, budget, draw, counts=True)[0], draw)
        method = Clicks(epsilon=400.0, delta=1e-6, selection=name)
        released = method.release(log, randomness=Randomness(seed=1)).tables["clicks"]
        assert simulated.size == in_memory(released).num_rows, name
    assert sessions_of(log).parts is not None


def test_a_table_of_the_field_has_every_algorithm_and_the_limit() -> None:
    held = shared_keys(20)
    found = list(rows("toy", "clicks", held, [(8.0, 1e-6)], runs=1, seed=1))
    assert [row.algorithm for row in found][-1] == "limit"
    assert {"MAD", "MAD2R", "DP-SIPS", "policy Gaussian", "policy Laplace", "multi-round", "auto"} <= {
        row.algorithm for row in found
    }
    assert all(0 <= row.volume <= 1 for row in found)


def test_auto_stands_beside_the_best_fixed_choice() -> None:
    keys, volume = compared("toy", "clicks", shared_keys(20), (8.0, 1e-4), runs=2)
    assert (keys.measure, volume.measure) == ("keys", "volume")
    assert keys.best in {str(choice) for choice in FIXED}
    assert keys.ratio == keys.auto / keys.fixed
    assert 0 < volume.fixed <= 1


def test_equal_weights() -> None:
    assert equal_weights(holdings([{0, 1, 2, 3}, {0}])).tolist()[:4] == [1.5, 0.5, 0.5, 0.5]
