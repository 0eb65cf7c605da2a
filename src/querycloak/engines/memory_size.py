"""How much memory an engine may take, as people write it: 3GB, 500MB, 2GiB, or Java's 3g."""

from __future__ import annotations

import re

from querycloak.privacy.parameters import of_kind, refuse

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_WAY_OUT = "such as 3GB or 500MB"


def memory_bytes(memory: str) -> int:
    """The bytes of an amount: GB are of 1000 each, GiB and Java's g of 1024."""
    of_kind("memory", memory, str, "an amount", _WAY_OUT)
    found = _AMOUNT.fullmatch(memory.strip())
    if found is None:
        refuse("memory", "an amount", memory, _WAY_OUT)
    number, letter, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    size = int(float(number) * base ** _POWERS[letter.lower()])
    if size < 1:
        refuse("memory", "an amount above 0", memory, _WAY_OUT)
    return size
