"""Levels between count and draw: each is counted when the level before it has come out (phrases.md, *Mechanism*).

What came out is made consistent: no phrase is asked by more users than the phrases within it (*Consistency*).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.engines import Engine
from querycloak.language.word_model import BEGIN, END
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.cell_counts import check_attributes, with_values
from querycloak.methods.keys.contribution_bounding import once_per_key
from querycloak.methods.keys.key_tables import draw_by_choice, users_by_keys
from querycloak.methods.keys.partition_selection import CountedKeys, count_keys
from querycloak.methods.keys.selection_plan import SplitBudget
from querycloak.methods.keys.thresholded import by_key, by_noisy_count
from querycloak.methods.method import Counted, Drawn
from querycloak.methods.phrases.levels import KEY, contributions, keys_per_user, number_of_levels, uses_of_words
from querycloak.methods.phrases.method import LEVELS, QUERIES, TABLE, Phrases
from querycloak.privacy.accounting.draws import Draw
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Table

QUERY = "query"
_GROUP = "group"


@dataclass(frozen=True)
class CountedLevels:
    """Users' queries as tokens, kept in the engine; candidates wait for the levels before them."""

    engine: Engine
    uses: ir.Table
    """user, tokens, private attributes, earliest."""
    queries: ir.Table | None
    """user, query, private attributes, earliest; None if whole queries do not come out."""
    methods: Mapping[str, Phrases]
    """The method of each candidate plan, by choice; a single one if the plan is fixed."""
    budget: SplitBudget | None
    """The part of epsilon that chooses a plan; None if it is fixed."""
    users_by_keys: Mapping[str, Mapping[int, int]]
    """For each table the number of users with 1, 2, ... keys (private); empty if the plan is fixed."""
    draws_of: Callable[[Phrases], Sequence[Draw] | None] = lambda _: None
    """The draws of a chosen candidate, to which the reserve is lowered; None if it is not."""
    private: tuple[str, ...] = ()
    """Attributes that are columns of each key."""

    def draw(self, randomness: Randomness) -> Drawn:
        """Choose a plan if it is open, then draw whole queries and level after level."""
        methods = list(self.methods.values())

        def drawn(method: Phrases) -> Drawn:
            return Drawn(self.released(method, randomness), next(iter(method.plans.values())).counts)

        if self.budget is None:
            return drawn(methods[0])
        return draw_by_choice(methods, self.users_by_keys, self.budget, self.draws_of, drawn, randomness)

    def released(self, method: Phrases, randomness: Randomness) -> dict[str, Table]:
        """The tables that come out by the plan of this method."""
        tables: dict[str, Table] = {}
        if self.queries is not None:
            tables[QUERIES] = self.counted_queries(method).release(randomness).table
        levels: list[pa.Table] = []
        for level in range(1, number_of_levels(method.longest) + 1):
            before = levels[-1] if levels else None
            levels.append(self.counted_level(method, level, before).release(randomness).table)
        return {TABLE: published(pa.concat_tables(levels), self.private), **tables}

    def counted_queries(self, method: Phrases) -> CountedKeys:
        """Whole queries, counted by this method's plan."""
        if self.queries is None:
            raise TypeError("this method counts no whole queries; this is a bug in querycloak")
        return count_keys(self.engine, self.queries, (QUERY, *self.private), method.plans[QUERIES], kept=True)

    def counted_level(self, method: Phrases, level: int, before: pa.Table | None) -> CountedKeys:
        """The candidates of a level, counted by this method's plan; before: what came out at the level below."""
        below = None if before is None else self.engine.upload(before.select(self.key))
        contributed = self.engine.stage(self.held(level, method.longest, below))
        return count_keys(self.engine, contributed, self.key, method.plans[LEVELS[level - 1]], kept=True)

    def held(self, level: int, longest: int, below: ir.Table | None) -> ir.Table:
        """The candidates of a level that each user holds, unbounded; None below: all keys of the level."""
        return contributions(self.engine, self.uses, level, longest, below, self.private)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of a key of each level."""
        return (*KEY, *self.private)


def counted_levels(log: SearchLog, method: Phrases) -> Counted:
    """Read and cut the log; count what a choice of plans needs to know. With public attributes, cells wait as well."""
    check_attributes(log, method.grouping)
    if method.cell_plan is not None:
        from querycloak.methods.phrases.phrase_cells import cells_of_phrases

        return cells_of_phrases(log, method, method.cell_plan)
    searches = searches_of(log, method.grouping.private)
    uses = uses_of_words(log.engine, searches, method.grouping.private)
    return levels_of(log.engine, uses, searches, method)


def searches_of(log: SearchLog, private: Sequence[str]) -> ir.Table:
    """user, query, private attributes and earliest of each user's searches, once; kept in the engine."""
    return log.engine.stage(once_per_key(with_values(log.asked, private), (QUERY, *private)))


def levels_of(engine: Engine, uses: ir.Table, searches: ir.Table, method: Phrases) -> CountedLevels:
    """Levels of uses (user, tokens, private attributes, earliest), whole queries of searches."""
    queries, private = searches if method.queries else None, method.grouping.private
    if not method.plan.candidates:
        return CountedLevels(engine, uses, queries, {"fixed": method}, None, {}, private=private)
    methods = {str(each.choice): cast("Phrases", each.method) for each in method.plan.candidates}
    scores = scores_of(engine, uses, queries, methods)
    return CountedLevels(engine, uses, queries, methods, method.plan.budget, scores, method.plan.draws_of, private)


def first_contributions(log: SearchLog, method: Phrases) -> ir.Table:
    """user, phrase, private attributes and earliest: the words of each user."""
    check_attributes(log, method.grouping)
    private = method.grouping.private
    uses = uses_of_words(log.engine, searches_of(log, private), private)
    return contributions(log.engine, uses, 1, method.longest, None, private)


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


def published(keys: pa.Table, by: Sequence[str] = ()) -> pa.Table:
    """Keys as the table `phrases`: words and marks apart, counts consistent (by attributes), by count and key."""
    table = with_marks(consistent(keys, by))
    key = [name for name in table.column_names if name != "count"]
    if "count" not in table.column_names:
        return by_key(table, key)
    return by_noisy_count(table.select(key), table["count"].fill_null(0).to_numpy(), key)


def with_marks(keys: pa.Table) -> pa.Table:
    """Keys with their words and marks in columns of their own, in the place of the tokens: words, begins, ends."""
    tokens = keys[KEY[0]]
    phrase = pc.utf8_trim(tokens, f"{BEGIN}{END} ")
    words = pc.add(pc.count_substring(phrase, " "), 1).cast(pa.int64())
    marks = {"begins": pc.starts_with(tokens, BEGIN), "ends": pc.ends_with(tokens, END)}
    columns: dict[str, pa.ChunkedArray] = {}
    for name in keys.column_names:
        columns |= {name: phrase, "words": words, **marks} if name == KEY[0] else {name: keys[name]}
    return pa.table(columns)


def without_marks(table: pa.Table) -> pa.Table:
    """The table `phrases` with tokens in place of words and marks, the inverse of `with_marks`."""
    phrases = table["phrase"].cast(pa.string())
    begins, ends = (pc.if_else(table[name], mark, "") for name, mark in (("begins", f"{BEGIN} "), ("ends", f" {END}")))
    tokens = pc.binary_join_element_wise(begins, phrases, ends, "")
    others = {name: table[name] for name in table.column_names if name not in ("phrase", "words", "begins", "ends")}
    return pa.table({KEY[0]: tokens, **others})


def consistent(keys: pa.Table, within: Sequence[str] = ()) -> pa.Table:
    """Keys (column `phrase`: tokens with blanks between) whose counts are at most those of the runs within them.

    Keys of few tokens come first, so a bound passes on from run to run. Missing counts stay and bound nothing.
    within: columns; rows bound each other only where all of them are equal.
    """
    if "count" not in keys.column_names or not keys.num_rows:
        return keys
    grouped = keys.append_column(_GROUP, _groups(keys, within))
    tokens = pc.count_substring(grouped["phrase"], " ").to_numpy()
    bounded = grouped.slice(0, 0)
    for number in sorted(set(tokens.tolist())):
        longer = grouped.filter(pa.array(tokens == number))
        bounded = pa.concat_tables([bounded, _bounded(longer, bounded)])
    return bounded.drop_columns([_GROUP])


def _bounded(longer: pa.Table, shorter: pa.Table) -> pa.Table:
    """The longer keys with counts of at most the counts of their two ends, where these are known."""
    counts = longer["count"].combine_chunks()
    names = _names(shorter, shorter["phrase"])
    bounds = shorter["count"].combine_chunks()
    for end in ("^[^ ]+ ", " [^ ]+$"):
        part = pc.replace_substring_regex(longer["phrase"], end, "")
        place = pc.index_in(_names(longer, part), names)
        least = pc.min_element_wise(counts, bounds.take(place))  # of those that are not missing
        counts = pc.if_else(pc.is_null(counts), counts, least)
    return longer.set_column(longer.column_names.index("count"), "count", counts)


def _groups(keys: pa.Table, within: Sequence[str]) -> pa.Array:
    """Text for the values of these columns in each row, different for different values."""
    texts = pa.repeat(pa.scalar("", pa.string()), keys.num_rows)
    for name in within:
        codes = keys[name].combine_chunks().dictionary_encode().indices.cast(pa.string())
        texts = pc.binary_join_element_wise(texts, codes, " ")
    return texts


def _names(table: pa.Table, phrases: pa.ChunkedArray) -> pa.Array:
    return pc.binary_join_element_wise(table[_GROUP], phrases, "\t").combine_chunks()
