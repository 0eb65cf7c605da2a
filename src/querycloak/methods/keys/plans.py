"""The plans by which a method's tables of keys are released, settled before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from querycloak.errors import ParameterError
from querycloak.methods.unprotected import with_thresholds
from querycloak.privacy.accounting.draws import Draw
from querycloak.privacy.budget import ExplicitNoise, Given
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.paper_variant import paper_guarantees, paper_knobs
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.key_tables import KeyTables
    from querycloak.methods.keys.method import KeysMethod
    from querycloak.privacy.calibration.reach import ReleaseProbability
    from querycloak.privacy.calibration.table_reach import TableAccuracy

Selection = Literal["laplace", "gaussian", "weighted", "multi-round"]
Priors = Literal["public"]
Counts = Literal["noisy", "none"]
PAPER_PER_USER = 4


@dataclass(frozen=True)
class FixedPlans:
    """Noise, threshold and bound of each table, and what they promise."""

    plans: Mapping[str, TablePlan]
    proven: Guarantee
    claimed: Guarantee | None = None

    def draws(self) -> Sequence[Draw]:
        """What is drawn; a paper's variant may count a user several times for one key, so that its guarantee is all."""
        return [] if self.claimed is not None else [plan.draw() for plan in self.plans.values()]

    @property
    def bounds_records(self) -> bool:
        """Whether a user's records are bounded, as papers have it, rather than a user's keys."""
        return self.claimed is not None

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """How keys of each table come out."""
        from querycloak.methods.counted_users import paper_route

        return {
            table: [paper_route(plan) if self.bounds_records else plan.route()] for table, plan in self.plans.items()
        }

    def reach(self) -> Mapping[str, TableAccuracy]:
        """What the counts of each table are worth."""
        from querycloak.methods.counted_users import of_paper_plan, of_plan

        of_table = of_paper_plan if self.bounds_records else of_plan
        return {table: of_table(table, plan) for table, plan in self.plans.items()}

    def count(self, log: SearchLog, method: KeysMethod) -> KeyTables:
        """Read the contributions to each table, once."""
        from querycloak.methods.keys.key_tables import count_tables

        return count_tables(log.engine, self, method.contributions(log), method.keys, method.published)


def one_plan(table: str, plan: TablePlan) -> FixedPlans:
    """The plan of a method's only table."""
    return FixedPlans({table: plan}, plan.guarantee(with_thresholds(plan)))


def check_counts(counts: Counts, given: Given, variant: str, *, two_draws: bool) -> None:
    """Refuse keys without counts if counts decide, or if nothing would be gained."""
    if counts == "none" and (isinstance(given, ExplicitNoise) or variant == "paper" or two_draws):
        raise ParameterError(
            Sentence(
                "{counts:none} is for a budget ({epsilon}, {delta}): leave {noise}, {threshold}, {two_draws} and the "
                "paper variant out"
            )
        )


def paper_plans(
    given: Given, room: Mapping[str, int]
) -> tuple[dict[str, HistogramPlan], list[Guarantee], list[Guarantee]]:
    """The plans of Zhang and Yang's variants, and for each table what is claimed and what is proven.

    room: how much one user may add to each table.
    """
    noise, threshold = (
        (Laplace(given.noise), given.threshold)
        if isinstance(given, ExplicitNoise)
        else paper_knobs(given.epsilon, given.delta, *room.values())
    )
    plans, claims, proofs = {}, [], []
    for table, bound in room.items():
        claimed, proven = paper_guarantees(noise, threshold, bound)
        plans[table] = HistogramPlan(noise, threshold, bound, *proven.numbers, noise)
        claims.append(claimed)
        proofs.append(proven)
    return plans, claims, proofs


def noise_of(law: Selection, size: float) -> Noise:
    """The noise of this law; its size is the scale of Laplace or the sigma of Gaussian noise."""
    if law in ("weighted", "multi-round"):
        chosen = Parameter("selection", law)
        raise ParameterError(
            Sentence("{chosen} has many knobs: give the budget ({epsilon}, {delta}) instead", chosen=chosen)
        )
    return Laplace(size) if law == "laplace" else Gaussian(size)
