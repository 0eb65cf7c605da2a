"""Members of JSON objects, scanned as bytes: whatever the bytes are, the same as from parsed objects."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from querycloak.logs.formats.json_lines import JsonColumns
from querycloak.logs.formats.json_members import WantedMembers
from querycloak.logs.formats.json_objects import parse_object
from querycloak.logs.formats.ubi_documents import WantedDocuments, documents_of, read_documents
from querycloak.logs.reading.encodings import to_utf8
from querycloak.text.spans import Spans

FUZZED = 10_000
WANTED = WantedDocuments(("click", "7"), ("country", "application"), views=True)
MAPPINGS: list[dict[str, str] | None] = [
    None,
    {"user": "client_id", "time": "timestamp", "query": "user_query", "rank": "event_attributes.position.ordinal"},
    {"user": "a..b", "time": ".a", "query": "a.", "url": "event_attributes", "rank": "event_attributes.object.x"},
]
_NAMES = [
    "query_id", "client_id", "user_id", "user_query", "action_name", "timestamp", "application", "event_attributes",
    "object_id", "position", "object", "internal_id", "ordinal", "index", "_source", "create", "user", "query", "time",
    "rank", "url", "User", "QUERY", "ran\u212a", "event_attributes.position.ordinal", "position.index",
    "object.object_id", "a", "", "a.", ".b", "b", "é", "x" * 70,
]  # fmt: skip
_TEXTS = [
    "",
    "click",
    "7",
    " red shoes ",
    'say "hi"',
    "back\\slash/",
    "天气\u2028",
    "tab\there",
    "\x00",
    "😀",
    "\x7f",
    "é" * 9,
]
_WORDS = [
    "0", "-0", "7", "-12", "007", "1.5", "-0.5", "1e5", "1E-400", "1e999", "9" * 18, "9" * 19, "9" * 40, "1.", ".5",
    "-", "true", "false", "null", "nul", "True", "NaN", "[]", "{}", "[1,]", "{,}", '"\\ud83d\\ude00"',
    '"\\ud83d"', '"\\u00e9"', '"\\x"', '"\\/"', '"a\nb"', '"open', "[" * 70 + "]" * 70, "[" * 2000 + "]" * 2000,
]  # fmt: skip


def _value(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if kind < 0.45:
        return json.dumps(chance.choice(_TEXTS), ensure_ascii=chance.random() < 0.5)
    if kind < 0.65 and depth < 4:
        return _object(chance, depth + 1)
    if kind < 0.7 and depth < 4:
        return "[" + ",".join(_value(chance, depth + 1) for _ in range(chance.randrange(3))) + "]"
    return chance.choice(_WORDS[2:4] if kind < 0.95 else _WORDS)


def _object(chance: random.Random, depth: int = 0, *first: str) -> str:
    blank = chance.choice(["", "", "", " ", "\t"])
    names = chance.sample(_NAMES, chance.randrange(9))
    if chance.random() < 0.03:
        names += names[:1]
    members = [*first, *(f"{json.dumps(name)}{blank}:{blank}{_value(chance, depth)}" for name in names)]
    return "{" + blank + f",{blank}".join(members) + blank + "}"


def _click(chance: random.Random) -> str:
    """An event as UBI has it, but for what stands in its places."""
    target, place = (f'"{chance.choice(names)}": {_value(chance, 3)}' for names in (_NAMES[8:13], _NAMES[11:14]))
    within = chance.choice([f'"object": {{{target}}}, "position": {{{place}}}', f"{target}, {place}", target])
    return _object(chance, 2, '"action_name": "click"', f'"event_attributes": {{{within}}}')


def _record(chance: random.Random) -> bytes:
    text = _click(chance) if chance.random() < 0.4 else _object(chance)
    kind = chance.random()
    if kind < 0.1:
        text = chance.choice(["index\t", " ", "index\t  ", "\t", "index "]) + text
    record = bytearray(text.encode())
    if kind > 0.8:
        pieces = [b"", b'"', b"\\", b"{", b"}", b",", b"\xff", b" "]
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(record) + 1)
            record[place : place + chance.randrange(2)] = chance.choice(pieces)
    return bytes(record).replace(b"\n", b" ")


def spans(records: list[bytes]) -> Spans:
    return to_utf8(Spans.of(pa.array(records, pa.binary())), "utf-8")[0]


@pytest.fixture(scope="module")
def fuzzed() -> Spans:
    chance = random.Random(20060301)
    return spans([b"", b"{}", *(_record(chance) for _ in range(FUZZED))])


def same(first: dict[str, Spans], second: dict[str, Spans]) -> None:
    assert first.keys() == second.keys()
    for name, texts in first.items():
        assert list(texts.texts()) == list(second[name].texts()), name


def test_ubi_documents_are_those_of_parsed_objects(fuzzed: Spans) -> None:
    fast, counted = read_documents(fuzzed, WANTED), read_documents(fuzzed, WANTED, counted=True)
    slow = documents_of([parse_object(record) for record in fuzzed.texts()], WANTED)
    np.testing.assert_array_equal(counted.counts, slow.counts)
    for documents in (fast, counted):
        for name in ("kinds", "instructions", "clicks"):
            np.testing.assert_array_equal(getattr(documents, name), getattr(slow, name), name)
        same(documents.texts, slow.texts)
    assert slow.clicks.sum() > 500
    assert (slow.texts["position"].lengths > 0).sum() > 200


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_columns_of_json_lines_are_those_of_parsed_objects(fuzzed: Spans, mapping: dict[str, str] | None) -> None:
    columns = JsonColumns(mapping)
    fast, slow = columns.read(fuzzed), columns.read_objects([parse_object(record) for record in fuzzed.texts()])
    same(fast.texts, slow.texts)
    np.testing.assert_array_equal(fast.not_objects, slow.not_objects)
    np.testing.assert_array_equal(fast.without_query, slow.without_query)


def test_most_of_these_objects_are_scanned(fuzzed: Spans) -> None:
    """Otherwise the two tests above would compare the slow reader with itself."""
    objects = [parse_object(record) is not None for record in fuzzed.texts()]
    odd = WantedMembers(["user_query", "timestamp"]).scan(fuzzed).odd
    assert (~odd).sum() > 0.5 * sum(objects) > 0.25 * len(objects)
    assert not (~odd & ~np.array(objects)).any()


def test_records_may_stand_in_any_order_in_their_buffer(fuzzed: Spans) -> None:
    """Those that were decoded stand behind the others."""
    order = np.random.default_rng(1).permutation(len(fuzzed))
    mixed = Spans(fuzzed.data, fuzzed.starts[order], fuzzed.ends[order])
    wanted = WantedMembers(["user_query", "event_attributes.object.object_id"])
    found, mixed_up = wanted.scan(fuzzed), wanted.scan(mixed)
    np.testing.assert_array_equal(found.odd[order], mixed_up.odd)
    sound = ~mixed_up.odd
    texts = [members.text("user_query") for members in (found, mixed_up)]
    in_order = Spans(texts[0].data, texts[0].starts[order], texts[0].ends[order])
    assert list(in_order.where(sound).texts()) == list(texts[1].where(sound).texts())


def test_of_several_paths_the_first_that_holds_a_text_counts() -> None:
    wanted = WantedMembers([("a.b", "c", "d")], no_objects=["c"])
    records = [b'{"d": 1, "c": "\\n", "a": {"b": "x"}}', b'{"d": 1, "c": "", "a": {"b": {}}}', b'{"c": "\\n", "d": 2}']
    found = wanted.scan(spans([*records, b'{"d": [3], "a": null}', b'{"d": 1, "c": {}}']))
    assert list(found.text(("a.b", "c", "d")).texts()) == [b"x", b"1", b"\n", b"", b"1"]
    assert found.odd.tolist() == [False, False, False, False, True]


def test_escapes_are_undone_and_whole_numbers_are_texts() -> None:
    record = rb'{"a": "\"\\\/\b\f\n\r\t\u0041\u00e9\u5929", "b": -12, "c": 1.5, "d": {"e": "x"}, "f": null}'
    found = WantedMembers(["a", "b", "c", "d.e", "f", "g"]).scan(spans([record]))
    assert not found.odd[0]
    texts = {name: found.text(name).bytes_at(0).decode() for name in ("a", "b", "c", "d.e", "f", "g")}
    assert texts == {"a": '"\\/\b\f\n\r\tAé天', "b": "-12", "c": "", "d.e": "x", "f": "", "g": ""}
    assert [int(found.kind(name)[0]) for name in ("a", "b", "c", "d.e", "f", "g")] == [2, 3, 1, 2, 1, 0]


@pytest.mark.parametrize(
    "record",
    [
        '{"a": 1, "a": 2}', '{"\\u0061": 1}', '{"a": "\\ud83d\\ude00"}', '{"a": 1,}', '{"a": 01}',
        '{"a": 1} x', '{"a"}', '{"a": -0}', '{"a": 12345678901234567890}', '{"a.b": 1}', "[]", "",
        '{"a": "b', '{"a": tru}',
        '{"a" 1}', "{1: 2}",
        '{"x": ' + "[" * 64 + "]" * 64 + "}",
    ],
)  # fmt: skip
def test_what_is_odd_is_left_to_the_parser(record: str) -> None:
    assert WantedMembers(["a", "a.b"]).scan(spans([record.encode(), b'{"a": 1}'])).odd.tolist() == [True, False]


def test_a_document_inside_a_search_hit_hides_what_stands_around_it() -> None:
    def hit(**more: Any) -> bytes:
        return json.dumps({"user_query": "outer", "_source": {"user_query": "inner", "_source": {}}, **more}).encode()

    found = WantedMembers(["user_query"], wrapper="_source", distinct=True).scan(spans([hit(), hit(user_query_2=1)]))
    assert not found.odd.any()
    assert found.wrapped.all()
    assert found.counts.tolist() == [2, 2]
    assert list(found.text("user_query").texts()) == [b"inner", b"inner"]
