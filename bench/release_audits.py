"""`make audit`: every attack on a release of every method, on the standard synthetic log; a line for each.

The short version of this is in the tests. `python -m bench.release_audits --users 5000` tries a smaller log.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import querycloak as qc
from bench.standard_releases import STANDARD, releases, standard_split
from querycloak.audits.attacked import Attacked


def line(row: dict[str, Any]) -> str:
    """One row, as it is read by people."""
    numbers = " ".join("     -" if row[n] is None else f"{row[n]:.4f}" for n in ("main", "control", "baseline", "risk"))
    return f"{row['release']:20} {row['attack']:15} {numbers}  {row['setting'] or ''}  {row['why'] or ''}".rstrip()


def main() -> None:
    """Release, attack, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.release_audits", description=__doc__)
    parser.add_argument("--users", type=int, default=STANDARD.users)
    parser.add_argument("--attack", action="append", help="all if not given")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    with standard_split(given.users) as sides:
        made = releases(sides.train, given.names)
        attacked = [Attacked.of(each.release, each.name, owners=each.owners) for each in made]
        began, busy = time.perf_counter(), time.process_time()
        found = qc.audit_release(sides.train, attacked, control=sides.test, truth=sides.truth, attacks=given.attack)
        took, used = time.perf_counter() - began, time.process_time() - busy
    print("\n".join(map(line, found.rows)))
    print(f"{len(attacked)} releases and three baselines attacked in {took:.0f} s, {used:.0f} s of processor time")
    print("\n".join(found.alarms), file=sys.stderr)
    sys.exit(4 if found.alarms else 0)


if __name__ == "__main__":
    main()
