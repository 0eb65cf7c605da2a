"""Many processes on one ledger, and many runs with one output: nothing is overdrawn, nothing is paid twice."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

from bench.reliability import forked
from bench.reliability.finding import Finding
from querycloak.errors import BudgetRefused
from querycloak.methods.clicks.method import Clicks
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.accounting.gaussian_filter import GaussianCost
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.ledger.journal import LOWERED
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.payment import Bill, payment_of

LIMIT, RESERVED = (3.25, 2.4e-5), 0.01
"""Budget of a population, and squared loss of each reserve: about a hundred of them fit."""


def race_on_a_ledger(folder: Path, processes: int, runs: int) -> Finding:
    """Let processes charge as fast as they can, with a limit that pays for five eighths of it."""
    found = Finding(
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


def kill_on_a_ledger(folder: Path, kills: int, processes: int = 8, seed: int = 1) -> Finding:
    """Kill processes that reserve, draw and lower under a Gaussian limit; others take their places."""
    found = Finding(
        "killed on one ledger",
        f"{processes} processes reserve, draw, lower and complete under gaussian accounting; SIGKILL at random moments",
        "the limit is kept at every moment; nothing was drawn without a charge; the ledger verifies",
    )
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "drawn").mkdir(parents=True)
    ledger = Ledger(folder / "ledger")
    limit = ledger.set_limit("people", *LIMIT, accounting="gaussian").limit
    chance = random.Random(seed)
    children = [_start_spending(ledger, folder, number) for number in range(processes)]
    for number in range(kills):
        time.sleep(chance.uniform(0, 0.15))
        killed = children.pop(chance.randrange(len(children)))
        os.kill(killed, signal.SIGKILL)
        code = forked.ended(killed)
        found.expect(code == -signal.SIGKILL, f"kill {number}: exit {code}")
        found.runs += 1
        children.append(_start_spending(ledger, folder, processes + number))
    for child in children:
        os.kill(child, signal.SIGKILL)
        forked.ended(child)
    (account,) = ledger.show("people")
    found.expect(not ledger.verify(), "the ledger does not verify")
    drawn, paid = (
        {path.name for path in (folder / "drawn").iterdir()},
        {each.parameters["run"] for each in account.charges},
    )
    found.expect(drawn <= paid, f"{len(drawn - paid)} draws that nobody paid for")
    overdrawn = limit is None or _most_spent(ledger) > limit.squared
    found.expect(not overdrawn, "more was reserved at some moment than the limit allows")
    found.expect(bool(drawn), "nothing was drawn")
    refused = sum(path.read_text().count("refused") for path in folder.glob("said-*"))
    found.notes.append(f"{len(account.charges):,} charges, {len(drawn):,} draws, {refused:,} refused")
    return found


def _start_spending(ledger: Ledger, folder: Path, number: int) -> int:
    """Start a process that pays and draws until it is killed."""
    draws = [GaussianRounds(RESERVED, 1e-9).to_json()]
    bill = Bill("queries", user_guarantee(1.0, 1e-6, "a test"), {"mechanisms": draws})
    lowered = GaussianCost(RESERVED / 2, 1e-10)

    def spend() -> None:
        while True:
            try:
                accounting = payment_of(ledger, "people", bill).pay(None).accounting
            except BudgetRefused:
                print("refused", flush=True)
                time.sleep(0.02)
                continue
            (folder / "drawn" / str(accounting.run)).touch()
            accounting.lower(lowered)
            accounting.complete(hashlib.sha256(str(accounting.run).encode()).hexdigest())

    return forked.start_work(spend, folder / f"said-{number}", {})


def _most_spent(ledger: Ledger) -> float:
    """The most squared loss that was reserved at any moment, by the order of the journal."""
    reserved = {
        each.id: 0.0 if each.reserved is None else each.reserved.squared for each in ledger.show("people")[0].charges
    }
    spent = most = 0.0
    for entry in ledger._entries():
        if entry.what["what"] == "charge":
            spent += reserved[entry.what["charge"]]
        elif entry.what["what"] == LOWERED:
            spent += json.loads(entry.what["cost"])["squared_loss"] - reserved[entry.what["charge"]]
        most = max(most, spent)
    return most


def race_for_an_output(log: Path, folder: Path, processes: int) -> Finding:
    """Start the same release many times at once."""
    found = Finding(
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
