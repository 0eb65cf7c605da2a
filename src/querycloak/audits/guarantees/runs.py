"""Many independent runs of one draw, for tests of a guarantee: what was counted once is drawn again and again.

`draw_runs` dispatches on the class of what was counted. Its tables have a first column `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.methods.method import Counted
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.tables import Table, batches_of

RUN = "run"
_MARK = "\x1f"  # in no query of a log or of a pool
_DIGITS = 9


@dataclass(frozen=True)
class DrawnRuns:
    """The tables of several runs, numbered from 0; not yet as published (lists, order of rows)."""

    number: int
    tables: Mapping[str, pa.Table]
    parameters: Sequence[Mapping[str, Any]] = ({},)
    """Parameters that the draws chose, each different choice once."""
    answer: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """Index into `parameters` for each run; empty if all runs are equal."""


@singledispatch
def draw_runs(counted: Counted, randomness: Randomness, runs: int) -> DrawnRuns:
    """Draw this number of times, independently; one by one if the class of what was counted is not registered.

    `@draw_runs.register` adds a faster way for the counts of another method (docs/audits.md).
    """
    drawn = [counted.draw(randomness) for _ in range(runs)]
    tables = {
        kind: pa.concat_tables([numbered(in_memory(each.tables[kind]), run) for run, each in enumerate(drawn)])
        for kind in drawn[0].tables
    }
    return DrawnRuns(runs, tables, [each.parameters for each in drawn], np.arange(runs))


def in_memory(table: Table) -> pa.Table:
    """The whole table."""
    return table if isinstance(table, pa.Table) else pa.Table.from_batches(list(batches_of(table)), table.schema)


def numbered(table: pa.Table, run: int | IntArray) -> pa.Table:
    """The table with a first column that says of which run each row is."""
    column = np.full(table.num_rows, run, dtype=np.int64) if isinstance(run, int) else run
    return table.add_column(0, RUN, pa.array(column))


def renumbered(table: pa.Table, runs: IntArray) -> pa.Table:
    """The table with its run i renumbered to runs[i]."""
    return table.set_column(0, RUN, pa.array(runs[table[RUN].to_numpy()]))


def of_all_runs(groups: Iterable[tuple[Mapping[str, pa.Table], IntArray]]) -> dict[str, pa.Table]:
    """The tables of all runs, from the tables of groups of runs and the numbers of each group's runs."""
    parts: dict[str, list[pa.Table]] = {}
    for tables, runs in groups:
        for kind, table in tables.items():
            parts.setdefault(kind, []).append(renumbered(table, runs))
    return {kind: pa.concat_tables(each) for kind, each in parts.items()}


def runs_alike(table: pa.Table, key: Sequence[str], runs: int) -> Iterator[tuple[pa.Table, IntArray]]:
    """Each different list of keys that came out, once, with its runs."""
    run = table[RUN].to_numpy()
    order = np.argsort(run, kind="stable")
    columns = [table[name].combine_chunks().dictionary_encode().indices for name in key]
    codes = np.stack([each.to_numpy(zero_copy_only=False).astype(np.int64) for each in columns], axis=1)[order]
    bounds = np.searchsorted(run[order], np.arange(runs + 1))
    groups: dict[bytes, list[int]] = {}
    for number in range(runs):
        groups.setdefault(codes[bounds[number] : bounds[number + 1]].tobytes(), []).append(number)
    for alike in groups.values():
        rows = order[bounds[alike[0]] : bounds[alike[0] + 1]]
        yield table.select(key).take(pa.array(rows)), np.array(alike, dtype=np.int64)


def tables_of_runs_alike(
    first: pa.Table, key: Sequence[str], runs: int, tables: Callable[[pa.Table, int], Mapping[str, pa.Table]]
) -> dict[str, pa.Table]:
    """The tables that look at what came out first: made for all runs at once of which the same keys came out.

    tables: makes them from these keys for a number of runs.
    """
    return of_all_runs((tables(released, mine.size), mine) for released, mine in runs_alike(first, key, runs))


@dataclass(frozen=True, eq=False)
class StandIns:
    """Released queries of several runs, where spurious ones, which no user has, are numbered 0, 1, ... in each run.

    Runs that differ only in spurious queries are alike for later steps: stand-ins make them equal.
    """

    table: pa.Table
    names: pa.Array
    first: IntArray
    """Start of the names of a run that stand-ins replace."""

    @classmethod
    def of(cls, released: pa.Table, asked: pa.ChunkedArray) -> StandIns:
        """Stand-ins for a table with the columns run and query."""
        unknown = pc.invert(pc.is_in(released["query"], value_set=asked.combine_chunks()))
        others = released.filter(unknown).sort_by([(RUN, "ascending"), ("query", "ascending")])
        run = others[RUN].to_numpy()
        first = np.searchsorted(run, np.arange(int(run.max(initial=-1)) + 2))
        numbers = pa.array(np.arange(run.size) - first[run]).cast(pa.string())
        stand_ins = pc.binary_join_element_wise(_MARK, pc.utf8_lpad(numbers, _DIGITS, "0"), "")
        both = [released.filter(pc.invert(unknown)), pa.table({RUN: others[RUN], "query": stand_ins})]
        table = pa.concat_tables(both).sort_by([(RUN, "ascending"), ("query", "ascending")])
        return cls(table, others["query"].combine_chunks(), first)

    def undone(self, table: pa.Table) -> pa.Table:
        """A table of the same runs with the queries that stand-ins stand for."""
        for place, name in enumerate(table.column_names):
            if name in ("query", "next_query"):
                table = table.set_column(place, name, self._real(table[name].combine_chunks(), table[RUN].to_numpy()))
        return table

    def _real(self, texts: pa.Array, run: IntArray) -> pa.Array:
        stands_in = pc.starts_with(texts, _MARK).to_numpy(zero_copy_only=False)
        numbers = pc.utf8_slice_codeunits(texts.filter(pa.array(stands_in)), 1).cast(pa.int64())
        places = self.first[run[stands_in]] + numbers.to_numpy(zero_copy_only=False)
        return pc.replace_with_mask(texts, pa.array(stands_in), self.names.take(pa.array(places)))
