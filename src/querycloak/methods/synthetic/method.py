"""A whole made-up log: users, sessions, times, queries, clicks and ranks from noisy parts (proof: synthetic.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import ParameterError
from querycloak.methods.forcing_accounts import fewest, several_accounts
from querycloak.methods.keys.selection_plan import SelectionPlan
from querycloak.methods.method import AuditLogs, Counted, Method
from querycloak.methods.option import option
from querycloak.methods.phrases.method import LEVELS, Phrases
from querycloak.methods.synthetic.parts_plan import (
    CLICKS,
    HOSTS,
    LONGEST,
    QUERIES,
    SHARES,
    PartsPlan,
    parse_shares,
    plan_parts,
)
from querycloak.methods.synthetic.shape import GAP_MINUTES
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.budget import Budget
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import natural

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy

MOST_USERS = 10**9
MODELLED = (
    "sessions per user", "searches per session", "hours of the week", "pauses", "kinds of reformulation",
    "words and phrases", "whole queries", "next queries", "clicks by query and by word", "clicks per search", "ranks",
)  # fmt: skip
NOT_MODELLED = (
    "what one person asks over time, beyond asking again", "queries by hour", "searches of people of many sessions",
    "trends over weeks", "ranks of single results", "three or more queries that go together",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Synthetic(Method):
    """Release a log of made-up users: user, time, query, rank and url of every search and click.

    Users are made up from noisy parts; every part has its share of one budget.
    """

    name = "synthetic"
    summary = "A whole made-up log: users, sessions, times, queries, clicks."

    epsilon: float | None = option(help="Budget: epsilon, for all parts together.")
    delta: float | None = option(help="Budget: delta, for all parts together; far below 1/users.")
    users: int | None = option(help="How many users to make up. If not given: as many as the log has, up to noise.")
    split: str | None = option(
        help=f"How the budget is divided, such as words=40,hosts=0; parts that are not named keep theirs. If not "
        f"given: {','.join(f'{name}={share}' for name, share in SHARES.items())}."
    )
    log_layout: Literal["parquet", "aol", "ubi"] = option(
        "parquet",
        help="aol or ubi: write the log also as log-aol.tsv (AOL's columns) or log-ubi.jsonl (User Behavior Insights).",
    )
    given: Budget = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        if self.epsilon is None or self.delta is None:
            raise ParameterError.of(
                "{epsilon} and {delta} must be given: the budget, such as {epsilon:8} and {delta:1e-7}"
            )
        object.__setattr__(self, "given", Budget(self.epsilon, self.delta))
        if self.users is not None:
            natural("users", self.users, "say how many users to make up, or leave it out", most=MOST_USERS)
        parse_shares(self.split)
        _ = self.plan

    @cached_property
    def plan(self) -> PartsPlan:
        """Noise and thresholds of all parts."""
        return plan_parts(self.given, self.split)

    @cached_property
    def phrases(self) -> Phrases:
        """Words and whole queries, with their plans of this budget, as the method that counts and draws them."""
        method = Phrases(epsilon=self.epsilon, delta=self.delta, longest=LONGEST, queries=True, max_keys_per_user=1)
        plans = {name: self.plan.selected[name] for name in (*LEVELS[:LONGEST], QUERIES)}
        object.__setattr__(method, "plan", SelectionPlan(self.proven(), plans))
        return method

    def parameters(self) -> dict[str, Any]:
        """Given options and solved numbers: noise and threshold of every part."""
        solved = {name: plan.parameters() for name, plan in self.plan.selected.items()}
        first = next(iter(solved.values()))
        shared = {name: value for name, value in first.items() if all(each[name] == value for each in solved.values())}
        apart = {table: {name: each[name] for name in each if name not in shared} for table, each in solved.items()}
        return {
            **shared,
            **apart,
            "cells_noise": {name: plan.noise.size for name, plan in self.plan.public.items()},
            "shares": dict(self.plan.shares),
            "users": self.users,
            "split": self.split,
            "log_layout": self.log_layout,
            "longest": LONGEST,
            "gap_minutes": GAP_MINUTES,
            "modelled": list(MODELLED),
            "not_modelled": list(NOT_MODELLED),
        }

    def proven(self) -> Guarantee:
        """Guarantee that synthetic.md proves."""
        chosen = (LEVELS[0], QUERIES, CLICKS, HOSTS)
        rule = fewest([self.plan.selected[name].forced_out for name in chosen if name in self.plan.selected])
        unprotected = (*ALWAYS, several_accounts(*([] if rule is None else [rule])))
        return user_guarantee(self.plan.epsilon, self.plan.delta, self.plan.because, unprotected)

    def draws(self) -> Sequence[Draw]:
        """Draws, recorded for the composition of several releases."""
        return self.plan.draws()

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Whole queries, or the words of a query, must pass a threshold before users are made up."""
        return {"log": [self.plan.selected[name].route() for name in (QUERIES, LEVELS[0])]}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """What a row means: there are no counts."""
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        made_up = "there is no count: each row is a search or a click of a made-up user"
        spread = [TableAccuracy.of_route(route, made_up) for route in self.routes()["log"]]
        notes = [
            "Every user is made up. A made-up query may coincide with a real one, or spell a name by chance: that is "
            "no evidence that anybody asked it.",
            "An address below `.invalid` stands for a click on a result that is not known.",
            f"Modelled: {', '.join(MODELLED)}. Not modelled: {', '.join(NOT_MODELLED)}.",
        ]
        return {"log": replace(TableAccuracy.over(spread, made_up, notes=notes), margin95=None, spurious=None)}

    def count(self, log: SearchLog) -> Counted:
        """Read the log; parts are counted when they are drawn, because later ones look at earlier ones."""
        from querycloak.methods.synthetic.parts import read_parts

        return read_parts(log, self)

    def audit_logs(self) -> Iterator[AuditLogs]:
        """A user who lets a phrase out, or a click on a shared query, or who fills every bound of the public parts."""
        yield from self.phrases.audit_logs()
        enough = self.plan.selected[QUERIES].enough_users
        crowd = [_row(f"u{user}", "tiger", 0, "http://tiger.example/") for user in range(enough + 3)]
        own = [_row("new", "tiger", minute, f"http://own{minute}.example/") for minute in range(40)]
        yield AuditLogs("clicks of one user on a shared query", crowd, own)
        busy = [_row("new", "tiger", 61 * step, "http://tiger.example/") for step in range(200)]
        yield AuditLogs("one user of many sessions", crowd, busy)


def _row(user: str, query: str, minute: int, url: str) -> str:
    day, rest = divmod(minute, 24 * 60)
    return f"{user}\t{query}\t2006-03-{1 + day:02} {rest // 60:02}:{rest % 60:02}:00\t1\t{url}"
