"""Content of a line of a UBI log: a query, an event, or a bulk file's instruction.

Documents are scanned as bytes; those that the scanner leaves alone are read as objects. `documents_of` reads all of
them as objects: the tests hold both to the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querycloak.logs.formats.json_members import Members, WantedMembers
from querycloak.logs.formats.json_objects import JsonObject, as_text, member, parse_object, spans_of
from querycloak.logs.formats.json_values import ABSENT, OBJECT, TEXT
from querycloak.text.spans import Mask, Spans, with_others

QUERY, EVENT = 1, 2
_NAMES = ("query_id", "client_id", "user_id", "user_query", "timestamp", "application")
_ACTIONS = ("index", "create", "update", "delete")
_OBJECT_IDS = (
    "event_attributes.object.object_id",
    "event_attributes.object.internal_id",
    "event_attributes.object_id",
    "object_id",
)
_POSITIONS = (
    "event_attributes.position.ordinal",
    "event_attributes.position.index",
    "event_attributes.position",
    "event_attributes.ordinal",
    "position.ordinal",
    "position",
)
_INDEXED = {"event_attributes.position", "position"}
"""Positions that may be an object `{"index": 3}`, the legacy form; elsewhere that is odd."""
_WRAPPER = "_source"
_POSITIONS_OR_INDEX = (*_POSITIONS, "position.index")
_PATHS = (*_NAMES, "action_name", *_ACTIONS, _OBJECT_IDS, _POSITIONS_OR_INDEX)
_NUMBERS = [path for path in _POSITIONS if path not in _INDEXED]
_TAKEN = {name for path in _PATHS for name in ((path,) if isinstance(path, str) else path)}
_ATTRIBUTES = ("query_attributes.{}", "event_attributes.object.{}", "event_attributes.{}", "{}")
_SHOWN = ("query_response_hit_ids", "query_response_object_ids", "query_response_hits_ids")
IMPRESSIONS = ("impression", "view")
"""Actions by which a result was shown."""


@lru_cache(maxsize=16)
def _wanted(attributes: tuple[str, ...], *, counted: bool) -> WantedMembers:
    paths = [_paths_of(name) for name in attributes if name not in _NAMES]
    return WantedMembers((*_PATHS, *paths), wrapper=_WRAPPER, distinct=counted, no_objects=_NUMBERS)


def _paths_of(attribute: str) -> tuple[str, ...]:
    """Possible paths of an attribute, without those of our own columns."""
    return tuple(path for path in (form.format(attribute) for form in _ATTRIBUTES) if path not in _TAKEN)


@dataclass(frozen=True)
class Documents:
    """The documents of a block, column by column; object and position are filled for clicks and impressions alone."""

    kinds: NDArray[np.int8]
    instructions: Mask
    clicks: Mask
    impressions: Mask
    """Events by which a result was shown; none unless views are read."""
    counts: NDArray[np.int32]
    texts: dict[str, Spans]

    def __len__(self) -> int:
        return len(self.kinds)

    def where(self, mask: Mask) -> Documents:
        """The documents under a mask."""
        texts = {name: text.where(mask) for name, text in self.texts.items()}
        masks = (self.instructions[mask], self.clicks[mask], self.impressions[mask])
        return Documents(self.kinds[mask], *masks, self.counts[mask], texts)


@dataclass(frozen=True)
class WantedDocuments:
    """Parts of documents to read: the actions that are clicks and, if views are read, those that show a result."""

    click_actions: Sequence[str]
    attributes: tuple[str, ...] = ()
    views: bool = False

    @property
    def shown_actions(self) -> tuple[str, ...]:
        """Actions by which a result was shown; none unless views are read, and none that is a click."""
        return tuple(name for name in IMPRESSIONS if name not in self.click_actions) if self.views else ()


def is_action_line(value: JsonObject | None) -> bool:
    """True if this is a bulk file's instruction, not a document."""
    if value is None or len(value) != 1:
        return False
    (name, body), *_ = value.items()
    return name in _ACTIONS and isinstance(body, dict)


def is_ubi(value: JsonObject | None) -> bool:
    """True if this is a UBI document, or an action line of a bulk file."""
    return value is not None and (is_action_line(value) or _kind(_document(value)) > 0)


def read_documents(records: Spans, wanted: WantedDocuments, *, counted: bool = False) -> Documents:
    """The documents of records in UTF-8; how many members each has is exact only if that is asked for."""
    members = _wanted(wanted.attributes, counted=counted).scan(records)
    scanned = _scanned(members, wanted)
    if not members.odd.any():
        return scanned
    objects = [parse_object(records.bytes_at(index)) for index in np.flatnonzero(members.odd).tolist()]
    return _with_others(scanned, members.odd, documents_of(objects, wanted))


def shown_lists(records: Spans, queries: Mask) -> list[Any]:
    """The results that each query's document lists, under the name of any version; None for other documents."""
    lists: list[Any] = [None] * len(records)
    for index in np.flatnonzero(queries).tolist():
        document = _document(parse_object(records.bytes_at(index)))
        lists[index] = next((document[name] for name in _SHOWN if document.get(name)), None)
    return lists


def unique_actions(records: Spans) -> tuple[list[str], list[int]]:
    """Names of actions in records in UTF-8, and how many events have each."""
    members = _wanted((), counted=False).scan(records)
    actions = members.text("action_name").where((members.kind("action_name") == TEXT) & ~members.odd)
    counted = actions.strings().value_counts()
    names = counted.field("values").to_pylist()
    return names, counted.field("counts").to_pylist()


def documents_of(objects: Sequence[JsonObject | None], wanted: WantedDocuments) -> Documents:
    """The documents of objects; none is one of no kind."""
    documents = [_document(value) for value in objects]
    kinds = np.array([_kind(value) for value in documents], np.int8)
    clicks, impressions = (
        np.array([value.get("action_name") in actions for value in documents], np.bool_) & (kinds == EVENT)
        for actions in (wanted.click_actions, wanted.shown_actions)
    )
    of_results = (clicks | impressions).tolist()
    clicked = [value if click else None for value, click in zip(documents, of_results, strict=True)]
    texts = {name: spans_of([as_text(value.get(name)) for value in documents]) for name in _NAMES}
    for name in wanted.attributes:
        if name not in _NAMES:
            texts[name] = spans_of([_first_text(value, _paths_of(name)) for value in documents])
    texts["object"] = spans_of([None if value is None else _first_text(value, _OBJECT_IDS) for value in clicked])
    texts["position"] = spans_of([None if value is None else _position(value) for value in clicked])
    instructions = np.array([is_action_line(value) for value in objects], np.bool_)
    counts = np.array([len(value) for value in documents], np.int32)
    return Documents(kinds, instructions, clicks, impressions, counts, texts)


def _scanned(members: Members, wanted: WantedDocuments) -> Documents:
    action, asked = members.kind("action_name"), members.kind("user_query") != ABSENT
    kinds = np.where(action != ABSENT, np.int8(EVENT), np.where(asked, np.int8(QUERY), np.int8(0)))
    clicks, impressions = (
        (action == TEXT) & _is_in(members.text("action_name"), actions)
        for actions in (wanted.click_actions, wanted.shown_actions)
    )
    texts = {name: members.text(name) for name in _NAMES}
    texts |= {name: members.text(_paths_of(name)) for name in wanted.attributes if name not in _NAMES}
    for name, paths in (("object", _OBJECT_IDS), ("position", _POSITIONS_OR_INDEX)):
        texts[name] = members.text(paths).blank(~clicks & ~impressions)
    instructions = (members.counts == 1) & ~members.wrapped
    if instructions.any():
        instructions &= np.logical_or.reduce([members.kind(name) == OBJECT for name in _ACTIONS])
    return Documents(kinds, instructions, clicks, impressions, members.counts, texts)


def _with_others(documents: Documents, rows: Mask, others: Documents) -> Documents:
    """The documents, with others in some rows."""
    kinds, instructions = documents.kinds.copy(), documents.instructions.copy()
    clicks, impressions, counts = documents.clicks.copy(), documents.impressions.copy(), documents.counts.copy()
    kinds[rows], instructions[rows], clicks[rows] = others.kinds, others.instructions, others.clicks
    impressions[rows], counts[rows] = others.impressions, others.counts
    names = list(documents.texts)
    spans = with_others([documents.texts[name] for name in names], rows, [others.texts[name] for name in names])
    return Documents(kinds, instructions, clicks, impressions, counts, dict(zip(names, spans, strict=True)))


def _is_in(texts: Spans, names: Sequence[str]) -> Mask:
    fits = np.zeros(len(texts), np.bool_)
    for name in names:
        fits |= texts.equal_to(name.encode())
    return fits


def _document(value: JsonObject | None) -> JsonObject:
    """The document itself, out of a search hit if it was exported as one."""
    if value is None:
        return {}
    source = value.get(_WRAPPER)
    return source if isinstance(source, dict) else value


def _kind(document: JsonObject) -> int:
    if "action_name" in document:
        return EVENT
    return QUERY if "user_query" in document else 0


def _position(document: JsonObject) -> str | None:
    for path in _POSITIONS:
        value = member(document, path)
        if isinstance(value, dict):
            value = value.get("index")
        text = as_text(value)
        if text is not None:
            return text
    return None


def _first_text(document: JsonObject, paths: tuple[str, ...]) -> str | None:
    texts = (as_text(member(document, path)) for path in paths)
    return next((text for text in texts if text is not None), None)
