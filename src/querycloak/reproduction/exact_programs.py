"""The same whole programs by HiGHS, which proves a bound, given time: to see how far our search is from the best."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from querycloak.methods.optimal.objectives import FloatArray, Objective
from querycloak.papers.output_counts.constraints import Packing
from querycloak.papers.output_counts.solver import within_rows
from querycloak.privacy.sampling.randomness import IntArray


@dataclass(frozen=True, eq=False)
class Proved:
    """Counts that a solver found, and the bound that it proved; counts are None if it found none in time.

    The bound is computed in floats, with the solver's tolerance of 1e-6.
    """

    counts: IntArray | None
    value: float
    bound: float


def by_highs(rows: Packing, goal: Objective, seconds: float) -> Proved:
    """Branch and bound by HiGHS; for objectives without a value of a pair's being there.

    Variables: the count of each pair that can come out at all and, for a distance, how far each frequent one is off.
    """
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    if goal.diversity.any():
        raise TypeError("HiGHS is given sums of counts and of distances only")
    able = np.flatnonzero(rows.most)
    near = np.flatnonzero(goal.goal[able] >= 0) if goal.distance else np.zeros(0, np.int64)
    lost = goal.distance * float(goal.goal[(goal.goal >= 0) & (rows.most == 0)].sum())
    if able.size == 0:
        return Proved(np.zeros(rows.pairs, np.int64), -lost, -lost)
    owner = np.repeat(np.arange(rows.pairs), np.diff(rows.starts))
    shares = sparse.csr_matrix(
        (rows.weight / rows.capacity[rows.row], (rows.row, owner)), shape=(rows.capacity.size, rows.pairs)
    )[:, able]
    off = sparse.csr_matrix((np.ones(near.size), (np.arange(near.size), near)), shape=(near.size, able.size))
    unit, aims = sparse.identity(near.size, format="csr"), goal.goal[able][near]
    constraints = [
        LinearConstraint(sparse.hstack([shares, sparse.csr_matrix((shares.shape[0], near.size))]), -np.inf, 1.0)
    ]
    if near.size:
        constraints.append(LinearConstraint(sparse.hstack([off, -unit]), -np.inf, aims))
        constraints.append(LinearConstraint(sparse.hstack([off, unit]), aims, np.inf))
    if goal.total is not None:
        total = np.concatenate([np.ones(able.size), np.zeros(near.size)])[None]
        constraints.append(LinearConstraint(total, goal.total if goal.total_exact else -np.inf, goal.total))
    solved = milp(
        np.concatenate([np.full(able.size, -goal.size), np.full(near.size, goal.distance)]),
        constraints=constraints,
        integrality=np.concatenate([np.ones(able.size), np.zeros(near.size)]),
        bounds=Bounds(0, np.concatenate([rows.most[able].astype(np.float64), np.full(near.size, np.inf)])),
        options={"time_limit": seconds},
    )
    bound = math.inf if solved.mip_dual_bound is None else -float(solved.mip_dual_bound) - lost
    return Proved(*_counts(rows, goal, able, solved.x), bound)


def _counts(
    rows: Packing, goal: Objective, able: IntArray, solution: FloatArray | None
) -> tuple[IntArray | None, float]:
    """The whole counts of a solution within its tolerance, and their value; None if a total is missed by that."""
    if solution is None:
        return None, -math.inf
    counts = np.zeros(rows.pairs, dtype=np.int64)
    counts[able] = np.rint(solution[: able.size])
    counts = within_rows(rows, counts)
    if goal.total_exact and int(counts.sum()) != goal.total:
        return None, -math.inf
    return counts, goal.value(counts)
