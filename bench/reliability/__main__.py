"""Run everything and write `docs/reliability.md`: `python -m bench.reliability [--kills N] [--inputs N]`."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench.reliability import forked, full_disks, fuzz, kills, power_loss, races, tokens
from bench.reliability.finding import FileOptions

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
PIECE = 100
SIZES = [8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024]
NUMBERS = {"kills": 1_000, "inputs": 10_000, "charges": 20, "reserves": 200}
TEXT = """# Reliability

What happens to a log, a release and a ledger if something goes wrong. `make reliability` tests it and
writes this page; a short version runs with `make test`.

| what is done | how often | what must hold | went wrong |
|---|---:|---|---:|
{rows}

{notes}

Measured with {command} on {machine}, in {minutes:.0f} minutes.
"""


def checks(log: Path, folder: Path, given: argparse.Namespace) -> dict[str, Callable[[], FileOptions]]:
    """What is tried, in order."""
    return {
        "kills": lambda: in_pieces(
            given.kills, lambda times, seed: kills.kill_at_random(log, folder / "kills", times, seed), given.keep
        ),
        "fuzz": lambda: fuzz.fuzz(folder, given.inputs),
        "ledger": lambda: races.race_on_a_ledger(folder / "ledger", 8, given.charges),
        "reserves": lambda: races.kill_on_a_ledger(folder / "reserves", given.reserves),
        "output": lambda: races.race_for_an_output(log, folder / "output", 6),
        "tokens": lambda: tokens.look_for_tokens(folder / "tokens"),
        "disks": lambda: full_disks.fill(log, folder / "disks", given.sizes),
        "power": lambda: power_loss.lose_power(log, folder / "power"),
    }


def in_pieces(times: int, work: Callable[[int, int], FileOptions], kept: Path | None) -> FileOptions:
    """What many runs found, a hundred at a time: those that were kept are not done again."""
    found: FileOptions | None = None
    for seed, first in enumerate(range(0, times, PIECE), 1):
        runs = min(PIECE, times - first)
        piece = tried(partial(work, runs, seed), kept and kept / f"kills-{seed}-{runs}.json")
        found = piece if found is None else found.with_piece(piece)
    if found is None:
        raise ValueError("nothing is to be tried")
    return found


def tried(check: Callable[[], FileOptions], kept: Path | None) -> FileOptions:
    """What a check found, from before if that was kept."""
    if kept is not None and kept.exists():
        return FileOptions(**json.loads(kept.read_bytes()))
    began = time.monotonic()
    found = check()
    found.minutes = found.minutes or (time.monotonic() - began) / 60
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(found)))
    return found


def page(findings: list[FileOptions], command: str) -> str:
    """The page."""
    rows = "\n".join(
        f"| {each.check}: {each.tries} | {each.runs:,} | {each.held} | {len(each.problems):,} |" for each in findings
    )
    notes = "\n".join(f"- {each.check}: {note}" for each in findings for note in each.notes)
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    minutes = sum(each.minutes for each in findings)
    return TEXT.format(rows=rows, notes=notes, machine=machine, minutes=minutes, command=f"`{command}`")


def main() -> None:
    """Try everything, print what went wrong, write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description=__doc__)
    for name, number in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument(
        "--only", nargs="*", help="some of kills fuzz ledger reserves output tokens disks power; no page then"
    )
    parser.add_argument(
        "--keep", type=Path, help="a folder for what each check found; those found there are not run again"
    )
    given = parser.parse_args()
    forked.load()
    folder = Path(tempfile.mkdtemp(prefix="querycloak-reliability-"))
    try:
        log = tokens.planted_log(folder / "log.tsv")
        findings = []
        for name, check in checks(log, folder, given).items():
            if given.only and name not in given.only:
                continue
            # Of kills each piece is kept, so that more of them may be asked for later.
            found = tried(check, given.keep / f"{name}.json" if given.keep and name != "kills" else None)
            findings.append(found)
            print(f"{found.check}: {found.runs:,} runs, {len(found.problems)} went wrong", flush=True)
            print("\n".join(f"  {problem}" for problem in found.problems[:20]), end="\n" if found.problems else "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not given.only:
        asked = [f"--{name} {getattr(given, name)}" for name in NUMBERS if getattr(given, name) != NUMBERS[name]]
        asked += [f"--sizes {' '.join(map(str, given.sizes))}"] if given.sizes != SIZES else []
        PAGE.write_text(page(findings, " ".join(["python -m bench.reliability", *asked])))
    sys.exit(4 if any(found.problems for found in findings) else 0)


if __name__ == "__main__":
    main()
