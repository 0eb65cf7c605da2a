"""Logs by name, so that figures measured on them can be compared: fixed, and not tuned later."""

from __future__ import annotations

from typing import NamedTuple


class Preset(NamedTuple):
    """How many users, and which seed."""

    users: int
    seed: int


PRESETS = {"standard": Preset(100_000, 2006)}
