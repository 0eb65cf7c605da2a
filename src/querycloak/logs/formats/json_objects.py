"""Records as JSON objects, and members of objects."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from querycloak.text.spans import Spans

JsonObject = dict[str, Any]


def parse_object(line: bytes) -> JsonObject | None:
    """The JSON object of a line, which may follow an index name and a tab; None if the line has no object."""
    if not line.startswith(b"{"):
        line = line.partition(b"\t")[2]
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def member(value: Any, path: str, missing: Any = None) -> Any:
    """The value at a dotted path: that of a key with the whole name, else step by step."""
    if not isinstance(value, dict):
        return missing
    if path in value:
        return value[path]
    first, _, rest = path.partition(".")
    return member(value.get(first), rest, missing) if rest else missing


def member_in_any_case(value: Any, name: str, missing: Any = None) -> Any:
    """The value of the key with this name, else of one that differs in case alone."""
    if not isinstance(value, dict):
        return missing
    if name in value:
        return value[name]
    for key in value:  # comparing lengths first is faster, because many objects lack a url
        if len(key) == len(name) and key.lower() == name:
            return value[key]
    return missing


def as_text(value: Any) -> str | None:
    """A text or a whole number as a text; None for an empty text and for any other value."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def spans_of(texts: list[str | None]) -> Spans:
    """A column of texts."""
    return Spans.of(pa.array(texts, pa.large_string()))
