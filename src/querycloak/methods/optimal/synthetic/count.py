"""Pairs of bounded users, from which synthetic users are made (optimal.md, default variant)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.methods.method import Drawn
from querycloak.methods.noiseless import Noiseless, Past, Step
from querycloak.methods.optimal.synthetic.noisy_tables import bounded, draw_tables, draw_tables_of_runs, steps_of
from querycloak.methods.optimal.synthetic.plan import SyntheticPlan
from querycloak.methods.runs import DrawnRuns, RepeatedDraw, numbered

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.method import Optimal
    from querycloak.privacy.sampling.randomness import Randomness


@dataclass(frozen=True)
class BoundedPairs(RepeatedDraw, Noiseless):
    """What each user adds, in the engine."""

    method: Optimal
    plan: SyntheticPlan
    engine: Engine
    contributions: ir.Table

    @classmethod
    def of(cls, method: Optimal, plan: SyntheticPlan, log: SearchLog) -> BoundedPairs:
        """Bound every user of the log."""
        return cls(method, plan, log.engine, bounded(log, plan.per_user))

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw the noisy tables; the log is not read after that."""
        tables = draw_tables(self.engine, self.contributions, self.plan, randomness)
        return Drawn({"log": self.method.made_up(tables, randomness)}, counts="synthetic", rows="made-up")

    def draw_runs(self, randomness: Randomness, runs: int) -> DrawnRuns:
        """Noisy tables of all runs, then made-up users for each."""
        tables = draw_tables_of_runs(self.engine, self.contributions, self.plan, randomness, runs)
        made = [numbered(self.method.made_up(each, randomness), run) for run, each in enumerate(tables)]
        return DrawnRuns(runs, {"log": pa.concat_tables(made)})

    def steps(self, past: Past) -> Sequence[Step]:
        """Counts of pairs; of pairs per user and of associations among those that are supposed to have come out."""
        return steps_of(self.engine, self.contributions, self.plan, past)
