"""JSON and TOML from unknown writers, read to a bounded depth or refused with a ValueError; YAML to write."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

DEEPEST = 100
"""Far beyond what any document of ours has; far below what stops a recursion."""


def parsed_json(data: bytes | str, **how: Any) -> Any:
    """The value of a JSON text."""
    try:
        return _shallow(json.loads(data, **how))
    except RecursionError:
        pass
    raise ValueError("nested too deeply")


def parsed_toml(data: bytes) -> dict[str, Any]:
    """The tables of a TOML text."""
    try:
        document: dict[str, Any] = _shallow(tomllib.loads(data.decode("utf-8")))
        return document
    except RecursionError:
        pass
    raise ValueError("nested too deeply")


def _shallow(value: Any) -> Any:
    """The value, if it is not nested beyond what code that walks through it can bear."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        if not inner:
            return value
        level = [each for several in inner for each in several]
    raise ValueError("nested too deeply")


def yaml_text(document: Mapping[str, Any]) -> str:
    """A document of mappings, lists and plain values as YAML; texts are quoted as JSON, which YAML reads."""
    return "\n".join(_lines(document, 0)) + "\n"


def _lines(document: Mapping[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list):
            yield f"{indent}{name}:"
            yield from (f"{indent}  - {_scalar(each)}" for each in value)
        else:
            yield f"{indent}{name}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """A plain value; 1e-07 becomes 1.0e-07, which YAML takes for a number and the other for a text."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("e", ".0e", 1) if isinstance(value, float) and "e" in text and "." not in text else text
