"""Names that differ between the commits that `scripts/compare_releases.py` compares: old name to new name."""

from __future__ import annotations

from typing import Any

RENAMED_KEYS: dict[str, str] = {}
"""Keys of cards, at any depth. Keys of `--json` and columns of tables keep their names."""
RENAMED_VALUES: dict[str, dict[str, str]] = {}
"""Values on cards and in `--json`, by the new name of their key: {"kind": {"old": "new"}}."""
ADDED_KEYS: dict[str, Any] = {"composition": {}, "population_size": None, "options": None}
"""Keys that a card of version 1 may leave out, with the values that say the same."""
RENAMED_OPTIONS: dict[str, str] = {"per_user": "max_keys_per_user"}
"""Options of methods, as Python and the command line take them; cards and `--json` keep the old names."""
RENAMED_OPTION_VALUES: dict[str, dict[str, str]] = {"selection": {"rounds": "multi-round"}}
"""Values of options, by the new name of the option."""
CLAMPED_COUNTS: dict[str, tuple[str, str]] = {"count": ("1", "")}
"""Fields that may differ, by column: a count that noise made less than 1 was written 1, and is null now."""
BACKSLASHED: dict[str, str] = {r"^\\(?=[=+@-])": "", r"\\e": "", r"\\([\\])": r"\1"}
"""Escapes of text tables up to 0.2: pattern and meaning; control characters do not occur in seeded values."""
QUOTED: dict[str, str] = {r"^'(?=[ \"']*[=+@-])": ""}
"""Escapes of text tables since 0.3."""
