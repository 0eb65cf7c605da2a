"""Whether and where a release was paid for: the charge comes before the first draw, the completion after the rename."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from querycloak.errors import ParameterError, QuerycloakError
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger import Ledger
from querycloak.privacy.noise import Laplace, Noise
from querycloak.privacy.weighted import WeightedPlan
from querycloak.releases import fault

if TYPE_CHECKING:
    from querycloak.privacy.selection import TablePlan


@dataclass(frozen=True)
class Accounting:
    """The charge that paid for a release, or that there was none."""

    population: str | None = None
    charge: int | None = None
    # Where to note that the release was made; a release loaded again has none.
    ledger: Ledger | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.population is None) != (self.charge is None):
            raise ParameterError("accounting must have both a population and a charge, or neither")

    def to_json(self) -> dict[str, Any] | str:
        """As it stands on the card."""
        if self.charge is None:
            return "not accounted"
        return {"population": self.population, "charge": self.charge}

    @classmethod
    def from_json(cls, value: object) -> Accounting:
        """What `to_json` wrote."""
        if value == "not accounted":
            return cls()
        if isinstance(value, Mapping) and set(value) == {"population", "charge"}:
            return cls(str(value["population"]), int(value["charge"]))
        raise ParameterError("accounting must be 'not accounted', or a population and a charge")

    def complete(self, digest: str) -> None:
        """Note in the ledger that the release is there."""
        if self.ledger is None or self.charge is None:
            return
        problem: QuerycloakError
        try:
            with fault.around("complete"):
                self.ledger.complete(self.charge, digest)
            return
        except QuerycloakError as error:
            problem = type(error)(
                f"the release is written and charged, but the ledger shows no release for charge {self.charge}: {error}"
            )
        raise problem


NOT_ACCOUNTED = Accounting()


def charge(
    ledger: Ledger | None,
    population: str | None,
    guarantee: Guarantee,
    *,
    method: str,
    parameters: Mapping[str, Any],
) -> Accounting:
    """Pay for a release; call it after everything is checked and before anything is drawn."""
    if ledger is None:
        if population is not None:
            raise ParameterError("population is for the ledger; give a ledger too, or leave it out")
        return NOT_ACCOUNTED
    if population is None:
        raise ParameterError(
            "population must be named where a ledger is used; say who is behind the log: --population NAME"
        )
    with fault.around("charge"):
        made = ledger.charge(population, guarantee, method=method, parameters=parameters)
    return Accounting(population, made.id, ledger)


def mechanisms(plan: TablePlan) -> list[dict[str, Any]]:
    """What an accountant of privacy-loss distributions needs later: for the charge's parameters (ledger.md)."""
    if isinstance(plan, WeightedPlan):
        return plan.mechanisms()
    drawn = [plan.noise] if plan.fresh is None else [plan.noise, plan.fresh]
    return [_law(noise) | {"threshold": plan.threshold, "per_user": plan.per_user} for noise in drawn]


def _law(noise: Noise) -> dict[str, Any]:
    if isinstance(noise, Laplace):
        return {"noise": "laplace", "scale": noise.scale}
    return {"noise": "gaussian", "sigma": noise.sigma}
