"""Methods that count keys and release those that enough users hold: options, plan, contributions, counts.

`KeysMethod` is the base; `one_table.OneTable` is the base of those with a single table, `clicks` and `queries`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from querycloak.methods.forcing_accounts import forced_out_rule, several_accounts
from querycloak.methods.keys.selection_plan import AUTO, Accounting, Choice, Counts, Selection, SelectionPlan
from querycloak.methods.method import Counted, Method
from querycloak.methods.option import option
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.budget import Budget, Given
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import FORMER_SELECTIONS
from querycloak.privacy.guarantee import Guarantee

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
        "this nor a selection is given, auto chooses both. Default with a selection: 256, but 32 with Gaussian noise, "
        "1 with Laplace noise, 4 in the paper variant.",
    )
    selection: Selection | None = option(
        former_values=FORMER_SELECTIONS,
        help="How keys are selected (docs/selection.md). If not given, auto chooses. If only the number of keys per "
        "user is given, a formula chooses: multi-round, or for small numbers the noise with the smaller threshold.",
    )
    auto_share: float | None = option(help="The part of epsilon that auto spends on its choice; 0.01 if not given.")
    two_draws: bool = option(
        False, help="One draw decides, a second one is published: counts are right on average, but cost more budget."
    )
    counts: Counts = option("noisy", help="none: keys without counts; more keys come out of the same budget.")
    accounting: Accounting | None = option(
        help="gaussian: Gaussian noise alone, for a ledger that adds up squared losses; auto then chooses among such "
        "plans. series: this is one release of a plan. If not given: the accounting of the ledger that pays."
    )
    plan: SelectionPlan = field(init=False, repr=False)
    """Settled at construction."""

    def options_at(self, bound: int) -> dict[str, Any]:
        """Options with which this number of keys of a user counts."""
        return {"max_keys_per_user": bound}

    def at_choice(self, choice: Choice, epsilon: float | None = None) -> Self:
        """The method at this choice's bound and selection (None: unchanged); epsilon: None leaves it unchanged."""
        changed = self.options_at(choice.bound) | ({} if epsilon is None else {"epsilon": epsilon})
        return replace(self, selection=choice.selection or self.selection, auto_share=None, **changed)

    def chooses(self, given: Given) -> bool:
        """True if the bound is chosen on the log: for auto, or for a budget without bound and selection."""
        if self.max_keys_per_user is not None:
            return self.max_keys_per_user == AUTO
        return isinstance(given, Budget) and self.any_selection

    @property
    def any_selection(self) -> bool:
        """True if the selection is open, too."""
        return self.selection is None and not self.two_draws

    @property
    def for_filter(self) -> bool:
        """True if noise is solved for a ledger that adds up squared losses."""
        return self.accounting == "gaussian"

    @property
    def series(self) -> bool:
        """Whether a plan for a series pays: then its noise is given, not solved for."""
        return self.accounting == "series"

    def accounted(self, accounting: str) -> Self:
        """The method for a ledger with this accounting; only a Gaussian ledger changes it, if a budget is given."""
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
        """Draws that follow these tables and look at them; None if there are none."""
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
        """Routes of the plans; of all candidates if the bound is chosen on the log."""
        return self.plan.routes()

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of counts by the plan; over all plans if the bound is chosen on the log."""
        return self.plan.reach()

    def count(self, log: SearchLog) -> Counted:
        """Bound every user's contributions and count them by key; keep them if the draw chooses the bound."""
        from querycloak.methods.keys.key_tables import count_tables, keep_contributions

        return keep_contributions(log, self) if self.plan.candidates else count_tables(log, self)
