"""`python -m bench.budgets NAME=LOG ...`: keys of a release under each way of accounting.

Logs must be synthetic or public. One limit, (3.25, 2.4e-5), for a number of equal releases of `queries`, made by the
product with a ledger of its own: by sums, by squared losses, the same with known keys, and by a plan for a series. A
row says how many releases the ledger would admit, and the mean number of keys of a release with two standard errors.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from querycloak.engines import connect
from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.queries.method import Queries
from querycloak.privacy.accounting.gaussian_filter import GaussianCost, GaussianLimit, cost_of
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.series import plan_series

EPSILON, DELTA = 3.25, 2.4e-5
NAME = "people"


@dataclass(frozen=True)
class Row:
    """Keys of one release: mean over runs, and two standard errors."""

    log: str
    way: str
    epsilon: float
    delta: float
    admitted: int | None
    keys: float
    two_errors: float


def main(words: list[str] | None = None) -> None:
    """Print a row for each log and way."""
    parser = argparse.ArgumentParser(prog="bench.budgets")
    parser.add_argument("logs", nargs="+", metavar="NAME=LOG")
    parser.add_argument("--releases", type=int, default=12)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--known-per-user", type=int, action="append", help="may be repeated; 16 if not given")
    given = parser.parse_args(words)
    sys.stdout.write(
        "| log | way | epsilon | delta | releases admitted | keys of a release |\n|---|---|---|---|---|---|\n"
    )
    for each in given.logs:
        name, _, path = each.partition("=")
        engine = connect("duckdb")
        with read(path, engine=engine) as log:
            for row in rows(name, log, given.releases, given.runs, given.known_per_user or [16]):
                admitted = "" if row.admitted is None else f"{row.admitted}"
                sys.stdout.write(
                    f"| {row.log} | {row.way} | {row.epsilon:.3g} | {row.delta:.2g} | {admitted} | "
                    f"{row.keys:.1f} ± {row.two_errors:.1f} |\n"
                )
                sys.stdout.flush()
        engine.close()


def rows(name: str, log: SearchLog, releases: int, runs: int, known: Sequence[int]) -> Iterator[Row]:
    """The ways on one log."""
    sums = EPSILON / releases, DELTA / releases * (1 - 1e-9)
    yield _row(name, "sums", log, Queries(epsilon=sums[0], delta=sums[1]), "sum", runs)
    method = _of_filter(releases)
    yield _row(name, "squared losses", log, method, "gaussian", runs)
    for most in known:
        yield _row(name, f"squared losses, {most} known keys of a user", log, method, "gaussian", runs, known=most)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger")
        ledger.set_limit(NAME, EPSILON, DELTA)
        plan, _ = plan_series(ledger, NAME, releases, EPSILON, DELTA)
        planned = Queries(**plan.options)
        keys = [planned.release(log, ledger=ledger, population=NAME)["queries"].num_rows for _ in range(runs)]
    epsilon, delta = planned.proven().numbers
    yield Row(name, "plan for a series", epsilon, delta, releases, float(np.mean(keys)), _two_errors(keys))


def _of_filter(releases: int) -> Queries:
    """The largest epsilon, to three digits, of which a Gaussian limit admits this number of releases."""
    limit, delta = GaussianLimit(EPSILON, DELTA), 2 * DELTA * 0.25 / releases * (1 - 1e-6)
    low, high = EPSILON / releases, EPSILON
    while high - low > 1e-3:
        middle = (low + high) / 2
        method = Queries(epsilon=round(middle, 4), delta=delta, accounting="gaussian")
        cost = cost_of(method.proven(), [draw.to_json() for draw in method.draws()])
        low, high = (middle, high) if limit.more(GaussianCost(), cost, releases) >= releases else (low, middle)
    return Queries(epsilon=int(low * 1000) / 1000, delta=delta, accounting="gaussian")


def _row(name: str, way: str, log: SearchLog, method: Queries, accounting: str, runs: int, *, known: int = 0) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger")
        account = ledger.set_limit(NAME, EPSILON, DELTA, accounting=accounting)
        bill = method.bill()
        admitted = account.more(bill.guarantee, cost_of(bill.guarantee, bill.parameters["mechanisms"]))
        keys: list[int] = []
        before: Path | None = None
        # The first release with known keys knows none: it is made, and not counted.
        for number in range(runs + bool(known)):
            now = method if before is None or not known else _with_known(method, before, known)
            release = now.release(log, ledger=ledger, population=NAME)
            before = release.save(Path(folder) / str(number)).folder
            keys += [release["queries"].num_rows] if number or not known else []
    epsilon, delta = method.proven().numbers
    return Row(name, way, epsilon, delta, admitted, float(np.mean(keys)), _two_errors(keys))


def _with_known(method: Queries, before: Path, per_user: int) -> Queries:
    if method.epsilon is None or method.delta is None:
        raise ParameterError("known keys need a budget")
    return Queries(
        epsilon=method.epsilon,
        delta=method.delta,
        accounting=method.accounting,
        known=str(before),
        known_per_user=per_user,
    )


def _two_errors(keys: list[int]) -> float:
    return float(2 * np.std(keys, ddof=1) / np.sqrt(len(keys))) if len(keys) > 1 else 0.0


if __name__ == "__main__":
    main()
