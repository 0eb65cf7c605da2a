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
from functools import partial, reduce
from pathlib import Path

from bench.reliability import damaged, forked, full_disks, fuzz, kills, power_loss, races, tokens
from bench.reliability.finding import Finding

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
PIECE = 100
SIZES = [8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024]
NUMBERS = {"kills": 1_000, "inputs": 10_000, "damages": 2_000, "charges": 20, "reserves": 200}
TEXT = """# Reliability

What happens to a log, a release and a ledger if something goes wrong. `make reliability` tests it and
writes this page; a short version runs with `make test`.

| what is done | how often | what must hold | went wrong |
|---|---:|---|---:|
{rows}

{notes}

Measured with {command} on {machine}, in {minutes:.0f} minutes.

{untested}"""
UNTESTED = """## What is not tested
- Many kills of long commands: of 100 kills, one is of `compare`, `demo`, `reproduce` or `signoff`.
- Servers for S3 other than moto's on loopback, which was read once by hand: plain and gzip logs gave the same profile
  as files; a server that froze amid the log ended the command with one line.
- Ledgers on network file systems that are none of Linux's own names for them, and on other systems: do not put one
  there, its locks may not work. Linux's (NFS, SMB, AFS, WebDAV, sshfs) are refused before anything is charged.
- A million small files as one log. 10,000 were opened and recognised in 1.6 seconds of a processor and 11 MB.
- The studio under signals: it writes by the functions of `release` and `signoff`, which are killed.
- All workers of a cluster killed at once has a slow test; the others of this page run on one machine.
- The least memory of Spark in `affinity`. On 12,000 rows of 4,000 queries `--memory 1GB` ended with one line after 280
  seconds on a busy machine, 84 of a processor: Java's heap was full. With 1500MB it had not ended after 460 seconds,
  140 of a processor.
- Kills of Spark's commands. A slow test sends signals at twenty moments of Spark's start.
- Clocks that jump while a ledger is used have a test, and no run here: charges are ordered by number.
- Compiled code that is made for the first time after a charge, where memory is short.
"""


def checks(log: Path, folder: Path, given: argparse.Namespace) -> dict[str, Callable[[], Finding]]:
    """What is tried, in order."""
    return {
        "kills": in_pieces(given.kills, partial(kills.kill_at_random, log, folder / "kills"), kept("kills", given)),
        "fuzz": in_pieces(given.inputs, partial(fuzz.fuzz, folder), kept("fuzz", given), 10 * PIECE),
        "damaged": in_pieces(given.damages, partial(damaged.damage, log, folder / "damaged"), kept("damaged", given)),
        "ledger": lambda: races.race_on_a_ledger(folder / "ledger", 8, given.charges),
        "reserves": lambda: races.kill_on_a_ledger(folder / "reserves", given.reserves),
        "output": lambda: races.race_for_an_output(log, folder / "output", 6),
        "tokens": lambda: tokens.look_for_tokens(folder / "tokens"),
        "disks": lambda: full_disks.fill(log, folder / "disks", given.sizes),
        "power": lambda: power_loss.lose_power(log, folder / "power"),
    }


def kept(name: str, given: argparse.Namespace) -> Path | None:
    """The beginning of the names of files that keep what a check found."""
    return None if given.keep is None else Path(given.keep) / name


def in_pieces(
    times: int, work: Callable[[int, int], Finding], keep: Path | None, size: int = PIECE
) -> Callable[[], Finding]:
    """Many runs, a piece at a time, each with a seed of its own: pieces that were kept are not done again."""

    def check() -> Finding:
        findings = []
        for seed, first in enumerate(range(0, times, size), 1):
            runs = min(size, times - first)
            place = keep and keep.with_name(f"{keep.name}-{seed}-{runs}.json")
            findings.append(tried(partial(work, runs, seed), place))
        return reduce(Finding.with_piece, findings)

    return check


def tried(check: Callable[[], Finding], kept: Path | None) -> Finding:
    """What a check found, from before if that was kept."""
    if kept is not None and kept.exists():
        return Finding(**json.loads(kept.read_bytes()))
    began = time.monotonic()
    found = check()
    found.minutes = found.minutes or (time.monotonic() - began) / 60
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(found)))
    return found


def page(findings: list[Finding], command: str) -> str:
    """The page."""
    rows = "\n".join(
        f"| {each.check}: {each.tries} | {each.runs:,} | {each.held} | {len(each.problems):,} |" for each in findings
    )
    notes = "\n".join(f"- {each.check}: {note}" for each in findings for note in (*each.notes, *_outcomes(each)))
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    minutes = sum(each.minutes for each in findings)
    return TEXT.format(
        rows=rows, notes=notes, machine=machine, minutes=minutes, command=f"`{command}`", untested=UNTESTED
    )


def _outcomes(finding: Finding) -> list[str]:
    listed = ", ".join(f"{outcome} {times:,}" for outcome, times in sorted(finding.counts.items()))
    return [f"outcomes: {listed}"] if listed else []


def main() -> None:
    """Try everything, print what went wrong, write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description=__doc__)
    for name, number in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument(
        "--only", nargs="*", help="some of kills fuzz damaged ledger reserves output tokens disks power; no page then"
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
            # Pieces are kept by themselves, so that more of them may be asked for later.
            whole = given.keep and name not in ("kills", "fuzz", "damaged")
            found = tried(check, given.keep / f"{name}.json" if whole else None)
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
