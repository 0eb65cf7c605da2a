"""Many independent runs of one draw, for tests of a guarantee: what was counted once is drawn again and again.

`draw_runs` dispatches on the class of what was counted. Its tables have a first column `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa

from querycloak.methods.method import Counted
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.tables import Table, batches_of

RUN = "run"


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
    """The table whose run i is run runs[i] of a larger whole."""
    return table.set_column(0, RUN, pa.array(runs[table[RUN].to_numpy()]))


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
    parts: dict[str, list[pa.Table]] = {}
    for released, mine in runs_alike(first, key, runs):
        for kind, made in tables(released, mine.size).items():
            parts.setdefault(kind, []).append(renumbered(made, mine))
    return {kind: pa.concat_tables(made) for kind, made in parts.items()}
