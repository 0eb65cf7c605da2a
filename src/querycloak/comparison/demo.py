"""The demo: every method on a synthetic log, and beside them a published rule that lets secrets out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from querycloak.comparison.comparison_folder import AUDIT, EVALUATION, PAGE, RELEASES, STATE, UNFINISHED, is_demo
from querycloak.comparison.comparison_plan import MIN_USERS, PlannedRelease, usual_releases
from querycloak.errors import ParameterError
from querycloak.files.locked_folder import UNFINISHED as NOTED
from querycloak.logs.reading.files import TRUTH_ENDING

USERS = 1_000
LOG = "log.tsv.gz"
PUBLISHED = PlannedRelease(f"affinity-k{MIN_USERS}-paper", "affinity", {"min_users": MIN_USERS, "variant": "paper"})
"""affinity as its paper has it: every word of a query needs two users (w = 2), for any k."""


_MADE = {AUDIT, EVALUATION, PAGE, RELEASES, STATE, UNFINISHED, LOG, f"{LOG}{TRUTH_ENDING}"}


def demo_plan() -> list[PlannedRelease]:
    """Plan of the demo."""
    return [*usual_releases(), PUBLISHED]


def clear_demo(out: Path) -> None:
    """Remove what an earlier demo left; refuse what is none, and what holds anything that no demo makes."""
    if not os.path.lexists(out):
        return
    if out.is_symlink() or not is_demo(out):
        raise ParameterError(f"{str(out)!r} is there, and no demo made it; name another folder, or move it away")
    others = sum(each.name not in _MADE and not each.name.startswith(NOTED) for each in out.iterdir())
    if others:
        raise ParameterError(
            f"{str(out)!r} holds {others} file(s) or folder(s) that no demo made; move them away, or name another"
        )
    shutil.rmtree(out)
