"""Many processes on one ledger, and many runs with one output: nothing is overdrawn, nothing is paid twice."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.reliability import forked
from bench.reliability.finding import FileOptions
from querycloak.errors import BudgetRefused
from querycloak.methods.clicks.method import Clicks
from querycloak.privacy.ledger.ledger import Ledger


def race_on_a_ledger(folder: Path, processes: int, runs: int) -> FileOptions:
    """Let processes charge as fast as they can, with a limit that pays for five eighths of it."""
    found = FileOptions(
        "many processes on one ledger",
        f"{processes} processes, {runs} charges each",
        "exactly as many charges as the limit allows",
    )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    method = Clicks(epsilon=1, delta=1e-6)
    payable = processes * runs * 5 // 8
    ledger = Ledger(folder / "ledger")
    ledger.set_limit("people", payable + 0.5, 0.5)

    def charge() -> None:
        for _ in range(runs):
            try:
                ledger.charge("people", method.proven(), method="clicks", parameters={})
            except BudgetRefused:
                continue

    children = [forked.start_work(charge, folder / f"said-{number}", {}) for number in range(processes)]
    codes = [forked.ended(child) for child in children]
    (account,) = ledger.show("people")
    found.runs = processes * runs
    found.expect(codes == [0] * processes, f"exit codes {codes}")
    found.expect(len(account.charges) == payable, f"{len(account.charges)} charges where {payable} can be paid")
    found.expect(not ledger.verify(), "the ledger does not verify")
    return found


def race_for_an_output(log: Path, folder: Path, processes: int) -> FileOptions:
    """Start the same release many times at once."""
    found = FileOptions(
        "one output, many runs", f"the same release started {processes} times at once", "one release, one charge"
    )
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    ledger = Ledger(folder / "ledger")
    ledger.set_limit("people", 1e6, 0.5)
    command = (
        "release", "clicks", str(log), "--log-format", "aol", "--epsilon", "4", "--delta", "1e-3", "--threads", "1",
        "--ledger", str(ledger.path), "--population", "people", "--out", str(folder / "out"), "--quiet",
    )  # fmt: skip
    settings = {"QUERYCLOAK_TMP": str(folder / "tmp")}
    children = [forked.start(command, folder / f"said-{number}", settings) for number in range(processes)]
    codes = sorted(forked.ended(child) for child in children)
    found.runs = processes
    found.expect(codes == [0] + [2] * (processes - 1), f"exit codes {codes}")
    charges = ledger.show("people")[0].charges
    found.expect(len(charges) == 1, f"{len(charges)} charges")
    return found
