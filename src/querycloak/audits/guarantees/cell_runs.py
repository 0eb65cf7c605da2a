"""Cells of phrases in tests of a guarantee: their step (cells.md, claim 2), and many runs of them at once.

All cells of each user are fetched once; each run has its own keys. Tests compare this with single draws, by their laws.
Importing this module registers it with `steps_of` and `draw_runs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.guarantees.remembering_engine import once
from querycloak.audits.guarantees.runs import RUN, DrawnRuns, draw_runs, numbered
from querycloak.audits.guarantees.steps import Past, Step, steps_of
from querycloak.audits.guarantees.weighted_runs import Mask, UserKeys
from querycloak.methods.keys.cell_counts import KeyCells
from querycloak.methods.phrases.counted_levels import QUERY, consistent, with_marks
from querycloak.methods.phrases.levels import number_of_levels
from querycloak.methods.phrases.method import QUERIES, TABLE
from querycloak.methods.phrases.phrase_cells import TOKENS, CellsOfPhrases
from querycloak.privacy.calibration.public_counts import public_cut
from querycloak.privacy.sampling.randomness import IntArray, Randomness

_CELLS_AT_ONCE = 2_000_000


@steps_of.register
def _(counted: CellsOfPhrases, past: Past) -> list[Step]:
    """The steps of the levels, then the counts of cells of the keys that are supposed to have come out."""
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
    at_once = max(1, _CELLS_AT_ONCE // max(1, chosen.shape[1] * cells.width))
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
    """Each key as one text, its columns joined by tabs."""
    columns = [keys[name].cast(pa.string()) for name in keys.column_names if name != TOKENS]
    return pc.binary_join_element_wise(*columns, "\t").combine_chunks()
