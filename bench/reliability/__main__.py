"""Run everything and write `docs/reliability.md`: `python -m bench.reliability [--kills N] [--inputs N] [--short]`."""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.reliability import forked, full_disks, fuzz, kills, power_loss, races, tokens
from bench.reliability.finding import Finding

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
TEXT = """# Reliability

What becomes of a log, a release and a ledger when things go wrong. `make reliability` tries it and
writes this page; a short version runs with `make test`.

| what is done | how often | what must hold | went wrong |
|---|---:|---|---:|
{rows}

{notes}

Measured with {command} on {machine}, in {minutes:.0f} minutes.
"""


def checks(log: Path, folder: Path, given: argparse.Namespace) -> list[Callable[[], Finding]]:
    """What is tried, in order."""
    return [
        lambda: kills.kill_at_random(log, folder / "kills", given.kills),
        lambda: fuzz.fuzz(folder, given.inputs),
        lambda: races.race_on_a_ledger(folder / "ledger", 8, given.charges),
        lambda: races.race_for_an_output(log, folder / "output", 6),
        lambda: tokens.look_for_tokens(folder / "tokens"),
        lambda: full_disks.fill(log, folder / "disks", given.sizes),
        lambda: power_loss.lose_power(log, folder / "power"),
    ]


def page(findings: list[Finding], minutes: float, command: str) -> str:
    """The page."""
    rows = "\n".join(
        f"| {each.check}: {each.tries} | {each.runs:,} | {each.held} | {len(each.problems):,} |" for each in findings
    )
    notes = "\n".join(f"- {each.check}: {note}" for each in findings for note in each.notes)
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return TEXT.format(rows=rows, notes=notes, machine=machine, minutes=minutes, command=f"`{command}`")


def main() -> None:
    """Try everything, print what went wrong, write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--charges", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="*", default=[8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024])
    given = parser.parse_args()
    forked.load()
    folder, began = Path(tempfile.mkdtemp(prefix="querycloak-reliability-")), time.monotonic()
    try:
        log = tokens.planted_log(folder / "log.tsv")
        findings = []
        for check in checks(log, folder, given):
            found = check()
            findings.append(found)
            print(f"{found.check}: {found.runs:,} runs, {len(found.problems)} went wrong", flush=True)
            print("\n".join(f"  {problem}" for problem in found.problems[:20]), end="\n" if found.problems else "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    command = " ".join(["python -m bench.reliability", *sys.argv[1:]])
    PAGE.write_text(page(findings, (time.monotonic() - began) / 60, command))
    sys.exit(4 if any(found.problems for found in findings) else 0)


if __name__ == "__main__":
    main()
