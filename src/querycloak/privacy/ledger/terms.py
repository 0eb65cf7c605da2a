"""Accounting of a population: sums of epsilon and delta, or squared Gaussian losses (accounting/filter.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from querycloak.errors import ParameterError
from querycloak.files.documents import parsed_json
from querycloak.privacy.parameters import one_of, refuse, share
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.privacy.accounting.gaussian_filter import GaussianLimit

ACCOUNTINGS = ("sum", "gaussian")


@dataclass(frozen=True)
class Terms:
    """The accounting of a population, fixed with its first charge.

    additive_share: the part of the limit's delta for own keys and exceptions; None with sums.
    """

    accounting: str = "sum"
    additive_share: float | None = None

    def __post_init__(self) -> None:
        one_of("accounting", self.accounting, ACCOUNTINGS)
        if self.accounting == "sum" and self.additive_share is not None:
            raise ParameterError.of("{additive_share} goes with {accounting:gaussian}; leave it out with sums")
        if self.accounting == "gaussian":
            given = 0.25 if self.additive_share is None else self.additive_share
            object.__setattr__(self, "additive_share", share("additive_share", given, "such as 0.25"))

    @property
    def is_sum(self) -> bool:
        """True if epsilons and deltas are added up."""
        return self.accounting == "sum"

    def limit(self, epsilon: float, delta: float) -> GaussianLimit | None:
        """The limit on squared losses and additive deltas; None with sums."""
        if self.additive_share is None:
            return None
        from querycloak.privacy.accounting.gaussian_filter import GaussianLimit

        if not delta > 0:
            refuse("delta", "above 0 for squared Gaussian losses", delta, Sentence("or take {accounting:sum}"))
        return GaussianLimit(epsilon, delta, self.additive_share)

    def written(self) -> str:
        """The text in the column `terms`; an empty object for sums."""
        if self.is_sum:
            return SUMS
        return json.dumps({"accounting": self.accounting, "additive_share": self.additive_share}, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> Terms:
        """Inverse of `written`; a ValueError for terms that this version does not know."""
        fields = parsed_json(text)
        if fields == {}:
            return cls()
        if not isinstance(fields, dict) or set(fields) != {"accounting", "additive_share"}:
            raise ValueError("unknown terms")
        return cls(fields["accounting"], fields["additive_share"])


SUMS = "{}"
BY_SUM = Terms()


def changed_terms(
    before: Terms | None, accounting: str | None, additive_share: float | None, *, charged: bool, population: str
) -> Terms:
    """The terms that a limit gets: those given, else those before; refused if they differ after a charge."""
    if before is None:
        return Terms(accounting or "sum", additive_share)
    kind = before.accounting if accounting is None else accounting
    kept = before.additive_share if kind == before.accounting else None
    terms = Terms(kind, kept if additive_share is None else additive_share)
    if charged and terms != before:
        raise ParameterError.of(
            "population {population!r} has charges, so its accounting stays as it was ({before}): another one "
            "would not limit what was released already; leave {accounting} and {additive_share} out, or account "
            "later releases under a population name of its own, whose limit its owner sets with both in mind",
            population=population,
            before=_words(before),
        )
    return terms


def _words(terms: Terms) -> str:
    return "sum" if terms.is_sum else f"gaussian, additive share {terms.additive_share:g}"
