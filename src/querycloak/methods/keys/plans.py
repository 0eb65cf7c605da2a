"""The plans by which a method's tables of keys are released, settled before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

from querycloak.errors import ParameterError
from querycloak.methods.unprotected import with_thresholds
from querycloak.privacy.accounting.draws import Draw
from querycloak.privacy.budget import ExplicitNoise, Given
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.key_tables import KeyTables
    from querycloak.methods.keys.method import KeysMethod
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy

Selection = Literal["laplace", "gaussian", "weighted", "multi-round"]
Priors = Literal["public"]
Counts = Literal["noisy", "none"]


@dataclass(frozen=True)
class FixedPlans:
    """Noise, threshold and bound of each table, and what they promise."""

    plans: Mapping[str, TablePlan]
    proven: Guarantee
    claimed: Guarantee | None = None

    def draws(self) -> Sequence[Draw]:
        """What is drawn."""
        return [plan.draw() for plan in self.plans.values()]

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """How keys of each table come out."""
        return {table: [plan.route()] for table, plan in self.plans.items()}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """What the counts of each table are worth."""
        from querycloak.methods.counted_users import of_plan

        return {table: of_plan(table, plan) for table, plan in self.plans.items()}

    def count(self, log: SearchLog, method: KeysMethod) -> KeyTables:
        """Read the contributions to each table, once."""
        from querycloak.methods.keys.key_tables import count_tables

        return count_tables(log.engine, self, method.contributions(log), method.keys, method.published)


def one_plan(table: str, plan: TablePlan) -> FixedPlans:
    """The plan of a method's only table."""
    return FixedPlans({table: plan}, plan.guarantee(with_thresholds(plan)))


def check_counts(counts: Counts, given: Given, *, two_draws: bool) -> None:
    """Refuse keys without counts if counts decide, or if nothing would be gained."""
    if counts == "none" and (isinstance(given, ExplicitNoise) or two_draws):
        refuse_keys_alone()


def refuse_keys_alone() -> NoReturn:
    """Refuse to release keys without counts."""
    raise ParameterError(
        Sentence(
            "{counts:none} is for a budget ({epsilon}, {delta}): leave {noise}, {threshold}, {two_draws} and the "
            "paper variant out"
        )
    )


def noise_of(law: Selection, size: float) -> Noise:
    """The noise of this law; its size is the scale of Laplace or the sigma of Gaussian noise."""
    if law in ("weighted", "multi-round"):
        chosen = Parameter("selection", law)
        raise ParameterError(
            Sentence("{chosen} has many knobs: give the budget ({epsilon}, {delta}) instead", chosen=chosen)
        )
    return Laplace(size) if law == "laplace" else Gaussian(size)
