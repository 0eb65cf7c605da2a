"""The position-based model: expectation maximisation beside an independent one that walks over single views."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from querycloak import Clicks, EuRecords, evaluate
from querycloak.evaluation.tasks.click_model import (
    NO_LISTS,
    PERPLEXITY,
    CascadeModel,
    PairCounts,
    fitted,
    looked_at,
    looked_at_in_records,
)
from querycloak.logs.searchlog import read
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.synthetic.log_writer import synthesize


def slow_model(
    views: list[tuple[int, int, bool]], pairs: int, groups: int, rounds: int
) -> tuple[list[float], list[float]]:
    """The same model, one view after another, by the posterior of both hidden variables."""
    examined, attractive = [0.5] * groups, [0.5] * pairs
    for _ in range(rounds):
        seen, attracted = [[0.0, 0.0] for _ in range(groups)], [[1.0, 2.0] for _ in range(pairs)]
        for pair, group, clicked in views:
            e, a = examined[group], attractive[pair]
            joint = {(x, y): (e if x else 1 - e) * (a if y else 1 - a) for x in (0, 1) for y in (0, 1)}
            possible = {key: chance for key, chance in joint.items() if (key == (1, 1)) == clicked}
            total = sum(possible.values())
            seen[group][0] += sum(chance for (x, _), chance in possible.items() if x) / total
            attracted[pair][0] += sum(chance for (_, y), chance in possible.items() if y) / total
            seen[group][1] += 1
            attracted[pair][1] += 1
        examined = [hits / number if number else 1e-6 for hits, number in seen]
        attractive = [hits / number for hits, number in attracted]
    return examined, attractive


def test_the_model_is_that_of_single_views() -> None:
    random = np.random.default_rng(1)
    truth = (np.array([1.0, 0.6, 0.3]), np.array([0.8, 0.5, 0.2, 0.1]))
    views = []
    for _ in range(600):
        pair, group = int(random.integers(4)), int(random.integers(3))
        views.append((pair, group, bool(random.random() < truth[0][group] * truth[1][pair])))
    cells: dict[tuple[int, int], list[int]] = {}
    for pair, group, clicked in views:
        cell = cells.setdefault((pair, group), [0, 0])
        cell[0] += 1
        cell[1] += clicked
    columns = np.array([(pair, group, *numbers) for (pair, group), numbers in cells.items()])
    counts = PairCounts(columns[:, 0], columns[:, 1], columns[:, 2].astype(float), columns[:, 3].astype(float))
    model = fitted(counts, 4, 3, rounds=30)
    examined, attractive = slow_model(views, 4, 3, 30)
    assert model.examined == pytest.approx(examined, rel=1e-6)
    assert model.attractive == pytest.approx(attractive, rel=1e-6)
    assert list(np.argsort(-model.attractive)) == [0, 1, 2, 3]


def test_perplexity_by_hand() -> None:
    assert PERPLEXITY(np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array([2.0, 2.0])) == pytest.approx(2.0)
    assert PERPLEXITY(np.array([1.0]), np.array([0.25]), np.array([4.0])) == pytest.approx(2**0.8112781244591328)


def test_a_release_with_views_predicts_clicks_of_other_people(tmp_path: Path) -> None:
    for name, seed in (("train", 1), ("test", 2)):
        synthesize(tmp_path / f"{name}.parquet", 300, seed=seed, views=True, truth=False)
    other = read(tmp_path / "test.parquet")
    renamed = other.engine.fetch(other.records.mutate(user=other.records.user + "-test"))
    with read(tmp_path / "train.parquet") as train, read(renamed) as test:
        release = Clicks(epsilon=30, delta=1e-3, views=True, max_keys_per_user=16).release(
            train, randomness=Randomness(seed=1)
        )
        nothing = EuRecords(preset="dma-2026", min_group_users=10_000).release(train, randomness=Randomness(seed=1))
        results = evaluate(train, test, {"views": release, "nothing": nothing}, tasks=["click-model"])
    rows = {(row.release, row.measure, row.slice): row.value or 0.0 for row in results.rows}
    for subject in ("original", "views", "no-data"):
        assert 1 < rows[subject, "perplexity", None] < 2
        assert rows[subject, "perplexity", "rank=1"] > 1
    assert rows["original", "perplexity", None] < rows["no-data", "perplexity", None]
    assert rows["k-anonymity", "perplexity", None] == 0
    assert rows["nothing", "perplexity", None] == rows["no-data", "perplexity", None]
    assert 1 < rows["original", "perplexity_cascade", None] < 2
    assert rows["original", "perplexity_cascade", "rank=1"] > 1
    reasons = {row.why for row in results.rows if (row.release, row.measure) == ("views", "perplexity_cascade")}
    assert reasons == {NO_LISTS}


def searches(seed: int, number: int) -> list[dict[str, Any]]:
    """Views of searches for one query, each of up to four results in random order, clicked as a cascade."""
    random, rows = np.random.default_rng(seed), []
    for search in range(number):
        stopped = False
        for rank, url in enumerate(random.permutation(5)[: random.integers(1, 5)], start=1):
            clicked = not stopped and bool(random.random() < 0.15 * (url + 1))
            stopped |= clicked
            rows.append(
                {
                    "user": f"u{search % 7}",
                    "time": datetime(2024, 1, 1) + timedelta(seconds=search),
                    "query": "a",
                    "url": f"http://{url}/",
                    "rank": rank,
                    "clicked": clicked,
                }
            )
    return rows


def slow_cascade(rows: list[dict[str, Any]]) -> tuple[dict[str, float], dict[int, float]]:
    """Attractiveness of each url and rank, one search after another."""
    urls: dict[str, list[int]] = {}
    ranks: dict[int, list[int]] = {}
    stopped = set()
    for row in rows:
        if row["time"] not in stopped:
            for numbers in (urls.setdefault(row["url"], [1, 2]), ranks.setdefault(row["rank"], [1, 2])):
                numbers[0] += row["clicked"]
                numbers[1] += 1
        if row["clicked"]:
            stopped.add(row["time"])
    return {key: hits / tried for key, (hits, tried) in urls.items()}, {
        key: hits / tried for key, (hits, tried) in ranks.items()
    }


def test_the_cascade_is_that_of_single_searches() -> None:
    train = searches(1, 400)
    test = [*searches(2, 100), *({**row, "query": "b"} for row in searches(3, 20))]
    attracts, usual = slow_cascade(train)
    with read(pa.Table.from_pylist(train)) as log, read(pa.Table.from_pylist(test), engine=log.engine) as other:
        model = CascadeModel.of(looked_at(log.engine, log.views), np.full(4, 0.4))
        bits = model.bits(log.engine, other.views)
    assert sorted(model.pairs["attracts"].to_pylist()) == pytest.approx(sorted(attracts.values()))
    assert model.ranks == pytest.approx([usual[rank] for rank in (1, 2, 3, 4)])
    # Truth: 0.15, 0.3 ... 0.75.
    assert sorted(attracts.values()) == pytest.approx([0.15, 0.3, 0.45, 0.6, 0.75], abs=0.1)
    expected: dict[int, float] = {}
    reached: dict[Any, float] = {}
    for row in test:
        search = row["query"], row["time"]
        chance = attracts[row["url"]] if row["query"] == "a" else usual[row["rank"]]
        clicked = chance * reached.get(search, 1.0)
        reached[search] = reached.get(search, 1.0) * (1 - chance)
        expected[row["rank"]] = expected.get(row["rank"], 0.0) - np.log2(clicked if row["clicked"] else 1 - clicked)
    assert {rank: cost for rank, (cost, _) in bits.items()} == pytest.approx(expected)


def test_records_are_looked_at_like_rows_of_a_log() -> None:
    rows = searches(4, 60)
    records = pa.table(
        {
            "session": [row["user"] for row in rows],
            **{name: [row[name] for row in rows] for name in ("query", "url", "rank", "clicked")},
        }
    )
    with read(pa.Table.from_pylist(rows)) as log:
        by_log = looked_at(log.engine, log.views)
    numbers = [
        sorted((row["rank"], row["n"], row["clicks"]) for row in table.to_pylist())
        for table in (by_log, looked_at_in_records(records))
    ]
    assert numbers[0] == numbers[1]
