"""Searches, sessions and bounds: the same on both engines, whatever the order of the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.keys.contribution_bounding import first_records, once_per_key
from tests.logs import ROWS, Row, aol, write


def values(log: SearchLog, table: Any, *columns: str) -> list[tuple[Any, ...]]:
    found = log.engine.fetch(table).to_pylist()
    return sorted((tuple(f"{r[c]:%H:%M:%S}" if c == "time" else r[c] for c in columns) for r in found), key=repr)


def test_one_query_at_one_time_is_one_search(engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", aol(ROWS)), engine=engine)
    assert values(log, log.searches, "user", "number", "query") == [
        ("7", 1, "weather channel"),
        ("7", 2, "say \"cheese\" 'now'"),
        ("8", 1, "water polo"),
        ("8", 2, "天气 预报"),
        ("8", 3, "ärger mit straße"),
        ("9", 1, "aardvark"),
        ("9", 2, "zebra"),
    ]


def test_a_session_ends_after_the_gap_not_at_it(engine: Engine, tmp_path: Path) -> None:
    rows = [
        ("1", t, q, "", "") for t, q in (("10:00:00", "a"), ("10:30:00", "b"), ("11:00:01", "c"), ("11:00:01", "d"))
    ]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    assert values(log, log.sessions(), "query", "session") == [("a", 1), ("b", 1), ("c", 2), ("d", 2)]
    assert values(log, log.sessions(gap_minutes=60), "query", "session") == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


def test_fractions_of_seconds_count_alike_on_both_engines(engine: Engine, tmp_path: Path) -> None:
    times = ["10:00:00.700", "10:30:00.699", "11:00:00.699001", "09:00:00"]
    text = "".join(f'{{"user": "1", "time": "2024-12-10T{time}Z", "query": "q{i}"}}\n' for i, time in enumerate(times))
    log = read(write(tmp_path / "log.jsonl", text), engine=engine)
    assert values(log, log.sessions(), "query", "session") == [("q0", 2), ("q1", 2), ("q2", 3), ("q3", 1)]


def test_ties_break_by_time_rank_query_url(engine: Engine, tmp_path: Path) -> None:
    rows = [
        ("1", "10:00:00", "b", "2", "http://2/"),
        ("1", "10:00:00", "b", "1", "http://9/"),
        ("1", "10:00:00", "a", "2", "http://1/"),
        ("1", "09:00:00", "z", "5", "http://5/"),
        ("1", "11:00:00", "z", "1", "http://5/"),
        ("1", "10:00:00", "c", "", "http://0/"),
    ]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    firsts = [values(log, first_records(log.clicks, most), "url") for most in (1, 2, 3, 4, 5)]
    assert firsts == [
        [("http://5/",)],
        [("http://5/",), ("http://9/",)],
        [("http://1/",), ("http://5/",), ("http://9/",)],
        [("http://1/",), ("http://2/",), ("http://5/",), ("http://9/",)],
        [("http://0/",), ("http://1/",), ("http://2/",), ("http://5/",), ("http://9/",)],  # no rank comes last
    ]
    once = values(log, once_per_key(log.clicks, ("query", "url")), "query", "url", "earliest")
    assert ("z", "http://5/", 9 * 3_600_000_000 * 1024 + 5) in once
    assert len(once) == 5


logs_of_rows = st.lists(
    st.tuples(
        st.sampled_from(["1", "2", "3"]),
        st.sampled_from(["10:00:00", "10:00:01", "10:45:00"]),
        st.sampled_from(["a", "b", "ä"]),
        st.sampled_from(["", "1", "2"]),
        st.sampled_from(["", "http://x/", "http://y/"]),
    ),
    max_size=25,
)


def naive_once_then_first(rows: list[Row], most: int) -> list[tuple[str, str, str]]:
    kept: dict[str, list[tuple[str, str]]] = {}
    clicks = sorted({(t, int(r) if r else 10**9, q, a, u) for u, t, q, r, a in rows if a})
    for _, _, query, url, user in clicks:
        keys = kept.setdefault(user, [])
        if (query, url) not in keys and len(keys) < most:
            keys.append((query, url))
    return sorted((user, *key) for user, keys in kept.items() for key in keys)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=logs_of_rows, most=st.integers(1, 3), order=st.randoms(use_true_random=False))
def test_bounding_equals_the_naive_loop_in_any_order(
    duckdb_engine: Engine, tmp_path: Path, rows: list[Row], most: int, order: Any
) -> None:
    expected = naive_once_then_first(rows, most)
    order.shuffle(rows)
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=duckdb_engine)
    bounded = once_per_key(log.clicks, ("query", "url"), most)
    assert values(log, bounded, "user", "query", "url") == expected


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=logs_of_rows, more=logs_of_rows)
def test_adding_a_user_changes_nobody_else(
    duckdb_engine: Engine, tmp_path: Path, rows: list[Row], more: list[Row]
) -> None:
    added = [("new", *row[1:]) for row in more]

    def contributions(made: list[Row]) -> list[tuple[Any, ...]]:
        log = read(write(tmp_path / "log.tsv", aol(made)), engine=duckdb_engine)
        sessions = values(log, log.sessions(), "user", "time", "query", "session")
        bounded = values(log, once_per_key(log.clicks, ("query", "url"), 2), "user", "query", "url")
        return [row for row in sessions + bounded if row[0] != "new"]

    assert contributions(rows) == contributions([*added, *rows])


def test_spark_gives_what_duckdb_gives(duckdb_engine: Engine, engine: Engine, tmp_path: Path) -> None:
    times = [f"{hour:02}:{minute:02}:00" for hour in range(24) for minute in (0, 20)]
    rows = [
        (
            str(i % 17),
            times[(i * 7) % 48],
            f"q{i % 29} Ünï",
            str(i % 5) if i % 3 else "",
            f"http://h{i % 11}/" if i % 3 else "",
        )
        for i in range(2_000)
    ]
    path = write(tmp_path / "log.tsv", aol(rows))
    pair = [read(path, engine=one) for one in (duckdb_engine, engine)]
    columns = ("user", "time", "query", "number", "session")
    first, second = (values(log, log.sessions(), *columns) for log in pair)
    assert first == second
    first, second = (values(log, once_per_key(log.clicks, ("query", "url"), 9), "user", "query", "url", "earliest") for log in pair)  # noqa: E501  # fmt: skip
    assert first == second
    assert len(first) > 100


def test_bounds_say_what_is_wrong(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", aol(ROWS)), engine=duckdb_engine)
    with pytest.raises(ParameterError, match="at least 1; it is 0"):
        first_records(log.clicks, 0)
    with pytest.raises(ParameterError, match="no column 'page'; it has user, time, query, rank, url"):
        once_per_key(log.clicks, ("page",))
    with pytest.raises(ParameterError, match="gap_minutes must be a finite number above 0, got 0"):
        log.sessions(0)
