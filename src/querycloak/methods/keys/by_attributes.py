"""Methods whose keys may be counted by attributes: options, budget of keys and of their cells (proof: cells.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from querycloak.errors import ParameterError
from querycloak.methods.keys.attributes import Grouping, grouping_of
from querycloak.methods.keys.cell_plan import CELLS_PER_USER, MANY_CELLS_PER_USER, CellPlan, split_budget
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.selection_plan import Counts
from querycloak.methods.option import option
from querycloak.privacy.budget import Budget, Given, budget_or_noise
from querycloak.privacy.guarantee import Guarantee, compose
from querycloak.privacy.parameters import refuse
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability

_OF_COUNTING = frozenset(
    {
        "bucket",
        "cell",
        "clamped",
        "digest",
        "given",
        "id",
        "interest",
        "k",
        "key_place",
        "known",
        "length",
        "near",
        "part",
        "parts",
        "scored",
        "so_far",
        "wanted",
        "weight",
        "within",
    }
)
"""Columns of tables in which keys are counted; an attribute of such a name would be mistaken for them."""


@dataclass(frozen=True, kw_only=True)
class KeysByAttributes(KeysMethod):
    """Keys, counted as they are or by attributes: private ones are a part of the key, public ones have cells."""

    taken_names: ClassVar[frozenset[str]] = frozenset()
    """Columns of the method's own tables that no attribute may be called."""

    epsilon: float | None = option(help="Budget: epsilon, the limit on what a release tells about one user.")
    delta: float | None = option(
        help="Budget: delta, the part of the guarantee that epsilon does not cover; far below 1/users."
    )
    noise: float | None = option(help="Instead of a budget: the scale of Laplace or sigma of Gaussian noise.")
    threshold: int | None = option(help="Instead of a budget: a key comes out if its noisy count exceeds this.")
    by: str | None = option(
        help="Attributes of the log by which keys are counted, with commas, such as country,device; also day, week or "
        "month, which need a period (since, until)."
    )
    domain_of: str | None = option(
        help="Public values of attributes: country=iso3166, device=FILE (a value a line), with commas. Without a "
        "domain, values are selected like keys."
    )
    cells_per_user: int | None = option(
        help="With public attributes or views: how many cells of one user count; 16 if not given, 64 with views."
    )
    grouping: Grouping = field(init=False, repr=False)
    """Attributes, settled at construction."""
    cell_plan: CellPlan | None = field(init=False, repr=False)
    """Noise of cells; None if keys are counted as they are."""
    coarse: bool = field(default=False, repr=False)
    """True for the part of a method that only selects the keys whose cells are counted."""

    def settle_attributes(self) -> None:
        """Check the attributes and make the private ones columns of each key; cells have no plan yet."""
        grouping = grouping_of(self.by, self.domain_of)
        taken = sorted((_OF_COUNTING | self.taken_names) & set(grouping.by))
        if taken:
            way_out = Sentence("give a column another name with {columns}, such as shop_category=COLUMN")
            refuse("by", "other names than those of columns in which keys are counted", taken[0], way_out)
        settled: dict[str, Any] = {"grouping": grouping, "by": ",".join(grouping.by) or None, "cell_plan": None}
        settled["domain_of"] = grouping.written
        if grouping.private:
            settled["keys"] = {table: (*key, *grouping.private) for table, key in type(self).keys.items()}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def given(self) -> Given:
        """The budget, or explicit noise."""
        return budget_or_noise(self.epsilon, self.delta, self.noise, self.threshold)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that a log must be read with."""
        return self.grouping.attributes

    @property
    def viewed(self) -> bool:
        """True if results that were shown count, not clicks alone."""
        return False

    @property
    def counts_cells(self) -> bool:
        """True if cells are counted, of keys that were selected before."""
        return bool(self.grouping.public)

    @property
    def usual_cells(self) -> int:
        """Number of cells of one user that count if `cells_per_user` is not given."""
        return MANY_CELLS_PER_USER if self.viewed else CELLS_PER_USER

    @property
    def most_cells(self) -> int:
        """Number of cells of one user that count."""
        return self.usual_cells if self.cells_per_user is None else self.cells_per_user

    def selector(self, budget: Budget) -> Self:
        """The part that selects keys (cells.md, claim 1); their counts are not published, so none are drawn."""
        selecting = split_budget(budget)[0]
        counts: Counts = "noisy" if self.selection == "gaussian" else "none"  # Gaussian selection decides by a count
        return replace(self, epsilon=selecting.epsilon, delta=selecting.delta, counts=counts, coarse=True)

    def checked_cells(self, given: Given) -> Budget:
        """The budget, if all options go with cells."""
        if not isinstance(given, Budget) or self.two_draws or self.counts == "none":
            raise ParameterError.of(
                "public attributes are for a budget ({epsilon}, {delta}) and noisy counts of users: leave {noise}, "
                "{threshold}, {two_draws} and {counts:none} out"
            )
        return given

    def cell_parameters(self) -> dict[str, Any]:
        """Parameters of attributes and cells on the card; empty without."""
        grouped = {} if self.by is None else {"by": self.by, "domain_of": self.domain_of}
        return grouped if self.cell_plan is None else {**grouped, **self.cell_plan.parameters()}

    def proven(self) -> Guarantee:
        """Proven guarantee; of keys and their cells together, by cells.md, claim 3."""
        return super().proven() if self.cell_plan is None else compose([super().proven(), self.cell_plan.guarantee])

    def draws(self) -> Sequence[Draw]:
        """Draws of the release, so that several releases can be added up."""
        selecting = list(self.plan.draws())
        return selecting if self.cell_plan is None else [*selecting, self.cell_plan.draw()]

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Routes of the plans; empty for cells, whose cut depends on the number of keys that came out."""
        return self.plan.routes() if self.cell_plan is None else {}
