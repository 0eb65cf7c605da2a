"""Keys of an earlier release, counted again without a threshold (known_keys.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import querycloak as qc
from querycloak.errors import ParameterError, QuerycloakError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.known_keys import CountedWithKnown, cut_of
from querycloak.privacy.accounting.gaussian_filter import cost_of
from querycloak.privacy.calibration.gaussian import gaussian_delta, largest_loss
from querycloak.privacy.calibration.selection import known_draw
from querycloak.privacy.sampling.randomness import Randomness
from tests.commands import in_process

EPSILON, DELTA = 8.0, 1e-4
HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"


def rows(keys: dict[str, int]) -> str:
    """A log in which each query is asked by this number of users, who ask nothing else."""
    lines = [
        f"{query}-{user}\t{query}\t2006-03-01 10:00:00\t1\thttp://{query}.example/"
        for query, users in keys.items()
        for user in range(users)
    ]
    return "\n".join([HEADER, *lines]) + "\n"


def queries(known: Path | None = None, **more: float) -> qc.Queries:
    return qc.Queries(epsilon=EPSILON, delta=DELTA, known=None if known is None else str(known), **more)  # type: ignore[arg-type]


@pytest.fixture
def ledger(tmp_path: Path) -> qc.Ledger:
    made = qc.Ledger(tmp_path / "ledger")
    made.set_limit("shop", 100, 1e-2, accounting="gaussian")
    return made


@pytest.fixture
def march(tmp_path: Path) -> Iterator[SearchLog]:
    (tmp_path / "march.tsv").write_text(rows({"weather": 300, "maps": 200, "rare": 1}))
    with qc.read(tmp_path / "march.tsv") as log:
        yield log


@pytest.fixture
def april(tmp_path: Path) -> Iterator[SearchLog]:
    (tmp_path / "april.tsv").write_text(rows({"weather": 150, "football": 250, "rare": 1}))
    with qc.read(tmp_path / "april.tsv") as log:
        yield log


@pytest.fixture
def earlier(march: SearchLog, ledger: qc.Ledger, tmp_path: Path) -> Path:
    return queries().release(march, ledger=ledger, population="shop").save(tmp_path / "first").folder


def test_known_keys_come_out_by_their_noisy_number_and_new_ones_by_selection(
    earlier: Path, april: SearchLog, ledger: qc.Ledger, tmp_path: Path
) -> None:
    method = queries(earlier)
    release = method.release(april, ledger=ledger, population="shop")
    counts = dict(zip(*release["queries"].to_pydict().values(), strict=True))
    assert {"weather", "football"} <= set(counts)
    assert "rare" not in counts
    assert counts["weather"] == pytest.approx(150, abs=8 * method.known_draw.noise.size)
    saved = release.save(tmp_path / "second")
    card = json.loads((saved.folder / "card.json").read_text())
    assert card["parameters"]["known_keys"] == qc.load(earlier)["queries"].num_rows
    assert str(earlier) not in (saved.folder / "card.json").read_text()
    assert card["proven"]["epsilon"] == EPSILON
    assert in_process("verify", saved.folder, "--ledger", ledger.path).returncode == 0
    # A release with known keys is itself known to the next one.
    assert queries(saved.folder).known_release is not None


def test_every_known_key_gets_noise_held_or_not(earlier: Path, april: SearchLog) -> None:
    """Law: a known key that nobody holds comes out as often as its noise passes the cut."""
    method = qc.Queries(
        epsilon=EPSILON, delta=DELTA, known=str(earlier), max_keys_per_user=1, selection="gaussian"
    )  # fmt: skip
    counted = method.count(april)
    assert isinstance(counted, CountedWithKnown)
    assert counted.known["query"].to_pylist() == ["maps", "weather"]
    assert counted.known["n"].fill_null(0).to_pylist() == [0, 150]
    drawn = [counted.draw(Randomness(seed)).tables["queries"] for seed in range(200)]
    printed = sum("maps" in table["query"].to_pylist() for table in drawn)  # type: ignore[index]
    chance = method.known_draw.noise.tail(cut_of(method.known_draw) + 1).up()
    assert abs(printed - 200 * chance) < 5 * math.sqrt(200 * chance)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("selection", "bound"), [("gaussian", 1), ("multi-round", 16), ("weighted", 8)])
def test_both_parts_keep_the_budget(earlier: Path, share: float, selection: str, bound: int) -> None:
    """Recomputed from the note: mu^2 of both parts, and own keys, come to no more than delta at epsilon."""
    method = qc.Queries(
        epsilon=1, delta=1e-6, known=str(earlier), known_share=share, selection=selection,  # type: ignore[arg-type]
        max_keys_per_user=bound, known_per_user=bound,
    )  # fmt: skip
    assert method.known_draw.per_user == bound
    cost = cost_of(method.proven(), [draw.to_json() for draw in method.draws()])
    assert gaussian_delta(cost.squared, 1.0) + math.expm1(cost.own) + cost.exceptions <= 1e-6 * (1 + 1e-4)
    assert cost.squared <= largest_loss(1.0, 5e-7) * (1 + 1e-6)
    assert method.proven().numbers[1] <= 1e-6


def test_noise_of_known_keys_at_one_and_a_millionth() -> None:
    """Golden: sigma 24.7 with half of the squared loss, 17.5 with nearly all of it (39.1 without known keys)."""
    assert known_draw(1.0, 1e-6, 0.5).noise.size == pytest.approx(24.7, abs=0.05)
    assert known_draw(1.0, 1e-6, 0.9999).noise.size == pytest.approx(17.5, abs=0.05)
    # Of one key per user the noise is a quarter, but for the variance of 1.5 that the proof gives up.
    wide, narrow = (known_draw(1.0, 1e-6, 0.5, most).noise.size ** 2 - 1.5 for most in (16, 1))
    assert wide == pytest.approx(16 * narrow, rel=1e-3)


def test_a_release_is_known_only_to_the_population_that_paid(
    earlier: Path, april: SearchLog, ledger: qc.Ledger, march: SearchLog, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match="known needs ledger and population"):
        queries(earlier).release(april)
    ledger.set_limit("library", 100, 1e-2)
    with pytest.raises(ParameterError, match="does not stand in the ledger of population 'library'"):
        queries(earlier).release(april, ledger=ledger, population="library")
    unpaid = queries().release(march).save(tmp_path / "unpaid").folder
    with pytest.raises(ParameterError, match="does not stand in the ledger"):
        queries(unpaid).release(april, ledger=ledger, population="shop")
    assert len(ledger.show("shop")[0].charges) == 1


def test_rules_seeds_other_tables_and_edited_folders_are_not_known(
    earlier: Path, march: SearchLog, ledger: qc.Ledger, tmp_path: Path
) -> None:
    rule = qc.KAnonymity(min_users=5, keys="queries").release(march, ledger=ledger, population="shop")
    with pytest.raises(ParameterError, match="is not known: it is not differentially private for a user"):
        queries(rule.save(tmp_path / "rule").folder)
    seeded = queries().release(march, ledger=ledger, population="shop", randomness=Randomness(1))
    with pytest.raises(ParameterError, match="it was made from a seed"):
        queries(seeded.save(tmp_path / "seeded").folder)
    with pytest.raises(ParameterError, match="it has no table 'clicks'"):
        qc.Clicks(epsilon=EPSILON, delta=DELTA, known=str(earlier))
    with pytest.raises(QuerycloakError):
        queries(tmp_path)
    table = earlier / "queries.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    refused = in_process(
        "release", "queries", tmp_path / "march.tsv", "--epsilon", "8", "--delta", "1e-4", "--known", earlier,
        "--population", "shop", "--ledger", ledger.path, "--out", tmp_path / "third",
    )  # fmt: skip
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "third").exists()


def test_options_that_do_not_go_with_known_keys(earlier: Path) -> None:
    with pytest.raises(ParameterError, match="known_share goes with known"):
        queries(known_share=0.5)
    with pytest.raises(ParameterError, match="known_per_user goes with known"):
        queries(known_per_user=2)
    with pytest.raises(ParameterError, match="known_per_user must be at least 1"):
        queries(earlier, known_per_user=0)
    for other in ({"selection": "laplace"}, {"two_draws": True}, {"counts": "none"}):
        with pytest.raises(ParameterError, match="with Gaussian noise: leave"):
            queries(earlier, **other)
    with pytest.raises(ParameterError, match="known_share"):
        queries(earlier, known_share=1.0)


def test_users_count_once_for_a_known_key(earlier: Path, tmp_path: Path) -> None:
    searches = [("maps", "10:00:00"), ("weather", "11:00:00"), ("maps", "12:00:00")]
    lines = [f"1\t{query}\t2006-03-01 {at}\t\t" for query, at in searches]
    (tmp_path / "one.tsv").write_text("\n".join([HEADER, *lines]) + "\n")
    with qc.read(tmp_path / "one.tsv") as log:
        counted = queries(earlier).count(log)
    assert isinstance(counted, CountedWithKnown)
    assert int(np.sum(counted.known["n"].fill_null(0).to_numpy())) == 2
