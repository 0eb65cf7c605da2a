"""Time, processor time and memory of a command with everything that it starts, and its last words if it fails."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")
_PAUSE = 0.2  # seconds between two looks
_LONGEST = 120  # characters of last words
_SAID = re.compile(r"^([\w.]*(?:Error|Exception|Exit|Interrupt))\b:?\s*(.*)$")


@dataclass(frozen=True)
class Limits:
    """When a command is stopped."""

    seconds: float = 300
    gigabytes: float = 10


@dataclass(frozen=True)
class Watched:
    """What a command took, and what it told or why it told nothing."""

    seconds: float
    processor_seconds: float
    gigabytes: float
    told: Mapping[str, Any]
    failure: str


class _Session:
    """The processes of one session: a command and all that it started, also what outlives it."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.gigabytes = 0.0
        self.stopped = ""
        self._busy: dict[int, float] = {}

    @property
    def processor_seconds(self) -> float:
        """Of all processes, as last seen."""
        return sum(self._busy.values())

    def look(self) -> list[int]:
        """Who is alive; time and memory are noted."""
        alive, memory, largest = [], 0.0, 0.0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) != self.leader or fields[0] == "Z":
                    continue
                memory += _gigabytes(folder / "smaps_rollup", "Pss")  # what several share is divided among them
                largest = max(largest, _gigabytes(folder / "status", "VmHWM"))
            except (FileNotFoundError, PermissionError, ProcessLookupError):  # gone while we looked
                continue
            alive.append(int(folder.name))
            self._busy[alive[-1]] = (int(fields[11]) + int(fields[12])) / _TICK
        self.gigabytes = max(self.gigabytes, memory, largest)
        return alive

    def end(self) -> None:
        """Stop whoever is left."""
        while left := self.look():
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(_PAUSE)


def _gigabytes(file: Path, name: str) -> float:
    """A number of kilobytes that the system tells of a process."""
    for line in file.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 2**20
    return 0.0


def watch(command: Sequence[str], folder: Path, limits: Limits, surroundings: Mapping[str, str]) -> Watched:
    """Run a command in an empty folder; the last line that it prints must be JSON."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        begun = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=place, stdout=out, stderr=err, env=dict(surroundings), start_new_session=True
        )
        session = _Session(child.pid)
        done = threading.Event()
        watching = threading.Thread(target=_stop_beyond, args=(session, limits, done))
        watching.start()
        _, code, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begun
        status = child.returncode = os.waitstatus_to_exitcode(code)
        done.set()
        watching.join()
        session.end()
        out.seek(0)
        err.seek(0)
        told, said = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    failure = session.stopped or (last_words(said, status) if status else "")
    busy = max(session.processor_seconds, usage.ru_utime + usage.ru_stime)
    told_last = {} if failure else json.loads(told.strip().splitlines()[-1])
    return Watched(seconds, busy, session.gigabytes, told_last, failure)


def _stop_beyond(session: _Session, limits: Limits, done: threading.Event) -> None:
    """Look at a session until it is done; stop it where a limit is passed."""
    begun = time.perf_counter()
    while not done.wait(_PAUSE) and not session.stopped:
        session.look()
        session.stopped = _beyond(limits, time.perf_counter() - begun, session.gigabytes)
        if session.stopped:
            session.end()


def _beyond(limits: Limits, seconds: float, gigabytes: float) -> str:
    if seconds > limits.seconds:
        return f"not done after {limits.seconds:.0f} seconds"
    if gigabytes > limits.gigabytes:
        return f"stopped at {limits.gigabytes:.0f} GB of memory"
    return ""


def last_words(said: str, status: int) -> str:
    """The last error that a command wrote, on one line, without the names of folders."""
    lines = [line for line in said.splitlines() if line.strip()]
    if not lines:
        return f"ended with status {status}, without a word"
    errors = [place for place, line in enumerate(lines) if _SAID.match(line)]
    if errors:
        kind, words = _SAID.match(lines[errors[-1]]).groups()  # type: ignore[union-attr]
        if not words and errors[-1] + 1 < len(lines):  # an error that tells its story on the next line
            words = lines[errors[-1] + 1]
        line = f"{kind.rpartition('.')[2]}: {words.strip()}"
    else:
        line = lines[-1].strip()
    line = re.sub(r"(?<![\w:/])/(?:[^\s/'\"]+/)+", "", line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
