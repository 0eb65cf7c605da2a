"""Levels and cells of phrases in tests of a guarantee: their steps (phrases.md; cells.md, claim 2), and many runs.

For many runs all keys of a level, and all cells of each user, are fetched once. Each run has its own candidates and its
own keys; a key that is no candidate in a run has no users there. Tests compare this with single draws, by their laws.
Importing this module registers it with `steps_of` and `draw_runs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.audits.guarantees.remembering_engine import once
from querycloak.audits.guarantees.runs import RUN, DrawnRuns, draw_runs, numbered, renumbered
from querycloak.audits.guarantees.steps import Past, Step, prefixed, steps_of
from querycloak.audits.guarantees.weighted_runs import Mask, UserKeys, WeightedRuns
from querycloak.language.word_model import BEGIN, END
from querycloak.methods.keys.cell_counts import KeyCells
from querycloak.methods.keys.thresholded import by_chance
from querycloak.methods.phrases.counted_levels import QUERY, CountedLevels, consistent, with_marks
from querycloak.methods.phrases.levels import number_of_levels
from querycloak.methods.phrases.method import QUERIES, TABLE, Phrases
from querycloak.methods.phrases.phrase_cells import TOKENS, CellsOfPhrases
from querycloak.privacy.calibration.bound_choice import largest_score, qualities
from querycloak.privacy.calibration.histogram import release
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.public_counts import public_cut
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.sampling.randomness import IntArray, Randomness

_CELLS_AT_ONCE = 1_000_000


@steps_of.register
def _(counted: CountedLevels, past: Past) -> list[Step]:
    """The scores of a choice, if there is one; then the steps of each level, by every plan that may be chosen."""
    if counted.budget is None:
        return steps_of_levels(counted, next(iter(counted.methods.values())), past)
    plans = [each.plans for each in counted.methods.values()]
    quality = dict(zip(counted.methods, qualities(plans, counted.users_by_keys), strict=True))
    steps = [Step("choice", quality, most=largest_score(plans))]
    for name, method in counted.methods.items():
        of_plan = steps_of_levels(counted, method, past)
        steps += prefixed(name, of_plan, group=name)
    return steps


def steps_of_levels(counted: CountedLevels, method: Phrases, past: Past) -> list[Step]:
    """The steps of each level, given the keys below it that are assumed to have come out (phrases.md)."""
    engine, uses = counted.engine, counted.uses.op()
    steps, before = [], None
    for level, table in enumerate(method.levels, 1):
        below: tuple[str, ...] | None = None if before is None else tuple(_names(before).to_pylist())
        of_level = once(
            engine, (table, uses, method.plans[table], below), partial(counted.counted_level, method, level, before)
        )
        steps += prefixed(table, steps_of(of_level, past))
        keys = once(engine, ("keys", table, uses, method.longest), partial(_keys_of_level, counted, method, level))
        out = [past.came_out(key) for key in _names(keys).to_pylist()]
        before = keys.filter(pa.array(out, pa.bool_()))
    if counted.queries is not None:
        of_queries = (QUERIES, counted.queries.op(), method.plans[QUERIES])
        queries = steps_of(once(engine, of_queries, partial(counted.counted_queries, method)), past)
        steps += prefixed(QUERIES, queries)
    return steps


def _keys_of_level(counted: CountedLevels, method: Phrases, level: int) -> pa.Table:
    """All keys of a level, whatever came out below it."""
    rows = counted.held(level, method.longest, None)
    keys = counted.engine.fetch(rows.select(*counted.key).distinct())
    return keys.sort_by([(name, "ascending") for name in counted.key])


@dataclass(frozen=True, eq=False)
class LevelRuns:
    """Outcome of a level: released keys by run, and their counts in that order (None: not published; 0: missing)."""

    keys: UserKeys
    chosen: Mask
    counts: IntArray | None

    def table(self) -> pa.Table:
        """The keys of each run, with their counts."""
        run, key = np.nonzero(self.chosen)
        rows = self.keys.names.take(pa.array(key))
        if self.counts is not None:
            rows = rows.append_column("count", pa.array(self.counts, mask=self.counts < 1))
        return numbered(rows, run)


def phrases_of_runs(counted: CountedLevels, method: Phrases, randomness: Randomness, runs: int) -> pa.Table:
    """The table `phrases` of each run: run, phrase, words, begins, ends, count."""
    engine = counted.engine
    levels = [
        UserKeys.of(engine, counted.held(level, method.longest, None), counted.key).grouped()
        for level, _ in enumerate(method.levels, 1)
    ]
    at_once = max(1, _CELLS_AT_ONCE // max(1, *(len(level.pairs.user) for level in levels)))
    lots = [min(at_once, runs - first) for first in range(0, runs, at_once)]
    parts = []
    for place, lot in enumerate(lots):
        drawn = _drawn(levels, [method.plans[level] for level in method.levels], randomness, lot)
        bounded = with_marks(consistent(pa.concat_tables([each.table() for each in drawn]), (RUN, *counted.private)))
        run = pa.array(bounded[RUN].to_numpy() + place * at_once)
        parts.append(bounded.set_column(0, RUN, run))
    return pa.concat_tables(parts)


def selected_of_runs(keys: UserKeys, candidates: Mask, plan: TablePlan, randomness: Randomness) -> pa.Table:
    """The keys of each run among its candidates (by run and key), with their counts if these are published."""
    runs = len(candidates)
    at_once = max(1, _CELLS_AT_ONCE // max(1, len(keys.pairs.user)))
    return pa.concat_tables(
        renumbered(_level(keys, candidates[first : first + at_once], plan, randomness).table(), np.arange(first, runs))
        for first in range(0, runs, at_once)
    )


def _drawn(
    levels: Sequence[UserKeys], plans: Sequence[TablePlan], randomness: Randomness, runs: int
) -> list[LevelRuns]:
    drawn: list[LevelRuns] = []
    for number, (keys, plan) in enumerate(zip(levels, plans, strict=True), 1):
        candidates = np.ones((runs, keys.names.num_rows), np.bool_)
        if drawn:
            candidates = _candidates(drawn[-1], keys.names, number - 1)
        drawn.append(_level(keys, candidates, plan, randomness))
    return drawn


def _candidates(below: LevelRuns, keys: pa.Table, length: int) -> Mask:
    """By run and key: whether all runs of `length` tokens within the key came out below, with its attributes."""
    places = {(name, *values): place for place, (name, *values) in enumerate(_rows(below.keys.names))}
    candidates = np.ones((len(below.chosen), keys.num_rows), np.bool_)
    for column, (key, *values) in enumerate(_rows(keys)):
        tokens = key.split(" ")
        windows = {" ".join(tokens[at : at + length]) for at in range(len(tokens) - length + 1)} - {BEGIN, END}
        candidates[:, column] = below.chosen[:, [places[window, *values] for window in windows]].all(axis=1)
    return candidates


def _rows(keys: pa.Table) -> Iterator[tuple[str, ...]]:
    """The keys: a phrase and its private attributes."""
    return zip(*(keys[name].to_pylist() for name in keys.column_names), strict=True)


def _level(keys: UserKeys, candidates: Mask, plan: TablePlan, randomness: Randomness) -> LevelRuns:
    if not keys.names.num_rows:
        return LevelRuns(keys, candidates, None if plan.counts == "none" else np.empty(0, np.int64))
    counting_pairs: NDArray[np.int64] = keys.pairs.bounded(
        candidates[:, keys.pairs.cell].astype(np.int64), plan.per_user
    )
    if isinstance(plan, WeightedPlan):
        return LevelRuns(keys, *WeightedRuns(plan, keys, counting_pairs > 0).chosen(candidates, randomness))
    users = keys.pairs.sums(counting_pairs)
    cells = np.flatnonzero(users)
    chosen = np.zeros(users.size, np.bool_)
    if isinstance(plan, KeysOnlyPlan):
        chosen[cells[_by_chance(users.reshape(-1)[cells], plan, randomness)]] = True
        return LevelRuns(keys, chosen.reshape(users.shape), None)
    if not isinstance(plan, HistogramPlan):
        raise TypeError(f"{type(plan).__name__} has no way of drawing many runs; this is a bug in querycloak")
    passed = release(
        users.reshape(-1)[cells],
        plan.noise,
        plan.threshold,
        randomness,
        published_noise=plan.published_noise,
        tie_probability=plan.tie_probability,
    )
    order = np.argsort(passed.key, kind="stable")
    chosen[cells[passed.key]] = True
    return LevelRuns(keys, chosen.reshape(users.shape), passed.count[order])


def _by_chance(users: IntArray, plan: KeysOnlyPlan, randomness: Randomness) -> IntArray:
    """The places that come out, each with the chance of its number of users."""
    order = np.argsort(users, kind="stable")
    values, sizes = np.unique(users, return_counts=True)
    passed = by_chance(values, sizes, plan.chances, randomness)
    places: IntArray = order[(np.cumsum(sizes) - sizes)[passed.group] + passed.rank]
    return places


@steps_of.register
def _(counted: CellsOfPhrases, past: Past) -> list[Step]:
    """The steps of the levels, then the counts of cells of the keys that are assumed to have come out."""
    what = ("held cells", counted.uses.op(), counted.queries is None)
    cells = once(counted.engine, what, lambda: HeldCells.of(counted))
    names = [name for keys in cells.keys.values() for name in _names(keys).to_pylist()]
    out = np.array([past.came_out(name) for name in names], np.bool_)
    most = counted.plan.per_user
    centres = {
        f"{names[place // cells.width]}\t{place % cells.width}": int(true)
        for place, true in enumerate(cells.counts(out[None, :], most)[0].tolist())
        if true
    }
    return [*steps_of(counted.levels, past), Step("cells: counts", centres, most, most, 1, counted.plan.noise)]


@draw_runs.register
def _(counted: CellsOfPhrases, randomness: Randomness, runs: int) -> DrawnRuns:
    """Levels of all runs, then all cells of what came out of each."""
    drawn, cells = draw_runs(counted.levels, randomness, runs), HeldCells.of(counted)
    chosen = cells.chosen({name: counted.in_order(name, table) for name, table in drawn.tables.items()}, runs)
    at_once = max(1, 2 * _CELLS_AT_ONCE // max(1, chosen.shape[1] * cells.width))
    lots = [cells.drawn(chosen[at : at + at_once], counted, randomness, at) for at in range(0, runs, at_once)]
    tables = {name: pa.concat_tables([lot[name] for lot in lots]) for name in drawn.tables}
    within = (RUN, *counted.by)
    return replace(drawn, tables={**tables, TABLE: with_marks(consistent(tables[TABLE], within))})


@dataclass(frozen=True, eq=False)
class HeldCells:
    """All keys, whatever may come out, and the cells of each user in the order in which they count (private)."""

    keys: dict[str, pa.Table]
    """By table; numbered one after another."""
    users: UserKeys
    """Keys are pairs of the number of a key (k) and of a public cell (in_public)."""
    width: int

    @classmethod
    def of(cls, counted: CellsOfPhrases) -> HeldCells:
        """Fetch them."""
        levels, engine = counted.levels, counted.engine
        numbers = range(1, number_of_levels(counted.longest) + 1)
        phrases = [levels.held(level, counted.longest, None).select(*levels.key).distinct() for level in numbers]
        keys = {TABLE: engine.fetch(ibis.union(*phrases))}
        keys[TABLE] = counted.in_order(TABLE, with_marks(keys[TABLE]))
        if counted.queries is not None:
            asked = engine.fetch(counted.queries.select(QUERY, *levels.private).distinct())
            keys[QUERIES] = counted.in_order(QUERIES, asked)
        users = UserKeys.of(engine, counted.held(keys).rename(in_public="cell"), ("k", "in_public"))
        return cls(keys, users.grouped() if users.names.num_rows else users, counted.cells.size)

    def chosen(self, drawn: dict[str, pa.Table], runs: int) -> Mask:
        """By run and key: whether it came out."""
        parts = []
        for name, keys in self.keys.items():
            mask = np.zeros((runs, keys.num_rows), np.bool_)
            table = drawn[name].select([RUN, *keys.column_names])
            place = pc.index_in(_names(table.drop_columns([RUN])), _names(keys)).to_numpy(zero_copy_only=False)
            mask[table[RUN].to_numpy(), place.astype(np.int64)] = True
            parts.append(mask)
        return np.concatenate(parts, axis=1)

    def counts(self, chosen: Mask, most: int) -> IntArray:
        """By run, the bounded counts of all cells of all keys, 0 for keys that did not come out."""
        counts = np.zeros((len(chosen), chosen.shape[1] * self.width), np.int64)
        if self.users.names.num_rows:
            key, cell = (self.users.names[name].to_numpy() for name in ("k", "in_public"))
            counts[:, key * self.width + cell] = self.users.counts(chosen[:, key], most, None)
        return counts

    def drawn(self, chosen: Mask, counted: CellsOfPhrases, randomness: Randomness, first: int) -> dict[str, pa.Table]:
        """The cells above the cut of each table; runs are numbered from `first`."""
        counts = self.counts(chosen, counted.plan.per_user).reshape(len(chosen), -1, self.width)
        cut_of = cache(lambda cells: public_cut(counted.plan.noise, cells))
        tables, begin = {}, 0
        for name, keys in self.keys.items():
            mine = chosen[:, begin : begin + keys.num_rows]
            run, key = np.nonzero(mine)
            noisy = counts[run, begin + key] + randomness.noise(counted.plan.noise, run.size * self.width).reshape(
                run.size, self.width
            )
            cuts = np.array([cut_of(int(cells)) for cells in mine.sum(axis=1) * self.width], np.int64)
            row, cell = np.nonzero(noisy > cuts[run][:, None])
            columns = tuple(each for each in keys.column_names if each != TOKENS)
            of_keys = KeyCells(counted.cells, columns, counted.by, viewed=False)
            named = of_keys.named(keys, key[row], cell).append_column("count", pa.array(noisy[row, cell]))
            tables[name], begin = numbered(named, run[row] + first), begin + keys.num_rows
        return tables


def _names(keys: pa.Table) -> pa.Array:
    """Each key as one text: its columns, but for tokens, joined by tabs."""
    columns = [keys[name].cast(pa.string()) for name in keys.column_names if name != TOKENS]
    return pc.binary_join_element_wise(*columns, "\t").combine_chunks()
