"""UBI as it is in the wild, versions 1.0 to 1.3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read
from tests.logs import chosen, rows_of, write

DAY = "2024-12-10T"


def query(query_id: str | None, text: Any, time: Any = f"{DAY}10:00:00Z", **more: Any) -> dict[str, Any]:
    return {"query_id": query_id, "user_query": text, "timestamp": time, "client_id": "c1", **more}


def click(query_id: str | None, target: Any = "B1", time: Any = f"{DAY}10:00:05Z", **more: Any) -> dict[str, Any]:
    attributes = {"object": {"object_id": target}, "position": {"ordinal": 3}}
    return {"action_name": "click", "query_id": query_id, "timestamp": time, "client_id": "c1", "event_attributes": attributes, **more}  # noqa: E501  # fmt: skip


def ubi(engine: Engine, folder: Path, *documents: Any, choices: Choices | None = None) -> SearchLog:
    text = "".join((d if isinstance(d, str) else json.dumps(d)) + "\n" for d in documents)
    return read(write(folder / "ubi.ndjson", text), engine=engine, log_format="ubi", choices=choices)


def test_clicks_join_their_query_without_multiplying(engine: Engine, tmp_path: Path) -> None:
    log = ubi(
        engine,
        tmp_path,
        query("q1", "Red Shoes", f"{DAY}10:00:09Z"),
        query("q1", "red shoes"),
        query("q1", "red shoes"),
        query("q2", "boots", 1733824800000),
        click("q1"),
        click("q1", "B2", 1733824806123),
        click("lost"),
        click(None),
        click("q2", action_name="impression"),
    )
    assert rows_of(log) == [
        ("c1", "10:00:00", "boots", None, None),
        ("c1", "10:00:00", "red shoes", 3, "B1"),
        ("c1", "10:00:00", "red shoes", 3, "B2"),
        ("c1", "10:00:00", "red shoes", None, None),
    ]
    assert log.accounting().rejected == {"L107": 2, "L204": 1, "L205": 2}
    assert engine.fetch(log.searches).num_rows == 2


def test_one_privacy_unit_per_client_its_least_user_id_if_it_ever_has_one(engine: Engine, tmp_path: Path) -> None:
    log = ubi(
        engine,
        tmp_path,
        query("q1", "a", user_id=""),
        query("q2", "b", client_id="c2"),
        query("q3", "c", client_id="c3", user_id="ann"),
        query("q4", "d", client_id=""),
        query("q5", "e", client_id=None, user_id="bob"),
        query("q6", "f", client_id="c3", user_id="dan"),
        query("q7", "g", client_id="c3"),
        click("q2", client_id="c2", user_id="ann"),
        {"action_name": "page_exit", "client_id": "c1", "user_id": "zoe", "timestamp": "?"},
    )
    users = {row[2]: row[0] for row in rows_of(log)}
    assert users == {"a": "zoe", "b": "ann", "c": "ann", "e": "bob", "f": "ann", "g": "ann"}
    assert log.accounting().rejected == {"L101": 1, "L204": 1}


def test_a_click_by_another_client_is_rejected(engine: Engine, tmp_path: Path) -> None:
    """Its text is the asker's, its act the clicker's: whoever was removed, the other's rows would change."""
    log = ubi(engine, tmp_path, query("q1", "a"), click("q1", client_id="other"), click("q1"))
    assert log.accounting().by_code == {0: 2, 110: 1}


@pytest.mark.same_on_spark
def test_whatever_one_user_does_the_rows_of_others_stay(engine: Engine, tmp_path: Path) -> None:
    """Somebody who sends earlier queries under other people's query ids takes nothing away from them."""
    people = [
        d for i in range(5) for d in (query(f"q{i}", "flu", client_id=f"c{i}"), click(f"q{i}", client_id=f"c{i}"))
    ]
    earlier = [query(f"q{i}", "nonsense", f"{DAY}09:00:00Z", client_id="0-mallory") for i in range(5)]
    more = [click(f"q{i}", client_id="0-mallory") for i in range(5)] + [click("q0", client_id="0-eve", user_id="eve")]
    without = rows_of(ubi(engine, tmp_path, *people))
    with_them = rows_of(ubi(engine, tmp_path, *earlier, *people, *more))
    assert [row for row in with_them if row[0] not in ("0-mallory", "eve")] == without


CLIENTS, ACCOUNTS = st.sampled_from(["c1", "c1", "c2", "c3", ""]), st.sampled_from(["c3", "ann", "bob", "", None])
ASKED, AT = st.sampled_from(["q1", "q2"]), st.integers(0, 5).map(lambda second: f"{DAY}10:00:0{second}Z")
IDS: dict[str, Any] = {"query_id": ASKED, "client_id": CLIENTS, "user_id": ACCOUNTS, "timestamp": AT}
QUERIES = st.fixed_dictionaries({"user_query": st.sampled_from(["flu", "cold", ""]), **IDS})
EVENTS = st.fixed_dictionaries(
    {
        "action_name": st.sampled_from(["click", "click", "login"]),
        "event_attributes": st.sampled_from(["B1", "B2"]).map(lambda target: {"object": {"object_id": target}}),
        **IDS,
    }
)


def units_of(documents: list[dict[str, Any]]) -> list[str | None]:
    """The privacy unit of each document, the slow way."""

    def unit(document: dict[str, Any]) -> str | None:
        client, account = document.get("client_id"), document.get("user_id")
        theirs = [other.get("user_id") for other in documents if client and other.get("client_id") == client]
        return min(filter(None, theirs), default=None) or client or account or None

    return [unit(document) for document in documents]


@given(documents=st.lists(QUERIES | EVENTS, min_size=2, max_size=14), data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_documents_of_a_unit_leave_the_rows_of_others_as_they_are(
    duckdb_engine: Engine, tmp_path: Path, documents: list[dict[str, Any]], data: st.DataObject
) -> None:
    """The law that every bound per user rests on, whoever shares accounts, clients and query ids with whom."""
    units = units_of(documents)
    one = data.draw(st.sampled_from(units))
    others = [document for document, unit in zip(documents, units, strict=True) if unit != one]
    kept = rows_of(ubi(duckdb_engine, tmp_path, *documents))
    assert {row[0] for row in kept} <= set(units)
    without = rows_of(ubi(duckdb_engine, tmp_path, *others)) if others else []
    assert [row for row in kept if row[0] != one] == without


@pytest.mark.parametrize(
    ("attributes", "rank"),
    [
        ({"position": {"ordinal": 4}}, 4),
        ({"position": {"ordinal": {"index": 5}}}, 5),
        ({"position": {"index": 6}}, 6),
        ({"position": 7}, 7),
        ({"ordinal": "8"}, 8),
        ({"position": {"ordinal": "top"}}, None),
        ({}, None),
    ],
)
def test_positions_new_and_legacy(
    duckdb_engine: Engine, tmp_path: Path, attributes: dict[str, Any], rank: int | None
) -> None:
    log = ubi(duckdb_engine, tmp_path, query("q1", "a"), click("q1", event_attributes={"object": {"object_id": 12}, **attributes}))  # noqa: E501  # fmt: skip
    assert ("c1", "10:00:00", "a", rank, "12") in rows_of(log)


@pytest.mark.same_on_spark
def test_bulk_files_index_lines_and_exported_hits(engine: Engine, tmp_path: Path) -> None:
    documents = [query("q1", "a"), click("q1"), click("q1", "SKU;1#2?3"), click("q1", "https://s.example/p?card=1")]
    bulk = [line for d in documents for line in ({"index": {"_index": "ubi"}}, d)]
    tabbed = [f"ubi_events\t{json.dumps(d)}" for d in documents]
    hits = [{"_index": "ubi_queries", "_id": "1", "_source": d} for d in documents]
    expected = rows_of(ubi(engine, tmp_path, *documents))
    assert [row[4] for row in expected] == ["B1", "SKU;1#2?3", "https://s.example/p", None]
    for form in (bulk, tabbed, hits):
        path = write(
            tmp_path / "form.ndjson", "".join((d if isinstance(d, str) else json.dumps(d)) + "\n" for d in form)
        )
        log = read(path, engine=engine)
        assert log.format == "ubi"
        assert rows_of(log) == expected
        assert log.accounting().rows_read == len(documents)


def test_choices_of_the_owner(engine: Engine, tmp_path: Path) -> None:
    log = ubi(
        engine,
        tmp_path,
        query("q1", "a", application="shop"),
        query("q2", "b", application="blog"),
        query("q3", "c", client_id="robot", application="shop", user_id="r2"),
        click("q1", action_name="add_to_cart", application="shop"),
        choices=chosen(applications=("shop",), leave_out=frozenset({"robot"}), click_actions=("add_to_cart",)),
    )
    assert [row[2] for row in rows_of(log)] == ["a", "a"]
    assert log.accounting().rejected == {"L202": 1, "L203": 1}


@pytest.mark.same_on_spark
def test_odd_documents_are_rejected(engine: Engine, tmp_path: Path) -> None:
    log = ubi(
        engine,
        tmp_path,
        query("q1", "a"),
        query("q2", ""),
        query("q3", None),
        query("q4", {"nested": 1}),
        query("q5", "b", time="yesterday"),
        click("q1", None),
        {"something": "else"},
        "[1, 2]",
        "{not json",
        "",
    )
    assert log.accounting().by_code == {0: 1, 102: 1, 103: 1, 106: 3, 109: 4}


def test_applications_are_ubi_s_own(tmp_path: Path) -> None:
    path = write(tmp_path / "log.tsv", "1\ta\t2006-03-01 10:00:00\t\t\n")
    with pytest.raises(ParameterError, match="ubi logs only; this one is aol"):
        read(path, choices=chosen(applications=("shop",)))
