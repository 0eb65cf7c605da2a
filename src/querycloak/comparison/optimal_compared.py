"""The default of `optimal` beside the paper variant, at several budgets, in every measure: private output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from querycloak.errors import InputError
from querycloak.evaluation.tasks.pair_measures import values
from querycloak.evaluation.tasks.pair_values import output_of
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.optimal.paper.holdings import of_log
from querycloak.privacy.sampling.randomness import Randomness

BUDGETS = ((math.log(2.0), 0.5), (math.log(1.1), 0.1), (8.0, 1e-7))
"""Two of the paper's own, and one that protects."""


def compare_variants(
    log: SearchLog,
    supports: Sequence[float],
    *,
    budgets: Sequence[tuple[float, float]] = BUDGETS,
    randomness: Randomness | None = None,
) -> Iterator[dict[str, Any]]:
    """One row for each variant, budget and support; where nothing can be released, why."""
    held = of_log(log)
    for epsilon, delta in budgets:
        for variant in ("default", "paper"):
            method = Optimal(epsilon=epsilon, delta=delta, variant=variant)
            row = {"variant": variant, "epsilon": epsilon, "delta": delta, "kind": method.proven().kind}
            try:
                table = method.release(log, randomness=randomness).table("log")
            except InputError as nothing:
                yield row | {"nothing": str(nothing)}
                continue
            output = output_of(held, table)
            for support in supports:
                yield row | {"rows": output.size, "support": support, **values(held, output, support)}
