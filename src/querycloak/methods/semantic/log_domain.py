"""A domain from the log: selected queries are the candidates, randomised response draws the rows (log_domain.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from querycloak.errors import ParameterError
from querycloak.methods.method import Counted
from querycloak.methods.semantic.choice import Chosen
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.parameters import share
from querycloak.privacy.sampling.exact import exp_minus, rounded_down, stated
from querycloak.releases.row_kinds import RowKind

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.queries.method import Queries
    from querycloak.privacy.calibration.accuracy import TableAccuracy

DEFAULT_SHARE = 0.1


class LogBudget(NamedTuple):
    """Epsilon divided between selection and rows; the budget of the selection for adding or removing a user."""

    selecting: float
    drawing: float
    of_one_user: tuple[float, float]

    @classmethod
    def of(cls, epsilon: float, delta: float, part: float) -> LogBudget:
        """Claim 1: two steps of (a, d) are (2a, (1 + e^a) d)."""
        half = rounded_down(stated(epsilon) * stated(part) / 2)
        drawing = rounded_down(stated(epsilon) - 2 * stated(half))
        bits = 64 + 2 * math.ceil(half)
        grown = Fraction(1 << bits, exp_minus(stated(half), bits)[0])  # at least e^a
        return cls(2 * half, drawing, (half, rounded_down(stated(delta) / (1 + grown))))


@dataclass(frozen=True, kw_only=True)
class LogSemantic(Semantic):
    """Queries that many users asked as candidates; each row is what was asked, or any other of them."""

    def check_bounded_draws(self) -> None:
        """Refuse options that are about a taxonomy, and a budget without delta or bound."""
        about_taxonomy = (self.criterion, self.domain, self.candidates, self.topics)
        others = self.repeats, self.times, self.budget_per, self.taxonomy, self.any_language
        if any(each is not None for each in about_taxonomy) or others != ("draw", "drop", "user", "wordnet", False):
            raise ParameterError.of(
                "{variant:log} takes {epsilon}, {delta}, {max_queries} and {selection_share} alone: its candidates "
                "are queries of the log, and rows have no times"
            )
        if self.delta is None:
            raise ParameterError.of("{variant:log} needs {delta}, such as {delta:1e-6}: it selects queries")
        if self.selection_share is not None:
            share("selection_share", self.selection_share, "give the part of epsilon that selects, such as 0.1")

    @cached_property
    def split(self) -> LogBudget:
        """The budgets of selection and rows."""
        part = DEFAULT_SHARE if self.selection_share is None else self.selection_share
        return LogBudget.of(self.budget, self.delta or 0.0, part)

    @cached_property
    def selection(self) -> Queries:
        """The method that selects candidates."""
        from querycloak.methods.queries.method import Queries

        epsilon, delta = self.split.of_one_user
        return Queries(epsilon=epsilon, delta=delta)

    @property
    def chosen(self) -> Chosen:
        """Candidates from the log, by nsqc: all but the query itself are equally likely."""
        return Chosen("log", None, "nsqc")

    @property
    def loss(self) -> float:
        """The most that one draw may lose."""
        from querycloak.methods.semantic.choice import MOST_LOSS

        return min(math.nextafter(self.split.drawing / (self.max_queries or 1), 0.0), MOST_LOSS)

    @property
    def asks_language(self) -> bool:
        """False: no word is looked up."""
        return False

    @property
    def rows(self) -> RowKind:
        """Row kind: the query that was asked, or another in its place."""
        return RowKind.RANDOMISED

    @property
    def campaign(self) -> None:
        """None, because every release selects anew."""

    def unprotected(self, selected: Sequence[str] | None = None) -> tuple[str, ...]:
        """The facts of every semantic release, and the effect of several accounts on the selection.

        selected: unprotected facts of the setting that the selection chose; None before the choice.
        """
        facts = self.selection.proven().unprotected if selected is None else selected
        return (*super().unprotected(), *(each for each in facts if each not in ALWAYS))

    def check_inputs(self) -> None:
        """Refuse a budget that cannot select."""
        self.selection.proven()

    def parameters(self) -> dict[str, Any]:
        """Given options, and the two parts of the budget."""
        return {
            **super().parameters(),
            "taxonomy": None,
            "selection_share": DEFAULT_SHARE if self.selection_share is None else self.selection_share,
            "selection_epsilon": self.split.selecting,
            "selection_budget_of_one_user": list(self.split.of_one_user),
            "draw_loss": self.loss,
        }

    def _because(self) -> str:
        return (
            f"queries are selected with epsilon {self.split.selecting:g} and this delta for replacing a user's texts, "
            f"rows are drawn by randomised response with epsilon {self.split.drawing:g}, and the two add up "
            "(log_domain.md)"
        )

    @property
    def row_note(self) -> str:
        """Worth of a row's text."""
        return (
            "A row is what was asked or, with the chance that totals states, any other candidate; (other) stands for "
            "all queries that are no candidates."
        )

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Rows have no counts; the accuracy of the selection has the users that a candidate needs."""
        from querycloak.methods.counted_users import NO_COUNT
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        return {"log": TableAccuracy(NO_COUNT, notes=(self.row_note,))}

    def count(self, log: SearchLog) -> Counted:
        """Count queries for the selection, and keep the searches."""
        from querycloak.methods.semantic.log_rows import LogRows
        from querycloak.methods.semantic.searches import staged_searches

        searches = staged_searches(log)
        counted = self.selection.count(log)
        log.checked(guaranteed=True)
        return LogRows(log.engine, searches, self, counted)
