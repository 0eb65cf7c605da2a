"""A crash leaves a whole release or none, never an uncharged one."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from querycloak.privacy.ledger.ledger import Ledger
from querycloak.releases.folder import reconcile
from querycloak.releases.loading import load
from tests.unit.releases.making import a_release

ROOT = Path(__file__).parents[3]
FILES = ["queries.parquet", "README.md", "croissant.json", "card.json"]
STEPS = ["charge", *[f"{verb} {file}" for file in FILES for verb in ("write", "sync")]]
STEPS += ["announce", "sync folder", "rename", "sync parent", "complete"]
POINTS = [f"{when} {step}" for step in STEPS for when in ("before", "after")]
ROWS = 60_000


def run(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.unit.releases.crashing", json.dumps(jobs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ)
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def look_at(root: Path) -> tuple[bool, int, str]:
    """Whether there is a release, how many charges, and what the ledger says of the first; all of it sound."""
    (account,) = Ledger(root / "ledger.sqlite").show()
    there = (root / "out").exists()
    if there:
        release = load(root / "out")
        assert release.table("queries").num_rows > 0
        assert release.accounting.charge == account.charges[0].id
    if there or (root / "drawn").exists():
        assert account.charges, "drawn without a charge"
    if account.charges and account.charges[0].status == "released":
        assert there
    return there, len(account.charges), account.charges[0].status if account.charges else ""


def tidy_afterwards(root: Path) -> None:
    """The next release in the same parent removes what the dead one left."""
    a_release().save(root / "next")
    # SQLite leaves an empty journal of a process that died before its first write; the next charge takes it over.
    ours = {"ledger.sqlite", "ledger.sqlite-journal", "drawn", "points", "out", "next"}
    left = {path.name for path in root.iterdir()} - ours
    assert not left
    load(root / "next")


def test_these_are_all_the_points(tmp_path: Path) -> None:
    (result,) = run([{"root": str(tmp_path / "all"), "record": True}])
    assert result["code"] == 0
    passed = (tmp_path / "all" / "points").read_text().splitlines()
    assert sorted(passed) == sorted(POINTS)
    assert passed.index("after charge") < passed.index("before write queries.parquet")
    assert passed.index("after sync folder") < passed.index("before rename")
    assert passed.index("after sync parent") < passed.index("before complete")


@pytest.mark.parametrize("format_name", ["parquet", "tsv"])
def test_killed_at_every_point(tmp_path: Path, format_name: str) -> None:
    points = [point.replace("parquet", format_name) for point in POINTS]
    jobs = [
        {"root": str(tmp_path / str(number)), "fault": point, "format": format_name}
        for number, point in enumerate(points)
    ]
    for job, result in zip(jobs, run(jobs), strict=True):
        assert result["code"] == -9, job["fault"]
        renamed = points.index(job["fault"]) >= points.index("after rename")
        charged = job["fault"] != "before charge"
        status = "released" if job["fault"] == "after complete" else "no release"
        expected = (renamed, int(charged), status if charged else "")
        assert look_at(Path(job["root"])) == expected, job["fault"]
        # Whoever looks next finds a release that its own process did not live to report, and only then.
        unreported = renamed and status == "no release"
        assert reconcile(Ledger(Path(job["root"]) / "ledger.sqlite")) == int(unreported), job["fault"]
        if renamed:
            assert look_at(Path(job["root"])) == (True, 1, "released")
        tidy_afterwards(Path(job["root"]))


def test_killed_at_random_moments(tmp_path: Path) -> None:
    (whole,) = run([{"root": str(tmp_path / "whole"), "rows": ROWS}])
    assert whole["code"] == 0
    moments = random.Random(20)
    jobs: list[dict[str, Any]] = [
        {"root": str(tmp_path / str(number)), "rows": ROWS, "seconds": moments.uniform(0, 1.1 * whole["seconds"])}
        for number in range(20)
    ]
    results = run(jobs)
    seen = [look_at(Path(job["root"])) for job in jobs]
    assert {result["code"] for result in results} <= {-9, 0}
    assert sum(result["code"] == -9 for result in results) >= 5, "most should die on the way"
    for job, (there, _, status), result in zip(jobs, seen, results, strict=True):
        if result["code"] == 0:
            assert there
            assert status == "released"
        tidy_afterwards(Path(job["root"]))
