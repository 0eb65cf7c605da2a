"""File systems of other machines: locks there may hold for one machine alone, or not at all."""

from __future__ import annotations

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_SHARED = re.compile(r"(nfs4?|cifs|smb\w*|afs|ncpfs|davfs2?|fuse\.(sshfs|rclone|s3fs|gcsfuse|goofys|davfs2?))")
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_share(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind of network file system that holds a path; None for any other, and where the system does not tell."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
        place = path.resolve()
    except (OSError, RuntimeError):  # no Linux; links in a circle
        return None
    kinds: dict[Path, str] = {}
    for line in lines:
        mounted, _, source = line.partition(" - ")
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), mounted.split(" ")[4])
        kinds[Path(point)] = source.split(" ")[0]  # of several at one place, the last is seen
    nearest = next((kinds[each] for each in (place, *place.parents) if each in kinds), "")
    return nearest if _SHARED.fullmatch(nearest) else None
