"""A method of one table of keys, such as queries or clicks: whole keys, known keys, or cells by attributes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import ParameterError
from querycloak.methods.keys.by_attributes import KeysByAttributes
from querycloak.methods.keys.cell_plan import (
    SEARCHES_PER_USER,
    VIEWS_PER_USER,
    plan_cells,
    split_budget,
)
from querycloak.methods.keys.selection_plan import (
    Priors,
    SelectionPlan,
    check_counts,
    check_given_bound,
    chosen_on_log,
    noise_of,
)
from querycloak.methods.method import Counted
from querycloak.methods.option import option
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.budget import Budget, Given
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.calibration.selection import PER_USER, default_selection, plan_tables
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import checked_bound, natural, share

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.known_keys import KnownRelease
    from querycloak.privacy.accounting.draws import Draw, PublicCounts
    from querycloak.privacy.calibration.accuracy import TableAccuracy
    from querycloak.privacy.ledger.accounts import Account


@dataclass(frozen=True, kw_only=True)
class OneTable(KeysByAttributes):
    """A method with one table of keys, by a budget or by explicit noise."""

    priors: Priors | None = option(
        help="public: prefer keys that are likely to be shared, judged by length, digits and a public list of words. "
        "It costs no budget."
    )
    known: str | None = option(
        names_file=True,
        help="Folder of an earlier release about the same population. Its keys are public: they are counted again "
        "without a threshold, and selection is spent on new keys only.",
    )
    known_share: float | None = option(help="With known keys: the part of the squared loss for them; 0.5 if not given.")
    known_per_user: int | None = option(
        help="With known keys: the number of them that count for one user; 16 if not given. Fewer mean less noise."
    )
    keyed: Literal["log", "none"] = option(
        "log", formerly="keys", help="none: no keys, only numbers of searches and users by public attributes."
    )

    def __post_init__(self) -> None:
        self.check_choices()
        self._check_known()
        self.settle_attributes()
        attributed = self.grouping.by or self.counts_cells
        if self.variant != "default" and attributed:
            raise ParameterError.of("{by}, {keyed:none} and views go with the default {variant}: leave them out")
        if self.known is not None and attributed:
            raise ParameterError.of("{known} goes with whole keys: leave {by}, {keyed:none} and views out")
        if self.coarse or not self.counts_cells:
            object.__setattr__(self, "plan", self.plan_for(self.given))
            return
        budget = self.checked_cells(self.given)
        if self.keyed == "none":
            cells = plan_cells(budget, self.most_cells, events=SEARCHES_PER_USER, event_share=0.5)
            plan = SelectionPlan(replace(cells.guarantee, unprotected=ALWAYS))
        else:
            events = VIEWS_PER_USER if self.viewed else 0
            cells = plan_cells(split_budget(budget)[1], self.most_cells, events=events)
            plan = self.selector(budget).plan
        object.__setattr__(self, "cell_plan", cells)
        object.__setattr__(self, "plan", plan)

    @property
    def counts_cells(self) -> bool:
        """True if cells are counted: of keys that were selected before, or without keys."""
        return bool(self.grouping.public) or self.viewed or self.keyed == "none"

    def checked_cells(self, given: Given) -> Budget:
        """The budget, if all options go with cells."""
        if not isinstance(given, Budget) or self.two_draws or self.counts == "none" or self.times is not None:
            raise ParameterError.of(
                "public attributes, views and {keyed:none} are for a budget ({epsilon}, {delta}) and noisy counts "
                "of users: leave {noise}, {threshold}, {two_draws}, {counts:none} and counts of clicks out"
            )
        if self.keyed == "none" and (self.grouping.private or not self.grouping.by or self.viewed):
            raise ParameterError.of(
                "{keyed:none} counts public attributes: give {by}, and {domain_of} for {names}",
                names=", ".join(self.grouping.private) or "each of them",
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

    def _check_known(self) -> None:
        """Refuse options that do not go with known keys."""
        if self.known is None:
            if self.known_share is not None:
                raise ParameterError.of("{known_share} goes with {known}; leave it out")
            if self.known_per_user is not None:
                raise ParameterError.of("{known_per_user} goes with {known}; leave it out")
            return
        if self.known_per_user is not None:
            natural("known_per_user", self.known_per_user, "say how many known keys of one user count, such as 4")
        share("known_share", self._known_share, "give the part of the squared loss for known keys, such as 0.5")
        others = self.epsilon is None, self.selection == "laplace", self.two_draws, self.counts == "none"
        if any(others) or self.times is not None:
            raise ParameterError.of(
                "{known} is for users, counted within a budget ({epsilon}, {delta}) with Gaussian noise: leave "
                "{noise}, {threshold}, {selection:laplace}, {two_draws}, {counts:none} and counts of clicks out"
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
            raise ParameterError.of("no keys are known without {known}")
        return plan.known

    def check_account(self, account: Account | None) -> None:
        """Refuse known keys that this account has not paid for."""
        if self.known_release is not None:
            self.known_release.check_account(account)

    def plan_for(self, given: Given) -> SelectionPlan:
        """The plan that these options give."""
        plan = self._plan_of_new_keys(given)
        if self.known_release is None or not isinstance(given, Budget) or plan.candidates:
            return plan
        from querycloak.methods.keys.known_keys import with_known

        return with_known(plan, given, self.known_release, self._known_share, self.known_per_user)

    def _plan_of_new_keys(self, given: Given) -> SelectionPlan:
        check_counts(self.counts, given, two_draws=self.two_draws)
        if self.chooses(given):
            return chosen_on_log(self, given)
        check_given_bound(self.max_keys_per_user, self.auto_share)
        plan = self._plan(given)
        return SelectionPlan(plan.guarantee(), {self.table: plan})

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
        cells = self.cell_parameters()
        if self.keyed == "none":
            return {"keys": "none", **cells}
        solved = self.plan.choice_parameters() if self.plan.candidates else self.plans[self.table].parameters()
        if self.known_release is not None:
            solved |= {**self.known_release.parameters(self.known_draw), "known_share": self._known_share}
        shown = {**solved, "priors": self.priors, "counts": None if self.counts == "noisy" else self.counts, **cells}
        return shown if self.accounting is None else {**shown, "accounting": self.accounting}

    def proven(self) -> Guarantee:
        """Proven guarantee; without keys, that of their cells alone."""
        return self.plan.proven if self.keyed == "none" else super().proven()

    def draws(self) -> Sequence[Draw]:
        """Draws of the release, so that several releases can be added up."""
        return [self.cell_plan.draw()] if self.cell_plan is not None and self.keyed == "none" else super().draws()

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of counts by the plan, with a note on known keys; of cells, their noise."""
        if self.cell_plan is not None:
            from querycloak.methods.counted_users import of_cells

            return of_cells(self.table, self.cell_plan, viewed=self.viewed, keyed=self.keyed != "none")
        if self.known_release is None:
            return super().reach()
        note = self.known_release.note(self.known_draw)
        return {table: each.with_notes(note) for table, each in super().reach().items()}

    def count(self, log: SearchLog) -> Counted:
        """Bound every user's contributions and count them by key; known keys beside them, cells once keys came out."""
        if self.cell_plan is None:
            return self._counted_with_known(log)
        from querycloak.methods.keys import cell_counts

        if self.keyed == "none":
            return cell_counts.count_cells(log, self.grouping, self.cell_plan)
        users, views = self._users_cells(log), None
        if self.viewed:
            views = log.engine.stage(cell_counts.first_views(self.rows(log), self.cell_plan.events))
        selector = self.selector(self.checked_cells(self.given))
        cells = self.grouping.cells(log.source.choices)
        of_keys = cell_counts.KeyCells(cells, tuple(self.key), self.grouping.by, viewed=self.viewed)
        return cell_counts.CellsOfKeys(
            selector.count(log), self.table, of_keys, log.engine, users, self.cell_plan, views
        )

    def _users_cells(self, log: SearchLog) -> ir.Table:
        """Keys and public cells of each user, read once: keys are selected from them, and cells counted."""
        from querycloak.methods.keys import cell_counts

        cell_counts.check_attributes(log, self.grouping)
        cells = self.grouping.cells(log.source.choices)
        name = ("cells", type(self), tuple(self.key), cells, self.viewed)  # a class of its own may count other rows
        if name not in log.kept:
            rows = cell_counts.with_values(self.rows(log), self.grouping.private)
            users = cell_counts.users_cells(log.engine, rows, self.key, cells, viewed=self.viewed)
            log.kept[name] = log.engine.stage(users)
        return log.kept[name]

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """Possible contributions of each user, a row for each 1 that is counted; rows of known keys are left out."""
        keys = self.keys_of_users(log)
        if self.known_release is not None:
            keys = keys.anti_join(log.engine.upload(self.known_release.keys), list(self.key))
        return {self.table: keys}

    def keys_of_users(self, log: SearchLog) -> ir.Table:
        """Keys of each user, known ones too."""
        from querycloak.methods.keys.cell_counts import check_attributes, with_values
        from querycloak.methods.keys.contribution_bounding import once_per_key

        check_attributes(log, self.grouping)
        if self.coarse:
            users = self._users_cells(log)
            each = users.group_by(["user", *self.key]).agg(earliest=users.earliest.min())
            keys = each if self.grouping.public else users.select("user", *self.key, "earliest")
        else:
            rows = with_values(self.rows(log), self.grouping.private)
            keys = once_per_key(rows, self.key, with_times=self.times is not None)
        if self.priors is None:
            return keys
        from querycloak.methods.keys.public_priors import with_prior

        return with_prior(log.engine, keys, "query")

    def _counted_with_known(self, log: SearchLog) -> Counted:
        """Count new keys by the plan and, if there are any, known keys beside them."""
        counted = super().count(log)
        if self.known_release is None:
            return counted
        from querycloak.methods.keys.known_keys import CountedWithKnown

        return CountedWithKnown.of(log.engine, counted, self.keys_of_users(log), self.known_release, self.known_draw)
