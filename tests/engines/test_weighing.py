"""Weighted selection on both engines: lengths, independent users, released keys (privacy/calibration/selection.md)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from querycloak.engines import Engine
from querycloak.methods.keyed_digest import keyed_digest
from querycloak.methods.keys import weighted_selection
from querycloak.methods.keys.contribution_bounding import first_of_kept
from querycloak.methods.keys.partition_selection import count_keys
from querycloak.methods.keys.thresholded import release_keys
from querycloak.methods.keys.weighted_selection import (
    DIGITS,
    Loads,
    WeightedSelection,
    _equally_weighed,
    _weighed,
    digested,
)
from querycloak.privacy.calibration.selection import plan_tables
from querycloak.privacy.calibration.weighted import ENOUGH, FULL_INTEREST, GRID, PreselectionRound, WeightedPlan
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness

KEY = ("query", "url")
Held = list[tuple[str, str]]


def table(engine: Engine, held: Held, **more: list[Any]) -> Any:
    users, keys = zip(*held, strict=True)
    columns = {"user": users, "query": keys, "url": ["http://x/"] * len(held), "earliest": range(len(held))}
    return engine.upload(pa.table({**{name: list(values) for name, values in columns.items()}, **more}))


def random_interests(seed: int) -> tuple[Held, list[int]]:
    random = np.random.default_rng(seed)
    held = [(f"u{user}", f"key {key}") for user in range(60) for key in range(int(random.integers(1, 40)))]
    # Perfect squares, equal interests and extreme ones: where floats may round the wrong way.
    interests = random.choice([1, 64, 100, 256, 1023, 1024], len(held))
    return held, interests.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_weights_are_the_largest_whole_ones_and_no_user_exceeds_the_length(engine: Engine, seed: int) -> None:
    held, interests = random_interests(seed)
    rows = engine.fetch(_weighed(table(engine, held, known=interests))).to_pylist()
    lengths = Counter[str]()
    for (user, _), interest in zip(held, interests, strict=True):
        lengths[user] += interest * interest
    expected = {
        (user, key): math.isqrt(GRID * GRID * interest * interest // lengths[user])
        for (user, key), interest in zip(held, interests, strict=True)
    }
    assert {(row["user"], row["query"]): row["weight"] for row in rows} == expected
    squares = Counter[str]()
    for row in rows:
        squares[row["user"]] += row["weight"] ** 2
    assert max(squares.values()) <= GRID**2
    assert min(squares.values()) > 0.8 * GRID**2


def test_weights_by_priors_have_the_whole_length(engine: Engine) -> None:
    """Interest halves with every two points of a prior, down to 64, and the length is that of these interests."""
    held, priors = [("u", f"key {key}") for key in range(9)], list(range(9))
    rows = engine.fetch(_weighed(table(engine, held, prior=priors, known=[1024] * 8 + [100]))).to_pylist()
    interests = [1024, 724, 512, 362, 256, 181, 128, 90, 64]
    length = sum(each * each for each in interests)
    expected = {f"key {key}": math.isqrt(GRID**2 * each**2 // length) for key, each in enumerate(interests)}
    assert {row["query"]: row["weight"] for row in rows} == expected
    assert 0.95 * GRID**2 < sum(weight**2 for weight in expected.values()) <= GRID**2


def test_a_key_whose_holders_give_it_nothing_draws_noise_all_the_same(engine: Engine) -> None:
    """Else one more user would decide whether it is drawn, and move everybody who holds it (selection.md, step 1)."""
    held = [("u", f"key {key}") for key in range(300)]
    plan = plan_tables(8, 1e-7, {"clicks": 400}, selection="multi-round").plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    weighing = WeightedSelection.of(engine, table(engine, held), KEY, plan)
    interests = [64 if key == 0 else 1024 for key in range(300)]
    weighed = _weighed(table(engine, held, known=interests))
    assert min(engine.fetch(weighed)["weight"].to_pylist()) == 0
    everything = replace(plan.scouts[-1], floor=-(10**9))
    (loads,) = weighing.loads(everything, weighed).in_turn()
    known = weighing._preselected(loads, everything, Randomness(seed=1))
    assert (loads.num_rows, known.num_rows) == (300, 300)


@pytest.mark.parametrize("most", [1000, 20, 3])
def test_loads_come_in_slices_in_one_order(duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """However many come at once, every key comes once, with its load, in ascending order of digest."""
    held = [(f"u{key % 7}", f"key {key % 90}") for key in range(200)]
    plan = plan_tables(8, 1e-7, {"queries": 400}, selection="multi-round").plans["queries"]
    assert isinstance(plan, WeightedPlan)
    weighing = WeightedSelection.of(duckdb_engine, table(duckdb_engine, held), KEY, plan)
    loads = weighing.loads(plan.scouts[-1], weighing.weighed(None))
    (whole,) = loads.in_turn()
    monkeypatch.setattr(weighted_selection, "MOST_AT_ONCE", most)
    slices = list(loads.in_turn())
    assert len(slices) == {1000: 1, 20: 16, 3: 256}[most]
    assert [row for part in slices for row in part.to_pylist()] == whole.to_pylist()
    digests = whole["digest"].to_pylist()
    assert digests == sorted(set(digests))
    assert {len(digest) for digest in digests} == {DIGITS}


def test_a_release_in_slices_is_one_release(duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    held, plan = crowd(), plan_tables(4, 1e-4, {"queries": 256}, selection="multi-round").plans["queries"]
    assert isinstance(plan, WeightedPlan)
    monkeypatch.setattr(weighted_selection, "MOST_AT_ONCE", 1000)
    assert {"heavy 0", "heavy 1"} <= set(released(duckdb_engine, held, plan, 4))


def test_a_key_to_which_its_holders_give_nothing_is_decided_all_the_same(duckdb_engine: Engine) -> None:
    """Else it would be the own key of one more user, and others' weight would have brought it through the rounds."""
    held = [("u", f"key {key}") for key in range(300)]
    plan = plan_tables(8, 1e-7, {"clicks": 400}, selection="multi-round").plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    weighing = WeightedSelection.of(duckdb_engine, table(duckdb_engine, held), KEY, plan)
    weighed = _weighed(table(duckdb_engine, held, known=[64 if key == 0 else 1024 for key in range(300)]))
    votes = weighing.votes(weighed)
    numbers = votes.numbers().values()
    assert (len(numbers), min(numbers)) == (300, 0)
    assert release_keys(votes, plan.noise, plan.threshold, Randomness(seed=1)).table.num_rows == 0


def test_a_user_alone_has_the_whole_weight(engine: Engine) -> None:
    held = [("one", "a"), *(("four", key) for key in "abcd"), *(("nine", key) for key in "abcdefghi")]
    rows = engine.fetch(_weighed(table(engine, held, known=[1024] * len(held)))).to_pylist()
    assert {row["user"]: row["weight"] for row in rows} == {"one": 256, "four": 128, "nine": 85}


def test_adding_a_user_changes_nobody_elses_weights(engine: Engine) -> None:
    held, interests = random_interests(9)
    added = [("new", f"key {key}") for key in range(30)]
    alone, together = (
        {
            (row["user"], row["query"]): row["weight"]
            for row in engine.fetch(_weighed(table(engine, rows, known=known))).to_pylist()
            if row["user"] != "new"
        }
        for rows, known in ((held, interests), (added + held, [1024] * 30 + interests))
    )
    assert alone == together


def test_alike_weights_are_those_of_equal_interests(engine: Engine) -> None:
    held, _ = random_interests(5)
    rows = table(engine, held)
    alike, each = (
        {(row["user"], row["query"]): row["weight"] for row in engine.fetch(weighed).to_pylist()}
        for weighed in (_equally_weighed(rows), _weighed(rows.mutate(known=weighted_selection._long(1024))))
    )
    assert alike == each
    assert len(each) == len(held)


def test_no_two_keys_are_digested_alike(engine: Engine) -> None:
    """Texts that were not normalised may hold what stands between two texts; others are digested as they stand."""
    texts = ["a", "a\tb", "a\x1e1b", "a\x1e", "a\t", "", "\t", "b\tc", "c", "\x1e1b", "b"]
    pairs = [(query, url) for query in texts for url in texts]
    rows = engine.upload(pa.table({"query": [one for one, _ in pairs], "url": [other for _, other in pairs]}))
    found = engine.fetch(digested(rows, KEY, "secret")).to_pylist()
    assert len({row["digest"] for row in found}) == len(pairs) == len(found)
    plain = hashlib.sha256(b"secreta\tc").hexdigest()[:DIGITS]
    assert {row["digest"] for row in found if (row["query"], row["url"]) == ("a", "c")} == {plain}


def few_digests(text: Any, secret: str, digits: int) -> Any:
    """Digests that many keys share."""
    return keyed_digest(text, secret, 1) + "0" * (digits - 1)


def test_keys_that_share_a_digest_stay_together_and_count_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes is handed back by digest: a row that came twice would weigh twice (selection.md, step 1)."""
    monkeypatch.setattr(weighted_selection, "keyed_digest", few_digests)
    held = [(user, f"key {key}") for user in ("a", "b") for key in range(40)]
    plan = plan_tables(8, 1e-7, {"queries": 400}, selection="multi-round").plans["queries"]
    assert isinstance(plan, WeightedPlan)
    selection = WeightedSelection.of(engine, table(engine, held), KEY, plan)
    for floor in (-(10**9), 0):  # some keys of a digest pass by themselves, others with them
        scout = PreselectionRound(Gaussian(300.0), floor)
        loads = selection.loads(scout, selection.weighed(None))
        (fetched,) = loads.in_turn()
        assert fetched.num_rows == 40 > len(set(fetched["digest"].to_pylist()))
        passed = selection._preselected(fetched, scout, Randomness(seed=3))
        digests = passed["digest"].to_pylist()
        assert len(digests) == len(set(digests)) > 0
        known = loads.known([engine.upload(passed)])
        kept = engine.fetch(loads.table.semi_join(known, list(KEY)))
        assert set(kept["digest"].to_pylist()) == set(digests)
        rows = engine.fetch(selection.after(scout, known)[1]).to_pylist()
        assert len(rows) == 2 * kept.num_rows
        for user in ("a", "b"):
            assert sum(row["weight"] ** 2 for row in rows if row["user"] == user) <= GRID**2


def test_digests_are_keyed_anew_for_each_release(duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows the digest cannot make texts that share one: which do is another question each time.

    The scouts leave everything, so that only the secret can make a difference.
    """
    held = [(f"u{key}", f"key {key}") for key in range(40)]
    plan = plan_tables(4.0, 1e-3, {"clicks": 4}, selection="multi-round").plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    plan = replace(plan, scouts=tuple(replace(scout, floor=-(10**9)) for scout in plan.scouts))
    digests: list[dict[str, str]] = []
    secrets: list[str] = []
    whole = WeightedSelection.loads

    def watched(selection: WeightedSelection, scout: PreselectionRound, weighed: Any) -> Loads:
        found = whole(selection, scout, weighed)
        rows = selection.engine.fetch(found.table).to_pylist()
        digests.append({row[found.names[0]]: row["digest"] for row in rows})
        secrets.append(selection.secret)
        return found

    monkeypatch.setattr(WeightedSelection, "loads", watched)
    weighing = WeightedSelection.of(duckdb_engine, table(duckdb_engine, held), KEY, plan)
    for _ in range(2):
        weighing.release(Randomness())
    assert [each.keys() for each in digests] == [{key for _, key in held}] * 6
    parts, keys, keys_later, parts_again, keys_again, _ = digests
    assert parts != keys == keys_later != keys_again
    assert parts != parts_again
    assert len(set(secrets[:3])) == len(set(secrets[3:])) == 1 < len(set(secrets))


def released(engine: Engine, held: Held, plan: WeightedPlan, seed: int | None = None) -> dict[str, int | None]:
    """The count of each released key: none where the noisy count lies below 1."""
    found = count_keys(engine, table(engine, held), KEY, plan).release(Randomness(seed=seed)).table
    assert found.column_names == ["query", "url", "count"]
    return {row["query"]: row["count"] for row in found.to_pylist()}


def crowd() -> Held:
    """Two heavy keys that all hold, forty that thirty users each hold, and thousands that nobody shares."""
    held = [(f"u{user}", f"heavy {key}") for user in range(1200) for key in range(2)]
    held += [(f"u{user}", f"middle {user % 40}") for user in range(1200)]
    held += [(f"u{user}", f"own {user} {key}") for user in range(1200) for key in range(8)]
    return held


def test_rounds_find_what_one_round_cannot(duckdb_engine: Engine) -> None:
    """Eleven keys each: a middle key weighs 30/sqrt(11) = 9 at first, up to 30 after the scouts; T is 15 and 21."""
    held = crowd()
    one, rounds = (
        plan_tables(2, 1e-6, {"clicks": 256}, selection=selection).plans["clicks"]
        for selection in ("weighted", "multi-round")
    )
    assert isinstance(one, WeightedPlan)
    assert isinstance(rounds, WeightedPlan)
    first, second = released(duckdb_engine, held, one, 4), released(duckdb_engine, held, rounds, 4)
    assert set(first) >= {"heavy 0", "heavy 1"} <= set(second)
    assert sum(key.startswith("middle") for key in first) <= 4
    assert sum(key.startswith("middle") for key in second) >= 12
    assert not any(key.startswith("own") for key in {**first, **second})
    # Everybody's count of the keys that came out: three each, so none is cut off.
    assert rounds.counting is not None
    assert abs((second["heavy 0"] or 0) - 1200) < 6 * rounds.counting.sigma
    middle = [number or 0 for key, number in second.items() if key.startswith("middle")]
    assert abs(np.mean(middle) - 30) < 6 * rounds.counting.sigma / math.sqrt(len(middle))


@pytest.mark.parametrize("threshold", [260, 262])
def test_how_often_a_key_of_one_user_passes(duckdb_engine: Engine, threshold: int) -> None:
    """100,000 users with one own key of weight 256, sigma 2: an off-by-one would let three times as many pass.

    The chance is what claim 3 puts into delta. Keys above 260 are fetched, those above 262 are found by their rank.
    """
    plan = WeightedPlan((), Gaussian(2.0), threshold, 1, Gaussian(2.0), 1, 1.0, 0.1)
    held = [(f"u{user}", f"own {user}") for user in range(100_000)]
    expected, off_by_one = (100_000 * plan.noise.tail(threshold + above - 256).up() for above in (1, 0))
    found = released(duckdb_engine, held, plan)
    assert abs(len(found) - expected) < 5.5 * math.sqrt(expected) < (off_by_one - expected) / 1.5
    without = sum(count is None for count in found.values())
    hidden = plan.noise.tail(1).up()  # 1 + noise < 1
    assert abs(without - hidden * len(found)) < 5.5 * math.sqrt(hidden * (1 - hidden) * len(found))
    assert all(count is None or count >= 1 for count in found.values())


def test_how_often_a_key_of_one_user_passes_all_rounds(duckdb_engine: Engine) -> None:
    """60,000 users with one own key and its own part, weight 256 in every round: the chance of claim 6.

    A round with half of its noise, one that is left out, a floor that is too low by one, the same noise for all keys
    and a round that own keys need not pass would each let another number pass.
    """
    scouts = (
        PreselectionRound(Gaussian(2.0), 257, "query"),
        PreselectionRound(Gaussian(2.5), 257),
        PreselectionRound(Gaussian(3.0), 257),
    )
    plan = WeightedPlan(scouts, Gaussian(2.0), 256, 1, Gaussian(2.0), 1, 1.0, 0.1)
    users = 60_000
    held = [(f"u{user}", f"own {user}") for user in range(users)]
    rounds = [*((scout.noise, scout.floor) for scout in scouts), (plan.noise, plan.threshold)]
    chance = math.prod(noise.tail(limit + 1 - GRID).up() for noise, limit in rounds)
    deviation = math.sqrt(users * chance * (1 - chance))
    changed = [
        Gaussian(1.5).tail(2).up() / Gaussian(3.0).tail(2).up(),
        Gaussian(3.0).tail(1).up() / Gaussian(3.0).tail(2).up(),
    ]
    assert users * chance * min(abs(each - 1) for each in changed) > 8 * deviation  # half of the noise, a lower floor
    assert abs(len(released(duckdb_engine, held, plan)) - users * chance) < 5.5 * deviation


def test_interest_follows_noisy_weights(duckdb_engine: Engine) -> None:
    """Of 20,000 equal weights half look heavy: had the exact weight decided, all would have one interest."""
    plan = WeightedPlan((), Gaussian(50.0), 1000, 4, None, 4, 1.0, 0.1)
    scout = PreselectionRound(Gaussian(50.0), -(10**6))
    enough, number = int(plan.threshold * ENOUGH), 20_000
    loads = pa.table(
        {
            "digest": [f"{place:032x}" for place in range(number)],
            "n": pa.array([enough] * number, pa.int64()),
            "known": pa.array([FULL_INTEREST] * number, pa.int64()),
        }
    )
    selection = WeightedSelection.of(duckdb_engine, table(duckdb_engine, [("u", "key")]), KEY, plan)
    known = selection._preselected(loads, scout, Randomness(seed=6))["known"].to_numpy()
    less = scout.noise.tail(1).up()
    assert abs((known < FULL_INTEREST).sum() - number * less) < 5.5 * math.sqrt(number * less * (1 - less))
    assert len(np.unique(known)) > 50


@pytest.mark.parametrize("place", range(3))
def test_every_round_can_give_up_everything(duckdb_engine: Engine, place: int) -> None:
    held = [(f"u{user}", f"key {user % 3}") for user in range(300)]
    floors = [10**7 if place == other else -(10**7) for other in range(3)]
    parts = ("query", None, None)
    scouts = tuple(PreselectionRound(Gaussian(50.0), floor, part) for floor, part in zip(floors, parts, strict=True))
    plan = WeightedPlan(scouts, Gaussian(50.0), 2560, 4, Gaussian(2.0), 4, 1.0, 0.1)
    assert released(duckdb_engine, held, plan) == {}


def test_digests_are_as_long_as_the_proof_needs() -> None:
    """m keys and parts of a user, N of the log: k = m N / 16^digits is below the rest of the slack (selection.md)."""
    keys, parts, others = 10**6, 10**7, 10**12
    assert (keys + parts) * others / 16**DIGITS < 4e-20


def test_what_scouts_give_up_does_not_come_out(duckdb_engine: Engine) -> None:
    """A floor that nothing reaches leaves nothing; one that everything exceeds leaves it to the last round."""
    held = [(f"u{user}", f"key {user % 3}") for user in range(300)]
    plan = WeightedPlan(
        (PreselectionRound(Gaussian(50.0), 10**7),), Gaussian(50.0), 2560, 4, Gaussian(2.0), 4, 1.0, 0.1
    )
    assert released(duckdb_engine, held, plan) == {}
    low = replace(plan, scouts=(PreselectionRound(Gaussian(50.0), -(10**7)),))
    assert set(released(duckdb_engine, held, low)) == {"key 0", "key 1", "key 2"}


SEQUENCES = ("a b", "a c", "a d", "e f", "a b c")


def sequences(engine: Engine, held: Held) -> Any:
    """Sequences as `logs.sequences` writes them: how many queries, then these, parted by a control character."""
    texts = [(user, f"{key.count(' ') + 1}" + key.replace(" ", "\x1f")) for user, key in held]
    users, keys = zip(*texts, strict=True)
    return engine.upload(pa.table({"user": users, "queries": keys, "earliest": range(len(held))}))


@pytest.mark.same_on_spark
def test_a_sequence_is_given_up_with_any_of_its_queries(engine: Engine) -> None:
    """Claim 5. a and c have many users; d and f one each, whose weight of 256/sqrt(2) lies below the floor."""
    held = [(f"u{user}", key) for key in ("a b", "a c") for user in range(40) if (user % 2 == 0) == (key == "a b")]
    held += [("one", "a d"), ("two", "e f"), *((f"v{user}", "a b c") for user in range(20))]
    plan = WeightedPlan((PreselectionRound(Gaussian(2.0), 300, "queries"),), Gaussian(2.0), 100, 4, None, 4, 1.0, 0.1)
    for floor, expected in ((300, {"a b", "a c", "a b c"}), (-(10**6), set(SEQUENCES)), (10**6, set())):
        scouts = (replace(plan.scouts[0], floor=floor),)
        found = count_keys(engine, sequences(engine, held), ("queries",), replace(plan, scouts=scouts)).release(
            Randomness()
        )
        assert {text[1:].replace("\x1f", " ") for text in found.table["queries"].to_pylist()} == expected


def test_parts_of_a_user_have_one_weight_together(duckdb_engine: Engine) -> None:
    """However many sequences hold a query, it counts once: nine queries of one user weigh 85 of 256 each."""
    queries = "abcdefghi"
    held = [("u", f"{one} {other}") for one in queries for other in queries if one < other] + [("v", "a a")]
    plan = plan_tables(8, 1e-6, {"sessions": 256}, selection="multi-round").plans["sessions"]
    assert isinstance(plan, WeightedPlan)
    weighing = WeightedSelection.of(duckdb_engine, sequences(duckdb_engine, held), ("queries",), plan)
    (loads,) = weighing.loads(plan.scouts[0], weighing.weighed(None)).in_turn()
    assert sorted(loads["n"].to_pylist()) == [85] * 8 + [85 + 256]


def test_a_pair_is_given_up_with_its_query(duckdb_engine: Engine) -> None:
    held = [(f"u{user}", "many") for user in range(9)] + [("one", "one")]
    plan = WeightedPlan((PreselectionRound(Gaussian(2.0), 300, "query"),), Gaussian(2.0), 100, 4, None, 4, 1.0, 0.1)
    assert set(
        count_keys(duckdb_engine, table(duckdb_engine, held), KEY, plan)
        .release(Randomness())
        .table["query"]
        .to_pylist()
    ) == {"many"}


def test_counts_are_of_the_first_released_keys_of_each_user(duckdb_engine: Engine) -> None:
    held = [(f"u{user}", f"key {key}") for user in range(400) for key in range(5)]
    plan = WeightedPlan((), Gaussian(10.0), 2560, 5, Gaussian(1.8), 2, 1.0, 0.1)
    found = released(duckdb_engine, held, plan, 3)
    assert {key for key, number in found.items() if (number or 0) > 380} == {"key 0", "key 1"}
    assert all((found[f"key {key}"] or 0) < 15 for key in (2, 3, 4))


@pytest.mark.slow  # contract.is_the_same_on_another_engine draws by rounds on a smaller log
def test_spark_weighs_as_duckdb_does(spark_engine: Engine, duckdb_engine: Engine) -> None:
    held = crowd()[:6000]
    plan = plan_tables(4, 1e-4, {"clicks": 256}, selection="multi-round").plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    assert released(spark_engine, held, plan, 8) == released(duckdb_engine, held, plan, 8) != {}


@pytest.mark.parametrize("with_priors", [False, True])
@pytest.mark.parametrize("sizes", [(1, 2, 3), (3, 4), (2, 9, 3)], ids=["within", "one beyond", "far beyond"])
def test_no_user_keeps_more_than_the_first_keys(engine: Engine, sizes: tuple[int, ...], *, with_priors: bool) -> None:
    """The shortcut for users within the bound keeps the same keys; A_0 = l in selection.md, claim 6."""
    held = [(f"u{user}", f"key {7 * key % 11:02}") for user, size in enumerate(sizes) for key in range(size)]
    priors = [place % 2 for place in range(len(held))]
    more = {"prior": priors} if with_priors else {}
    expected = set()
    for user in range(len(sizes)):
        mine = [place for place, (holder, _) in enumerate(held) if holder == f"u{user}"]
        first = sorted(mine, key=lambda place: (priors[place] if with_priors else 0, place))[:3]
        expected |= {held[place] for place in first}
    kept = engine.fetch(first_of_kept(engine, table(engine, held, **more), KEY, 3)).to_pylist()
    assert {(row["user"], row["query"]) for row in kept} == expected
    assert len(kept) == len(expected)


@pytest.mark.parametrize("seed", range(3))
def test_keys_of_one_moment_are_kept_by_their_texts(engine: Engine, seed: int) -> None:
    """Had the order of rows decided, one more user could change which keys of another user count."""
    held = [(f"u{user}", f"key {key:02}") for user in range(40) for key in range(12)]
    held = [held[place] for place in np.random.default_rng(seed).permutation(len(held))]
    rows = table(engine, held).mutate(earliest=weighted_selection._long(5))
    kept = engine.fetch(first_of_kept(engine, engine.stage(rows), KEY, 3)).to_pylist()
    assert {(row["user"], row["query"]) for row in kept} == {
        (f"u{user}", f"key 0{key}") for user in range(40) for key in range(3)
    }
    plan = WeightedPlan((), Gaussian(1.0), 300, 12, Gaussian(2.0), 3, 1.0, 0.1)
    chosen = pa.table({"query": [f"key {key:02}" for key in range(12)], "url": ["http://x/"] * 12})
    counted = WeightedSelection.of(engine, rows, KEY, plan).counted(chosen)
    assert counted["n"].to_pylist() == [40, 40, 40, *[0] * 9]


def test_the_bound_comes_first(engine: Engine) -> None:
    held = [("u", f"key {key}") for key in range(9)]
    plan = plan_tables(4, 1e-4, {"clicks": 3}, selection="multi-round").plans["clicks"]
    weighing = count_keys(engine, table(engine, held), KEY, plan)
    assert isinstance(weighing, WeightedSelection)
    assert {row["query"] for row in engine.fetch(weighing.keys).to_pylist()} == {"key 0", "key 1", "key 2"}
