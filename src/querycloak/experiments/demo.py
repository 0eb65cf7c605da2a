"""The demo: every method on a synthetic log, and beside them a published rule that lets secrets out."""

from __future__ import annotations

import shutil
from pathlib import Path

from querycloak.errors import ParameterError
from querycloak.experiments.comparison_folder import is_demo
from querycloak.experiments.comparison_plan import MIN_USERS, PlannedRelease, usual_releases

USERS = 3_000
LOG = "log.tsv.gz"
PUBLISHED = PlannedRelease(f"affinity-k{MIN_USERS}-paper", "affinity", {"min_users": MIN_USERS, "variant": "paper"})
"""affinity as its paper has it: every word of a query needs two users (w = 2), whatever k is."""


def demo_plan() -> list[PlannedRelease]:
    """What the demo releases."""
    return [*usual_releases(), PUBLISHED]


def clear_demo(out: Path) -> None:
    """Remove what an earlier demo left; refuse what is none."""
    if not out.exists():
        return
    if not is_demo(out):
        raise ParameterError(f"{str(out)!r} is there, and no demo made it; name another folder, or move it away")
    shutil.rmtree(out)
