"""How many keys each selection releases at one budget, and how far its counts are off: beside the paper's variant.

All figures here compare releases with the log itself: private output, unless the log is synthetic or public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.audits.guarantees.runs import in_memory
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.clicks.method import KEY as CLICK
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.keys.key_tables import UnboundedTables
from querycloak.methods.keys.partition_selection import count_keys, count_records
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.sampling.randomness import Randomness

PAPER_NOISE, PAPER_THRESHOLD = 1.0, 20
"""The run that Zhang and Yang report (ICTIR 2017, Table 4, second row), four keys per user in either table."""
STANDARD_BUDGETS = ((1.0, 1e-6), (3.0, math.exp(-10)), (8.0, 2.25e-7))
TABLES = ("clicks", "sessions")
KEYS = {"clicks": CLICK, "sessions": ("queries",)}
# Each selection with its own default bound.
TRIED: dict[str, dict[str, Any]] = {
    "auto (default)": {},
    "multi-round": {"selection": "multi-round"},
    "laplace": {"selection": "laplace"},
    "gaussian": {"selection": "gaussian"},
    "weighted": {"selection": "weighted"},
    "gaussian, public priors": {"selection": "gaussian", "priors": "public"},
    "weighted, public priors": {"selection": "weighted", "priors": "public"},
    "multi-round, public priors": {"selection": "multi-round", "priors": "public"},
}


@dataclass(frozen=True)
class Yield:
    """What one selection made of one table at one budget.

    volume: the share of all (user, key) pairs of the log whose key came out. The errors are of published counts
    against the number of users who hold the key, a count that noise took below 1 as 0; factor is keys over the
    paper's keys.
    """

    table: str
    epsilon: float
    delta: float
    selection: str
    keys: int
    volume: float
    median_error: float
    median_relative_error: float
    factor: float | None


def yields(
    log: SearchLog,
    *,
    budgets: Sequence[tuple[float, float]] | None = None,
    tables: Sequence[str] = TABLES,
    tried: Sequence[str] = tuple(TRIED),
    randomness: Randomness | None = None,
    on_row: Callable[[Yield], None] | None = None,
) -> pa.Table:
    """One row for each table, budget and selection; the paper's variant first."""
    drawing = randomness or Randomness()
    rows = []
    for table in tables:
        measured = _Measured(log, table, drawing)
        for row in measured.rows(budgets or (paper_budget(table), *STANDARD_BUDGETS), tried):
            rows.append(row)
            if on_row is not None:
                on_row(row)
    return pa.Table.from_pylist([asdict(row) for row in rows])


def paper_budget(table: str) -> tuple[float, float]:
    """What is proven of the paper's own run."""
    proven = _paper(table, noise=PAPER_NOISE, threshold=PAPER_THRESHOLD).proven()
    return float(proven.epsilon or 0), float(proven.delta or 0)


def _paper(table: str, **given: Any) -> Clicks | Sessions:
    return _method(table, variant="paper", **given)


def _method(table: str, **given: Any) -> Clicks | Sessions:
    return Clicks(**given) if table == "clicks" else Sessions(no_clicks=True, **given)


def _rows(_: str, released: pa.Table) -> pa.Table:
    """A table without its last touch: sequences stay texts."""
    return released


def _plan(method: Clicks | Sessions) -> TablePlan:
    return method.plans[method.name]


class _Measured:
    """One table of a log: what users hold is read once, then released again and again."""

    def __init__(self, log: SearchLog, table: str, randomness: Randomness) -> None:
        self._log, self._table, self._key, self._randomness = log, table, KEYS[table], randomness
        self._staged: dict[Any, ir.Table] = {}
        held = self._contributions(_method(table, epsilon=1.0, delta=1e-6, selection="multi-round"))
        self._true = log.engine.stage(held.group_by(list(self._key)).agg(users=held.count()))
        self._pairs = log.engine.fetch(self._true.agg(pairs=self._true.users.sum()))["pairs"][0].as_py() or 0

    def rows(self, budgets: Sequence[tuple[float, float]], tried: Sequence[str]) -> Iterator[Yield]:
        for epsilon, delta in budgets:
            own = (epsilon, delta) == paper_budget(self._table)
            given = (
                {"noise": PAPER_NOISE, "threshold": PAPER_THRESHOLD} if own else {"epsilon": epsilon, "delta": delta}
            )
            paper = self._released("paper", _paper(self._table, **given), epsilon, delta, None)
            yield paper
            for name in tried:
                method = _method(self._table, epsilon=epsilon, delta=delta, **TRIED[name])
                yield self._released(name, method, epsilon, delta, paper.keys)

    def _released(self, name: str, method: Clicks | Sessions, epsilon: float, delta: float, paper: int | None) -> Yield:
        released = self._drawn(method)
        known = self._log.engine.upload(released)
        true = self._log.engine.fetch(known.inner_join(self._true, list(self._key)).select("count", "users"))
        users = true["users"].to_numpy()
        errors = np.abs(true["count"].fill_null(0).to_numpy() - users)
        return Yield(
            table=self._table,
            epsilon=epsilon,
            delta=delta,
            selection=name,
            keys=released.num_rows,
            volume=float(users.sum() / max(self._pairs, 1)),
            median_error=float(np.median(errors)) if errors.size else math.nan,
            median_relative_error=float(np.median(errors / users)) if errors.size else math.nan,
            factor=released.num_rows / paper if paper else None,
        )

    def _drawn(self, method: Clicks | Sessions) -> pa.Table:
        if method.plan.candidates:
            counted_at_any = method.count(self._log)
            if not isinstance(counted_at_any, UnboundedTables):
                raise TypeError("auto counts tables at any bound")
            return in_memory(replace(counted_at_any, published=_rows).draw(self._randomness).tables[self._table])
        counting = count_records if method.variant == "paper" else count_keys
        counted = counting(self._log.engine, self._contributions(method), self._key, _plan(method))
        return counted.release(self._randomness).table

    def _contributions(self, method: Clicks | Sessions) -> ir.Table:
        """What users hold, staged once for all methods that bound it alike."""
        parameters = method.parameters()
        kind = (method.variant, parameters["priors"], parameters.get("queries_per_session"))
        bounds = (_plan(method).per_user, parameters.get("sessions_per_user")) if method.variant == "paper" else ()
        if (*kind, *bounds) not in self._staged:
            held = method.contributions(self._log)[self._table]
            self._staged[(*kind, *bounds)] = self._log.engine.stage(held)
        return self._staged[(*kind, *bounds)]
