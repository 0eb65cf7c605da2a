"""Task pairs: against loops over rows, with and without users, and the original against itself."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.evaluation.task import Figure, Logs
from querycloak.evaluation.tasks.pairs import (
    SUPPORTS,
    WITH_USERS,
    Pairs,
    ReleasedPairs,
    output_of,
    pair_measures,
    shares,
    supports,
    values,
    within_ratio,
)
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.optimal.holdings import of_log
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import Row, aol, write
from tests.subjects import ORIGINAL, Released

Pair = tuple[str, str]


def clicks(seed: int, users: int = 25) -> list[Row]:
    draw = random.Random(seed)
    rows = []
    for user in range(users):
        for second in range(draw.randrange(10)):
            query = draw.choices("abcdef", weights=[9, 6, 4, 3, 2, 1])[0]
            rows.append((f"u{user}", f"12:00:{second:02}", query, "1", f"http://{draw.choice('xy')}/"))
    return rows


def opened(engine: Engine, folder: Path, rows: list[Row]) -> SearchLog:
    return read(write(folder / "log.tsv", aol(rows)), engine=engine)


def slow_values(
    log: list[tuple[str, Pair, int]], release: list[tuple[str, Pair, int]], support: float
) -> dict[str, Any]:
    """The definitions, one triplet after another; pairs of one user of the log do not count there."""
    holders: dict[Pair, set[str]] = defaultdict(set)
    for user, pair, _ in log:
        holders[pair].add(user)
    log = [(user, pair, n) for user, pair, n in log if len(holders[pair]) > 1]
    before, after = Counter[Pair](), Counter[Pair]()
    for counts, rows in ((before, log), (after, release)):
        for _, pair, n in rows:
            counts[pair] += n
    size, out = sum(before.values()), sum(after.values())
    frequent = {pair for pair in before if before[pair] / size >= support}
    again = {pair for pair in after if after[pair] / out >= support}
    distance = sum(abs(after[pair] / out - before[pair] / size) if after[pair] else 1 for pair in frequent)
    together, numbers = [], []
    for rows in (log, release):
        held: dict[str, set[Pair]] = defaultdict(set)
        for user, pair, _ in rows:
            held[user] |= {pair} & frequent
        together.append(Counter(both for mine in held.values() for both in combinations(sorted(mine), 2)))
        numbers.append(Counter(len(mine) for mine in held.values() if mine))
    return {
        "precision": len(frequent & again) / len(again) if again else None,
        "recall": len(frequent & again) / len(frequent) if frequent else None,
        "support_distance": distance,
        "average_support_distance": distance / len(frequent) if frequent else None,
        "diversity": sum(pair in after for pair in before) / len(before),
        "query_diversity": len({q for q, _ in set(after) & set(before)}) / len({q for q, _ in before}),
        "size": out / size,
        "association_error": variation(*together),
        "pairs_per_user_error": variation(*numbers),
    }


def variation(first: Counter[Any], second: Counter[Any]) -> float | None:
    one, two = sum(first.values()), sum(second.values())
    if not one or not two:
        return None
    return sum(abs(first[key] / one - second[key] / two) for key in first | second) / 2


def counted(rows: list[Row]) -> list[tuple[str, Pair, int]]:
    triplets = Counter((user, (query, url)) for user, _, query, _, url in rows)
    return [(user, pair, n) for (user, pair), n in triplets.items()]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("support", [0.02, 0.1, 0.3])
def test_every_value_against_loops(duckdb_engine: Engine, tmp_path: Path, seed: int, support: float) -> None:
    rows = clicks(seed)
    triplets = [(f"r{user}", pair, n) for user, pair, n in counted(clicks(seed + 100))] + [("r", ("z", "http://z/"), 9)]
    log = opened(duckdb_engine, tmp_path, rows)
    table = pa.table({
        "user": [user for user, _, _ in triplets], "query": [pair[0] for _, pair, _ in triplets],
        "url": [pair[1] for _, pair, _ in triplets], "count": [n for _, _, n in triplets],
    })  # fmt: skip
    held = of_log(log)
    found = values(held, output_of(held, table), support)
    for name, value in slow_values(counted(rows), triplets, support).items():
        assert found[name] == (None if value is None else pytest.approx(value)), name


def figures(log: SearchLog, subject: Released) -> dict[tuple[str, str | None], Figure]:
    return {(each.measure.name, each.slice): each for each in Pairs().prepare(Logs(log, log)).scores(subject)}


def test_the_original_against_itself_is_perfect(duckdb_engine: Engine, tmp_path: Path) -> None:
    found = figures(opened(duckdb_engine, tmp_path, clicks(1)), ORIGINAL)
    perfect = {"precision", "recall", "diversity", "query_diversity", "size", "within_ratio"}
    perfect |= {"share_precision", "share_recall"}
    assert {name for name, _ in found} == {measure.name for measure in Pairs().measures}
    for (name, where), figure in found.items():
        assert figure.value == (1 if name in perfect else 0), (name, where)


def test_shares_are_of_all_pairs_if_the_release_states_a_total(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Pair a of 100 users who hold 9 pairs more, each alone: a is 100 of 1,000, and nearly all rows of the release."""
    rows = [(f"u{i}", "12:00:00", "a", "1", "http://a/") for i in range(100)]
    rows += [(f"u{i % 100}", "12:01:00", f"b{i}", "1", "http://b/") for i in range(900)]
    held = of_log(log := opened(duckdb_engine, tmp_path, rows))
    output = output_of(held, pa.table({"query": ["a"], "url": ["http://a/"], "count": [100]}))
    assert [each.tolist() for each in shares(held, 1_000, output)] == [[0.1], [1.0]]
    assert [each.tolist() for each in shares(held, 1_000, replace(output, total=800))] == [[0.1], [0.125]]
    release = qc.Optimal(epsilon=20, delta=1e-3, max_keys_per_user=10).release(log, randomness=Randomness(1))
    scores = figures(log, Released.of(release))
    rows_of_a = release.table("log")["query"].to_pylist().count("a")
    distance = abs(rows_of_a / release.parameters["total"] - 0.1)
    assert scores["share_precision", "support=0.001"].value == scores["share_recall", "support=0.001"].value == 1
    assert scores["share_distance", "support=0.001"].value == pytest.approx(distance)
    assert distance < 0.02
    assert scores["recall", "support=0.002"].value == 1  # of shared pairs, as in the paper


def test_a_table_without_users_has_what_needs_none(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(duckdb_engine, tmp_path, clicks(2, users=60))
    release = qc.Clicks(noise=0.05, threshold=3, max_keys_per_user=8).release(log, randomness=Randomness(1))
    found = figures(log, Released.of(release))
    assert found["recall", f"support={SUPPORTS[0]:g}"].value is not None
    for name in (*(name for name in WITH_USERS if name != "diff_ratio"), "within_ratio"):
        assert found[name, f"support={SUPPORTS[0]:g}"].value is None
        assert "it has no users" in (found[name, f"support={SUPPORTS[0]:g}"].why or "")
    made_up = qc.Optimal(epsilon=400, delta=0.1, max_keys_per_user=8).release(log, randomness=Randomness(1))
    assert figures(log, Released.of(made_up))["association_error", f"support={SUPPORTS[0]:g}"].value is not None


def test_a_log_with_rows_that_have_no_url(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(
        duckdb_engine, tmp_path, [("1", "12:00:00", "a", "1", "http://x/"), ("2", "12:00:00", "a", "1", "http://x/")]
    )
    rows = pa.table({"user": ["p", "q", "q"], "query": ["a", "a", "a"], "url": ["http://x/", "http://x/", None]})
    found = figures(log, Released("k", {"log": rows}))
    assert found["size", None].value == 1
    assert found["diversity", None].value == 1


def test_what_has_no_pairs_says_so(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = pa.table({"user": ["1"], "query": ["a"]})
    assert "no urls" in (Pairs().unsupported_reason(Released("s", {"log": log})) or "")
    alone = opened(duckdb_engine, tmp_path, [("1", "12:00:00", "a", "1", "http://x/"), ("2", "12:00:00", "b", "", "")])
    (figure,) = figures(alone, ORIGINAL).values()
    assert figure.why == "no pair of TRAIN has two users"


def test_counts_below_zero_are_none_at_all(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(
        duckdb_engine, tmp_path, [("1", "12:00:00", "a", "1", "http://x/"), ("2", "12:00:00", "a", "1", "http://x/")]
    )
    held = of_log(log)
    output = output_of(held, pa.table({"query": ["a", "b"], "url": ["http://x/", "http://x/"], "count": [3, -2]}))
    before, after = supports(held, output)
    assert (before.tolist(), after.tolist()) == ([1.0, 0.0], [1.0, 0.0])
    with pytest.raises(TypeError, match="no users"):
        pair_measures(0.1)["association_error"](held, output)


def test_shares_of_triplets_by_hand() -> None:
    histogram = [4, 3, 0, 0, 1, 0, 0, 0, 0, 0, 2]  # by tenths, the last beyond all
    assert [within_ratio(histogram, most) for most in (0.1, 0.2, 0.5, 1.0)] == [0.4, 0.7, 0.8, 0.8]
    assert within_ratio([0] * 11, 0.1) is None


def test_measures_are_callable() -> None:
    before, after = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.0, 0.4])
    assert pair_measures(0.25)["recall"](before, after) == 0.5
    assert pair_measures(0.25)["precision"](before, after) == 0.5
    assert pair_measures(0.25)["support_distance"](before, after) == pytest.approx(0.1 + 1)  # the second is missing
    assert ReleasedPairs(np.array([0, 0, 2]), np.array([1, 2, 3])).totals(3).tolist() == [3, 0, 3]


def test_an_empty_release_is_the_farthest_from_the_log() -> None:
    """The most frequent pairs alone have supports that add up to 1, so that |after - before| is large for each."""
    before = np.array([0.06, 0.04, 0.03, *[0.001] * 870])
    good, poor = np.zeros(before.size), np.zeros(before.size)
    good[:3], poor[-1] = before[:3] / 0.13, 1.0
    distance, average = (pair_measures(0.02)[name] for name in ("support_distance", "average_support_distance"))
    nothing = np.zeros(before.size)
    assert distance(before, before) == 0
    assert distance(before, good) == pytest.approx(0.87)
    assert np.abs(nothing - before)[:3].sum() < 0.87  # equation 5 as printed takes nothing for better
    assert distance(before, nothing) == distance(before, poor) == 3
    assert average(before, nothing) == 1
