"""Runs that differ only in queries that nobody asked are the same for later steps: stand-ins make them equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.guarantees.runs import RUN
from querycloak.privacy.sampling.randomness import IntArray

_MARK = "\x1f"  # in no query of a log or of a pool
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class StandIns:
    """Released queries of several runs, where the first that nobody asked is called 0, the next 1, and so on."""

    table: pa.Table
    names: pa.Array
    first: IntArray
    """Start of the names of a run that stand-ins replace."""

    @classmethod
    def of(cls, released: pa.Table, asked: pa.ChunkedArray) -> StandIns:
        """Of a table with the columns run and query."""
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
