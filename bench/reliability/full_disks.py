"""Disks that fill up at every stage: a refusal in words, nothing half-written, and what was charged stays charged."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.reliability import forked, kills
from bench.reliability.finding import Finding


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[bool]:
    """A disk of this size at a place; not if this machine lets nobody mount one."""
    place.mkdir(parents=True, exist_ok=True)
    size = f"size={kilobytes}k"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], capture_output=True, check=False)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", str(place)], check=True)


def fill(log: Path, folder: Path, sizes: list[int], names: list[str] | None = None) -> Finding:
    """Run each command that writes on disks of several sizes, for what it writes and for what spills."""
    found = Finding(
        "full disks",
        f"every command that writes and ends soon, on disks of {min(sizes)} to {max(sizes)} kB",
        "done, or refused in one sentence; outputs are complete or absent; every release was charged",
    )
    kills.prepared(log)
    for name in names or [name for name in kills.commands(log, folder) if name not in kills.LONG]:
        for kilobytes in sizes:
            shutil.rmtree(folder, ignore_errors=True)
            with small_disk(folder / "disk", kilobytes) as mounted:
                if not mounted:
                    found.notes.append("no disk could be mounted here: not tried")
                    return found
                _fill(found, name, log, folder / "disk", kilobytes)
    return found


def _fill(found: Finding, name: str, log: Path, place: Path, kilobytes: int) -> None:
    try:
        (place / "tmp").mkdir()
        shutil.copyfile(log.parent / "given" / "ledger", place / "ledger")
    except Exception:  # the disk is too small for a ledger: then its refusal is what is tried
        (place / "ledger").unlink(missing_ok=True)
        found.notes[:] = found.notes or ["the smallest disks have no room for a ledger"]
    said = place.parent / "said"
    code = forked.run(kills.commands(log, place)[name], said, {"QUERYCLOAK_TMP": str(place / "tmp")})
    run = f"{name} on {kilobytes} kB"
    found.runs += 1
    found.expect(code in (0, 2), f"{run}: exit {code}")
    found.expect(b"Traceback" not in said.read_bytes(), f"{run}: a traceback")
    try:
        found.expect(kills.whole(name, place), f"{run}: not whole")
        if name.startswith("release") and (place / "out").exists():
            found.expect(kills.charges(name, place / "ledger") == 1, f"{run}: not charged")
    except Exception as error:
        found.expect(code == 2, f"{run}: {type(error).__name__}")
