"""Logs by name, so that figures measured on them can be compared: fixed, and not tuned later."""

from __future__ import annotations

from typing import NamedTuple


class Preset(NamedTuple):
    """How many users, which seed, and how often each of them comes; None: as in a web log."""

    users: int
    seed: int
    visits: int | None = None


PRESETS = {"standard": Preset(100_000, 2006), "shop": Preset(40_000, 2006, visits=1)}
"""standard: people who search for three months. shop: people who come once, as in the log of a small shop."""
