"""Commands that write are killed at random moments: what is there is whole, was charged, and nothing else stays."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from bench.reliability import forked
from bench.reliability.finding import Finding
from querycloak.methods.evidence import verify
from querycloak.privacy.books.ledger import Ledger

SIGNALS = (signal.SIGKILL,) * 7 + (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
BUDGET = ("--epsilon", "4", "--delta", "1e-3")
LIMIT = 1e6


def commands(log: Path, place: Path) -> dict[str, tuple[str, ...]]:
    """Each command that writes, and what it writes: OUT."""
    out, read = str(place / "out"), ("--log-format", "aol", "--threads", "1", "--quiet")
    charged = ("--ledger", str(place / "ledger"), "--population", "people")
    return {
        "release clicks": ("release", "clicks", str(log), *BUDGET, *charged, "--out", out, *read),
        "release sessions": ("release", "sessions", str(log), *BUDGET, *charged, "--out", out, *read),
        "release k-anonymity": ("release", "k-anonymity", str(log), "--min-users", "2", *charged, "--out", out, *read),
        "split": ("split", str(log), "--by", "user", "--test", "0.3", "--out", out, *read),
        "inspect --set-aside": ("inspect", str(log), "--max-bad", "1", "--set-aside", out, *read),
        "synth": ("synth", "--users", "20", "--threads", "1", "--quiet", "--out", f"{out}.tsv"),
        "ledger set": ("ledger", "set", "others", *BUDGET, "--ledger", str(place / "ledger")),
    }


def whole(name: str, place: Path) -> bool:
    """Whether what a command wrote is all there, or not at all."""
    out = place / "out"
    if name.startswith("release"):
        return not out.exists() or not verify(out).problems
    if name == "split":
        return not out.exists() or _split_is_whole(out)
    if name.startswith("inspect"):
        return not out.exists() or all(json.loads(line) for line in out.read_text().splitlines())
    if name == "synth":
        return not (place / "out.tsv").exists() or (place / "out.tsv.truth").is_dir()
    return not Ledger(place / "ledger").verify()


def _split_is_whole(folder: Path) -> bool:
    told = json.loads((folder / "split.json").read_text())
    return bool(told) and all(pq.ParquetFile(folder / f"{side}.parquet") for side in ("train", "test"))


def kill_at_random(log: Path, folder: Path, times: int, seed: int = 1) -> Finding:
    """Kill each command in turn, at a moment between its beginning and its end."""
    found = Finding(
        "killed at a random moment",
        "SIGKILL, SIGTERM, SIGHUP and SIGINT to every command that writes",
        "what is there is whole; what was released was charged; the next command leaves nothing behind",
    )
    chance = random.Random(seed)
    names = list(commands(log, folder))
    lasting = {name: _lasting(name, log, folder / "measure") for name in names}
    for number in range(times):
        name = names[number % len(names)]
        place = _fresh(folder / "place")
        settings = {"QUERYCLOAK_TMP": str(place / "tmp")}
        child = forked.start(commands(log, place)[name], place / "said", settings)
        code = forked.ended_within(child, chance.uniform(0, 1.1 * lasting[name]))
        if code is None:
            os.kill(child, chance.choice(SIGNALS))
            code = forked.ended(child)
        _check(found, f"{name}, run {number}", name, place, code)
    return found


def _check(found: Finding, run: str, name: str, place: Path, code: int) -> None:
    found.runs += 1
    found.expect(
        code in (0, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT), f"{run}: exit {code}"
    )
    _attempt(found, f"{run}: not whole", lambda: whole(name, place))
    if name.startswith("release"):
        made = (place / "out").exists()
        charges = Ledger(place / "ledger").show("people")[0].charges
        found.expect(not made or len(charges) == 1, f"{run}: a release that nobody paid for")
    forked.run(("--version",), place / "next", {"QUERYCLOAK_TMP": str(place / "tmp")})
    left = [path.name for path in place.rglob(".querycloak-*") if not path.name.startswith(".querycloak-places-")]
    found.expect(not left, f"{run}: left behind {left}")


def _attempt(found: Finding, problem: str, check: Callable[[], bool]) -> None:
    try:
        found.expect(check(), problem)
    except Exception as error:
        found.problems.append(f"{problem} ({type(error).__name__})")


def _fresh(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    (place / "tmp").mkdir(parents=True)
    Ledger(place / "ledger").set_limit("people", LIMIT, 0.5)
    return place


def _lasting(name: str, log: Path, place: Path) -> float:
    """How long a command takes if nobody stops it."""
    _fresh(place)
    began = time.monotonic()
    forked.run(commands(log, place)[name], place / "said", {"QUERYCLOAK_TMP": str(place / "tmp")})
    return time.monotonic() - began
