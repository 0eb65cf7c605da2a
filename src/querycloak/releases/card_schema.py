"""The schema of card.json, checked once, when a card is loaded: anybody can write a card."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], "str | None"]
"""Takes a value and returns the rule that it breaks, beginning with the place inside the value; None if it keeps it."""
MOST_ROWS = 10**12
_SHA256 = re.compile(r"[0-9a-f]{64}")


def card_problem(card: Mapping[str, Any]) -> str | None:
    """The first rule that a card of the current version breaks; None if it keeps the schema."""
    return _CARD(card)


def _is(kind: type | tuple[type, ...], rule: str) -> Check:
    def check(value: Any) -> str | None:
        wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        return f" must be {rule}" if wrong else None

    return check


def _null_or(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _whole(most: int) -> Check:
    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        return None if fits else f" must be a whole number from 0 to {most}"

    return check


def _number(value: Any) -> str | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return None if fits else " must be a finite number"


def _each(check: Check) -> Check:
    def check_all(value: Any) -> str | None:
        problems = map(check, value) if isinstance(value, list) else iter([" must be a list"])
        return next((problem for problem in problems if problem is not None), None)

    return check_all


def _values(check: Check) -> Check:
    def check_all(value: Any) -> str | None:
        problems = map(check, value.values()) if isinstance(value, Mapping) else iter([" must be an object"])
        return next((problem for problem in problems if problem is not None), None)

    return check_all


def _object(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with these keys; other keys are let through, because a later version may add some."""
    known = {**required, **(optional or {})}

    def check(value: Any) -> str | None:
        if not isinstance(value, Mapping):
            return " must be an object"
        for name in required:
            if name not in value:
                return f".{name} is missing"
        for name, inner in known.items():
            if name in value and (problem := inner(value[name])) is not None:
                return f".{name}{problem}"
        return None

    return check


def _accounting(value: Any) -> str | None:
    if value == "not accounted":
        return None
    return _object({"population": _TEXT, "charge": _whole(2**63 - 1)}, {"run": _TEXT})(value)


def _checksums(value: Any) -> str | None:
    if not isinstance(value, Mapping) or value.get("algorithm") != "sha256":
        return " must be an object whose algorithm is sha256"
    digests = [digest for name, digest in value.items() if name != "algorithm"]
    fits = all(isinstance(digest, str) and _SHA256.fullmatch(digest) for digest in digests)
    return None if fits else " must be SHA-256 digests"


def _about(value: Any) -> str | None:
    """Texts by name, and keywords as a list of texts."""
    if not isinstance(value, Mapping):
        return " must be an object"
    for name, text in value.items():
        problem = (_TEXTS if name == "keywords" else _TEXT)(text)
        if problem is not None:
            return f".{name}{problem}"
    return None


_TEXT, _TRUTH, _MAPPING = _is(str, "a text"), _is(bool, "true or false"), _is(Mapping, "an object")
_TEXTS = _each(_TEXT)
_GUARANTEE = _object(
    {
        "kind": _TEXT,
        "unit": _null_or(_TEXT),
        "neighbours": _null_or(_TEXT),
        "epsilon": _null_or(_number),
        "delta": _null_or(_number),
        "k": _null_or(_whole(MOST_ROWS)),
        "unprotected": _TEXTS,
        "because": _TEXT,
    }
)
_TABLE = _object(
    {"file": _TEXT, "rows": _whole(MOST_ROWS), "columns": _MAPPING}, {"reach": _null_or(_MAPPING), "dialect": _TEXT}
)
_CARD = _object(
    {
        "method": _TEXT,
        "variant": _TEXT,
        "parameters": _MAPPING,
        "claimed": _null_or(_GUARANTEE),
        "proven": _GUARANTEE,
        "seeded": _TRUTH,
        "accounting": _accounting,
        "composition": _MAPPING,
        "population_size": _null_or(_whole(MOST_ROWS)),
        "options": _null_or(_MAPPING),
        "counts": _TEXT,
        "rows": _TEXT,
        "log": _MAPPING,
        "tables": _values(_TABLE),
        "checksums": _checksums,
        "versions": _object({}, {"querycloak": _TEXT}),
    },
    {
        "published": _TEXT,
        "warnings": _TEXTS,
        "gaussian_dp": _values(_number),
        "trade_off": _each(_each(_number)),
        "about": _about,
    },
)
