"""The mapping from our columns to a table's own; reading tables is tested with the engines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import MissingColumn, ParameterError
from querycloak.logs.formats.columns import (
    checked_mapping,
    parse_mapping,
    resolve,
    resolve_each,
)
from querycloak.logs.formats.json_lines import JsonColumns
from querycloak.logs.formats.signs import looks_like_names
from querycloak.logs.reading.schema import COLUMNS, REQUIRED

OURS = st.sets(st.sampled_from(COLUMNS)).map(lambda some: sorted(some | set(REQUIRED)))
THEIRS = st.text("abcXYZ019_.- =", min_size=1, max_size=6).map(str.strip).filter(bool)
BLANK = st.sampled_from(["", " ", "  "])
USUAL = {"user": "who", "time": "when", "query": "what"}
SHAPE = "columns must be written like user=...,time=...,query=..."
HEADER = "existing columns: who, when, what"


def refusal_of(text: str) -> str:
    with pytest.raises(ParameterError) as refusal:
        parse_mapping(text)
    return str(refusal.value)


@given(OURS, st.data())
@settings(deadline=None)
def test_a_mapping_is_read_as_it_was_written(ours: list[str], data: st.DataObject) -> None:
    mapping = {name: data.draw(THEIRS) for name in ours}
    blank = data.draw(BLANK)
    text = ",".join(f"{blank}{name}{blank}={blank}{theirs}{blank}" for name, theirs in mapping.items())
    assert parse_mapping(text) == mapping == checked_mapping(mapping)


@pytest.mark.parametrize("text", ["", "user", "user=", "user=a,", "user=a,time=b,query", ","])
def test_what_is_no_mapping_is_refused_with_its_shape_and_what_was_given(text: str) -> None:
    refusal = refusal_of(text)
    assert refusal.startswith(SHAPE)
    assert repr(text) in refusal


def test_a_column_of_ours_that_is_none_is_refused_with_those_that_are() -> None:
    expected = "columns maps 'usr', which is none of user, time, query, rank, url, clicked, shown"
    assert refusal_of("usr=a,time=b,query=c") == expected
    with pytest.raises(ParameterError, match=expected):
        checked_mapping({**USUAL, "usr": "a"})


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("user=a", "time and query"),
        ("user=a,query=c", "time"),
        ("rank=a,url=b", "user and time and query"),
    ],
)
def test_required_columns_that_lack_are_named_at_once_with_those_of_the_file(text: str, lacking: str) -> None:
    with pytest.raises(MissingColumn) as refusal:
        resolve(parse_mapping(text), ["a", "b", "c"], "LOG")
    assert str(refusal.value) == (
        f"columns must say user, time and query, and lacks {lacking}: "
        'columns={"user": ..., "time": ..., "query": ...}; existing columns: a, b, c'
    )


def test_a_column_mapped_twice_is_refused_not_taken_from_the_last() -> None:
    assert "user" in refusal_of("user=a,user=b,time=t,query=q")


@pytest.mark.parametrize(
    ("names", "are"),
    [
        (["user", "time", "query"], True),
        (["AnonID", "Query_Time", "item.rank", "click-url", "_x", "用户"], True),
        (["user", "a" * 64], True),
        (["prose"], False),
        (["user", "a" * 65], False),
        (["user", "user"], False),
        (["user", ""], False),
        (["user", "1234"], False),
        (["user", "new york"], False),
        (["user", "2006-03-01 07:17:12"], False),
        (["user", "http://example.org"], False),
        (["user\n"], False),
    ],
)
def test_what_can_be_names_of_columns(names: list[str], are: bool) -> None:
    assert looks_like_names(names) is are


def test_without_a_mapping_our_own_names_are_looked_for_in_any_case() -> None:
    names = ["Url", "QUERY", "other", "Time", "user"]
    expected = {"user": "user", "time": "Time", "query": "QUERY", "url": "Url"}
    assert resolve(None, names, "LOG") == expected


@pytest.mark.parametrize("names", [["user", "USER", "time", "query"], ["USER", "user", "time", "query"]])
def test_our_very_own_name_comes_before_one_that_differs_in_case(names: list[str]) -> None:
    assert resolve(None, names, "LOG")["user"] == "user"


def test_a_mapping_to_names_that_are_there_stays_as_it_is() -> None:
    assert resolve(USUAL, ["what", "who", "when", "more"], "LOG") == USUAL


def test_a_dotted_path_is_a_name_like_any_other_where_tables_are_flat() -> None:
    with pytest.raises(MissingColumn) as refusal:
        resolve({**USUAL, "user": "client.id"}, ["client", "when", "what"], "LOG")
    assert str(refusal.value) == "LOG has no column 'client.id'; existing columns: client, when, what"


def test_each_file_is_resolved_by_its_own_names() -> None:
    names = [["user", "time", "query"], ["Query", "url", "USER", "time"]]
    first = {"user": "user", "time": "time", "query": "query"}
    second = {"user": "USER", "time": "time", "query": "Query", "url": "url"}
    assert resolve_each(None, names, ["1", "2"]) == [first, second]
    assert resolve_each(None, names[::-1], ["1", "2"]) == [second, first]


def test_a_file_may_lack_the_columns_of_clicks_that_another_has() -> None:
    mapping = {**USUAL, "url": "where"}
    names = [["who", "when", "what"], ["who", "when", "what", "where"]]
    assert resolve_each(mapping, names, ["1", "2"]) == [USUAL, mapping]
    with pytest.raises(MissingColumn, match=f"1 has no column 'where'; {HEADER}"):
        resolve_each(mapping, names[:1], ["1"])
    with pytest.raises(MissingColumn, match="2 has no column 'who'"):
        resolve_each(mapping, [names[1], names[1][1:]], ["1", "2"])


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ({"user": "a", "USER": "b"}, "a"),
        ({"USER": "b", "user": None}, None),
        ({"User": "c", "query": "d"}, "c"),
        ({"users": "a"}, "absent"),
        ({}, "absent"),
        (None, "absent"),
    ],
)
def test_our_own_names_are_looked_for_in_each_object(held: dict[str, str] | None, found: str | None) -> None:
    assert JsonColumns().values([held], "user", "absent") == [found]
    assert JsonColumns().has(held, "user") is (found != "absent")


def test_a_dotted_path_is_followed_in_each_object() -> None:
    columns = JsonColumns({**USUAL, "user": "client.id"})
    objects: list[dict[str, Any] | None] = [{"client": {"id": 1}}, {"client.id": 2}, {"client": 3}, {}]
    assert columns.values(objects, "user") == [1, 2, None, None]
    assert columns.values([{"url": "a"}], "url") == [None]  # which the mapping does not name


@pytest.mark.parametrize("mapping", [None, USUAL])
def test_objects_without_what_a_row_needs_are_refused_without_their_keys(mapping: dict[str, str] | None) -> None:
    with pytest.raises(MissingColumn) as refusal:
        JsonColumns(mapping).require_in([{"user": 1, "anna_smith": 2}, None, {"who": 1, "time": 1}], "LOG")
    names = "'who', 'when', 'what'" if mapping else "user, time, query"
    assert str(refusal.value).startswith(f"no object of LOG has the columns {names}: say which")
    assert "anna" not in str(refusal.value)
    JsonColumns(mapping).require_in([{}, dict.fromkeys(["user", "time", "query", "who", "when", "what"])], "LOG")


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(MissingColumn) as refusal:
        resolve({**USUAL, "url": "where"}, ["who", "when", "what"], "LOG 2")
    assert str(refusal.value) == f"LOG 2 has no column 'where'; {HEADER}"


def test_a_required_column_that_is_not_there_is_told_with_the_way_out() -> None:
    with pytest.raises(MissingColumn) as refusal:
        resolve(None, ["who", "when", "what"], "LOG", schema=True)
    assert str(refusal.value) == (
        "LOG has no column user and no column time and no column query: say which columns are ours with "
        f'columns={{"user": ..., "time": ..., "query": ...}}; {HEADER}'
    )


@pytest.mark.parametrize(
    "names", [["4417", "2006-03-01", "new york"], ["anna", "anna"], ["jane.doe", "Mar-01-2006", "chlamydia"], []]
)
@pytest.mark.parametrize("mapping", [None, USUAL])
def test_a_first_line_that_is_no_header_is_somebodys_data_and_never_shown(
    names: list[str], mapping: dict[str, str] | None
) -> None:
    with pytest.raises(MissingColumn) as refusal:
        resolve(mapping, names, "LOG")
    assert str(refusal.value).endswith(
        "; its first line has none of the names given, and is not shown: it may be somebody's row"
    )
    assert not any(name in str(refusal.value) for name in names)


def test_a_header_is_certain_where_a_name_that_the_owner_typed_stands_in_it() -> None:
    typed = {"user": "Mail", "time": "Datum", "query": "Suchbegriff"}
    with pytest.raises(MissingColumn) as refusal:
        resolve(typed, ["Mail", "Such Begriff", "Datum"], "LOG")
    assert str(refusal.value) == "LOG has no column 'Suchbegriff'; existing columns: Mail, Such Begriff, Datum"


@pytest.mark.parametrize(
    "field", ["jane@mail.example", "Mar-01-2006", "10:15", "http://a.example", "5551234", "", "x" * 65]
)
def test_fields_as_rows_have_them_are_not_shown_even_beside_a_name_that_was_typed(field: str) -> None:
    with pytest.raises(MissingColumn) as refusal:
        resolve(USUAL, ["who", field, "chlamydia"], "LOG")
    assert str(refusal.value) == "LOG has no column 'when' and no column 'what'; of these its first line has 'who'"
