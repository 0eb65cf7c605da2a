"""Methods that count keys and release those that enough users hold: options, plan, contributions, counts.

`KeysMethod` is the base; `OneTable` is the base of those with a single table, `clicks` and `queries`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from querycloak.errors import ParameterError
from querycloak.methods.forcing_accounts import forced_out_rule, several_accounts
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
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import checked_bound, share
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.known_keys import KnownRelease
    from querycloak.privacy.accounting.draws import Draw, PublicCounts
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy
    from querycloak.privacy.calibration.poisoning import ForcedOutRule
    from querycloak.privacy.ledger.accounts import Account
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
        "such plans. series: this is one release of a plan. If not given: as the ledger that pays accounts."
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

    @property
    def series(self) -> bool:
        """Whether a plan for a series pays: then its noise is given, not solved for."""
        return self.accounting == "series"

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
    known: str | None = option(
        names_file=True,
        help="Folder of an earlier release about the same population. Its keys are public: they are counted again "
        "without a threshold, and selection is spent on new keys only.",
    )
    known_share: float | None = option(help="With known keys: the part of the squared loss for them; 0.5 if not given.")

    def __post_init__(self) -> None:
        self.check_choices()
        self._check_known()
        given = budget_or_knobs(self.epsilon, self.delta, self.noise, self.threshold)
        object.__setattr__(self, "plan", self.plan_for(given))

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

    def _check_known(self) -> None:
        """Refuse options that do not go with known keys."""
        if self.known is None:
            if self.known_share is not None:
                raise ParameterError(Sentence("{known_share} goes with {known}; leave it out"))
            return
        share("known_share", self._known_share, "give the part of the squared loss for known keys, such as 0.5")
        others = self.epsilon is None, self.selection == "laplace", self.two_draws, self.counts == "none"
        if any(others) or self.times is not None:
            raise ParameterError(
                Sentence(
                    "{known} is for users, counted within a budget ({epsilon}, {delta}) with Gaussian noise: leave "
                    "{noise}, {threshold}, {selection:laplace}, {two_draws}, {counts:none} and counts of clicks out"
                )
            )

    @property
    def _known_share(self) -> float:
        return 0.5 if self.known_share is None else self.known_share

    @property
    def for_filter(self) -> bool:
        """Whether all noise is Gaussian, because a ledger adds up squared losses or because keys are known."""
        return self.accounting == "gaussian" or self.known is not None

    @cached_property
    def known_release(self) -> KnownRelease | None:
        """The release whose keys are known; None without one."""
        if self.known is None:
            return None
        from querycloak.methods.keys.known_keys import KnownRelease

        return KnownRelease.of(self.known, self.table, self.key)

    @property
    def known_draw(self) -> PublicCounts:
        """The noisy counts of known keys; all candidates of auto have the same."""
        plan = self.plan.candidates[0].method.plan if self.plan.candidates else self.plan
        if plan.known is None:
            raise ParameterError(Sentence("no keys are known without {known}"))
        return plan.known

    def check_account(self, account: Account | None) -> None:
        """Refuse known keys that this account has not paid for."""
        if self.known_release is not None:
            self.known_release.check_account(account)

    def reach(self) -> Mapping[str, TableAccuracy]:
        """How exact counts of new keys will be, and in a note those of known ones."""
        if self.known_release is None:
            return super().reach()
        note = self.known_release.note(self.known_draw)
        return {table: each.with_notes(note) for table, each in super().reach().items()}

    def plan_for(self, given: Given) -> SelectionPlan:
        """The plan that these options give."""
        plan = self._plan_of_new_keys(given)
        if self.known_release is None or not isinstance(given, Budget) or plan.candidates:
            return plan
        from querycloak.methods.keys.known_keys import with_known

        return with_known(plan, given, self.known_release, self._known_share)

    def _plan_of_new_keys(self, given: Given) -> SelectionPlan:
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
                squared_share=1.0 if self.known is None else 1 - self._known_share,
            ).plans[self.table]
        law = self.selection or "laplace"
        noise = noise_of(law, given.noise)
        return price(
            noise, given.threshold, self._bound(PER_USER[law]), published_noise=noise if self.two_draws else None
        )

    def parameters(self) -> dict[str, Any]:
        """Given options, and the numbers computed from them."""
        solved = self.plan.choice_parameters() if self.plan.candidates else self.plans[self.table].parameters()
        if self.known_release is not None:
            solved |= {**self.known_release.parameters(self.known_draw), "known_share": self._known_share}
        shown = {**solved, "priors": self.priors, "counts": None if self.counts == "noisy" else self.counts}
        return shown if self.accounting is None else {**shown, "accounting": self.accounting}

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """Possible contributions of each user, a row for each 1 that is counted; rows of known keys are left out."""
        keys = self.keys_of_users(log)
        if self.known_release is not None:
            keys = keys.anti_join(log.engine.upload(self.known_release.keys), list(self.key))
        return {self.table: keys}

    def keys_of_users(self, log: SearchLog) -> ir.Table:
        """Keys of each user, known ones too."""
        from querycloak.methods.keys.contribution_bounding import once_per_key

        keys = once_per_key(self.rows(log), self.key, with_times=self.times is not None)
        if self.priors is None:
            return keys
        from querycloak.methods.keys.public_priors import with_prior

        return with_prior(log.engine, keys, "query")

    def count(self, log: SearchLog) -> Counted:
        """Count new keys by the plan and, if there are any, known keys beside them."""
        counted = super().count(log)
        if self.known_release is None:
            return counted
        from querycloak.methods.keys.known_keys import CountedWithKnown

        return CountedWithKnown.of(log.engine, counted, self.keys_of_users(log), self.known_release, self.known_draw)
