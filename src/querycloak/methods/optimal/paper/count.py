"""Output counts that a program found, for which users are drawn (optimal.md, paper variant)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from querycloak.methods.method import Drawn
from querycloak.methods.optimal.drawn_rows import log_table, named, sample
from querycloak.methods.optimal.paper.holdings import Holdings, of_log
from querycloak.methods.optimal.paper.solver import Solution

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.method import Optimal
    from querycloak.privacy.sampling.randomness import Randomness


@dataclass(frozen=True)
class SolvedPairs:
    """Who holds which pair, and how often each comes out."""

    method: Optimal
    held: Holdings
    solution: Solution

    @classmethod
    def of(cls, method: Optimal, log: SearchLog) -> SolvedPairs:
        """Read the log and solve."""
        held = of_log(log)
        return cls(method, held, method.solve(held))

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw users for the counts."""
        pair, user, count = sample(self.held, self.solution.counts, randomness)
        table = log_table(self.held.keys, pair, named(user, randomness), count)
        remark = self.solution.remark(self.method.objective)
        return Drawn({"log": table}, counts="sampled", rows="drawn", remarks=[remark])
