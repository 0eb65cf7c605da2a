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
from bench.reliability.tokens import PLAN, SIGNOFF, planted_views
from querycloak.methods.evidence import verify
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.series import plan_series

SIGNALS = (signal.SIGKILL,) * 7 + (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
BUDGET = ("--epsilon", "4", "--delta", "1e-3")
READ = ("--log-format", "aol", "--threads", "1", "--quiet")
BY = ("--by", "week", "--since", "2006-03-01", "--until", "2006-03-15")
VIEWS = ("--views", "--log-format", "csv", "--by", "country", "--max-bad", "1")
LIMIT = 1e6
METHODS = {
    "clicks": BUDGET,
    "sessions": BUDGET,
    "queries": (*BUDGET, "--format", "tsv"),
    "k-anonymity": ("--min-users", "2"),
    "affinity": ("--min-users", "3", "--concept-users", "3"),
    "generalize": ("--min-users", "3"),
    "query-pool": ("--epsilon", "4"),
    "optimal": BUDGET,
    "phrases": BUDGET,
    "synthetic": BUDGET,
    "eu-records": ("--preset", "ddg-2026", "--min-term-users", "3"),
    "semantic": ("--epsilon", "4", "--max-queries", "1", "--domain", "sport", "--any-language"),
}
LONG = ("compare", "signoff", "reproduce", "signoff", "demo", "signoff")
EVERY = 100
"""Commands that take long are killed once in as many runs as this, in this order."""
WORK = {"compare": 12, "signoff": 10, "reproduce": 16, "demo": 63}
"""Processor seconds that commands take that are too long to be measured first."""
_LASTING: dict[str, float] = {}
"""Seconds that each other command takes if nobody stops it, as measured by this process."""


def prepared(log: Path) -> Path:
    """What commands are given beside the log: both sides of it, releases, what to compare; made once."""
    place = log.parent / "given"
    if not place.exists():
        place.mkdir()
        (place / "plan.toml").write_text(PLAN)
        (place / "signoff.toml").write_text(SIGNOFF)
        planted_views(place / "views.csv")
        ledger = Ledger(place / "ledger")
        ledger.set_limit("people", LIMIT, 0.5)
        ledger.set_limit("series", 9, 1e-2)
        ledger.set_limit("again", 9, 1e-2)
        plan_series(ledger, "series", 4, 2, 1e-3)
        sides = ("split", str(log), "--by", "user", "--test", "0.3", "--out", str(place / "sides"), *READ)
        train = str(place / "sides" / "train.parquet")
        made = ("release", "k-anonymity", train, "--min-users", "2", "--out", str(place / "made"), *READ[2:])
        paid = ("--ledger", str(ledger.path), "--population", "again")
        known = ("release", "queries", str(log), *BUDGET, *paid, "--out", str(place / "known"), *READ)
        if any(forked.run(each, place / "said", {}) for each in (sides, made, known)):
            raise RuntimeError("what commands are given could not be made")
    return place


def commands(log: Path, place: Path) -> dict[str, tuple[str, ...]]:
    """Each command that writes, and what it writes: OUT."""
    out, given = str(place / "out"), log.parent / "given"
    made, train, test, views = (
        str(given / each) for each in ("made", "sides/train.parquet", "sides/test.parquet", "views.csv")
    )
    charged = ("--ledger", str(place / "ledger"), "--population", "people")
    releases = {
        f"release {method}": ("release", method, str(log), *options, *charged, "--out", out, *READ)
        for method, options in METHODS.items()
    }
    return {
        **releases,
        "release clicks --counts none": (*releases["release clicks"], "--counts", "none"),
        "release queries --by": ("release", "queries", str(log), *BUDGET, *BY, *charged, "--out", out, *READ),
        "release clicks --views": ("release", "clicks", views, *BUDGET, *VIEWS, *charged, "--out", out, *READ[2:]),
        "release queries --plan-of": (
            "release", "queries", str(log), "--plan-of", "series", *charged[:2], "--out", out, *READ,
        ),
        "release queries --known": (
            "release", "queries", str(log), *BUDGET, "--known", str(given / "known"), *charged[:3], "again",
            "--out", out, *READ,
        ),
        "export": ("export", made, "--as", "csv", "--out", out, "--quiet"),
        "export --as ir-datasets": ("export", made, "--as", "ir-datasets", "--out", out, "--quiet"),
        "diff --picture": ("diff", made, made, "--picture", f"{out}.html"),
        "ledger show --picture": ("ledger", "show", "people", *charged[:2], "--picture", f"{out}.html"),
        "ledger plan": (
            "ledger", "plan", "people", "--releases", "4", "--epsilon", "2", "--delta", "1e-4", *charged[:2],
        ),
        "signoff": (
            "signoff", train, "--plan", str(given / "signoff.toml"), *charged[:2], "--out", out, "--yes", "--quiet",
        ),
        "split": ("split", str(log), "--by", "user", "--test", "0.3", "--out", out, *READ),
        "inspect --rejected": ("inspect", str(log), "--max-bad", "1", "--rejected", out, *READ),
        "synth": ("synth", "--users", "20", "--threads", "1", "--quiet", "--out", f"{out}.tsv"),
        "ledger set": ("ledger", "set", "others", *BUDGET, "--ledger", str(place / "ledger")),
        "evaluate": ("evaluate", train, test, made, "--task", "counts", "--out", f"{out}.json", *READ[2:]),
        "audit release": (
            "audit", "release", train, made, "--control", test, "--attack", "leaks", "--out", f"{out}.json", *READ[2:],
        ),
        "report": ("report", made, "--out", out, "--quiet"),
        "compare": ("compare", str(log), "--releases", str(given / "plan.toml"), "--out", out, *READ),
        "demo": ("demo", "--users", "60", "--out", out, "--quiet"),
        "reproduce": ("reproduce", "zhang2016", "--log", str(log), "--quick", "--out", out, *READ),
    }  # fmt: skip


def charges(name: str, ledger: Path) -> int:
    """Number of charges of a command's population; an earlier release has charged for keys that are known."""
    payer = {"--plan-of": "series", "--known": "again"}.get(name.rpartition(" ")[2], "people")
    return len(Ledger(ledger).show(payer)[0].charges) - (payer == "again")


def whole(name: str, place: Path) -> bool:
    """Whether what a command wrote is all there, or not at all; of what goes on later, each file is."""
    out = place / "out"
    if name == "synth":
        return not (place / "out.tsv").exists() or (place / "out.tsv.truth").is_dir()
    if name in ("evaluate", "audit release"):
        return not (place / "out.json").exists() or bool(json.loads((place / "out.json").read_bytes()))
    if name.endswith("--picture"):
        return not (place / "out.html").exists() or "</html>" in (place / "out.html").read_text()
    if name.startswith("ledger"):
        return not Ledger(place / "ledger").verify()
    if not out.exists():
        return True
    if name.startswith("release"):
        # The guarantee of a release with known keys follows from the earlier one too: a ledger vouches for that.
        allowed = "the guarantee was not computed again" if name.endswith("--known") else "nothing"
        return all(each.startswith(allowed) for each in verify(out).problems)
    if name.startswith("inspect"):
        return all(json.loads(line) for line in out.read_text().splitlines())
    return _files_are_whole(out) and (name != "split" or (out / "split.json").exists())


def _files_are_whole(folder: Path) -> bool:
    """Whether every file of a folder can be read to its end, and every release in it is whole."""
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            pq.ParquetFile(path).metadata  # noqa: B018  # its end is written last
        elif path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".html" and "</html>" not in path.read_text():
            return False
        if path.name == "card.json" and verify(path.parent).problems:
            return False
    return True


def kill_at_random(log: Path, folder: Path, times: int, seed: int = 1, names: list[str] | None = None) -> Finding:
    """Kill each command in turn, at a moment between its beginning and its end; long ones more seldom.

    names: the commands to kill, all in turn; None for all commands.
    """
    found = Finding(
        "killed at a random moment",
        "SIGKILL, SIGTERM, SIGHUP and SIGINT to every command that writes",
        "outputs are complete or absent; every release was charged; the next command removes what was left",
    )
    chance = random.Random(seed)
    prepared(log)
    named = names is not None
    names = names or [name for name in commands(log, folder) if name not in LONG]
    killed = set()
    for number in range(times):
        seldom, often = divmod(number, EVERY)
        name = LONG[(seed + seldom) % len(LONG)] if often == EVERY - 1 and not named else names[number % len(names)]
        if name not in _LASTING and name not in WORK:
            _LASTING[name] = _lasting(name, log, folder / "measure")
        killed.add(name)
        place = fresh(folder / "place", log)
        settings = {"QUERYCLOAK_TMP": str(place / "tmp")}
        child = forked.start(commands(log, place)[name], place / "said", settings)
        moment = chance.uniform(0, 1.1)
        if name in WORK:
            code = forked.ended_within(child, WORK[name] * moment, forked.worked)
        else:
            code = forked.ended_within(child, _LASTING[name] * moment)
        if code is None:
            os.kill(child, chance.choice(SIGNALS))
            code = forked.ended(child)
        _check(found, f"{name}, run {number}", name, place, code)
    found.notes.append(f"killed were {', '.join(sorted(killed))}")
    return found


def _check(found: Finding, run: str, name: str, place: Path, code: int) -> None:
    found.runs += 1
    found.expect(
        code in (0, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT), f"{run}: exit {code}"
    )
    _attempt(found, f"{run}: not whole", lambda: whole(name, place))
    if name.startswith("release") or name == "signoff":
        made = (place / "out" / "public" / "release" if name == "signoff" else place / "out").exists()
        paid = charges(name, place / "ledger")
        found.expect(not made or paid == 1, f"{run}: a release that nobody paid for")
    forked.run(("--version",), place / "next", {"QUERYCLOAK_TMP": str(place / "tmp")})
    left = [path.name for path in place.rglob(".querycloak-*") if not path.name.startswith(".querycloak-places-")]
    found.expect(not left, f"{run}: left behind {left}")


def _attempt(found: Finding, problem: str, check: Callable[[], bool]) -> None:
    try:
        found.expect(check(), problem)
    except Exception as error:
        found.problems.append(f"{problem} ({type(error).__name__})")


def fresh(place: Path, log: Path) -> Path:
    """An empty place with a ledger of its own."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "tmp").mkdir(parents=True)
    shutil.copyfile(log.parent / "given" / "ledger", place / "ledger")
    return place


def _lasting(name: str, log: Path, place: Path) -> float:
    """How long a command takes if nobody stops it."""
    fresh(place, log)
    began = time.monotonic()
    if code := forked.run(commands(log, place)[name], place / "said", {"QUERYCLOAK_TMP": str(place / "tmp")}):
        raise RuntimeError(f"{name} ends with {code} when nobody kills it: {(place / 'said').read_text()[-500:]}")
    return time.monotonic() - began
