"""The mechanism of Sanchez et al. (2018) as published: the paper variant of `semantic`.

Concepts are replaced inside the query, with the paper's exponent; everything around them comes out as it was typed
(methods/semantic/semantic.md, paper variant).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from querycloak.errors import ParameterError
from querycloak.methods.semantic.method import NOISY_COUNTS, ONE_DOMAIN, SINGLE_QUERIES, Semantic
from querycloak.privacy.guarantee import Guarantee
from querycloak.releases.row_kinds import RowKind

if TYPE_CHECKING:
    from querycloak.papers.rebuilt_queries import RebuiltQueries


@dataclass(frozen=True, kw_only=True)
class PaperSemantic(Semantic):
    """Concepts of every phrase replaced in their place, epsilon divided among a user's concepts."""

    def check_histogram(self) -> None:
        """Refuse a histogram, which the paper has only as a baseline."""
        super().check_histogram()
        raise ParameterError(NOISY_COUNTS)

    def check_bounded_draws(self) -> None:
        """Refuse fewer candidates, and a bound on queries."""
        if self.candidates is not None:
            raise ParameterError(ONE_DOMAIN)
        if self.max_queries is not None:
            raise ParameterError(SINGLE_QUERIES)

    @property
    def chooses(self) -> bool:
        """False: the paper draws from the domain that is named."""
        return False

    @property
    def one_loss(self) -> bool:
        """False: a query may have several draws, within words that are not drawn."""
        return False

    @property
    def shared_out(self) -> bool:
        """False: epsilon is divided among as many concepts as a user has."""
        return False

    @property
    def similarity(self) -> None:
        """None: similarities are computed for the default variant alone."""

    @property
    def rows(self) -> RowKind:
        """Queries with new concepts in them."""
        return RowKind.REBUILT

    @property
    def row_note(self) -> str:
        """Worth of a row's text."""
        return "Concepts in a row were drawn at random; all other words are somebody's own, as they were typed."

    @property
    def mechanism(self) -> type[RebuiltQueries]:
        """The class that draws."""
        from querycloak.papers.rebuilt_queries import RebuiltQueries

        return RebuiltQueries

    def claimed(self) -> Guarantee:
        """Claim of Sanchez et al."""
        return Guarantee(
            kind="pure-dp",
            unit=self.budget_per,
            neighbours="replace-query",
            epsilon=self.epsilon,
            unprotected=("the topic of each query",) if self.several_domains else (),
            because="exponential mechanism over concepts, epsilon divided among a user's queries (Sanchez et al.)",
        )

    def proven(self) -> Guarantee:
        """Guarantee that semantic.md proves: of the draws, not of the words around them."""
        return replace(super().proven(), kind="sampling-only")

    def unprotected(self) -> tuple[str, ...]:
        """Unprotected facts of the default, and all words around concepts."""
        return (
            *super().unprotected(),
            "every other word of a phrase that has a concept: it comes out as typed, names and numbers too",
            "plural forms, how many concepts a query has, and which queries have none",
        )
