"""Records as JSON objects, and the members of these."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from querycloak.text.spans import Spans

JsonObject = dict[str, Any]


def parse_object(line: bytes) -> JsonObject | None:
    """The JSON object of a line, after an index name and a tab if there is one."""
    if not line.startswith(b"{"):
        line = line.partition(b"\t")[2]
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def member(value: Any, path: str, missing: Any = None) -> Any:
    """Value at a dotted path: a key of that whole name first, then step by step."""
    if not isinstance(value, dict):
        return missing
    if path in value:
        return value[path]
    first, _, rest = path.partition(".")
    return member(value.get(first), rest, missing) if rest else missing


def member_in_any_case(value: Any, name: str, missing: Any = None) -> Any:
    """Value under a key: of that very name first, then of one that differs in case."""
    if not isinstance(value, dict):
        return missing
    if name in value:
        return value[name]
    for key in value:  # many objects lack a url: lengths are compared first, for that is fast
        if len(key) == len(name) and key.lower() == name:
            return value[key]
    return missing


def as_text(value: Any) -> str | None:
    """Texts and whole numbers as text; anything else, and an empty text, is missing."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def spans_of(texts: list[str | None]) -> Spans:
    """A column of texts."""
    return Spans.of(pa.array(texts, pa.large_string()))
