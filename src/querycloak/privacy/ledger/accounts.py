"""An account of the ledger: its limit, its charges, and the rest of its budget."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from querycloak.errors import BudgetRefused, ParameterError
from querycloak.files.documents import parsed_json
from querycloak.privacy.accounting.gaussian_filter import GaussianCost, GaussianLimit, cost_of
from querycloak.privacy.calibration.gaussian import largest_loss
from querycloak.privacy.guarantee import Guarantee, coverage, user_guarantee
from querycloak.privacy.ledger.terms import BY_SUM, Terms
from querycloak.privacy.sampling.exact import rounded_up, stated
from querycloak.sentence import Action

if TYPE_CHECKING:
    from querycloak.privacy.accounting.composition import Composed

SERIES = "series"
"""Method of a charge that pays for several releases, and the accounting of these."""
_DIGITS = 4
_FIRST = user_guarantee(1.0, 1e-6, "an example")
"""Guarantee of the releases that `left_in_words` counts before the first charge."""


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
    reserved: GaussianCost | None = None
    """The reserve on a Gaussian limit; None in charges of earlier versions."""
    lowered: GaussianCost | None = None
    """The cost of the draws, if it is below the reserve; None if it is not."""

    taken: int = 0
    """Releases of a series that were begun; 0 for other charges."""

    @property
    def releases_left(self) -> int:
        """Releases of a series that may still be made; 0 for other charges."""
        return max(0, int(self.parameters["releases"]) - self.taken) if self.method == SERIES else 0

    @property
    def gaussian(self) -> GaussianCost:
        """Cost under a Gaussian limit."""
        if self.lowered is not None or self.reserved is not None:
            return self.lowered or self.reserved or GaussianCost()
        return cost_of(self.guarantee, self.parameters.get("mechanisms"))

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
        """State of the release: made or not; of a series, how many releases were begun."""
        if self.method == SERIES:
            return f"{self.taken} of {self.parameters['releases']} releases begun"
        return "released" if self.releases else "no release"


@dataclass(frozen=True)
class Account:
    """A population: its limit, its charges, and the rest of its budget."""

    population: str
    epsilon_limit: float
    delta_limit: float
    charges: tuple[Charge, ...] = field(default=(), repr=False)
    terms: Terms = BY_SUM

    @property
    def limit(self) -> GaussianLimit | None:
        """The limit on squared losses and additive deltas; None where epsilons and deltas are added up."""
        return self.terms.limit(self.epsilon_limit, self.delta_limit)

    @property
    def gaussian_spent(self) -> GaussianCost:
        """The sum of what charges take of a Gaussian limit, rounded up."""
        return sum((charge.gaussian for charge in self.charges), start=GaussianCost())

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
        """All charges together, by sums and by privacy-loss distributions; the latter never decide what is refused."""
        from querycloak.privacy.accounting.composition import composed
        from querycloak.privacy.accounting.draws import losses_of
        from querycloak.privacy.accounting.privacy_loss import Losses

        each = (losses_of(charge.guarantee, charge.parameters.get("mechanisms")) for charge in self.charges)
        return composed(sum(each, start=Losses()), *self.spent, at_delta).covering(self.coverage)

    def more(self, guarantee: Guarantee, cost: GaussianCost) -> int | None:
        """Number of further releases like this one that the limit admits; None if they cost nothing."""
        if guarantee.kind == "syntactic":
            return None
        if self.limit is not None:
            return self.limit.more(self.gaussian_spent, cost)
        asked = guarantee.cost
        numbers = [int(rest // one) for rest, one in zip(self.left, asked, strict=True) if one]
        return min(numbers, default=None)

    @property
    def left_in_words(self) -> str | None:
        """Remaining budget as a number of releases: of a plan, else like the last, else of (1, 1e-6); None if free."""
        paid = [charge for charge in self.charges if charge.guarantee.kind != "syntactic"]
        planned = sum(charge.releases_left for charge in self.charges)
        if planned:
            return f"{planned:,} releases of a plan"
        if paid:
            guarantee, cost = paid[-1].guarantee, paid[-1].gaussian
        else:
            guarantee, cost = _FIRST, GaussianCost(largest_loss(1.0, 5e-7), 5e-7)
        number = self.more(guarantee, cost)
        if number is None:
            return None
        epsilon, delta = guarantee.numbers
        size = f"({epsilon:g}, {delta:.3g})".replace("e-0", "e-")
        return f"about {number:,} {'more ' if paid else ''}of {size}"

    def to_json(self) -> dict[str, Any]:
        """Return the account as `ledger show --json` prints it: spent rounded up, left rounded down."""
        spent, left = self.spent, self.left
        return {
            "population": self.population,
            "limit": {"epsilon": self.epsilon_limit, "delta": self.delta_limit},
            "spent": {"epsilon": rounded_up(spent[0]), "delta": rounded_up(spent[1])},
            "left": {"epsilon": 0.0 - rounded_up(-left[0]), "delta": 0.0 - rounded_up(-left[1])},
            **({} if self.limit is None else {"gaussian": self._gaussian_json(self.limit)}),
            "left_in_words": self.left_in_words,
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
                    **({} if self.terms.is_sum else {"gaussian": charge.gaussian.to_card()}),
                }
                for charge in self.charges
            ],
        }

    def _gaussian_json(self, limit: GaussianLimit) -> dict[str, Any]:
        """Both sums of a Gaussian limit; spent rounded up, and the epsilon that they come to at the limit's delta."""
        total = self.gaussian_spent
        epsilon = limit.epsilon_of(total) if self.charges else 0.0
        return {
            "additive_share": limit.additive_share,
            "squared_loss": {"limit": limit.squared, "spent": total.squared},
            "additive_delta": {"limit": limit.additive, "spent": total.additive},
            "epsilon_at_delta": epsilon if math.isfinite(epsilon) else None,
        }

    def require(self, guarantee: Guarantee, raise_limit: Action, mechanisms: object = None) -> None:
        """Refuse a guarantee that exceeds what is left for this population, or that cannot be added to what was spent.

        raise_limit: how the owner allows more. mechanisms: the recorded draws; None if only the guarantee is known.
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
        if self.limit is not None:
            self._require_gaussian(self.limit, cost_of(guarantee, mechanisms), raise_limit)
            return
        asked = guarantee.cost
        if any(one > rest for one, rest in zip(asked, self.left, strict=True)):
            raise BudgetRefused.of(
                "the ledger refuses: population {population!r}, epsilon and delta: {figures}; ask for less, or let "
                "the owner raise the limit: {raise_limit}",
                population=self.population,
                figures=self._figures(asked),
                raise_limit=raise_limit,
            )

    def _require_gaussian(self, limit: GaussianLimit, asked: GaussianCost, raise_limit: Action) -> None:
        """Refuse a release unless both sums, with it, keep the limit (filter.md, claim 2)."""
        spent = self.gaussian_spent
        if limit.admits(spent + asked):
            return
        figures = [
            ("allows", limit.squared, limit.additive),
            ("spent", spent.squared, spent.additive),
            ("asked", asked.squared, asked.additive),
        ]
        raise BudgetRefused.of(
            "the ledger refuses: population {population!r}, squared loss and additive delta: {figures}; ask for "
            "less{laplace}, or let the owner raise the limit: {raise_limit}",
            population=self.population,
            figures=", ".join(f"{word} {squared:.4g} and {additive:.3g}" for word, squared, additive in figures),
            laplace=" (Laplace noise costs more here than Gaussian noise)" if asked.squared > limit.squared else "",
            raise_limit=raise_limit,
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


def charge_read(
    population: str,
    costs: tuple[GaussianCost | None, GaussianCost | None],
    folders: tuple[str, ...],
    taken: int,
    number: int,
    made: str,
    method: str,
    guarantee: str,
    parameters: str,
    digests: str | None,
) -> Charge:
    """A charge as its row in the ledger holds it; costs: reserved, and lowered."""
    promised = Guarantee.from_json(parsed_json(guarantee))
    released = tuple(digests.split(",")) if digests else ()
    kept = MappingProxyType(parsed_json(parameters))
    return Charge(number, population, made, method, promised, kept, released, folders, *costs, taken)


def cost_read(written: str | None) -> GaussianCost | None:
    """A cost as the ledger holds it; None if it holds none."""
    return GaussianCost.from_json(parsed_json(written)) if written else None


def limit_read(written: str) -> float:
    """An epsilon or delta of a limit as the ledger holds it."""
    number = float(written)
    if not math.isfinite(number) or number < 0:
        raise ValueError("a limit must be finite")
    return number
