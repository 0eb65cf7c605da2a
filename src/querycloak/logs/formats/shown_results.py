"""Results that were shown: a truth value in a row for each result, or a list of ids for each search."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.logs.choices import Choices
from querycloak.logs.formats.json_objects import as_text
from querycloak.logs.reading.checks import LONGEST_FIELD, Clicked
from querycloak.logs.reading.schema import CLICKED, SHOWN
from querycloak.logs.reading.urls import url_texts
from querycloak.text.spans import Mask, Spans

_TRUE, _FALSE = ("true", "1", "yes", "t", "y"), ("", "false", "0", "no", "f", "n")
_IDS = ("id", "object_id", "doc_id", "url")
LISTS = pa.list_(pa.large_string())


def views_field(columns: Collection[str]) -> pa.Field | None:
    """The column of shown results; None if there is none."""
    return next((field for field in (CLICKED, SHOWN) if field.name in columns), None)


def clicked_values(texts: Spans, true: Mask | None = None) -> Clicked:
    """Truth values of a column, in any case of letters; `true`: rows that a truth value of JSON decides."""
    lower = pc.ascii_lower(texts.trimmed().strings())
    values, denied = (pc.is_in(lower, pa.array(words)).to_numpy(zero_copy_only=False) for words in (_TRUE, _FALSE))
    return Clicked(values if true is None else values | true, ~values & ~denied)


def truth(value: Any) -> Any:
    """A truth value of JSON as a text; anything else as it is."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def ids_of(value: Any) -> list[str]:
    """The ids in a list of JSON: texts, whole numbers, or objects that have an id; what is no list has none."""
    if isinstance(value, str):
        return value.split() if not value.lstrip().startswith("[") else ids_of(_parsed(value))
    if not isinstance(value, list):
        return []
    texts = (as_text(each) or (_id_of(each) if isinstance(each, dict) else None) for each in value)
    return [text for text in texts if text is not None]


def lists_of(values: list[Any]) -> pa.ListArray:
    """The ids in each of these values."""
    return pa.array([ids_of(value) for value in values], LISTS)


def listed_texts(texts: Spans) -> pa.ListArray:
    """Lists that are written as texts: as a JSON list, or with blanks between the ids."""
    written = texts.trimmed().strings()
    if not pc.any(pc.starts_with(written, "[")).as_py():
        lists = pc.ascii_split_whitespace(written)
        return pc.if_else(pc.equal(pc.binary_length(written), 0), pa.scalar([], lists.type), lists)
    return lists_of(written.to_pylist())


def shown_texts(shown: pa.ListArray, choices: Choices, *, with_scheme_only: bool = False) -> pa.ListArray:
    """Lists of results shown, each address as the log will show it; what is overlong or missing is left out."""
    shown = shown.cast(LISTS)
    texts = Spans.of(shown.flatten())
    urls = url_texts(texts.blank(texts.lengths > LONGEST_FIELD).trimmed(), choices, with_scheme_only=with_scheme_only)
    filled = urls.lengths > 0
    parents = pc.list_parent_indices(shown).to_numpy(zero_copy_only=False)[filled]
    offsets = np.searchsorted(parents, np.arange(len(shown) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), urls.where(filled).strings())


def _id_of(value: dict[str, Any]) -> str | None:
    return next((text for text in (as_text(value.get(name)) for name in _IDS) if text is not None), None)


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
