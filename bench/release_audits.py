"""`make audit`: every attack on a release of every method, on the standard synthetic log; a line for each.

The short version of this is in the tests. `python -m bench.release_audits --users 5000` tries a smaller log;
`--csv docs/tables/attacks-standard.csv` keeps the settings that the tables of docs/attacks.md show
(`python scripts/make_audit_pages.py` writes them). Rows in that file of releases that are not attacked now stay.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import querycloak as qc
from bench.standard_releases import (
    METHODS,
    SEED,
    SMALL_BUDGETS,
    STANDARD,
    UNDER_NAMES,
    Made,
    StandardSplit,
    releases,
    standard_split,
)
from querycloak.audits.attack import ATTACKS
from querycloak.audits.release_audit import ReleaseAudit
from querycloak.evaluation.target import Target

Row = dict[str, Any]
PERIODS, MEMBERSHIP = "linkage-periods", "membership"
DRAWS = 10
"""So many releases of one method are judged together where a guarantee limits what membership may find."""
COLUMNS = ("release", "attack", "setting", "main", "control", "baseline", "risk", "low", "high", "targets", "why")
_LINKED = "50 users, recall 0.85"
KEPT = {
    "singling-out": ("m=2 random", "m=2 random right", "m=5 random released"),
    "linkage-records": (_LINKED, f"times, {_LINKED}", f"days, {_LINKED}", f"no times, {_LINKED}"),
    "inference": ("m=5 disease", "m=5 religion"),
    "secrets": ("all kinds", "own name"),
}
"""Of attacks with many settings those that are kept; of the others all are."""


def line(row: Row) -> str:
    """One row, as it is read by people."""
    numbers = " ".join("     -" if row[n] is None else f"{row[n]:.4f}" for n in ("main", "control", "baseline", "risk"))
    return f"{row['release']:20} {row['attack']:15} {numbers}  {row['setting'] or ''}  {row['why'] or ''}".rstrip()


def attacked(made: Iterable[Made], folder: Path) -> list[Target]:
    """The releases as folders, which is what attackers have; whose row is whose stays here."""
    found = []
    for number, each in enumerate(made):
        place = folder / f"release-{number}"
        each.release.save(place)
        found.append(replace(Target.in_folder(place), name=each.name, owners=each.owners))
    return found


def audited(sides: StandardSplit, folder: Path, names: Sequence[str], attacks: Sequence[str]) -> Iterator[ReleaseAudit]:
    """All attacks on releases of TRAIN; that of periods on releases of the later half, by who knows the earlier."""
    others = [attack for attack in attacks if attack != PERIODS]
    once = [name for name in names or METHODS if name not in SMALL_BUDGETS]
    if others and once:
        whole = attacked(releases(sides.train, once), folder / "whole")
        with _measured(f"{len(whole)} releases and three baselines"):
            found = qc.audit_release(sides.train, whole, control=sides.test, truth=sides.truth, attacks=others)
        yield found
    under_names = [name for name in names or UNDER_NAMES if name in UNDER_NAMES]
    if PERIODS in attacks and under_names:
        later = attacked(releases(sides.after, under_names), folder / "later")
        with _measured(f"{len(later)} releases of one period and three baselines"):
            found = qc.audit_release(
                sides.after, later, control=sides.test, other_period=sides.before, attacks=[PERIODS]
            )
        yield found
    if MEMBERSHIP in attacks:
        for name in SMALL_BUDGETS:
            if not names or name in names:
                yield _judged_together(sides, name)


def _judged_together(sides: StandardSplit, name: str) -> ReleaseAudit:
    """Membership by several releases of one method: a bound is about the mean over draws of noise."""
    drawn = [made for seed in range(DRAWS) for made in releases(sides.train, [name], SEED + seed)]
    kind = [Target.of(made.release, f"draw {number}") for number, made in enumerate(drawn)]
    found = qc.audit_release(sides.train, kind, control=sides.test, attacks=[MEMBERSHIP], baselines=False)
    together = tuple({**row, "release": f"{name}, {DRAWS} releases"} for row in found.rows if "..." in row["release"])
    return replace(found, rows=together)


class _measured:  # noqa: N801 (used as a statement)
    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._began, self._busy = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        took, used = time.perf_counter() - self._began, time.process_time() - self._busy
        print(f"{self._what} attacked in {took:.0f} s, {used:.0f} s of processor time", flush=True)


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """The settings that are kept, in place of what the file holds of the same releases and attacks."""
    new = [row for row in rows if row["setting"] in (None, *KEPT.get(row["attack"], (row["setting"],)))]
    anew = {(row["release"], row["attack"]) for row in new}
    old: list[Row] = []
    if path.exists():
        with path.open(newline="") as opened:
            old = [row for row in csv.DictReader(opened) if (row["release"], row["attack"]) not in anew]
        old = [row for row in old if row["release"] not in SMALL_BUDGETS]  # one draw of these tells nothing
    with path.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in [*old, *new]:
            writer.writerow({name: f"{each:.6g}" if isinstance(each, float) else each for name, each in row.items()})


def main() -> None:
    """Release, attack, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.release_audits", description=__doc__)
    parser.add_argument("--users", type=int, default=STANDARD.users)
    parser.add_argument("--attack", action="append", choices=list(ATTACKS), help="all if not given")
    parser.add_argument("--csv", type=Path, help="keep what the tables of the docs show")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    with standard_split(given.users) as sides, tempfile.TemporaryDirectory() as folder:
        for place in ("whole", "later"):
            (Path(folder) / place).mkdir()
        alarms: list[str] = []
        for found in audited(sides, Path(folder), given.names, given.attack or list(ATTACKS)):
            print("\n".join(map(line, found.rows)), flush=True)
            alarms += found.alarms
            if given.csv is not None:
                write_csv(given.csv, found.rows)
    print("\n".join(alarms), file=sys.stderr)
    sys.exit(4 if alarms else 0)


if __name__ == "__main__":
    main()
