"""Task counts: by hand, against plain loops over rows, and the original against itself."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import querycloak as qc
from querycloak.engines import Engine
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import Figure, Logs, Subject
from querycloak.evaluation.tasks import counts as measures
from querycloak.evaluation.tasks.counts import Counts, countable
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read
from querycloak.logs.sequences import as_lists, as_texts
from querycloak.methods.method import Method
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.row_kinds import RowKind
from tests.logs import Row, aol, write
from tests.subjects import ORIGINAL, Released

GAP = 30 * 60


def opened(engine: Engine, folder: Path, rows: Iterable[Row]) -> SearchLog:
    return read(write(folder / "log.tsv", aol(rows)), engine=engine)


def values(log: SearchLog, subject: Subject) -> dict[tuple[str | None, str], Figure]:
    found = Counts().prepare(Logs(log, log)).scores(subject)
    return {(figure.slice, figure.measure.name): figure for figure in found}


def some_rows(seed: int, users: int = 30) -> list[Row]:
    """Few queries and urls, busy users and idle ones, sessions of all lengths."""
    draw, rows = random.Random(seed), []
    for user in range(users):
        second = draw.randrange(3600)
        for _ in range(draw.randrange(12)):
            second += draw.choice([0, 1, 60, 60, GAP - 1, GAP, GAP + 1])
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            url = draw.choice(["", "http://a/", "http://b/"])
            rows.append((f"u{user}", clock, draw.choice("abcde"), "1" if url else "", url))
    return [row for row in rows if row[1] < "24"]


def by_hand(rows: list[Row]) -> dict[str, dict[Any, set[str]]]:
    """The users of every key, row after row."""
    held: dict[str, dict[Any, set[str]]] = {kind: defaultdict(set) for kind in ("queries", "clicks", "sessions")}
    mine: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for user, clock, query, _, url in rows:
        held["queries"][query].add(user)
        if url:
            held["clicks"][query, url].add(user)
        hours, minutes, seconds = map(int, clock.split(":"))
        mine[user].append((3600 * hours + 60 * minutes + seconds, query))
    for user, asked in mine.items():
        session: list[str] = []
        before = -math.inf
        for at, query in [*sorted(asked), (10**9, "")]:
            if at - before > GAP:
                for first, later in combinations(session, 2):
                    if first != later:
                        held["sessions"][first, later].add(user)
                session = []
            session.append(query)
            before = at
    return held


def first_keys_by_hand(rows: list[Row], most: int) -> Counter[tuple[str, str]]:
    """How many users count for each pair if each counts for the first so many."""
    counted: Counter[tuple[str, str]] = Counter()
    for user in {row[0] for row in rows}:
        earliest: dict[tuple[str, str], tuple[str, str]] = {}
        for _, clock, query, rank, url in sorted(row for row in rows if row[0] == user and row[4]):
            earliest.setdefault((query, url), (clock, rank))
        counted.update(sorted(earliest, key=lambda key: (*earliest[key], *key))[:most])
    return counted


@pytest.mark.parametrize("seed", range(4))
def test_every_figure_against_loops_over_rows(duckdb_engine: Engine, tmp_path: Path, seed: int) -> None:
    rows, draw = some_rows(seed), random.Random(seed)
    truth, counted = by_hand(rows)["clicks"], first_keys_by_hand(rows, 2)
    keys = draw.sample(sorted(truth), len(truth) // 2)
    published = {key: len(truth[key]) + draw.randrange(-2, 3) for key in keys} | {("nobody", "http://n/"): 7}
    table = pa.table({
        "query": [query for query, _ in published], "url": [url for _, url in published],
        "count": list(published.values()),
    })  # fmt: skip
    subject = Released("r", {"clicks": table}, method="clicks", parameters={"per_user": 2})
    found = values(opened(duckdb_engine, tmp_path, rows), subject)
    users = {key: len(holders) for key, holders in truth.items()}
    for where, chosen in {
        "table=clicks": keys,
        "table=clicks,users=1-9": [key for key in keys if users[key] < 10],
        "table=clicks,users=10-99": [key for key in keys if users[key] >= 10],
    }.items():
        if (where, "bias") not in found:
            assert max(users.values()) < 10
            continue
        errors = [abs(published[key] - users[key]) / users[key] for key in chosen]
        total = sum(users[key] for key in chosen)
        wanted = {
            "mean_relative_error": sum(errors) / len(errors) if errors else None,
            "bias": sum(published[key] - users[key] for key in chosen) / total if chosen else None,
            "bias_of_bounding": sum(counted[key] - users[key] for key in chosen) / total if chosen else None,
            "bias_of_noise": sum(published[key] - counted[key] for key in chosen) / total if chosen else None,
            "error_of_bounding": sum((users[key] - counted[key]) / users[key] for key in chosen) / len(chosen)
            if chosen
            else None,
        }
        for name, value in wanted.items():
            assert found[where, name].value == (None if value is None else pytest.approx(value)), (where, name)
    assert found["table=clicks", "key_share"].value == pytest.approx(len(keys) / len(users))
    whole = sum(users.values())
    assert found["table=clicks", "volume_share"].value == pytest.approx(sum(users[key] for key in keys) / whole)
    assert found["table=clicks", "spurious_rate"].value == pytest.approx(1 / (len(keys) + 1))
    for least in (1, 2, 5, 10):
        enough = [key for key in users if users[key] >= least]
        if enough:
            missing = sum(key not in published for key in enough) / len(enough)
            assert found[f"table=clicks,users>={least}", "drop_rate"].value == pytest.approx(missing)


@pytest.mark.parametrize("seed", range(4))
def test_users_of_queries_and_of_two_queries_of_a_session(duckdb_engine: Engine, tmp_path: Path, seed: int) -> None:
    """The numbers of keys by number of users, as the original's own drop rates are made of."""
    rows = some_rows(seed)
    found = values(opened(duckdb_engine, tmp_path, rows), ORIGINAL)
    for kind, held in by_hand(rows).items():
        for least in (1, 2, 5, 10):
            wanted = sum(len(users) >= least for users in held.values())
            figure = found.get((f"table={kind},users>={least}", "drop_rate"))
            assert wanted == (figure.cases if figure else 0), (kind, least)


def test_the_original_against_itself_is_perfect(duckdb_engine: Engine, tmp_path: Path) -> None:
    found = values(opened(duckdb_engine, tmp_path, some_rows(1)), ORIGINAL)
    best = {"key_share": 1.0, "volume_share": 1.0}
    assert {key[0].split(",")[0] for key in found if key[0]} == {
        "table=queries", "table=clicks", "table=transitions", "table=sessions",
    }  # fmt: skip
    for (_, name), figure in found.items():
        if figure.value is None:
            assert figure.why == "no such key came out"
            assert figure.cases == 0
        else:
            assert figure.value == best.get(name, 0.0)


METHODS: dict[str, Method] = {
    "one key each": qc.Clicks(noise=0.05, threshold=2, max_keys_per_user=1),
    "three keys each": qc.Clicks(noise=0.05, threshold=2, max_keys_per_user=3),
    "sessions": qc.Sessions(noise=0.05, threshold=1, max_keys_per_user=4, sessions_per_user=3, queries_per_session=3),
    "weights": qc.Clicks(epsilon=400, delta=0.1, selection="weighted", max_keys_per_user=4),
    "optimal": qc.Optimal(epsilon=400, delta=0.1, max_keys_per_user=3),
    "pairs of 5 users": qc.KAnonymity(min_users=5),
    "a log of 5 users": qc.KAnonymity(min_users=5, keys="log"),
}


@pytest.mark.parametrize("name", METHODS)
def test_bounding_explains_what_is_off_where_noise_is_nearly_none(
    duckdb_engine: Engine, tmp_path: Path, name: str
) -> None:
    """Of releases with hardly any noise, what bounds let in is what was published: the card says it rightly."""
    log = opened(duckdb_engine, tmp_path, some_rows(5, users=60))
    release = METHODS[name].release(log, randomness=Randomness(1))
    found = values(log, Released.of(release))
    assert any(table.num_rows for table in (release.table(kind) for kind in release.tables))
    for (where, measure), figure in found.items():
        if measure == "error_of_noise" and figure.cases and "optimal" not in name and "weights" not in name:
            assert figure.value == 0, where
        if measure == "error_of_bounding" and figure.cases and "users" in name:
            assert figure.value == 0, where
        if measure == "bias" and figure.cases:
            parts = [found[where, f"bias_of_{part}"].value or 0.0 for part in ("bounding", "noise")]
            assert figure.value == pytest.approx(sum(parts))


def test_queries_of_the_pool_that_comes_along(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Bounds of a query pool hold among its own queries: `zzqx` is in no pool and takes nobody's place."""
    words = {"a": "weather", "b": "news", "c": "zzqx", "d": "music", "e": "maps"}
    log = opened(duckdb_engine, tmp_path, [(u, t, words[q], r, a) for u, t, q, r, a in some_rows(6, users=60)])
    method = qc.QueryPool(noise=0.05, threshold=3, queries_per_user=2)
    found = values(log, Released.of(method.release(log, randomness=Randomness(1))))
    assert found["table=queries", "error_of_noise"].value == 0
    assert (found["table=queries", "error_of_bounding"].value or 0) > 0
    assert found["table=queries", "key_share"].value == pytest.approx(4 / 5)
    assert found["table=transitions", "spurious_rate"].value == 0
    assert "does not follow" in (found["table=transitions", "bias_of_noise"].why or "")


def test_what_cannot_be_told_says_why(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(duckdb_engine, tmp_path, some_rows(2))
    clicks = pa.table({"query": ["a"], "url": ["http://a/"], "count": [9]})
    paper = values(log, Released("p", {"clicks": clicks}, method="clicks", variant="paper", parameters={"per_user": 4}))
    assert paper["table=clicks", "bias_of_noise"].value is None
    assert "counts records" in (paper["table=clicks", "bias_of_noise"].why or "")
    assert paper["table=clicks", "bias"].value is not None
    other = values(log, Released("o", {"clicks": clicks}))
    assert "does not follow from its card" in (other["table=clicks", "error_of_bounding"].why or "")
    steps = pa.table({"query": ["a"], "next_query": ["b"], "count": [3]})
    pooled = Released("q", {"transitions": steps}, parameters={"pool": "the owner's list"})
    (figure,) = values(log, pooled).values()
    assert "the owner's pool is not in the folder" in (figure.why or "")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"counts": "none"}, "its keys came out without counts"),
        ({"count_of": "clicks"}, "its counts are clicks, not users"),
    ],
)
def test_keys_whose_users_are_not_counted(
    duckdb_engine: Engine, tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    """What came out is told, and how many users hold it; errors of counts are not."""
    log = opened(duckdb_engine, tmp_path, some_rows(3, users=60))
    release = qc.Clicks(epsilon=8, delta=0.01, selection="laplace", **options).release(log, randomness=Randomness(1))
    found = values(log, Target.of(release, "r"))
    keys = {(row["query"], row["url"]) for row in release.table("clicks").to_pylist()}
    held = by_hand(some_rows(3, users=60))["clicks"]
    assert keys
    assert found["table=clicks", "key_share"].value == pytest.approx(len(keys) / len(held))
    volume = sum(len(held[key]) for key in keys) / sum(map(len, held.values()))
    assert found["table=clicks", "volume_share"].value == pytest.approx(volume)
    for measure in ("mean_relative_error", "bias", "error_of_noise", "bias_of_bounding"):
        assert (found["table=clicks", measure].value, found["table=clicks", measure].why) == (None, why)


def test_which_subjects_can_be_counted() -> None:
    log = pa.table({"user": ["1"], "query": ["a"]})
    assert countable(Released("a", {"log": log}, rows=RowKind.ALIKE)) == ("queries",)
    replaced = Released("s", {"log": log}, rows=RowKind.REPLACED)
    assert countable(replaced) == ()
    assert "rows hold other texts in place of what was asked" in (Counts().unsupported_reason(replaced) or "")
    assert Counts().unsupported_reason(Released("a", {"log": log}, rows=RowKind.ALIKE)) is None


def test_a_log_counts_each_of_its_users_once(duckdb_engine: Engine, tmp_path: Path) -> None:
    rows = [
        ("1", "12:00:00", "a", "1", "http://a/"),
        ("1", "12:01:00", "a", "1", "http://a/"),
        ("2", "12:00:00", "a", "", ""),
    ]
    log = pa.table({"user": ["x", "x", "y"], "query": ["a", "a", "a"], "url": ["http://a/", "http://a/", None]})
    found = values(opened(duckdb_engine, tmp_path, rows), Released("r", {"log": log}))
    assert found["table=queries", "bias"].value == 0
    assert found["table=clicks", "bias"].value == 0
    assert found["table=clicks", "key_share"].value == 1


counts = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)), max_size=30)


@given(counts)
def test_measures_are_callable_and_their_parts_add_up(rows: list[tuple[int, int, int]]) -> None:
    published, counted, true = ([row[i] for row in rows] for i in range(3))
    whole = measures.BIAS(published, true)
    if sum(true) == 0:
        assert whole is None
        return
    assert whole == pytest.approx(
        measures.BIAS_OF_BOUNDING(counted, true) + measures.BIAS_OF_NOISE(published, counted, true)
    )
    total = measures.MEAN_RELATIVE_ERROR(published, true)
    parts = measures.ERROR_OF_BOUNDING(counted, true) + measures.ERROR_OF_NOISE(published, counted, true)
    assert total <= parts + 1e-9
    assert measures.MEDIAN_RELATIVE_ERROR(true, true) == 0
    assert measures.SPURIOUS_RATE(true) == pytest.approx(sum(users == 0 for users in true) / len(true))


def test_measures_by_hand() -> None:
    assert measures.MEAN_RELATIVE_ERROR([8, 30], [10, 20]) == pytest.approx(0.35)
    assert measures.MEDIAN_RELATIVE_ERROR([8, 30, 5], [10, 20, 5]) == pytest.approx(0.2)
    assert measures.BIAS([8, 30], [10, 20]) == pytest.approx(8 / 30)
    assert measures.DROP_RATE([1, 1, 5, 9], [False, False, True, False], 5) == pytest.approx(0.5)
    assert measures.DROP_RATE([1, 5, 9], [0, 1, 0], 1, keys=[2, 1, 1]) == pytest.approx(0.75)
    assert measures.DROP_RATE([1, 5], [0, 1], 10) is None
    assert measures.VOLUME_SHARE([3, 4], 14) == pytest.approx(0.5)
    assert measures.KEY_SHARE([3, 0, 4], 8) == pytest.approx(0.25)


@given(st.lists(st.lists(st.text(max_size=5), min_size=2, max_size=10), max_size=8), st.booleans())
def test_lists_become_texts_and_lists_again(lists: list[list[str]], escape: bool) -> None:
    written = pa.array(lists, pa.list_(pa.string()))
    if escape or not any(char in text for some in lists for text in some for char in "\x1e\x1f"):
        assert as_lists(as_texts(written, escape=escape)).to_pylist() == lists


def rows_by_device() -> list[dict[str, Any]]:
    """Searches of 60 users with a device; every fifth user is on a television."""
    draw, rows = random.Random(5), []
    for user in range(60):
        device = "tv" if user % 5 == 0 else "desktop"
        for place in range(4):
            moment = datetime(2024, 1, 1 + draw.randrange(14), 9, place)
            rows.append({
                "user": f"u{user}", "time": moment, "query": draw.choice("ab"), "rank": 1 + place, "url": "http://x/",
                "clicked": draw.random() < 0.5, "device": device if place else "phone",
            })  # fmt: skip
    return rows


@pytest.mark.parametrize("views", [False, True])
def test_errors_by_attribute_are_those_of_plain_loops(views: bool) -> None:
    rows = rows_by_device()
    method: Method = qc.Queries(epsilon=40, delta=1e-3, by="week,device", domain_of="device=desktop;tv")
    if views:
        method = qc.Clicks(epsilon=40, delta=1e-3, by="device", views=True)
    choices = Choices(since=datetime(2024, 1, 1), until=datetime(2024, 1, 15), attributes=("device",))
    with read(pa.Table.from_pylist(rows), choices=choices) as log:
        release = method.release(log, randomness=Randomness(seed=4))
        kind = "clicks" if views else "queries"
        figures = values(log, Target.of(release, "made"))
    true: dict[tuple[str, ...], set[str]] = defaultdict(set)
    seen: dict[tuple[str, ...], str] = {}
    for row in sorted(rows, key=lambda each: (each["time"], each["rank"])):
        week = "2024-01-01" if row["time"].day <= 7 else "2024-01-08"
        device = row["device"] if views or row["device"] in ("desktop", "tv") else "other"
        bin_of_rank = seen.setdefault(
            (row["user"], row["query"], device), "4-5" if row["rank"] == 4 else str(row["rank"])
        )
        true[(row["query"], device, bin_of_rank) if views else (row["query"], week, device)].add(row["user"])
    columns, number = (["query", "device", "ranks"], "viewers") if views else (["query", "week", "device"], "count")
    printed = {tuple(row[name] for name in columns): row[number] for row in release[kind].to_pylist()}
    for part in ({None}, {"tv"}, {"desktop"}):
        cells = [key for key in printed if part == {None} or part & set(key)]
        errors = [abs(printed[key] - len(true[key])) / len(true[key]) for key in cells if key in true]
        name = f"cells={kind}" + ("" if part == {None} else f",device={next(iter(part))}")
        assert figures[name, "mean_relative_error"].value == pytest.approx(sum(errors) / len(errors))
        volume = sum(len(users) for key, users in true.items() if part == {None} or part & set(key))
        there = sum(len(true[key]) for key in cells if key in true)
        assert figures[name, "volume_share"].value == pytest.approx(there / volume)
    assert figures[f"cells={kind},device of 10-99 users", "spurious_rate"].cases == len(printed)


def test_errors_of_phrases_by_attribute_are_those_of_plain_loops() -> None:
    rows = [{**row, "query": f"{row['query']} page"} for row in rows_by_device()]
    method = qc.Phrases(epsilon=200, delta=1e-3, by="device,week", domain_of="device=desktop;tv", longest=2)
    choices = Choices(since=datetime(2024, 1, 1), until=datetime(2024, 1, 15), attributes=("device",))
    with read(pa.Table.from_pylist(rows), choices=choices) as log:
        release = method.release(log, randomness=Randomness(seed=4))
        figures = values(log, Target.of(release, "made"))
    true: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in rows:
        week = "2024-01-01" if row["time"].day <= 7 else "2024-01-08"
        device = row["device"] if row["device"] in ("desktop", "tv") else "other"
        for phrase, places in ((row["query"], (1, 1)), (row["query"][0], (1, 0)), ("page", (0, 1))):
            for begins, ends in itertools.product(range(places[0] + 1), range(places[1] + 1)):
                true[phrase, bool(begins), bool(ends), device, week].add(row["user"])
    names = ["phrase", "begins", "ends", "device", "week"]
    printed = {tuple(row[name] for name in names): row["count"] for row in release["phrases"].to_pylist()}
    assert len(printed) > 20
    errors = [abs(printed[key] - len(true[key])) / len(true[key]) for key in printed if key in true]
    assert figures["cells=phrases", "mean_relative_error"].value == pytest.approx(sum(errors) / len(errors))
    share = sum(len(true[key]) for key in printed if key in true) / sum(map(len, true.values()))
    assert figures["cells=phrases", "volume_share"].value == pytest.approx(share)
    assert figures["cells=phrases,device=tv", "mean_relative_error"].value is not None


def test_cells_need_the_attributes_of_their_release() -> None:
    table = pa.Table.from_pylist(rows_by_device())
    with read(table, attributes=("device",)) as log, read(table) as without:
        release = qc.Queries(epsilon=40, delta=1e-3, by="device").release(log, randomness=Randomness(seed=4))
        figure = values(without, Target.of(release, "made"))["cells=queries", "key_share"]
    assert figure.value is None
    assert "TRAIN was read without device" in (figure.why or "")
