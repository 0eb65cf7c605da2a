"""Power that fails at any moment, by the order of system calls: nothing gets its name before it is on the disk.

The calls of a command are recorded (strace) and replayed on a model of a disk that keeps what was synced and nothing
else. A file that is renamed or linked to its final name must have been synced after its last write, and so must its
folder; a release must be charged on the disk before its folder gets a name.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench.reliability import kills
from bench.reliability.finding import Finding

CALLS = (
    "openat,open,creat,write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,link,linkat,close,dup,dup2,dup3"
)
_LINE = re.compile(r"(\d+)\s+(\w+)\((.*)\)\s+=\s+(-?\d+)")
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass
class Disk:
    """Which files are open, and when each was written and synced, in order."""

    opened: dict[int, str] = field(default_factory=dict)
    written: dict[str, list[int]] = field(default_factory=dict)
    synced: dict[str, list[int]] = field(default_factory=dict)
    named: list[tuple[int, str, str]] = field(default_factory=list)
    """When something got a name, what, and which."""

    def replay(self, lines: list[str], folder: str) -> None:
        """Go through the calls in their order."""
        for now, line in enumerate(_joined(lines)):
            found = _LINE.match(line)
            if found is None or int(found[4]) < 0:
                continue
            self._call(now, found[2], found[3], int(found[4]), folder)

    def _call(self, now: int, call: str, given: str, result: int, folder: str) -> None:
        paths = [os.path.join(folder, path) for path in _PATH.findall(given)]
        first = given.split(",", 1)[0].strip()
        number = int(first) if first.isdigit() else -1
        if call in ("openat", "open", "creat") and paths:
            self.opened[result] = paths[0]
        elif call in ("dup", "dup2", "dup3") and number in self.opened:
            self.opened[result] = self.opened[number]
        elif call in ("write", "pwrite64", "writev") and number in self.opened:
            self.written.setdefault(self.opened[number], []).append(now)
        elif call in ("fsync", "fdatasync") and number in self.opened:
            self.synced.setdefault(self.opened[number], []).append(now)
        elif call.startswith(("rename", "link")) and len(paths) == 2:
            self._name(now, paths[0], paths[1], moved=call.startswith("rename"))

    def _name(self, now: int, old: str, new: str, *, moved: bool) -> None:
        self.named.append((now, old, new))
        for record in (self.written, self.synced) if moved else ():
            for path in [each for each in record if each == old or each.startswith(f"{old}/")]:
                record[new + path[len(old) :]] = list(record[path])

    def unsynced(self, now: int, old: str) -> list[str]:
        """What stands under a name and was not on the disk by then."""
        return [
            path
            for path, times in self.written.items()
            if (path == old or path.startswith(f"{old}/")) and (before := [when for when in times if when < now])
            if not self.is_synced(path, max(before), now)
        ]

    def is_synced(self, path: str | Path, after: int, before: float) -> bool:
        """True if a file or folder was synced between these moments."""
        return any(after < when < before for when in self.synced.get(str(path), []))


def _joined(lines: list[str]) -> list[str]:
    """Calls that were interrupted by another thread's, in one line again."""
    begun: dict[str, str] = {}
    whole = []
    for line in lines:
        thread = line.split(" ", 1)[0]
        if "<unfinished ...>" in line:
            begun[thread] = line.split("<unfinished ...>")[0]
        elif "resumed>" in line and thread in begun:
            whole.append(begun.pop(thread) + line.split("resumed>", 1)[1])
        else:
            whole.append(line)
    return whole


def replayed(command: tuple[str, ...], place: Path) -> Disk:
    """Record a command's calls and replay them."""
    record = place / "calls"
    settings = {**os.environ, "QUERYCLOAK_TMP": str(place / "tmp")}
    traced = [
        "strace",
        "-f",
        "-s",
        "4096",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(record),
        sys.executable,
        "-m",
        "querycloak",
    ]
    subprocess.run([*traced, *command], check=True, env=settings, capture_output=True)
    disk = Disk()
    disk.replay(record.read_text(errors="replace").splitlines(), os.getcwd())
    return disk


def _is_final(path: Path, place: Path) -> bool:
    """Whether a name is one that stays, in a place or in a folder there."""
    parts = path.relative_to(place).parts if path.is_relative_to(place) else ()
    return bool(parts) and parts[0] != "tmp" and not any(part.startswith(".") for part in parts)


def lose_power(log: Path, folder: Path, names: list[str] | None = None) -> Finding:
    """Replay each command that writes."""
    found = Finding(
        "power loss",
        "the recorded order of system calls of every command that writes and ends soon",
        "nothing gets its name before it is synced; the charge is on the disk before the release has its name",
    )
    if shutil.which("strace") is None:
        found.notes.append("strace is not installed: not tried")
        return found
    kills.prepared(log)
    soon = [name for name in kills.commands(log, folder) if name not in kills.LONG or name == "signoff"]
    for name in names or soon:
        place = kills.fresh(folder / name.replace(" ", "-"), log)
        disk = replayed(kills.commands(log, place)[name], place)
        finals = [(now, old, new) for now, old, new in disk.named if _is_final(Path(new), place)]
        for now, old, new in finals:
            late = [os.path.relpath(path, place) for path in disk.unsynced(now, old)]
            found.expect(not late, f"{name}: {os.path.basename(new)} has its name before {late} are synced")
            after = disk.is_synced(Path(new).parent, now, math.inf)
            found.expect(after, f"{name}: its folder is not synced after the name is given")
        _look_at_the_ledger(found, name, place, disk)
        found.expect(bool(finals) or name in ("ledger set", "ledger plan"), f"{name}: nothing was given a name")
        found.runs += 1
    return found


def _look_at_the_ledger(found: Finding, name: str, place: Path, disk: Disk) -> None:
    """A release is charged on the disk before it has its name; what changes a ledger is on the disk at the end."""
    ledger = place / "ledger"
    if name.startswith("release") or name == "signoff":
        release = place / "out" / "public" / "release" if name == "signoff" else place / "out"
        published = [now for now, _, new in disk.named if Path(new) == release]
        paid = kills.charges(name, ledger)
        charged = bool(published) and disk.is_synced(ledger, -1, min(published)) and paid == 1
        found.expect(charged, f"{name}: not charged on the disk before it has its name")
    elif name in ("ledger set", "ledger plan"):
        found.expect(not disk.unsynced(sys.maxsize, str(ledger)), f"{name}: the ledger is not synced")
