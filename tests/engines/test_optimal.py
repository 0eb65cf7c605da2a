"""`optimal` on both engines: what it counts, what it refuses, what it never lets out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from querycloak.audits.attacks.folder_leaks import leaks_in_folder
from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.evaluation.tasks.pairs import output_of, pair_measures, values
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.optimal import noisy_tables as counted_pairs
from querycloak.methods.optimal.holdings import of_log
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.optimal.noisy_tables import bounded, draw_tables
from querycloak.methods.optimal.plan import SyntheticPlan
from querycloak.privacy.calibration.weighted import GRID, WeightedPlan
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness
from tests.commands import in_process, querycloak
from tests.logs import Row, aol, write

# Noise of sigma 0.05 is 0 but for a chance of 1e-86: the tables are then the counts themselves.
# A pair that one user alone holds has a weight of at most 256, two users of three pairs each give it 294.
WEIGHED = WeightedPlan((), Gaussian(0.05), GRID, 3, Gaussian(0.05), 3, 9.0, 0.5)
EXACT = SyntheticPlan(9.0, 0.5, 2, WEIGHED, Gaussian(0.05), 1, Gaussian(0.05))


def click(user: str, minute: int, name: str) -> Row:
    return user, f"12:{minute:02}:00", f"query {name}", "1", f"http://{name}.example/"


def holding(held: dict[str, str]) -> list[Row]:
    """Users with the pairs that they hold, in this order; a letter for each."""
    return [click(user, minute, name) for user, names in held.items() for minute, name in enumerate(names)]


def opened(engine: Engine, folder: Path, rows: list[Row]) -> SearchLog:
    return read(write(folder / "log.tsv", aol(rows)), engine=engine)


@pytest.mark.same_on_spark
def test_the_three_tables_count_what_the_note_says(engine: Engine, tmp_path: Path) -> None:
    """optimal.md, default variant, steps 1 and 2: first three pairs each, links of the first two released ones."""
    held = {"u1": "aab", "u2": "abc", "u3": "abcd", "u4": "dcba", "u5": "ax", "u6": "yz"}
    log = opened(engine, tmp_path, holding(held))
    tables = draw_tables(engine, bounded(log, EXACT.per_user), EXACT, Randomness(seed=1))
    # Kept: u1 ab, u2 abc, u3 abc, u4 dcb, u5 ax, u6 yz. Pairs of more than one user: a 4, b 4, c 3.
    pairs = [(row["url"][7], row["count"]) for row in tables.pairs.to_pylist()]
    assert pairs == [("a", 4), ("b", 4), ("c", 3)]
    # All that is kept, whether it came out or not: 2 + 3 + 3 + 3 + 2 + 2.
    assert tables.total is None
    with_total = replace(EXACT, total_noise=Gaussian(0.05))
    assert draw_tables(engine, bounded(log, EXACT.per_user), with_total, Randomness(seed=1)).total == 15
    # Sizes: u5 holds one released pair, u1 and u4 two, u2 and u3 three.
    assert tables.sizes.tolist() == [1, 2, 2]
    # Links of the first two in released order: u1, u2, u3 a with b; u4 b with c, which alone does not pass.
    found = zip(tables.first.tolist(), tables.second.tolist(), tables.link_count.tolist(), strict=True)
    assert list(found) == [(0, 1, 3)]


@pytest.mark.same_on_spark
def test_nobody_changes_what_another_user_adds(engine: Engine, tmp_path: Path) -> None:
    """One more user moves at most l pairs, one bin and m(m-1)/2 links by one each, given the same released pairs."""
    few = {f"u{i}": names for i, names in enumerate(["abc", "abc", "bca", "acb", "cab", "ab", "bc"])}
    for number, added in enumerate(("abc", "cba", "a", "xyz", "cccab")):
        counted = []
        for place, held in enumerate((few, few | {"new": added})):
            folder = tmp_path / f"{number}-{place}"
            folder.mkdir()
            log = opened(engine, folder, holding(held))
            counted.append(draw_tables(engine, bounded(log, EXACT.per_user), EXACT, Randomness(seed=1)))
        one, two = (dict(zip(t.pairs["url"].to_pylist(), t.count.tolist(), strict=True)) for t in counted)
        assert sum(abs(two[url] - one[url]) for url in one) <= EXACT.per_user
        assert np.abs(counted[0].sizes - counted[1].sizes).sum() <= 1
        names = [
            {
                frozenset((t.pairs["url"][i].as_py(), t.pairs["url"][j].as_py())): n
                for i, j, n in zip(t.first.tolist(), t.second.tolist(), t.link_count.tolist(), strict=True)
            }
            for t in counted
        ]
        if [*one] == [*two]:  # the same order of released pairs
            assert sum(abs(names[1].get(k, 1) - names[0].get(k, 1)) for k in {*names[0], *names[1]}) <= 1


def test_after_the_tables_nothing_reads_the_log(
    duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(duckdb_engine, tmp_path, holding({f"u{i}": "abcdef".replace("abcdef"[i % 6], "") for i in range(300)}))
    method = Optimal(epsilon=8, delta=1e-3, max_keys_per_user=6, linked_per_user=3)
    kept: list[Any] = []
    draw = draw_tables

    def watched(*arguments: Any) -> Any:
        kept.append(draw(*arguments))

        def refuse(*_: Any) -> None:
            raise AssertionError("the log was asked again")

        for name in ("fetch", "stage", "stream", "table", "upload"):
            monkeypatch.setattr(type(duckdb_engine), name, refuse)
        return kept[-1]

    monkeypatch.setattr(counted_pairs, "draw_tables", watched)
    release = method.release(log, randomness=Randomness(seed=2))
    table = release.table("log")
    assert table.num_rows == int(kept[0].count.sum())
    assert "total" not in method.parameters()  # drawn, not chosen
    assert release.parameters["total"] == max(table.num_rows, kept[0].total)
    assert set(table["count"].to_pylist()) == {1}
    totals = Counter(table["url"].to_pylist())
    assert totals == dict(zip(kept[0].pairs["url"].to_pylist(), kept[0].count.tolist(), strict=True))
    assert not {name for name in table["user"].to_pylist() if name.startswith("u")}


@pytest.mark.same_on_spark
def test_the_paper_variant_counts_clicks_and_drops_pairs_of_one_user(engine: Engine, tmp_path: Path) -> None:
    log = opened(engine, tmp_path, holding({"u1": "aaabx", "u2": "ab", "u3": "yyb"}))
    held = of_log(log)
    assert held.keys is not None
    assert held.keys["url"].to_pylist() == ["http://a.example/", "http://b.example/"]
    assert (held.totals.tolist(), held.count.tolist(), held.users) == ([4, 3], [3, 1, 1, 1, 1], 3)
    release = Optimal(epsilon=8, delta=0.9, variant="paper").release(log, randomness=Randomness(seed=1))
    assert set(release.table("log")["url"].to_pylist()) <= {"http://a.example/", "http://b.example/"}
    assert release.proven.kind == "sampling-only"
    assert "no choice has more than" in str(release.remarks[0])


def test_a_charge_comes_before_the_draw_and_names_every_law(duckdb_engine: Engine, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_limit("people", 10, 1e-2)
    log = opened(duckdb_engine, tmp_path, holding({f"u{i}": "abc" for i in range(50)}))
    Optimal(epsilon=8, delta=1e-3).release(log, ledger=ledger, population="people").save(tmp_path / "out")
    (charge,) = ledger.show("people")[0].charges
    kinds = [mechanism["kind"] for mechanism in charge.parameters["mechanisms"]]
    assert kinds == ["gaussian-rounds", "histogram", "public-counts", "gaussian-rounds"]
    assert charge.status == "released"


@pytest.mark.parametrize(
    ("held", "options", "message"),
    [
        ({"u1": "ab", "u2": "cd"}, {}, "private, not for publication: no .query, url. pair is held by two users"),
        (
            {f"u{i}": "a" for i in range(4)},
            {"delta": 0.2},
            "private, not for publication: .* needs at least delta 0.25",
        ),
        (
            {f"u{i}": "ab" for i in range(9)},
            {"objective": "frequent", "support": 0.1, "output_size": 99},
            "output_size 99 is above .* the largest output found has",
        ),
        *(
            (
                {f"u{i}": "ab" for i in range(9)},
                {"objective": name, "output_size": 99},
                "output_size 99 is above .* has",
            )
            for name in ("size", "diversity", "queries")
        ),
        (
            {f"u{i}": "ab" for i in range(9)},
            {"objective": "frequent", "support": 0.9, "output_size": 1},
            "no pair reaches support 0.9; the largest is 0.5",
        ),
    ],
)
def test_what_the_paper_variant_cannot_do_it_says_before_charging(
    held: dict[str, str], options: dict[str, Any], message: str, duckdb_engine: Engine, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_limit("people", 10, 0.9)
    log = opened(duckdb_engine, tmp_path, holding(held))
    method = Optimal(**{"epsilon": 1, "delta": 0.5, "variant": "paper", **options})
    with pytest.raises(InputError, match=message):
        method.release(log, ledger=ledger, population="people")
    assert not ledger.show("people")[0].charges


def test_the_default_never_refuses_what_only_the_log_could_tell(duckdb_engine: Engine, tmp_path: Path) -> None:
    """No shared pair, a support that nothing reaches, an output far too large: an output like any other."""
    log = opened(duckdb_engine, tmp_path, holding({"u1": "ab", "u2": "cd"}))
    method = Optimal(epsilon=1, delta=1e-6, objective="frequent", support=0.9, output_size=10**6)
    release = method.release(log)
    assert release.table("log").num_rows == 0
    assert release.remarks == ()
    release.save(tmp_path / "out")
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["proven"]["kind"] == "approximate-dp"


def test_measures_of_the_log_beside_itself_and_beside_half_of_it(duckdb_engine: Engine, tmp_path: Path) -> None:
    names = {f"u{i}": "abc" if i % 2 else "ab" for i in range(40)}
    log = opened(duckdb_engine, tmp_path, holding(names))
    held = of_log(log)
    rows = log.engine.fetch(log.clicks.group_by(["user", "query", "url"]).agg(count=log.clicks.count()))
    itself = values(held, output_of(held, rows), 0.1)
    assert list(itself) == list(pair_measures(0.1))
    assert itself["precision"] == itself["recall"] == itself["diversity"] == itself["query_diversity"] == 1
    assert itself["size"] == 1
    assert itself["support_distance"] == itself["association_error"] == itself["pairs_per_user_error"] == 0
    assert itself["diff_ratio"] == [100] + [0] * 10
    # Without c: a missing pair counts 1, a and b go from 0.4 to 0.5 each.
    part = values(held, output_of(held, rows.filter(np.array([u[7] != "c" for u in rows["url"].to_pylist()]))), 0.1)
    assert part["recall"] == pytest.approx(2 / 3)
    assert part["precision"] == 1
    assert part["support_distance"] == pytest.approx(1.2)
    assert part["average_support_distance"] == pytest.approx(0.4)
    assert part["diversity"] == pytest.approx(2 / 3)
    assert part["size"] == pytest.approx(0.8)
    # Together in the log: ab 40, ac 20, bc 20 users; in the part ab alone. Per user: 2 or 3 in halves, then 2 only.
    assert part["association_error"] == pytest.approx(0.5)
    assert part["pairs_per_user_error"] == pytest.approx(0.5)
    # 80 triplets are off by (1/80 - 1/100)/(1/100) = 25 %, 20 by all of their share.
    assert part["diff_ratio"] == [0, 0, 80, 0, 0, 0, 0, 0, 0, 20, 0]


def test_the_commands_release_and_refuse(tmp_path: Path) -> None:
    """On a terminal: no user of the log in anything written or said, private figures marked, exit codes."""
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    log = write(tmp_path / "log.tsv", aol(holding({f"SECRETUSER{i}": "abc" for i in range(60)})))
    budget = ("--epsilon", "8", "--delta", "0.01", "--max-keys-per-user", "3")
    done = querycloak("release", "optimal", log, *budget, "--out", tmp_path / "default", tmp=tmp)
    assert done.returncode == 0
    assert "rows in log.parquet" in done.stdout
    paper = ("--variant", "paper", "--epsilon", "1")
    done = in_process("release", "optimal", log, *paper, "--delta", "0.5", "--out", tmp_path / "paper", tmp=tmp)
    assert done.returncode == 0
    assert "private, not for publication: " in done.stderr
    assert "no choice has more than" not in done.stdout
    for name in ("default", "paper"):
        assert leaks_in_folder(tmp_path / name, ["SECRETUSER"]) == []
    card = json.loads((tmp_path / "paper" / "card.json").read_text())
    assert any("Delta (0.5) is the chance that a user of the log appears" in warning for warning in card["warnings"])
    assert "no choice" not in (tmp_path / "paper" / "README.md").read_text()
    refused = in_process("release", "optimal", log, *paper, "--delta", "0.01", "--out", tmp_path / "none", tmp=tmp)
    assert refused.returncode == 2
    assert "private, not for publication: with this budget no pair at all can be released" in refused.stderr
    assert not (tmp_path / "none").exists()
