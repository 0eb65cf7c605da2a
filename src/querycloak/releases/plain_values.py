"""Values that a card can hold: texts, finite numbers, truth values, nothing, and lists and mappings of these."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from querycloak.errors import ParameterError
from querycloak.sentence import Parameter, Sentence


def plain_mapping(name: str, values: object) -> Mapping[str, Any]:
    """An unchangeable copy of a mapping of plain values."""
    if isinstance(values, Mapping) and all(isinstance(key, str) for key in values):
        try:
            written = json.dumps(dict(values), allow_nan=False, ensure_ascii=False).encode()
            copied: dict[str, Any] = json.loads(written)
        except (TypeError, ValueError):
            pass  # the value itself stays out of the message: nobody knows what it is
        else:
            return MappingProxyType(copied)
    raise ParameterError(
        Sentence(
            "{name} must be a mapping of plain values (texts, finite numbers, lists, mappings)", name=Parameter(name)
        )
    )
