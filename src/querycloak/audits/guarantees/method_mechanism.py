"""A method of ours as a mechanism: a log is written, read, bounded and counted once, then drawn from many times."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from querycloak.audits.guarantees import method_runs, method_steps, phrase_levels, synthetic_parts  # noqa: F401 (they register)
from querycloak.audits.guarantees.mechanism import Outcomes
from querycloak.audits.guarantees.remembering_engine import RememberingEngine
from querycloak.audits.guarantees.runs import DrawnRuns, draw_runs
from querycloak.audits.guarantees.steps import Past, Step, steps_of
from querycloak.audits.guarantees.user_rows import read_for
from querycloak.engines import Engine
from querycloak.errors import QuerycloakError
from querycloak.files.locked_folder import PrivateFolder
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Counted, Method
from querycloak.privacy import order
from querycloak.privacy.sampling.randomness import Randomness

EXIT_CODE = "exit code"
_ROWS_AT_ONCE = 2_000_000
_LEAST_RUNS_AT_ONCE = 50
_LOGS_KEPT = 12


class MethodMechanism:
    """A method, tested on logs; a log is the content of a file in AOL's format.

    Use it in a `with` block, or `close()` it: its engine has a private folder. `failure` is the last error that ended
    a run.
    """

    def __init__(self, method: Method, randomness: Randomness | None = None) -> None:
        self.method, self._randomness = method, randomness or Randomness()
        self._folder, self._engine = PrivateFolder(), RememberingEngine()
        self._counted: dict[str, Counted] = {}
        self._steps: dict[str, dict[Past, Sequence[Step]]] = {}
        self._queries: dict[str, frozenset[str]] = {}
        self.failure: Exception | None = None
        self._logs = 0

    def __enter__(self) -> MethodMechanism:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the engine and remove the logs."""
        self._engine.close()
        self._folder.remove()

    def outcomes(self, data: str, runs: int) -> Outcomes:
        """Outcomes of many draws: counts by table and key, choices of the draw, and the exit code."""
        try:
            counted = self.counted(data)
        except Exception as error:  # broad: whatever ends a release is an outcome, seen from outside
            self.failure = error
            return _exit_codes(runs, error)
        at_once = max(_LEAST_RUNS_AT_ONCE, _ROWS_AT_ONCE // max(1, data.count("\n")))
        lots = [min(at_once, runs - first) for first in range(0, runs, at_once)]
        try:
            return Outcomes.one_after_another([self._drawn(counted, lot) for lot in lots])
        except Exception as error:  # broad: as above; kept to be shown, and looked at run by run
            self.failure = error
        # Which of the runs failed is not known, so each is drawn by itself.
        return Outcomes.one_after_another([self._drawn_or_failed(counted) for _ in range(runs)])

    def _drawn(self, counted: Counted, runs: int) -> Outcomes:
        # Runs that are drawn one by one may each ask for something else: keeping it all would fill the memory.
        one_by_one = draw_runs.dispatch(type(counted)) is draw_runs.dispatch(object)
        with order.drawing(), contextlib.nullcontext() if one_by_one else self._engine.remembering():
            return _outcomes(draw_runs(counted, self._randomness, runs))

    def _drawn_or_failed(self, counted: Counted) -> Outcomes:
        try:
            return self._drawn(counted, 1)
        except Exception as error:  # broad: as above
            return _exit_codes(1, error)

    def steps(self, data: str, past: Past) -> Sequence[Step]:
        """Values that the method adds noise to; empty if it cannot show them. Kept as long as the log is."""
        counted = self.counted(data)
        neighbours = list(self._counted)[-2:]  # the two logs used last
        for log in neighbours:
            if log not in self._queries:
                self._queries[log] = method_steps.queries_of(self._counted[log])
        # A past is equal for both neighbours: also a query that only one of them holds came out for both.
        past = replace(past, queries=frozenset().union(*(self._queries[log] for log in neighbours)))
        steps = self._steps.setdefault(data, {})
        if past not in steps:
            with self._engine.remembering():
                steps[past] = steps_of(counted, past)
        return steps[past]

    def counted(self, data: str) -> Counted:
        """The log, read and counted as for a release; the last few are kept."""
        if data in self._counted:
            self._counted[data] = self._counted.pop(data)  # the one used last stays longest
        else:
            while len(self._counted) >= _LOGS_KEPT:
                oldest = next(iter(self._counted))
                del self._counted[oldest]
                self._steps.pop(oldest, None)
                self._queries.pop(oldest, None)
            log = self.opened(data)
            with order.counting():
                counted = self.method.count(log)
                log.checked(guaranteed=self.method.proven().kind != "syntactic")
            self._counted[data] = counted
        return self._counted[data]

    def opened(self, data: str) -> SearchLog:
        """The log, on an engine that stays."""
        self._logs += 1
        path = Path(self._folder.path) / f"log-{self._logs}.tsv"
        path.write_text(data, encoding="utf-8", errors="surrogateescape")
        return self.reading(path, self._engine)

    def reading(self, path: Path, engine: Engine) -> SearchLog:
        """Reading options of the log."""
        return read_for(self.method, path, engine)


def _exit_codes(runs: int, error: Exception) -> Outcomes:
    """Exit codes of runs that end with an error; 1 for an unforeseen one."""
    code = error.exit_code if isinstance(error, QuerycloakError) else 1
    return Outcomes.of_numbers(**{EXIT_CODE: np.full(runs, code)})


def _outcomes(drawn: DrawnRuns) -> Outcomes:
    parts = []
    for kind, table in drawn.tables.items():
        # Names of users are drawn at random: rows of one text are counted instead.
        unnamed = table.drop_columns(["user"]) if "user" in table.column_names else table
        parts.append(Outcomes.of_table(drawn.number, unnamed, kind))
    parts.append(Outcomes.of_numbers(**{EXIT_CODE: np.zeros(drawn.number)}))
    for name in sorted({name for values in drawn.parameters for name in values}):
        values = np.array([_number(answer.get(name)) for answer in drawn.parameters])
        if drawn.answer.size and len(np.unique(values[~np.isnan(values)])) > 1:
            parts.append(Outcomes.of_numbers(**{f"parameter {name}": values[drawn.answer]}))
    return Outcomes.side_by_side(parts)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else np.nan
