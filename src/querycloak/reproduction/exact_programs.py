"""The same whole programs for solvers that can prove an optimum, given time: to see how far ours are from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from querycloak.methods.optimal.objectives import Objective
from querycloak.papers.output_counts.constraints import Packing
from querycloak.privacy.sampling.randomness import IntArray


@dataclass(frozen=True, eq=False)
class Proved:
    """What a solver found, and the bound that it proved."""

    counts: IntArray
    value: float
    bound: float


def by_cp_sat(rows: Packing, goal: Objective, seconds: float, begun: IntArray | None = None) -> Proved:
    """CP-SAT on the very whole numbers of the constraints; for objectives that are a plain sum of counts."""
    from ortools.sat.python import cp_model

    _check_linear(goal)
    model = cp_model.CpModel()
    able = np.flatnonzero(rows.most)
    counts = {int(pair): model.new_int_var(0, int(rows.most[pair]), "") for pair in able}
    for row, (pairs, weights) in _by_row(rows, able).items():
        model.add(
            cp_model.LinearExpr.weighted_sum([counts[pair] for pair in pairs], weights) <= int(rows.capacity[row])
        )
    everything = cp_model.LinearExpr.sum(list(counts.values()))
    if goal.total is not None:
        model.add(everything <= goal.total)
    model.maximize(everything)
    if begun is not None:
        for pair, variable in counts.items():
            model.add_hint(variable, int(begun[pair]))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    found = np.zeros(rows.pairs, dtype=np.int64)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found[able] = [solver.value(counts[int(pair)]) for pair in able]
    return Proved(found, goal.value(found), float(solver.best_objective_bound) if able.size else 0.0)


def by_scip(rows: Packing, goal: Objective, seconds: float) -> Proved:
    """SCIP, in floats: it finds counts that overload rows by its tolerance, and such units are taken out again."""
    from ortools.linear_solver import pywraplp

    _check_linear(goal)
    solver: Any = pywraplp.Solver.CreateSolver("SCIP")
    solver.SetTimeLimit(round(seconds * 1000))
    able = np.flatnonzero(rows.most)
    counts = {int(pair): solver.IntVar(0, int(rows.most[pair]), "") for pair in able}
    for row, (pairs, weights) in _by_row(rows, able).items():
        constraint = solver.Constraint(-solver.infinity(), 1.0)
        for pair, weight in zip(pairs, weights, strict=True):
            constraint.SetCoefficient(counts[pair], weight / int(rows.capacity[row]))
    aim = solver.Objective()
    for variable in counts.values():
        aim.SetCoefficient(variable, 1.0)
    aim.SetMaximization()
    status = solver.Solve()
    found = np.zeros(rows.pairs, dtype=np.int64)
    if status in (solver.OPTIMAL, solver.FEASIBLE):
        found[able] = [round(counts[int(pair)].solution_value()) for pair in able]
    found = _within(rows, found)
    return Proved(found, goal.value(found), float(aim.BestBound()) if able.size else 0.0)


def _within(rows: Packing, counts: IntArray) -> IntArray:
    """The counts without the units that overload a row, the heaviest of the most overloaded row first."""
    owner = np.repeat(np.arange(rows.pairs), np.diff(rows.starts))
    while not rows.holds(counts):
        worst = int(np.argmax(rows.loads(counts) - rows.capacity))
        entries = np.flatnonzero((rows.row == worst) & (counts[owner] > 0))
        counts[owner[entries[np.argmax(rows.weight[entries])]]] -= 1
    return counts


def _check_linear(goal: Objective) -> None:
    if goal.distance or goal.diversity.any() or goal.size != 1:
        raise TypeError("exact solvers are given plain sums of counts only")


def _by_row(rows: Packing, able: IntArray) -> dict[int, tuple[list[int], list[int]]]:
    """The pairs and weights of each row that two pairs or more share; others are in the limits of counts already."""
    owner = np.repeat(np.arange(rows.pairs), np.diff(rows.starts))
    kept = np.isin(owner, able)
    row, owner, weight = rows.row[kept], owner[kept], rows.weight[kept]
    order = np.argsort(row, kind="stable")
    row, owner, weight = row[order], owner[order], weight[order]
    number, begins = np.unique(row, return_index=True)
    ends = np.append(begins, row.size)[1:]
    return {
        int(one): (owner[begin:end].tolist(), weight[begin:end].tolist())
        for one, begin, end in zip(number, begins, ends, strict=True)
        if end - begin > 1 or int(rows.most[owner[begin]]) * int(weight[begin]) > int(rows.capacity[one])
    }
