"""JSON and TOML that somebody else may have written: a value of bounded depth, or a ValueError, for any content."""

from __future__ import annotations

import json
import tomllib
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
