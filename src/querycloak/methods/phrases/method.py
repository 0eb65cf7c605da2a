"""Noisy counts of words and word sequences, level after level (proof: phrases.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import ParameterError
from querycloak.methods.keys.by_attributes import KeysByAttributes
from querycloak.methods.keys.cell_plan import MANY_CELLS_PER_USER, plan_cells, split_budget
from querycloak.methods.keys.selection_plan import (
    SelectionPlan,
    check_counts,
    check_given_bound,
    chosen_on_log,
    noise_of,
    shared_and_own,
)
from querycloak.methods.method import AuditLogs
from querycloak.methods.option import option
from querycloak.privacy.budget import Budget, ExplicitNoise, Given
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.calibration.selection import (
    PER_USER,
    TablePlans,
    default_selection,
    parse_split,
    plan_tables,
)
from querycloak.privacy.parameters import checked_bound, refuse, whole
from querycloak.privacy.sampling.exact import rounded_up, stated
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.method import Counted
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy

TABLE, QUERIES = "phrases", "queries"
LONGEST = 8
"""Words of a phrase at most; each level more divides the budget once more."""
DIVISIONS = ((20, 10), (8, 4), (3, 2), (1, 1))
"""Parts of words, and of whole queries or, without these, of level 2, where every other level has one.

For squared losses, which add up. The first was tuned on a synthetic log: words decide what can be spelled, whole
queries complete. A smaller budget takes the first division that leaves every level enough for weights.
"""
LEVELS = tuple(f"level-{level}" for level in range(1, LONGEST + 1))


@dataclass(frozen=True, kw_only=True)
class Phrases(KeysByAttributes):
    """Release the words and word sequences that enough users asked, each with a noisy number of users.

    Marks say if a phrase begins or ends a query. Give the budget (epsilon, delta), or explicit noise and a threshold,
    which then hold for each level.
    """

    name = "phrases"
    summary = "Noisy counts of words and word sequences; needs no clicks."
    keys: ClassVar = {**dict.fromkeys(LEVELS, ("phrase",)), QUERIES: ("query",)}
    taken_names: ClassVar = frozenset(
        {"phrase", "words", "begins", "ends", "tokens", "marks", "group", "cut_query", "cut_words"}
    )

    epsilon: float | None = option(help="Budget: epsilon, for all levels and tables together.")
    delta: float | None = option(help="Budget: delta, for all levels and tables together; far below 1/users.")
    noise: float | None = option(
        help="Instead of a budget: the scale of Laplace or sigma of Gaussian noise, at each level."
    )
    threshold: int | None = option(help="Instead of a budget: a phrase comes out if its noisy count exceeds this.")
    cells_per_user: int | None = option(
        help="With public attributes: how many pairs of a phrase (or query) and a cell of one user count; 64 if not "
        "given."
    )
    longest: int = option(
        3, help="Largest number of words of a phrase, 1 to 8. Each length is a level with its own part of the budget."
    )
    queries: bool = option(False, help="Release whole queries, too, from the same budget.")
    split: str | None = option(
        help="How the budget is divided, such as level-1=1,level-2=2,level-3=2. If not given: equal parts; selected by "
        "weights level 1 gets 20 parts, whole queries (without these, level 2) 10, every other level 1; less uneven "
        "parts if the budget is too small."
    )

    def __post_init__(self) -> None:
        self.check_choices()
        whole("longest", self.longest, "give the largest number of words of a phrase, such as 3", least=1, most=LONGEST)
        self.settle_attributes()
        if self.coarse or not self.counts_cells:
            object.__setattr__(self, "plan", self.plan_for(self.given))
            return
        budget = self.checked_cells(self.given)
        object.__setattr__(self, "cell_plan", plan_cells(split_budget(budget)[1], self.most_cells))
        object.__setattr__(self, "plan", self.selector(budget).plan)

    @property
    def usual_cells(self) -> int:
        """Number of cells of one user that count if `cells_per_user` is not given."""
        return MANY_CELLS_PER_USER

    @property
    def levels(self) -> Sequence[str]:
        """The levels, as tables of the plan (phrases.md)."""
        return LEVELS[: max(2, self.longest)]

    @property
    def tables(self) -> Sequence[str]:
        """The tables of the plan: levels, and whole queries if these come out."""
        return (*self.levels, QUERIES) if self.queries else self.levels

    def plan_for(self, given: Given) -> SelectionPlan:
        """The plan that these options give."""
        check_counts(self.counts, given, two_draws=self.two_draws)
        if self.chooses(given):
            return chosen_on_log(self, given)
        check_given_bound(self.max_keys_per_user, self.auto_share)
        planned = self._within(given) if isinstance(given, Budget) else self._at_noise(given)
        return SelectionPlan(planned.guarantee(), planned.plans)

    def _within(self, given: Budget) -> TablePlans:
        """Plans that the budget buys: a part for each level, never one histogram (phrases.md)."""
        known = None if self.max_keys_per_user is None else checked_bound(self.max_keys_per_user)
        law = self.selection or default_selection(
            given.epsilon,
            given.delta,
            known,
            tables=len(self.tables),
            two_draws=self.two_draws,
            for_filter=self.for_filter,
        )
        *uneven, last = self._divisions(law)
        for parts in uneven:
            with suppress(ParameterError):
                return self._divided(given, law, parts)
        return self._divided(given, law, last)

    def _divided(self, given: Budget, law: str | None, parts: Mapping[str, int] | None) -> TablePlans:
        return plan_tables(
            given.epsilon,
            given.delta,
            self._room(law or "gaussian"),
            selection=law,
            split=parts,
            two_draws=self.two_draws,
            counted=self.counts == "noisy",
            for_filter=self.for_filter,
        )

    def _at_noise(self, given: ExplicitNoise) -> TablePlans:
        """Plans with this noise and threshold at each level; their guarantees add up."""
        if self.split is not None:
            way_out = Sentence("{noise} and {threshold} hold for each level")
            refuse("split", "left out with a noise", self.split, way_out)
        law = self.selection or "laplace"
        noise = noise_of(law, given.noise)
        published = noise if self.two_draws else None
        plans = {
            table: price(noise, given.threshold, bound, published_noise=published)
            for table, bound in self._room(law).items()
        }
        spent = [(stated(plan.epsilon), stated(plan.delta)) for plan in plans.values()]
        total = [sum(each, Fraction(0)) for each in zip(*spent, strict=True)]
        return TablePlans(plans, rounded_up(total[0]), min(1.0, rounded_up(total[1])))

    def _divisions(self, law: str | None) -> Sequence[Mapping[str, int] | None]:
        """Parts of the budget by table, None for equal parts: the first that the budget allows is taken."""
        if self.split is None and law not in ("weighted", "multi-round"):
            return [None]
        if self.split is None:
            second = QUERIES if self.queries else LEVELS[1]
            return [{**dict.fromkeys(self.tables, 1), LEVELS[0]: words, second: whole} for words, whole in DIVISIONS]
        parts = parse_split(self.split)
        if set(parts) != set(self.tables):
            refuse("split", f"a part for each of {', '.join(self.tables)}", self.split, "such as level-1=1,level-2=2")
        return [parts]

    def _room(self, law: str) -> dict[str, int]:
        """Number of keys that one user may add to, by table."""
        bound = checked_bound(PER_USER[law] if self.max_keys_per_user is None else self.max_keys_per_user)
        return dict.fromkeys(self.tables, bound)

    def parameters(self) -> dict[str, Any]:
        """Given options and solved numbers; with the rule for words, as the card must state it."""
        from querycloak.text.word_boundaries import RULE

        cutting = {"longest": self.longest, "queries": self.queries, "split": self.split, "words": RULE}
        cutting |= self.cell_parameters()
        cutting["counts"] = None if self.counts == "noisy" else self.counts
        if self.plan.candidates:
            return {**self.plan.choice_parameters(), **cutting}
        return {**shared_and_own({table: plan.parameters() for table, plan in self.plans.items()}), **cutting}

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Release probabilities of the keys of each table: for phrases, those of all levels; empty for cells."""
        routes = super().routes()
        if not routes:
            return {}
        phrases = {TABLE: [route for level in self.levels for route in routes[level]]}
        return {**phrases, QUERIES: routes[QUERIES]} if self.queries else phrases

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of counts, over all levels; of cells, their noise."""
        from querycloak.methods.counted_users import of_phrase_cells, over_levels

        if self.cell_plan is not None:
            return of_phrase_cells((TABLE, QUERIES) if self.queries else (TABLE,), self.cell_plan)
        reached = super().reach()
        own = None if self.plan.candidates else sum(self.plans[level].rows_of_one_user for level in self.levels)
        phrases = {TABLE: over_levels([reached[level] for level in self.levels], own)}
        return {**phrases, QUERIES: reached[QUERIES]} if self.queries else phrases

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """Contributions of each user at the first level; later levels wait for it (`count`)."""
        from querycloak.methods.phrases.counted_levels import first_contributions

        return {LEVELS[0]: first_contributions(log, self)}

    def count(self, log: SearchLog) -> Counted:
        """Read each user's queries, once, and cut them into words; levels and cells are counted when drawn."""
        from querycloak.methods.phrases.counted_levels import counted_levels

        return counted_levels(log, self)

    def audit_logs(self) -> Iterator[AuditLogs]:
        """A user who lets a phrase out, or its words, or the words of a phrase that others hold."""
        enough = max(plan.enough_users for plans in self.plan.alternatives for plan in plans.values())
        crowd = [_row(f"u{user}", "tiger") for user in range(enough + 3)]
        woods = [_row(f"w{user}", "woods") for user in range(enough + 3)]
        yield AuditLogs("a pair of shared words", [*crowd, *woods], [_row("new", "tiger woods")])
        near = [_row(f"n{user}", "new york") for user in range(enough)]
        yield AuditLogs("a word in the balance that others' pairs need", [*crowd, *near], [_row("new", "york")])
        yield AuditLogs("a long query", crowd, [_row("new", " ".join(f"word{place}" for place in range(20)))])
        if self.grouping.by:
            values = range(2) if self.attributes else (None, None)
            both = [_row("new", "tiger woods", value, 1 + 7 * place) for place, value in enumerate(values)]
            yield AuditLogs("a pair of shared words in two cells", [*crowd, *woods], both)
            others = [_row(f"v{user}", "tiger woods", values[0]) for user in range(enough + 3)]
            alone = _row("new", "tiger woods", values[1], 8)
            yield AuditLogs("a shared pair in a cell of nobody else", [*crowd, *others], [alone])


def _row(user: str, query: str, value: int | None = None, day: int = 1) -> str:
    """A search in AOL's form; value: the number of the value of each attribute, None for whatever it is."""
    row = f"{user}\t{query}\t2006-03-{day:02} 00:00:00\t\t"
    return row if value is None else f"{row}\t{value}"
