"""The European rules on a log in their schema: what each claim of eu_records.md says of the rows, on both engines."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.audits.release_audit import owners_under_seed
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.evaluation.target import Target
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.eu_records.european_rules import EU, REGION_OF, coarser_and_coarser, levels_of
from querycloak.methods.keys.attributes import ISO3166
from querycloak.privacy.sampling.randomness import Randomness

COUNTRIES = ("DE", "DE", "DE", "FR", "SE", "US", "JP")
WORDS = ("weather", "news", "berlin", "maps", "tree", "rare1", "0171 5551234", "a@b.example")
NUMBERS: dict[str, Any] = {"min_term_users": 8, "max_words": 3, "min_group_users": 12, "mini_session": 2}


def made_up_rows(users: int = 60) -> list[dict[str, Any]]:
    draw = np.random.default_rng(4)
    rows = []
    for user in range(users):
        for visit in range(3):
            device = str(draw.choice(["mobile", "desktop", "tablet"], p=[0.5, 0.4, 0.1]))
            begins = datetime(2024, 1, 1 + 9 * visit, 8) + timedelta(minutes=int(draw.integers(600)))
            for place in range(int(draw.integers(1, 6))):
                words = [str(each) for each in draw.choice(WORDS[:5], int(draw.integers(1, 5)), replace=False)]
                words += [str(draw.choice([*WORDS[5:], f"own{user}"]))] if draw.random() < 0.2 else []
                rows += [
                    {
                        "user": f"u{user}", "time": begins + timedelta(minutes=place), "query": " ".join(words),
                        "rank": rank, "url": f"http://{rank}.example/{words[0]}", "clicked": bool(draw.random() < 0.3),
                        "country": COUNTRIES[user % len(COUNTRIES)], "device": device,
                    }
                    for rank in (1, 2)
                ]  # fmt: skip
    return rows


ROWS = made_up_rows()


@pytest.fixture
def log(engine: Engine, tmp_path: Path) -> SearchLog:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "log.parquet")
    return read(tmp_path / "log.parquet", engine=engine, attributes=["country", "device"])


def users_by(key: str) -> dict[str, set[str]]:
    users: dict[str, set[str]] = defaultdict(set)
    for row in ROWS:
        for each in str(row[key]).split():
            users[each].add(row["user"])
    return users


def kept(query: str, users: dict[str, set[str]]) -> bool:
    words = query.split()
    digits = sum(letter in "0123456789" for letter in query)
    return len(words) <= 3 and "@" not in query and digits <= 8 and all(len(users[word]) >= 8 for word in words)


def test_rows_keep_every_claim(log: SearchLog) -> None:
    method = qc.EuRecords(preset="dma-2026", **NUMBERS)
    release = method.release(log, randomness=Randomness(3))
    table = release.table("log")
    assert table.column_names == ["session", "day", "query", "rank", "url", "clicked", "country", "device"]
    rows = table.to_pylist()
    users = users_by("query")
    # 1: common words, few words, few digits; all such queries come out if their group is large enough.
    assert {row["query"] for row in rows} == {row["query"] for row in ROWS if kept(row["query"], users)}
    # 2: groups, counted by their true owners.
    owners_table = owners_under_seed(release, log, 3)
    assert owners_table is not None
    owners = dict(zip(owners_table["name"].to_pylist(), owners_table["user"].to_pylist(), strict=True))
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["country"], row["device"]].add(owners[row["session"]])
        sessions[row["session"]].append(row)
    assert min(map(len, groups.values())) >= 12
    assert {country for country, _ in groups} & {"Western Europe", "EU", "outside the EU", "any"}
    # 3 and 4: short sessions of one visit, in order of time, and no time but the day.
    asked: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in sorted(ROWS, key=lambda row: row["time"]):
        asked[row["user"], str(row["time"])[:10]].append(row["query"])
    for session, listed in sessions.items():
        queries = list(dict.fromkeys(row["query"] for row in listed))
        assert len(queries) <= 2
        later = iter(asked[owners[session], listed[0]["day"]])
        assert all(query in later for query in queries)  # a subsequence of that day's searches
        assert len({row["day"] for row in listed}) == len({row["country"] for row in listed}) == 1
    shown = {(row["user"], row["query"], row["url"], row["rank"], row["clicked"]) for row in ROWS}
    assert {(owners[r["session"]], r["query"], r["url"], r["rank"], r["clicked"]) for r in rows} <= shown


@pytest.mark.same_on_spark
@pytest.mark.parametrize(("linked", "letters"), [("user", 0), ("day", 10)])
def test_pseudonyms_of_persons_and_of_days(log: SearchLog, linked: Any, letters: int) -> None:
    method = qc.EuRecords(preset="ddg-2026", linked=linked, min_term_users=1, max_words=9, max_digits=99)
    table = method.release(log).table("log")
    expected = {(row["user"], str(row["time"])[:letters]) for row in ROWS if "@" not in row["query"]}
    assert len(table["session"].unique()) == len(expected)


@pytest.mark.same_on_spark
def test_tasks_see_searches_in_order_and_clicks_alone(log: SearchLog) -> None:
    release = qc.EuRecords(preset="dma-2026", **NUMBERS).release(log)
    target = Target.of(release, "records")
    assert set(target.columns["log"]) == {"user", "query", "url", "time"}
    table = target.table("log")
    clicks = [row for row in release.table("log").to_pylist() if row["clicked"]]
    assert sum(url is not None for url in table["url"].to_pylist()) == len(clicks)
    assert {tuple(row.values()) for row in table.select(["user", "query"]).to_pylist()} == {
        (row["session"], row["query"]) for row in release.table("log").to_pylist()
    }


@pytest.mark.same_on_spark
def test_rows_of_the_last_days_wait(engine: Engine, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    rows = [
        {"user": f"u{user}", "time": now - timedelta(days=days), "query": f"days {days}"}
        for user in range(3)
        for days in (1, 6, 9)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    numbers: dict[str, Any] = {"min_term_users": 2, "min_group_users": 2}
    log = read(tmp_path / "log.parquet", engine=engine)
    seven = qc.EuRecords(preset="dma-2026", **numbers).release(log).table("log")
    none = qc.EuRecords(preset="dma-2026", latency_days=0, **numbers).release(log).table("log")
    assert set(seven["query"].to_pylist()) == {"days 9"}
    assert set(none["query"].to_pylist()) == {"days 1", "days 6", "days 9"}


def test_the_old_rule_counts_pairs_by_quarter_country_and_device(log: SearchLog) -> None:
    tables = qc.KAnonymity(preset="dma-2024").release(log).tables
    clicks = tables["clicks"]
    assert clicks.schema.names == ["query", "url", "country", "device", "quarter", "count"]
    users: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    askers: dict[str, set[str]] = defaultdict(set)
    for row in ROWS:
        askers[row["query"]].add(row["user"])
        if row["clicked"]:
            users[row["query"], row["url"], row["country"], row["device"], "2024-Q1"].add(row["user"])
    expected = {(*key, len(each)) for key, each in users.items() if len(each) >= 5 and len(askers[key[0]]) >= 30}
    assert {tuple(row.values()) for row in pa.table(clicks).to_pylist()} == expected


def test_hierarchies_take_in_every_country_and_end_in_any() -> None:
    assert set(ISO3166.split()) - {"AQ"} == set(REGION_OF)
    assert set(REGION_OF) >= EU
    assert len(EU) == 27
    assert levels_of("country", "FR") == ("FR", "Western Europe", "EU", "any")
    assert levels_of("language", "de-AT") == ("de-AT", "de", "any")
    assert levels_of("category", "sport") == ("sport", "any")
    steps = list(coarser_and_coarser(["country", "device"]))
    assert steps[0] == (0, 0)
    assert steps[-1] == (3, 2)
    assert len(steps) == 12


def test_cards_say_what_is_quoted_assumed_and_chosen() -> None:
    parameters = qc.EuRecords(preset="dma-2026", max_words=7).parameters()
    assert parameters["chosen"] == ["max_words"]
    assert set(parameters["quoted"]) == {"min_group_users", "linked", "latency_days"}
    assert set(parameters["assumed"]) == {"min_term_users", "max_digits", "mini_session", "gap_minutes", "times"}
    (caution,) = map(str, qc.EuRecords(preset="dma-2026", max_words=7).cautions())
    assumed, quoted = caution.split(". Quoted: ")
    assert "min_term_users 50, max_digits 8, mini_session 5" in assumed
    assert quoted.startswith("min_group_users 1000, linked visit, latency_days 7 (the Commission's decision of 16 July")
    proven = qc.EuRecords(preset="dma-2026").proven()
    assert (proven.kind, proven.epsilon, proven.k) == ("syntactic", None, None)
    assert proven.because.startswith("Syntactic means")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "preset must be given, the name of a rule: dma-2026, ddg-2026"),
        ({"preset": "dma-2026", "min_term_users": 0}, "min_term_users"),
        ({"preset": "dma-2026", "by": "country,week"}, "by has 'week', which is a column of its own"),
        ({"preset": "dma-2026", "gap_minutes": -1}, "gap_minutes"),
    ],
)
def test_eu_records_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        qc.EuRecords(**options)


def test_the_old_rule_alone_takes_attributes() -> None:
    with pytest.raises(ParameterError, match="by goes with preset='dma-2024'"):
        qc.KAnonymity(preset="dma", by="country")
    assert qc.KAnonymity(preset="dma-2024", by="land,device").attributes == ("land", "device")
