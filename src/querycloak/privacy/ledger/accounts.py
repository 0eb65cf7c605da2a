"""An account of the ledger: a limit, what was charged to it, and so what is left."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from querycloak.errors import BudgetRefused, ParameterError
from querycloak.privacy.guarantee import Guarantee, coverage
from querycloak.privacy.sampling.exact import rounded_up, stated
from querycloak.sentence import Action, Sentence

if TYPE_CHECKING:
    from querycloak.privacy.accounting.composition import Composed

__all__ = ["Account", "Charge"]

_DIGITS = 4


@dataclass(frozen=True)
class Charge:
    """One charge; it stays also if no release was made."""

    id: int
    population: str
    made: str
    method: str
    guarantee: Guarantee
    parameters: Mapping[str, Any]
    releases: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders of its releases; empty if there is none, or if an older querycloak noted it."""

    @property
    def epsilon(self) -> Fraction:
        """Cost in epsilon, exactly."""
        return self.guarantee.cost[0]

    @property
    def delta(self) -> Fraction:
        """Cost in delta, exactly."""
        return self.guarantee.cost[1]

    @property
    def status(self) -> str:
        """State of the release: made or not."""
        return "released" if self.releases else "no release"


@dataclass(frozen=True)
class Account:
    """A population: its limit, what was charged, and so what is left."""

    population: str
    epsilon_limit: float
    delta_limit: float
    charges: tuple[Charge, ...] = field(default=(), repr=False)

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta, exactly: the sum over all charges."""
        return sum((c.epsilon for c in self.charges), Fraction(0)), sum((c.delta for c in self.charges), Fraction(0))

    @property
    def coverage(self) -> str | None:
        """Number of charges that the spent sum covers; None if all."""
        return coverage(charge.guarantee for charge in self.charges)

    @property
    def left(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that may still be spent, exactly."""
        epsilon, delta = self.spent
        return max(stated(self.epsilon_limit) - epsilon, Fraction(0)), max(
            stated(self.delta_limit) - delta, Fraction(0)
        )

    def composed(self, at_delta: float | None = None) -> "Composed":
        """All charges together, by sums and by privacy-loss distributions; the limit is about the sums alone."""
        from querycloak.privacy.accounting.composition import composed
        from querycloak.privacy.accounting.draws import losses_of
        from querycloak.privacy.accounting.privacy_loss import Losses

        each = (losses_of(charge.guarantee, charge.parameters.get("mechanisms")) for charge in self.charges)
        return composed(sum(each, start=Losses()), *self.spent, at_delta).covering(self.coverage)

    def to_json(self) -> dict[str, Any]:
        """Return the account as `ledger show --json` prints it: spent rounded up, left rounded down."""
        spent, left = self.spent, self.left
        return {
            "population": self.population,
            "limit": {"epsilon": self.epsilon_limit, "delta": self.delta_limit},
            "spent": {"epsilon": rounded_up(spent[0]), "delta": rounded_up(spent[1])},
            "left": {"epsilon": 0.0 - rounded_up(-left[0]), "delta": 0.0 - rounded_up(-left[1])},
            "condition": self.coverage,
            "charges": [
                {
                    "id": charge.id,
                    "made": charge.made,
                    "method": charge.method,
                    "kind": charge.guarantee.kind,
                    "parameters": dict(charge.parameters),
                    "guarantee": charge.guarantee.to_json(),
                    "status": charge.status,
                    "releases": list(charge.releases),
                    **({"folders": list(charge.folders)} if charge.folders else {}),
                }
                for charge in self.charges
            ],
        }

    def require(self, guarantee: Guarantee, raise_limit: Action) -> None:
        """Refuse a guarantee that exceeds what is left for this population, or that cannot be added to what was spent.

        raise_limit: how the owner allows more.
        """
        if guarantee.kind == "syntactic":
            return
        if guarantee.unit != "user":
            raise ParameterError(
                f"the ledger counts what is spent on each user, this guarantee is for each {guarantee.unit}; "
                "multiply it by the most that one user adds, and charge that"
            )
        relations = {c.guarantee.neighbours for c in self.charges if c.guarantee.kind != "syntactic"}
        if relations - {guarantee.neighbours}:
            raise ParameterError(
                f"population {self.population!r} is accounted for neighbours {', '.join(sorted(map(str, relations)))}, "
                f"this guarantee is for {guarantee.neighbours}, and the two do not add up; account it under a "
                "population name of its own, whose limit its owner sets with both in mind"
            )
        asked = guarantee.cost
        if any(one > rest for one, rest in zip(asked, self.left, strict=True)):
            raise BudgetRefused(
                Sentence(
                    "the ledger refuses: population {population!r}, epsilon and delta: {figures}; ask for less, or let "
                    "the owner raise the limit: {raise_limit}",
                    population=self.population,
                    figures=self._figures(asked),
                    raise_limit=raise_limit,
                )
            )

    def _figures(self, asked: tuple[Fraction, Fraction]) -> str:
        limit = stated(self.epsilon_limit), stated(self.delta_limit)
        parts = [
            ("allows", limit, ROUND_FLOOR),
            ("spent", self.spent, ROUND_CEILING),
            ("asked", asked, ROUND_CEILING),
            ("left", self.left, ROUND_FLOOR),
        ]
        return ", ".join(
            f"{word} {_decimal(epsilon, rounding)} and {_decimal(delta, rounding)}"
            for word, (epsilon, delta), rounding in parts
        )


def _decimal(exact: Fraction, rounding: str) -> str:
    """Write a number to four digits."""
    number = Context(_DIGITS, rounding).divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize()
    return format(number, "f") if number == 0 or number.adjusted() >= -4 else f"{number:e}".replace("e-0", "e-")
