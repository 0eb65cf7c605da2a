"""`querycloak split`: TRAIN and TEST of a log."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from querycloak.cli.inspect_command import PRIVATE

if TYPE_CHECKING:
    from querycloak.evaluation.split_folder import WrittenSplit


def show_split(written: WrittenSplit, *, as_json: bool) -> None:
    """Print what was written where."""
    if as_json:
        json.dump({**written.to_json(), "folder": str(written.folder)}, sys.stdout)
        sys.stdout.write("\n")
        return
    lines = [PRIVATE, f"{written.folder} holds the raw log: it is open to you alone"]
    if written.moment is not None:
        lines.append(f"TRAIN ends and TEST begins at {written.moment:%Y-%m-%d %H:%M:%S}")
    widest = max(len(side.file) for side in written.sides)
    for side in written.sides:
        lines.append(f"  {side.file:<{widest}} {side.users:>12,} users {side.rows:>14,} rows")
    sys.stdout.write("\n".join(lines) + "\n")
