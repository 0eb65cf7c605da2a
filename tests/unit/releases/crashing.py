"""Runs releases in child processes and kills them: `python -m tests.unit.releases.crashing PLAN`, a JSON list.

Each job has a folder of its own (`root`) and dies at a fault point (`files/fault.py`) or after a time (`seconds`). The
children are forked from one process that has imported everything, so that a hundred of them take seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from querycloak.files import fault
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.payment import Bill, payment_of
from querycloak.releases.folder import check_target
from tests.unit.releases.making import PROVEN, a_release


def release_into(root: Path, rows: int, format_name: str) -> None:
    """The way of every release: look, charge, draw, write, rename, complete."""
    ledger = Ledger(root / "ledger.sqlite")
    check_target(root / "out")
    accounting = payment_of(ledger, "shop", Bill("clicks", PROVEN, {"threshold": 9})).pay(None).accounting
    (root / "drawn").touch()
    counts = np.arange(rows, 0, -1)
    table = pa.table({"query": pa.array([f"query {count}" for count in counts]), "count": pa.array(counts, pa.int64())})
    a_release(tables={"queries": table}, accounting=accounting).save(root / "out", format_name)


def run(job: dict[str, Any]) -> dict[str, Any]:
    root = Path(job["root"])
    root.mkdir()
    Ledger(root / "ledger.sqlite").set_limit("shop", 8, 1e-6)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.environ[fault.VARIABLE] = job.get("fault", "")
        if job.get("record"):
            record(root / "points")
        status = 1
        try:
            release_into(root, job.get("rows", 3), job.get("format", "parquet"))
            status = 0
        finally:
            os._exit(status)
    if "seconds" in job:
        time.sleep(job["seconds"])
        os.kill(child, signal.SIGKILL)
    _, ended = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(ended), "seconds": time.monotonic() - began}


def record(points: Path) -> None:
    """Write down every fault point that is passed."""

    def reached(name: str) -> None:
        with points.open("a") as file:
            file.write(name + "\n")

    fault.reached = reached


if __name__ == "__main__":
    json.dump([run(job) for job in json.loads(sys.argv[1])], sys.stdout)
