"""Noisy counts of the queries of a public pool, of transitions between them and of their clicks (query_pool.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from querycloak.errors import ParameterError
from querycloak.methods.forcing_accounts import forced_out_rule, several_accounts
from querycloak.methods.keys.public_lists import PublicList
from querycloak.methods.method import Counted, Method, Variant
from querycloak.methods.option import option
from querycloak.methods.query_pool.outside_plan import (
    MAX_KEYS_PER_USER,
    POOL_PER_USER,
    TRANSITIONS_PER_USER,
    OutsidePlan,
    plan_outside,
    transitions_threshold,
)
from querycloak.methods.query_pool.outside_plan import SPLIT as SPLIT_OF_LOSS
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.budget import Budget, ExplicitNoise, check_one_given
from querycloak.privacy.calibration.deltas import laplace_delta
from querycloak.privacy.calibration.public_counts import public_cut
from querycloak.privacy.calibration.selection import parse_split
from querycloak.privacy.calibration.threshold import largest_tie_probability, least_threshold
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import (
    checked_bound,
    checked_delta,
    checked_epsilon,
    number_above_zero,
    refuse,
    whole,
)
from querycloak.privacy.sampling.exact import float_up, rounded_up, stated
from querycloak.privacy.sampling.noise import Laplace, Noise
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy

ClickKind = Literal["none", "threshold", "public"]
SPLIT = {"queries": 2, "clicks": 1, "transitions": 1}
GAP_MINUTES = 30
POOL_IS_PUBLIC = "the pool given: it must not come from private records"
URLS_ARE_PUBLIC = "the urls given: they must not come from private records"


@dataclass(frozen=True, kw_only=True)
class QueryPool(Method):
    """Release the queries of a public pool that enough users asked, transitions between them, and their clicks.

    Give the budget (epsilon, and delta where something outside public lists may come out) or explicit noise (noise,
    the scale for all tables, and threshold).
    """

    name = "query-pool"
    summary = "What people asked of a public list of queries."
    usual_bound: ClassVar[int] = 4
    """Default numbers of queries and of clicks of one user that count."""

    epsilon: float | None = option(help="Budget: epsilon, the limit on what a release tells about one user.")
    delta: float | None = option(
        help="Budget: delta, only if keys outside public lists may come out (off-pool queries, clicks by threshold)."
    )
    noise: float | None = option(help="Instead of a budget: the scale of Laplace noise, for all tables.")
    threshold: int | None = option(help="Instead of a budget: a query comes out if its noisy count exceeds this.")
    pool: str | None = option(
        help="A file of public queries, one a line; 325,176 English words and word pairs if not given. It must not "
        "come from any private log.",
        names_file=True,
    )
    off_pool: bool = option(
        False, help="Other queries come out too, above a threshold: the guarantee is then (epsilon, delta)."
    )
    clicks: ClickKind | None = option(
        help="Which clicks come out: none; public: on public urls; threshold: any above a threshold, with a delta."
    )
    urls: str | None = option(help="A file of public urls, one a line.", names_file=True)
    selection: Literal["laplace", "multi-round"] | None = option(
        help="How keys outside public lists are chosen: laplace, one threshold and Laplace noise in all tables, if not "
        "given; multi-round: as in clicks, for a budget with delta."
    )
    max_keys_per_user: int | None = option(
        help="With multi-round: how many keys outside public lists of one user count; 256 if not given."
    )
    queries_per_user: int | None = option(
        help="How many queries of one user count, of the pool with multi-round: 4 if not given (8 with multi-round), "
        "100 in the paper variant. Transitions: one fewer, or 1 with multi-round."
    )
    clicks_per_user: int | None = option(
        help="How many clicks of one user count: 4 if not given, 100 in the paper variant."
    )
    gap_minutes: float = option(GAP_MINUTES, help="The longest pause within a transition, in minutes.")
    split: str | None = option(
        help="How the budget is divided; queries=2,clicks=1,transitions=1 if not given, with multi-round 8, 7 and 1 "
        "parts of the squared loss."
    )
    variant: Variant = option(
        "default", help="paper: as published, to compare with. It is not private; its card says why."
    )
    click_kind: ClickKind = field(init=False, repr=False)
    lists: Mapping[str, PublicList] = field(init=False, repr=False)
    bounds: Mapping[str, int] = field(init=False, repr=False)
    noises: Mapping[str, Noise] = field(init=False, repr=False)
    thresholds: Mapping[str, int] = field(init=False, repr=False)
    tie_probabilities: Mapping[str, float] = field(init=False, repr=False)
    """Chance by table that a key outside public lists passes with a noisy count equal to the threshold; 0 if absent."""
    outside: OutsidePlan | None = field(init=False, repr=False)
    """Selections of keys outside public lists; None if all noise is Laplace."""
    _guarantee: Guarantee = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        number_above_zero("gap_minutes", self.gap_minutes, "give the pause that ends a session, such as 30")
        object.__setattr__(self, "outside", None)
        object.__setattr__(self, "tie_probabilities", {})
        self._settle_clicks()
        self._settle_bounds()
        check_one_given({"epsilon": self.epsilon}, {"noise": self.noise, "threshold": self.threshold})
        if self.noise is not None and self.threshold is not None:
            self._set_noise(ExplicitNoise(self.noise, self.threshold))
        elif not self._solve_outside(checked_epsilon(self.epsilon)):
            self._solve(checked_epsilon(self.epsilon))
        object.__setattr__(self, "_guarantee", self.guarantee())

    def _settle_clicks(self) -> None:
        self.check_lists()
        lists = {"pool": PublicList.of("pool", self.pool)}
        if self.urls is not None:
            if self.clicks not in (None, "public"):
                raise ParameterError.of(
                    "{urls} goes with {clicks:public}, got {kind!r}; leave one out", kind=self.clicks
                )
            lists["urls"] = PublicList.of("urls", self.urls)
        other: ClickKind = "none" if self.delta is None else "threshold"
        kind = self.clicks or ("public" if "urls" in lists else other)
        if kind == "public" and "urls" not in lists:
            raise ParameterError.of(
                "{clicks:public} needs a public list of urls: {urls:FILE}; or say {clicks:threshold}"
            )
        object.__setattr__(self, "click_kind", kind)
        object.__setattr__(self, "lists", lists)

    def check_lists(self) -> None:
        """Refuse options that do not go together, before a list is read."""

    def _settle_bounds(self) -> None:
        default = self.usual_bound
        way_out = "say how many queries, or clicks, of one user may count"
        queries, clicks = (
            checked_bound(whole(name, default if value is None else value, way_out, least=1))
            for name, value in (
                ("queries_per_user", self.queries_per_user),
                ("clicks_per_user", self.clicks_per_user),
            )
        )
        bounds = {"queries": queries}
        if self.counts_clicks:
            bounds["clicks"] = clicks
        if queries > 1:
            bounds["transitions"] = queries - 1
        object.__setattr__(self, "bounds", bounds)

    @property
    def counts_clicks(self) -> bool:
        """True if there is a table of clicks."""
        return self.click_kind != "none"

    def _set_noise(self, given: ExplicitNoise) -> None:
        if self.delta is not None or self.split is not None:
            raise ParameterError.of(
                "{delta} and {split} are for a budget: {noise} and {threshold} decide; leave them out"
            )
        self._refuse_rounds()
        object.__setattr__(self, "noises", dict.fromkeys(self.bounds, Laplace(given.noise)))
        object.__setattr__(self, "thresholds", {"queries": given.threshold, "clicks": given.threshold})

    def _solve(self, epsilon: float) -> None:
        split = self.parts()
        whole_of = {name: stated(epsilon) * Fraction(split[name], sum(split.values())) for name in self.bounds}
        noises = {name: Laplace(float_up(bound / whole_of[name])) for name, bound in self.bounds.items()}
        object.__setattr__(self, "noises", noises)
        thresholds = {"queries": public_cut(noises["queries"], self.lists["pool"].size)}
        ties: dict[str, float] = {}
        for name in self._thresholded():
            delta, bound = self._delta_of_each(), self.bounds[name]
            thresholds[name] = max(least_threshold(noises[name], delta, bound), thresholds.get(name, 0))
            ties[name] = largest_tie_probability(noises[name], thresholds[name], bound, delta)
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "tie_probabilities", ties)

    def _refuse_rounds(self) -> None:
        if self.selection == "multi-round" or self.max_keys_per_user is not None:
            raise ParameterError.of(
                "{selection:multi-round} and {max_keys_per_user} are for {epsilon} and {delta} with {off_pool} or "
                "{clicks:threshold}; leave them out"
            )

    def _solve_outside(self, epsilon: float) -> bool:
        """Plan selections of keys outside public lists; False if there are none, or all noise is to be Laplace."""
        if not self._thresholded() or self.selection != "multi-round" or self.delta is None:
            self._refuse_rounds()
            return False
        budget = Budget(epsilon, self.delta)
        bounds = {**self.bounds, "queries": self.bounds["queries"] if self.queries_per_user else POOL_PER_USER}
        if bounds["queries"] > 1:
            bounds["transitions"] = TRANSITIONS_PER_USER
        public = {name: bound for name, bound in bounds.items() if name != "clicks" or self.click_kind == "public"}
        split = parse_split(self.split) if self.split else {name: SPLIT_OF_LOSS[name] for name in bounds}
        if set(split) != set(bounds):
            refuse("split", f"a part for each of {', '.join(bounds)}", self.split, "name each once")
        most = MAX_KEYS_PER_USER if self.max_keys_per_user is None else self.max_keys_per_user
        plan = plan_outside(budget, (*split.items(),), (*public.items(),), most, off_pool=self.off_pool)
        object.__setattr__(self, "outside", plan)
        object.__setattr__(
            self, "bounds", {name: most if name in plan.only_selected else public[name] for name in bounds}
        )
        object.__setattr__(self, "noises", plan.noises)
        pool = public_cut(plan.public["queries"].noise, self.lists["pool"].size)
        object.__setattr__(self, "thresholds", {"queries": pool})
        return True

    def parts(self) -> Mapping[str, int]:
        """The parts of epsilon, by table."""
        parts = parse_split(self.split) if self.split else {name: SPLIT[name] for name in self.bounds}
        if set(parts) != set(self.bounds):
            refuse("split", f"a part for each of {', '.join(self.bounds)}", self.split, "name each once")
        return parts

    def _thresholded(self) -> list[str]:
        """The tables in which keys may come out that are in no public list."""
        return [*(["queries"] if self.off_pool else []), *(["clicks"] if self.click_kind == "threshold" else [])]

    def _delta_of_each(self) -> float:
        delta = checked_delta(self.delta, Sentence("{off_pool} and {clicks:threshold} need one, such as 1e-7"))
        return delta / len(self._thresholded()) * (1 - 2**-40)

    def guarantee(self) -> Guarantee:
        """The guarantee that query_pool.md proves for these bounds, noises and thresholds."""
        if self.delta is not None and not self._thresholded():
            raise ParameterError.of(
                "{delta} is for {off_pool} and {clicks:threshold}: without them there is none; leave it out"
            )
        unprotected = (*ALWAYS, *self._accounts(), *self.public_lists())
        if self.outside is not None:
            return user_guarantee(self.outside.epsilon, self.outside.delta, self._because(), unprotected)
        parts = [bound / Fraction(self.noises[name].size) for name, bound in self.bounds.items()]
        delta = sum(
            laplace_delta(noise, self.thresholds[name], self.bounds[name], self.tie_probabilities.get(name, 0.0))
            for name in self._thresholded()
            if isinstance(noise := self.noises[name], Laplace)
        )
        if delta >= 1:
            refuse("threshold", "high enough for delta to stay below 1", self.threshold, "raise it")
        epsilon = rounded_up(sum(parts, Fraction(0)))
        stated_delta = delta * (1 + 2**-40) if self._thresholded() else None
        return user_guarantee(epsilon, stated_delta, self._because(), unprotected)

    def public_lists(self) -> list[str]:
        """Unprotected lists: the pool, and the urls if they were given."""
        return [POOL_IS_PUBLIC, *([URLS_ARE_PUBLIC] if "urls" in self.lists else [])]

    def _accounts(self) -> list[str]:
        """Power of several accounts of one person, at the table that needs the fewest."""
        rule = forced_out_rule(self.name, self.variant, self.parameters())
        return [] if rule is None else [several_accounts(rule)]

    def _because(self) -> str:
        if self.outside is not None:
            return f"{self.outside.because} (query_pool.md)"
        counted = ", ".join(f"{bound} {name}" for name, bound in self.bounds.items())
        because = (
            f"each user counts for at most {counted}, once each; every key of a public list is drawn, zeros included"
        )
        if self._thresholded():
            because += f"; other {' and '.join(self._thresholded())} come out above a threshold"
        return f"{because} (query_pool.md)"

    def parameters(self) -> dict[str, Any]:
        """Given options, and the numbers computed from them."""
        return {
            **{f"{name}_per_user": bound for name, bound in self.bounds.items()},
            **{f"{name}_noise": noise.size for name, noise in self.noises.items()},
            "threshold": self.thresholds["queries"],
            "clicks": self.click_kind,
            "clicks_threshold": self.thresholds.get("clicks") if self.click_kind == "threshold" else None,
            **{f"{name}_coin": tie for name, tie in self.tie_probabilities.items() if tie},
            "pairs_threshold": "so high that one pair of count zero is expected to pass"
            if self.outside is None
            else "so high that one pair of count zero is expected to pass; of transitions, one in a hundred releases",
            "off_pool": self.off_pool,
            "transitions": self._between() if "transitions" in self.bounds else None,
            "gap_minutes": self.gap_minutes,
            **self.lists["pool"].describe("pool"),
            **(self.lists["urls"].describe("urls") if "urls" in self.lists else {}),
            "split": self.split,
            **({} if self.outside is None else self.outside.parameters()),
        }

    def pairs_threshold(self, table: str, keys: int) -> int:
        """The threshold of transitions, or of clicks on public urls, if there are this many public keys."""
        noise = self.noises[table]
        if self.outside is not None and table == "transitions":
            return transitions_threshold(noise, keys)
        return public_cut(noise, max(keys, 1))

    def _between(self) -> str:
        return f"no other query {'' if self.off_pool else 'of the pool '}was asked between"

    def proven(self) -> Guarantee:
        """Guarantee that query_pool.md proves."""
        return self._guarantee

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Queries, and clicks by a threshold; thresholds of other pairs depend on how many queries come out."""
        from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage

        pool = ReleaseProbability((Stage(self.noises["queries"], self.thresholds["queries"]),))
        if self.outside is not None:
            return {"queries": [pool, *self.outside.routes("queries")], "clicks": self.outside.routes("clicks")}
        others = {
            table: ReleaseProbability((Stage(self.noises[table], self.thresholds[table], tie),))
            for table, tie in self.ties().items()
        }
        both = [pool, *([others["queries"]] if others.get("queries", pool) != pool else [])]
        return {"queries": both, **{table: [other] for table, other in others.items() if table != "queries"}}

    def ties(self) -> dict[str, float]:
        """The tie probability of each table with keys outside public lists."""
        return {name: self.tie_probabilities.get(name, 0.0) for name in self._thresholded()}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy by noise and thresholds; for pairs of public keys, from the fewest to the most queries possible."""
        from querycloak.methods.query_pool.pool_accuracy import of_pool

        return of_pool(self)

    def count(self, log: SearchLog) -> Counted:
        """Bound and count; what is counted after the first draw reads what that released, and nothing else new."""
        from querycloak.methods.query_pool.count import Pooling, SelectingPooling

        return Pooling(self, log) if self.outside is None else SelectingPooling(self, self.outside, log)

    def draws(self) -> Sequence[Draw]:
        """Draws, recorded for the composition of several releases; none if all noise is Laplace."""
        return () if self.outside is None else self.outside.draws()
