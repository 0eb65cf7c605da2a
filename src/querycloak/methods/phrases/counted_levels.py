"""Levels between count and draw: each is counted when the level before it has come out (phrases.md, *Mechanism*)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.engines import Engine
from querycloak.language.word_model import BEGIN, END
from querycloak.methods.keys.contribution_bounding import once_per_key
from querycloak.methods.keys.key_tables import users_by_keys
from querycloak.methods.keys.partition_selection import CountedKeys, count_keys
from querycloak.methods.keys.selection_plan import SplitBudget
from querycloak.methods.method import Drawn
from querycloak.methods.phrases.consistency import consistent
from querycloak.methods.phrases.levels import KEY, contributions, keys_per_user, number_of_levels, uses_of_words
from querycloak.methods.phrases.method import LEVELS, QUERIES, TABLE, Phrases
from querycloak.privacy.calibration.bound_choice import choose_plan
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Table

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.accounting.draws import Draw

QUERY = "query"


@dataclass(frozen=True)
class CountedLevels:
    """Users' queries as tokens, kept in the engine; candidates wait for the levels before them."""

    engine: Engine
    uses: ir.Table
    """user, tokens, earliest."""
    queries: ir.Table | None
    """user, query, earliest; None if whole queries do not come out."""
    methods: Mapping[str, Phrases]
    """The method of each candidate plan, by choice; a single one if the plan is fixed."""
    budget: SplitBudget | None
    """The part of epsilon that chooses a plan; None if it is fixed."""
    users_by_keys: Mapping[str, Mapping[int, int]]
    """For each table the number of users with 1, 2, ... keys (private); empty if the plan is fixed."""
    draws_of: Callable[[Phrases], Sequence[Draw] | None] = lambda _: None
    """The draws of a chosen candidate, to which the reserve is lowered; None if it is not."""

    def draw(self, randomness: Randomness) -> Drawn:
        """Choose a plan if it is open, then draw whole queries and level after level."""
        methods = list(self.methods.values())
        if self.budget is None:
            return Drawn(self.released(methods[0], randomness), _counts(methods[0]))
        plans = [each.plans for each in methods]
        chosen = methods[choose_plan(plans, self.users_by_keys, self.budget.choosing, randomness)]
        tables = self.released(chosen, randomness)
        return Drawn(
            tables,
            _counts(chosen),
            parameters=chosen.parameters(),
            reach=chosen.reach(),
            draws=self.draws_of(chosen),
            unprotected=chosen.proven().unprotected,
        )

    def released(self, method: Phrases, randomness: Randomness) -> dict[str, Table]:
        """The tables that come out by the plan of this method."""
        tables: dict[str, Table] = {}
        if self.queries is not None:
            tables[QUERIES] = self.counted_queries(method).release(randomness).table
        levels: list[pa.Table] = []
        for level in range(1, number_of_levels(method.longest) + 1):
            before = levels[-1] if levels else None
            levels.append(self.counted_level(method, level, before).release(randomness).table)
        return {TABLE: published(pa.concat_tables(levels)), **tables}

    def counted_queries(self, method: Phrases) -> CountedKeys:
        """Whole queries, counted by this method's plan."""
        if self.queries is None:
            raise TypeError("this method counts no whole queries; this is a bug in querycloak")
        return count_keys(self.engine, self.queries, (QUERY,), method.plans[QUERIES], kept=True)

    def counted_level(self, method: Phrases, level: int, before: pa.Table | None) -> CountedKeys:
        """The candidates of a level, counted by this method's plan; before: what came out at the level below."""
        below = None if before is None else self.engine.upload(before.select(KEY))
        contributed = self.engine.stage(contributions(self.engine, self.uses, level, method.longest, below))
        return count_keys(self.engine, contributed, KEY, method.plans[LEVELS[level - 1]], kept=True)


def counted_levels(log: SearchLog, method: Phrases) -> CountedLevels:
    """Read and cut the log; count what a choice of plans needs to know."""
    engine = log.engine
    searches = engine.stage(once_per_key(log.asked, (QUERY,)))
    uses = uses_of_words(engine, searches)
    queries = searches if method.queries else None
    if not method.plan.candidates:
        return CountedLevels(engine, uses, queries, {"fixed": method}, None, {})
    methods = {str(each.choice): cast("Phrases", each.method) for each in method.plan.candidates}
    scores = scores_of(engine, uses, queries, methods)
    return CountedLevels(engine, uses, queries, methods, method.plan.budget, scores, method.plan.draws_of)


def first_contributions(log: SearchLog, longest: int) -> ir.Table:
    """user, phrase and earliest: the words of each user."""
    searches = log.engine.stage(once_per_key(log.asked, (QUERY,)))
    return contributions(log.engine, uses_of_words(log.engine, searches), 1, longest, None)


def scores_of(
    engine: Engine, uses: ir.Table, queries: ir.Table | None, methods: Mapping[str, Phrases]
) -> dict[str, dict[int, int]]:
    """For each table the number of users with 1, 2, ... keys, up to the largest bound of a plan (private)."""
    plans = [each.plans for each in methods.values()]
    most = {table: max(each[table].per_user for each in plans) for table in plans[0]}
    longest = next(iter(methods.values())).longest
    names = LEVELS[: number_of_levels(longest)]
    scores = dict(zip(names, keys_per_user(engine, uses, longest, [most[name] for name in names]), strict=True))
    if queries is not None:
        scores[QUERIES] = users_by_keys(engine, queries, most[QUERIES])
    return {table: scores[table] for table in plans[0]}


def published(levels: pa.Table) -> pa.Table:
    """All levels as the table `phrases`: words and marks apart, counts consistent, by count and key."""
    table = with_marks(consistent(levels))
    order: list[tuple[str, str]] = [(name, "ascending") for name in table.column_names if name != "count"]
    if "count" not in table.column_names:
        return table.sort_by(order)
    # Missing counts stand among the counts of 1.
    known = table.append_column("known", pc.fill_null(table["count"], 1))
    return known.sort_by([("known", "descending"), *order]).drop_columns(["known"])


def with_marks(keys: pa.Table) -> pa.Table:
    """Keys with their words and marks in columns of their own: phrase, words, begins, ends."""
    tokens = keys[KEY[0]]
    phrase = pc.utf8_trim(tokens, f"{BEGIN}{END} ")
    words = pc.add(pc.count_substring(phrase, " "), 1).cast(pa.int64())
    marks = {"begins": pc.starts_with(tokens, BEGIN), "ends": pc.ends_with(tokens, END)}
    others = {name: keys[name] for name in keys.column_names if name not in KEY}
    counts = {"count": others.pop("count")} if "count" in others else {}
    return pa.table({**others, "phrase": phrase, "words": words, **marks, **counts})


def without_marks(table: pa.Table) -> pa.Table:
    """The table `phrases` with tokens in place of words and marks: the inverse of `with_marks`; phrase and count."""
    phrases = table["phrase"].cast(pa.string())
    begins, ends = (pc.if_else(table[name], mark, "") for name, mark in (("begins", f"{BEGIN} "), ("ends", f" {END}")))
    return pa.table({KEY[0]: pc.binary_join_element_wise(begins, phrases, ends, ""), "count": table["count"]})


def _counts(method: Phrases) -> str:
    return next(iter(method.plans.values())).counts
