"""Keys by attributes, views by rank and cells without keys, on both engines (methods/keys/cells.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querycloak import Clicks, Queries, evaluate
from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.evaluation_file import Row
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import write

BUDGET: dict[str, Any] = {"epsilon": 40, "delta": 1e-3, "max_keys_per_user": 4}
SINCE, UNTIL = datetime(2024, 1, 1), datetime(2024, 1, 22)
USERS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 120 users: all ask `a` in the week of 8 January; every third one on a mobile, every fourth in France."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("user", "time", "query", "rank", "url", "clicked", "country", "device")
    }
    for user in range(USERS):
        country = "fr" if user % 4 == 0 else "DE" if user % 4 < 3 else None
        for rank, url in ((1, "x.com"), (4, "y.com")):
            clicked = rank == 1 and user % 2 == 0
            values = (
                f"u{user}",
                datetime(2024, 1, 10),
                "a",
                rank,
                url,
                clicked,
                country,
                "mobile" if user % 3 == 0 else "desktop",
            )
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    for name, late in zip(rows, ("late", UNTIL, "a", 1, "x.com", True, "DE", "mobile"), strict=True):
        rows[name].append(late)  # outside the period
    folder = tmp_path_factory.mktemp("cells")
    pq.write_table(pa.table(rows), folder / "log.parquet")
    return folder


def opened(engine: Engine, folder: Path) -> SearchLog:
    choices = Choices(since=SINCE, until=UNTIL, attributes=("country", "device"))
    return read(folder / "log.parquet", engine=engine, choices=choices)


def near(table: pa.Table, expected: Mapping[Any, int], number: str, margin: int = 15) -> None:
    names = [name for name in table.column_names if name not in ("count", "viewers", "clickers", "searches", "users")]
    released = {tuple(row[name] for name in names): row[number] for row in table.to_pylist()}
    assert set(expected) <= set(released)
    alone = [count for key, count in released.items() if key not in expected]
    assert len(alone) <= 3, "at most one spurious row is expected"
    assert all(count <= margin for count in alone)
    for key, count in expected.items():
        assert abs((released[key] or 0) - count) <= margin, key


def test_private_attributes_are_part_of_the_key(engine: Engine, folder: Path) -> None:
    method = Queries(**BUDGET, by="country")
    release = method.release(opened(engine, folder), randomness=Randomness(seed=1))
    assert release["queries"].column_names == ["query", "country", "count"]
    near(release["queries"], {("a", "fr"): 30, ("a", "DE"): 60, ("a", "other"): 30}, "count")
    assert method.proven().epsilon == 40
    assert release.card["tables"]["queries"]["columns"]["country"]


def test_public_cells_are_noised_held_or_not(engine: Engine, folder: Path) -> None:
    method = Queries(**BUDGET, by="week,country", domain_of="country=iso3166")
    release = method.release(opened(engine, folder), randomness=Randomness(seed=1))
    assert release["queries"].column_names == ["query", "week", "country", "count"]
    expected = {("a", "2024-01-08", "FR"): 30, ("a", "2024-01-08", "DE"): 60, ("a", "2024-01-08", "other"): 30}
    near(release["queries"], expected, "count")
    assert release.counts == "cells"
    assert method.proven().numbers <= (40, 1e-3)
    log = opened(engine, folder)
    outside = Queries(**BUDGET, by="device", domain_of="device=desktop;tablet").release(
        log, randomness=Randomness(seed=1)
    )
    near(outside["queries"], {("a", "desktop"): 80, ("a", "other"): 40}, "count")
    assert log.accounting().rejected == {"L201": 1}


class WithoutA(Queries):
    """Counts no row of the query a."""

    def rows(self, log: SearchLog) -> ir.Table:
        rows = super().rows(log)
        return rows.filter(rows.query != "a")


def test_a_class_that_counts_other_rows_does_not_see_those_of_another(duckdb_engine: Engine, folder: Path) -> None:
    log = opened(duckdb_engine, folder)
    options = {**BUDGET, "by": "country", "domain_of": "country=iso3166"}
    released = [kind(**options).release(log, randomness=Randomness(seed=1)) for kind in (Queries, WithoutA)]
    assert [each["queries"].num_rows > 0 for each in released] == [True, False]


def test_cells_without_keys_are_all_printed(engine: Engine, folder: Path) -> None:
    method = Queries(epsilon=40, delta=1e-3, by="week,device", domain_of="device=desktop;mobile", keyed="none")
    table = method.release(opened(engine, folder), randomness=Randomness(seed=1))["cells"]
    assert table.column_names == ["week", "device", "searches", "users"]
    assert table.num_rows == 3 * 3
    held = {(row["week"], row["device"]): row["users"] for row in table.to_pylist()}
    assert abs(held["2024-01-08", "mobile"] - 40) <= 15
    assert abs(held["2024-01-08", "desktop"] - 80) <= 15
    assert abs(held["2024-01-01", "desktop"] or 0) <= 15


def test_views_are_counted_by_viewers_and_rank(engine: Engine, folder: Path) -> None:
    method = Clicks(**BUDGET, views=True, by="device")
    release = method.release(opened(engine, folder), randomness=Randomness(seed=2))
    clicks = release["clicks"]
    assert clicks.column_names == ["query", "url", "device", "ranks", "viewers", "clickers"]
    expected = {
        (url, device): number for url in ("x.com", "y.com") for device, number in (("mobile", 40), ("desktop", 80))
    }
    viewers = {
        ("a", url, device, "1" if url == "x.com" else "4-5"): number for (url, device), number in expected.items()
    }
    near(clicks, viewers, "viewers")
    near(clicks, {key: number // 2 if key[1] == "x.com" else 0 for key, number in viewers.items()}, "clickers")
    positions = release["positions"].to_pylist()
    assert [row["rank"] for row in positions] == list(range(1, 21))
    assert method.cell_plan is not None
    assert method.cell_plan.event_noise is not None
    margin = 3 * method.cell_plan.event_noise.sigma
    assert abs(positions[0]["views"] - USERS) <= 2 * margin
    assert abs((positions[0]["clicks"] or 0) - USERS // 2) <= margin


def random_log(path: Path, seed: int, users: range) -> Path:
    """Views of a few queries and results by these users, in two countries, on two devices, in three weeks."""
    random, rows = np.random.default_rng(seed), []
    for user in users:
        for search in range(3):
            at = datetime(2024, 1, 1) + timedelta(hours=int(random.integers(21 * 24)), minutes=search)
            shared = {
                "user": f"u{user}",
                "time": at,
                "query": "ab"[random.integers(2)],
                "country": ("DE", "fr", None)[random.integers(3)],
                "device": ("desktop", "mobile")[random.integers(2)],
            }
            for rank, url in enumerate(random.permutation(4)[:3], start=1):
                rows.append(
                    {**shared, "rank": rank, "url": f"{url}.com", "clicked": bool(random.random() < 0.6 / rank)}
                )
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_seeded_logs_are_released_and_judged_alike_on_both_engines(
    duckdb_engine: Engine, spark_engine: Engine, tmp_path: Path
) -> None:
    paths = (
        random_log(tmp_path / "train.parquet", 1, range(100)),
        random_log(tmp_path / "test.parquet", 2, range(100, 130)),
    )
    choices = Choices(SINCE, UNTIL, attributes=("country", "device"))
    methods = {
        "by week": Queries(**BUDGET, by="country,week", domain_of="country=iso3166"),
        "views": Clicks(**BUDGET, by="device,month", views=True),
        "cells": Queries(epsilon=40, delta=1e-3, by="week,device", domain_of="device=desktop;mobile", keyed="none"),
    }

    def judged(engine: Engine) -> tuple[dict[str, dict[str, Any]], list[Row]]:
        train, test = (read(path, engine=engine, choices=choices) for path in paths)
        releases = {name: each.release(train, randomness=Randomness(seed=3)) for name, each in methods.items()}
        rows = evaluate(train, test, releases, tasks=["counts", "click-model"]).rows
        return {name: dict(release.tables) for name, release in releases.items()}, list(rows)

    ours, spark = judged(duckdb_engine), judged(spark_engine)
    assert all(table.num_rows for tables in ours[0].values() for table in tables.values())
    assert {"cells=queries", "rank=1"} <= {row.slice for row in ours[1] if row.value is not None}
    assert spark[0] == ours[0]
    # Sums of floats depend on the order of rows.
    values = [[-1.0 if row.value is None else row.value for row in rows] for rows in (spark[1], ours[1])]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    assert [replace(row, value=None) for row in spark[1]] == [replace(row, value=None) for row in ours[1]]


def test_bad_options_have_one_clear_line(folder: Path, tmp_path: Path) -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"by": "country", "domain_of": "device=iso3166"}, "no attribute of by"),
        ({"by": "country", "domain_of": "country=/nowhere"}, "a file in UTF-8, or one of iso3166"),
        ({"by": "url"}, "by must be other names than"),
        ({"by": "country", "keys": "none"}, "domain_of for country"),
        ({"keys": "none"}, "give by, and domain_of"),
        ({"by": "week", "counts": "none"}, "noisy counts of users"),
    )
    for options, message in cases:
        with pytest.raises(ParameterError, match=message):
            Queries(**BUDGET, **options)
    with pytest.raises(ParameterError, match="default variant"):
        Clicks(epsilon=8, delta=1e-6, variant="paper", by="country")
    one = write(tmp_path / "one.txt", "desktop\n")
    assert Queries(**BUDGET, by="device", domain_of=f"device={one}").grouping.domains == {"device": ("desktop",)}
    log = read(folder / "log.parquet")
    with pytest.raises(ParameterError, match="the log was read without: name them with attributes"):
        Queries(**BUDGET, by="country").release(log)
    with pytest.raises(ParameterError, match="since and until must be given"):
        Queries(**BUDGET, by="week").release(log)
    wide = Queries(**BUDGET, by="country,device,day", domain_of="country=iso3166,device=a;b;c")
    long = Choices(since=datetime(2020, 1, 1), until=datetime(2024, 1, 22), attributes=("country", "device"))
    with pytest.raises(ParameterError, match="at most 20,000 public cells"):
        wide.release(read(folder / "log.parquet", choices=long))
    plain = write(tmp_path / "plain.csv", "user,time,query,url\nu,2024-01-01 00:00:00,q,x.com\n")
    with pytest.raises(InputError, match="which results were shown"):
        Clicks(**BUDGET, views=True).release(read(plain, log_format="csv"))
