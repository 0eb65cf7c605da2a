"""Methods that count keys and release those that enough users hold: options, plan, contributions, counts.

`KeysMethod` is the base; `OneTable` is the base of those with a single table, `clicks` and `queries`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from querycloak.errors import ParameterError
from querycloak.methods.forcing_accounts import forced_out_rule, several_accounts
from querycloak.methods.keys.attributes import Grouping, grouping_of
from querycloak.methods.keys.cell_plan import (
    SEARCHES_PER_USER,
    VIEWS_PER_USER,
    CellPlan,
    plan_cells,
    split_budget,
)
from querycloak.methods.keys.selection_plan import (
    AUTO,
    Accounting,
    Choice,
    Counts,
    Priors,
    Selection,
    SelectionPlan,
    check_counts,
    check_given_bound,
    chosen_on_log,
    noise_of,
    one_table,
)
from querycloak.methods.method import Counted, Method
from querycloak.methods.option import option
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.budget import Budget, Given, budget_or_knobs
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.calibration.selection import PER_USER, default_selection, plan_tables
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.calibration.weighted import FORMER_SELECTIONS
from querycloak.privacy.guarantee import Guarantee, compose
from querycloak.privacy.parameters import checked_bound
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.key_tables import LaterTables
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy
    from querycloak.privacy.calibration.poisoning import ForcedOutRule
    from querycloak.releases.tables import Table


@dataclass(frozen=True, kw_only=True)
class KeysMethod(Method):
    """Contributions are bounded and counted by key; a partition selection decides which keys come out."""

    keys: ClassVar[Mapping[str, Sequence[str]]]
    """The columns of a key, by table."""
    max_keys_per_user: int | Literal["auto"] | None = option(
        formerly="per_user",
        help="How many keys of one user count. auto chooses this number on the log, for a part of epsilon; if neither "
        "this nor a selection is given, auto chooses both. With a selection: 256 if not given, 32 with Gaussian noise, "
        "1 with Laplace noise, 4 in the paper variant.",
    )
    counts: Counts = option("noisy", help="none: keys without counts; more keys come out of the same budget.")
    accounting: Accounting | None = option(
        help="gaussian: solve for Gaussian noise whose squared losses a ledger adds up, and let auto choose among "
        "such plans. If not given: as the ledger that pays accounts."
    )
    plan: SelectionPlan = field(init=False, repr=False)
    """Settled at construction."""

    @abstractmethod
    def at_bound(self, bound: int, epsilon: float | None = None) -> Self:
        """The same method with this number of keys per user, perhaps with another epsilon."""

    @property
    def for_filter(self) -> bool:
        """True if noise is solved for a ledger that adds up squared losses."""
        return self.accounting == "gaussian"

    def accounted(self, accounting: str) -> Self:
        """The same method for a ledger that accounts like this; a budget with Laplace noise stays as it is given."""
        if accounting != "gaussian" or self.accounting is not None or vars(self).get("epsilon") is None:
            return self
        return replace(self, accounting="gaussian")

    def reads(self) -> object:
        """Cache key: candidates with equal keys share contributions."""
        return None

    @abstractmethod
    def contributions(self, log: SearchLog) -> Mapping[str, ir.Table]:
        """Contributions of each user to each table, before a plan's bound: `user`, the key's columns and `earliest`."""

    def later_tables(self, log: SearchLog) -> LaterTables | None:  # noqa: ARG002
        """What is drawn after these tables came out, and looks at them; None if nothing is."""
        return None

    def published(self, table: str, released: pa.Table) -> Table:  # noqa: ARG002
        """The table as it is published."""
        return released

    @property
    def plans(self) -> Mapping[str, TablePlan]:
        """Noise, threshold and bound of each table, if they are known before the data."""
        return self.plan.fixed_tables()

    def claimed(self) -> Guarantee | None:
        """Claim of the paper, in its variant."""
        return self.plan.claimed

    def proven(self) -> Guarantee:
        """Guarantee that the method's note proves."""
        return replace(self.plan.proven, unprotected=(*ALWAYS, several_accounts(*self._forced_out_rules())))

    def _forced_out_rules(self) -> list[ForcedOutRule]:
        """The rule of the plan, or of every candidate."""
        settings: list[KeysMethod] = [each.method for each in self.plan.candidates] or [self]
        rules = (forced_out_rule(self.name, self.variant, each.parameters()) for each in settings)
        return [rule for rule in rules if rule is not None]

    def draws(self) -> Sequence[Draw]:
        """Draws, recorded for the composition of several releases."""
        return self.plan.draws()

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Those of the plans; if the bound is chosen on the log, of all plans."""
        return self.plan.routes()

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of counts by the plan; over all plans if the bound is chosen on the log."""
        return self.plan.reach()

    def count(self, log: SearchLog) -> Counted:
        """Bound every user's contributions and count them by key; keep them if the draw chooses the bound."""
        from querycloak.methods.keys.key_tables import count_tables, keep_contributions

        return keep_contributions(log, self) if self.plan.candidates else count_tables(log, self)


@dataclass(frozen=True, kw_only=True)
class OneTable(KeysMethod):
    """One table of keys, by a budget or by knobs."""

    epsilon: float | None = option(help="Budget: epsilon, the limit on what a release tells about one user.")
    delta: float | None = option(
        help="Budget: delta, the part of the guarantee that epsilon does not cover; far below 1/users."
    )
    noise: float | None = option(help="Knob: the scale of Laplace noise, or the sigma of Gaussian noise.")
    threshold: int | None = option(help="Knob: a key comes out if its noisy count exceeds this.")
    selection: Selection | None = option(
        former_values=FORMER_SELECTIONS,
        help="How keys are selected (docs/selection.md). If not given, auto chooses. If only the number of keys per "
        "user is given, a formula chooses: multi-round, or for small numbers the noise with the smaller threshold.",
    )
    priors: Priors | None = option(
        help="public: prefer keys that are likely to be shared, judged by length, digits and a public list of words. "
        "It costs no budget."
    )
    auto_share: float | None = option(help="The part of epsilon that auto spends on its choice; 0.01 if not given.")
    two_draws: bool = option(
        False, help="One draw decides, a second one is published: counts are right on average, but cost more budget."
    )

    by: str | None = option(
        help="Attributes of the log that split keys, with commas, such as country,device; also day, week or month, "
        "which need the log's first and last time."
    )
    domain_of: str | None = option(
        help="Public values of attributes: country=iso3166, device=FILE (a value a line), with commas. Without a "
        "domain, values are selected like keys."
    )
    cells_per_user: int | None = option(
        help="With public attributes or views: how many cells of one user count; 16 if not given."
    )
    keyed: Literal["log", "none"] = option(
        "log", formerly="keys", help="none: no keys, only numbers of searches and users by public attributes."
    )
    grouping: Grouping = field(init=False, repr=False)
    """Attributes, settled at construction."""
    cell_plan: CellPlan | None = field(init=False, repr=False)
    """Noise of cells; None if keys are counted as they are."""
    coarse: bool = field(default=False, repr=False)
    """True for the part of a method that only selects the keys whose cells are counted."""

    def __post_init__(self) -> None:
        self.check_choices()
        grouping = grouping_of(self.by, self.domain_of)
        settled: dict[str, Any] = {"grouping": grouping, "by": ",".join(grouping.by) or None, "cell_plan": None}
        settled["domain_of"] = grouping.written
        if grouping.private:
            settled["keys"] = {self.table: (*type(self).keys[self.table], *grouping.private)}
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        if self.variant != "default" and (grouping.by or self.counts_cells):
            raise ParameterError(Sentence("{by}, {keyed:none} and views go with the default {variant}: leave them out"))
        given = budget_or_knobs(self.epsilon, self.delta, self.noise, self.threshold)
        if self.coarse or not self.counts_cells:
            object.__setattr__(self, "plan", self.plan_for(given))
            return
        budget = self._checked_cells(given)
        if self.keyed == "none":
            cells = plan_cells(budget, self.cells_per_user, events=SEARCHES_PER_USER, event_share=0.5)
            plan = SelectionPlan(replace(cells.guarantee, unprotected=ALWAYS))
        else:
            events = VIEWS_PER_USER if self.viewed else 0
            cells = plan_cells(split_budget(budget)[1], self.cells_per_user, events=events)
            plan = self._selector(budget).plan
        object.__setattr__(self, "cell_plan", cells)
        object.__setattr__(self, "plan", plan)

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
        """True if cells are counted: of keys that were selected before, or without keys."""
        return bool(self.grouping.public) or self.viewed or self.keyed == "none"

    def _selector(self, budget: Budget) -> Self:
        """The part that selects keys (cells.md, claim 1)."""
        selecting = split_budget(budget)[0]
        return replace(self, epsilon=selecting.epsilon, delta=selecting.delta, coarse=True)

    def _checked_cells(self, given: Given) -> Budget:
        """The budget, if all options go with cells."""
        if not isinstance(given, Budget) or self.two_draws or self.counts == "none" or self.times is not None:
            raise ParameterError(
                Sentence(
                    "public attributes, views and {keyed:none} are for a budget ({epsilon}, {delta}) and noisy counts "
                    "of users: leave {noise}, {threshold}, {two_draws}, {counts:none} and counts of clicks out"
                )
            )
        if self.keyed == "none" and (self.grouping.private or not self.grouping.by or self.viewed):
            raise ParameterError(
                Sentence(
                    "{keyed:none} counts public attributes: give {by}, and {domain_of} for {names}",
                    names=", ".join(self.grouping.private) or "each of them",
                )
            )
        return given

    @property
    def table(self) -> str:
        """The only table."""
        return next(iter(self.keys))

    @property
    def key(self) -> Sequence[str]:
        """The columns of its key."""
        return self.keys[self.table]

    @property
    def times(self) -> Times | None:
        """Bound on clicks of one user if clicks are counted; None if users are counted."""
        return None

    @abstractmethod
    def rows(self, log: SearchLog) -> ir.Table:
        """The rows of the log whose keys count."""

    def plan_for(self, given: Given) -> SelectionPlan:
        """The plan that these options give."""
        check_counts(self.counts, given, two_draws=self.two_draws)
        if self.chooses(given):
            return chosen_on_log(
                given,
                self.auto_share,
                self.at_choice,
                any_selection=self._any_selection,
                for_filter=self.for_filter,
            )
        check_given_bound(self.max_keys_per_user, self.auto_share)
        return one_table(self.table, self._plan(given))

    def chooses(self, given: Given) -> bool:
        """True if the bound is chosen on the log: for auto, or for a budget without bound and selection."""
        if self.max_keys_per_user is not None:
            return self.max_keys_per_user == AUTO
        return isinstance(given, Budget) and self._any_selection

    @property
    def _any_selection(self) -> bool:
        return self.selection is None and not self.two_draws

    def at_choice(self, choice: Choice, epsilon: float) -> Self:
        """The same method at this bound and with its selection."""
        selection = choice.selection or self.selection
        return replace(self, max_keys_per_user=choice.bound, selection=selection, auto_share=None, epsilon=epsilon)

    def at_bound(self, bound: int, epsilon: float | None = None) -> Self:
        """The same method at this bound, perhaps with another epsilon."""
        return replace(
            self, max_keys_per_user=bound, auto_share=None, epsilon=self.epsilon if epsilon is None else epsilon
        )

    def _bound(self, default: int) -> int:
        return checked_bound(default if self.max_keys_per_user is None else self.max_keys_per_user)

    def _plan(self, given: Given) -> TablePlan:
        if isinstance(given, Budget):
            known = None if self.max_keys_per_user is None else checked_bound(self.max_keys_per_user)
            law = self.selection or default_selection(
                given.epsilon, given.delta, known, two_draws=self.two_draws, for_filter=self.for_filter
            )
            bound = {self.table: self._bound(PER_USER[law or "gaussian"])}
            return plan_tables(
                given.epsilon,
                given.delta,
                bound,
                selection=law,
                two_draws=self.two_draws,
                priors=self.priors is not None,
                counted=self.counts == "noisy",
                times=self.times,
                for_filter=self.for_filter,
            ).plans[self.table]
        law = self.selection or "laplace"
        noise = noise_of(law, given.noise)
        return price(
            noise, given.threshold, self._bound(PER_USER[law]), published_noise=noise if self.two_draws else None
        )

    def parameters(self) -> dict[str, Any]:
        """Given options, and the numbers computed from them."""
        grouped = {} if self.by is None else {"by": self.by, "domain_of": self.domain_of}
        cells = grouped if self.cell_plan is None else {**grouped, **self.cell_plan.parameters()}
        if self.keyed == "none":
            return {"keys": "none", **cells}
        solved = self.plan.choice_parameters() if self.plan.candidates else self.plans[self.table].parameters()
        shown = {**solved, "priors": self.priors, "counts": None if self.counts == "noisy" else self.counts, **cells}
        return shown if self.accounting is None else {**shown, "accounting": self.accounting}

    def proven(self) -> Guarantee:
        """Proven guarantee; of keys and their cells together, by cells.md, claim 3."""
        if self.keyed == "none":
            return self.plan.proven
        return super().proven() if self.cell_plan is None else compose([super().proven(), self.cell_plan.guarantee])

    def draws(self) -> Sequence[Draw]:
        """Draws of the release, so that several releases can be added up."""
        selecting = [] if self.keyed == "none" else list(self.plan.draws())
        return selecting if self.cell_plan is None else [*selecting, self.cell_plan.draw()]

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Routes of the plans; empty for cells, whose cut depends on the number of keys that came out."""
        return self.plan.routes() if self.cell_plan is None else {}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of counts by the plan; of cells, their noise."""
        if self.cell_plan is None:
            return self.plan.reach()
        from querycloak.methods.counted_users import of_cells

        return of_cells(self.table, self.cell_plan, viewed=self.viewed, keyed=self.keyed != "none")

    def count(self, log: SearchLog) -> Counted:
        """Bound every user's contributions and count them by key; keep cells until keys came out."""
        if self.cell_plan is None:
            return super().count(log)
        from querycloak.methods.keys import cell_counts

        if self.keyed == "none":
            return cell_counts.count_cells(log, self.grouping, self.cell_plan)
        cell_counts.check_attributes(log, self.grouping)
        cells = self.grouping.cells(log.source.choices)
        rows = cell_counts.with_values(self.rows(log), self.grouping.private)
        users = log.engine.stage(cell_counts.users_cells(log.engine, rows, self.key, cells, viewed=self.viewed))
        views = log.engine.stage(cell_counts.first_views(rows, self.cell_plan.events)) if self.viewed else None
        given = budget_or_knobs(self.epsilon, self.delta, self.noise, self.threshold)
        selector = self._selector(self._checked_cells(given))
        of_keys = cell_counts.KeyCells(cells, tuple(self.key), self.grouping.by, viewed=self.viewed)
        return cell_counts.CellsOfKeys(
            selector.count(log), self.table, of_keys, log.engine, users, self.cell_plan, views
        )

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """Contributions of each user: a row for each 1 that is counted."""
        from querycloak.methods.keys.cell_counts import check_attributes, with_values
        from querycloak.methods.keys.contribution_bounding import once_per_key

        check_attributes(log, self.grouping)
        rows = with_values(self.rows(log), self.grouping.private)
        contributions = once_per_key(rows, self.key, with_times=self.times is not None)
        if self.priors is None:
            return {self.table: contributions}
        from querycloak.methods.keys.public_priors import with_prior

        return {self.table: with_prior(log.engine, contributions, "query")}
