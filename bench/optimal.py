"""`python -m bench.optimal`: output sizes and distinct pairs by several solvers on the same invented instances.

Every solver runs in a process of its own (OR-tools and HiGHS cannot share one) with the same limit of time. For the
linear relaxation `value` is what was found and `bound` what our Lagrangian bound makes of PDLP's duals; for whole
counts `bound` is what the solver proved. Where the machine is shared, compare seconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

SIZES = {"paper": (6_000, 2_000), "middle": (60_000, 20_000), "large": (300_000, 50_000)}
EPSILON, DELTA = 0.7, 0.5
RELAXED = ("pdlp", "glop", "highs")
WHOLE = ("ours", "spe", "highs-milp")


def instance(pairs: int, users: int, seed: int = 1) -> Any:
    """Holdings of about so many pairs and users: a few popular pairs, many of two users, clicks as in AOL's log."""
    from querycloak.methods.optimal.holdings import of_counts

    random = np.random.default_rng(seed)
    activity = np.cumsum(random.lognormal(0, 1.1, users))
    popularity = np.cumsum(1 / np.arange(1, pairs + 1) ** 0.75)
    clicks = users * 12
    pair = np.searchsorted(popularity, random.random(clicks) * popularity[-1])
    pair = np.concatenate([pair, np.repeat(np.arange(pairs), 2)])
    user = np.searchsorted(activity, random.random(pair.size) * activity[-1])
    key, place = np.unique(pair * users + user, return_inverse=True)
    count = np.bincount(place, random.geometric(0.7, pair.size)).astype(np.int64)
    return of_counts(key // users, key % users, count)


def run(solver: str, kind: str, pairs: int, users: int, seconds: float) -> dict[str, Any]:
    """One solver on one instance."""
    from querycloak.methods.optimal.objectives import objective
    from querycloak.papers.output_counts.constraints import limit, packing

    held = instance(pairs, users)
    goal = objective(kind, held.totals)
    rows = packing(held, limit(EPSILON, DELTA), goal)
    works: dict[str, Any] = {
        "pdlp": _pdlp,
        "glop": _glop,
        "highs": _highs,
        "ours": _ours,
        "spe": _spe,
    }
    work = works.get(solver, _highs_milp)
    if solver == "ours":  # compiled code is there after the first release
        _ours(instance(40, 20), kind=kind)
    start, worked = time.perf_counter(), time.process_time()
    found = work(held, kind=kind, rows=rows, goal=goal, seconds=seconds, solver=solver)
    taken, worked = time.perf_counter() - start, time.process_time() - worked
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    times = {"seconds": round(taken, 2), "cpu_seconds": round(worked, 2), "peak_gb": round(memory, 2)}
    return {"pairs": held.pairs, "users": held.users, **times, **found}


def _pdlp(_held: Any, *, rows: Any, goal: Any, **_: Any) -> dict[str, Any]:
    from querycloak.papers.output_counts.solver import relax

    found = relax(rows, goal, whole=False)
    return {"value": found.value, "bound": found.bound}


def _matrix(rows: Any) -> Any:
    from scipy import sparse

    owner = np.repeat(np.arange(rows.pairs), np.diff(rows.starts))
    shares = rows.weight / rows.capacity[rows.row]
    return sparse.csr_matrix((shares, (rows.row, owner)), shape=(rows.capacity.size, rows.pairs))


def _most(goal: Any) -> float:
    return np.inf if goal.most is None else float(goal.most)


def _glop(_held: Any, *, rows: Any, goal: Any, seconds: float, **_: Any) -> dict[str, Any]:
    from ortools.linear_solver.python import model_builder_helper

    model = model_builder_helper.ModelBuilderHelper()
    size, number = rows.pairs, rows.capacity.size
    upper = np.full(size, _most(goal))
    model.fill_model_from_sparse_data(
        np.zeros(size), upper, np.ones(size), np.full(number, -np.inf), np.ones(number), _matrix(rows)
    )
    model.set_maximize(True)
    solver = model_builder_helper.ModelSolverHelper("GLOP")
    solver.set_time_limit_in_seconds(seconds)
    solver.solve(model)
    done = solver.has_solution()
    return {"value": solver.objective_value() if done else None, "bound": None}


def _highs(_held: Any, *, rows: Any, goal: Any, seconds: float, **_: Any) -> dict[str, Any]:
    from scipy.optimize import linprog

    found = linprog(
        -np.ones(rows.pairs),
        A_ub=_matrix(rows),
        b_ub=np.ones(rows.capacity.size),
        bounds=(0, _most(goal)),
        options={"time_limit": seconds},
    )
    return {"value": None if found.x is None else float(found.x.sum()), "bound": None}


def _ours(held: Any, *, kind: str, rows: Any = None, goal: Any = None, **_: Any) -> dict[str, Any]:
    from querycloak.methods.optimal.objectives import objective
    from querycloak.papers.output_counts.constraints import limit, packing
    from querycloak.papers.output_counts.solver import solve

    goal = goal or objective(kind, held.totals)
    rows = rows or packing(held, limit(EPSILON, DELTA), goal)
    found = solve(rows, goal)
    return {
        "value": int(found.value),
        "bound": found.bound,
        "holds": rows.holds(found.counts),
        "relaxed": round(found.relaxed.value, 1),
        "relaxed_bound": round(found.relaxed.bound, 1),
        "floored": int(goal.value(found.floored)),
    }


def _spe(_held: Any, *, rows: Any, goal: Any, **_: Any) -> dict[str, Any]:
    from querycloak.papers.output_counts.whole_counts import eliminate

    counts = eliminate(rows)
    return {"value": int(goal.value(counts)), "bound": None, "holds": rows.holds(counts)}


def _highs_milp(_held: Any, *, rows: Any, goal: Any, seconds: float, **_: Any) -> dict[str, Any]:
    from querycloak.reproduction.hong2012_tables import by_highs

    proved = by_highs(rows, goal, seconds)
    if proved.counts is None:
        return {"value": None, "bound": proved.bound, "holds": False}
    return {"value": int(proved.value), "bound": proved.bound, "holds": rows.holds(proved.counts)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.optimal", description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=60.0, help="what each solver may take")
    parser.add_argument("--solvers", nargs="+", choices=[*RELAXED, *WHOLE], default=[*RELAXED, *WHOLE])
    given = parser.parse_args()
    for size in given.sizes:
        for kind in ("size", "diversity"):
            for solver in given.solvers:
                with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                    report = pool.submit(run, solver, kind, *SIZES[size], given.seconds).result()
                print(
                    json.dumps({"bench": f"optimal {kind}", "instance": size, "solver": solver, **report}), flush=True
                )


if __name__ == "__main__":
    main()
