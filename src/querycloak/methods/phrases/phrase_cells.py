"""Cells of phrases, and of whole queries beside them, by public attributes (phrases.md, *By attributes*)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.attributes import PublicCells
from querycloak.methods.keys.cell_counts import CellCounts, KeyCells, first_cells, users_cells, with_cells, with_values
from querycloak.methods.keys.cell_plan import CellPlan
from querycloak.methods.method import Drawn
from querycloak.methods.phrases.counted_levels import QUERY, CountedLevels, levels_of, published, without_marks
from querycloak.methods.phrases.levels import KEY, runs_among, uses_of_words
from querycloak.methods.phrases.method import TABLE, Phrases
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Table

TOKENS = "tokens"


@dataclass(frozen=True)
class CellsOfPhrases:
    """Counted levels before selection, and users' queries by public cell, in the engine."""

    levels: CountedLevels
    longest: int
    by: tuple[str, ...]
    cells: PublicCells
    uses: ir.Table
    """user, tokens, private attributes, cell, earliest."""
    queries: ir.Table | None
    """user, query, private attributes, cell, earliest; None if whole queries do not come out."""
    plan: CellPlan

    def draw(self, randomness: Randomness) -> Drawn:
        """Select level after level, then draw every cell of the selected keys."""
        drawn = self.levels.draw(randomness)
        selected = {name: self.in_order(name, table) for name, table in drawn.tables.items()}
        return with_cells(drawn, self.plan, self.counted(selected, randomness))

    def in_order(self, name: str, table: Table) -> pa.Table:
        """The selected keys in order of length and key, phrases as tokens."""
        keys = table if isinstance(table, pa.Table) else pa.Table.from_batches(list(table), table.schema)
        keys = keys.select([name for name in keys.column_names if name != "count"])
        if name == TABLE:
            keys = without_marks(keys)
            keys = keys.append_column(TOKENS, pc.count_substring(keys[KEY[0]], " "))
        return keys.sort_by([(each, "ascending") for each in sorted(keys.column_names, key=TOKENS.__ne__)])

    def counted(self, selected: Mapping[str, pa.Table], randomness: Randomness) -> dict[str, Table]:
        """The cells of these keys whose noisy counts exceed the public cut of their table."""
        counts, first = self.bounded(selected), 0
        tables: dict[str, Table] = {}
        for name, keys in selected.items():
            key = tuple(each for each in keys.column_names if each != TOKENS)
            of_keys = KeyCells(self.cells, key, self.by, viewed=False)
            last = first + keys.num_rows * of_keys.width
            table = of_keys.counted(keys, counts.between(first, last), self.plan.noise, randomness)
            tables[name], first = published(table, self.by) if name == TABLE else table, last
        return tables

    def bounded(self, selected: Mapping[str, pa.Table]) -> CellCounts:
        """Counts of each user's first cells, keys of all tables numbered one after another."""
        cells = self.held(selected)
        return first_cells(self.engine, cells.mutate(within=cells.cell), self.cells.size, self.plan.per_user)

    def held(self, selected: Mapping[str, pa.Table]) -> ir.Table:
        """user, k (the number of a key), cell and earliest: each user's cells of these keys."""
        parts, first = [], 0
        for name, keys in selected.items():
            key = [each for each in keys.column_names if each != TOKENS]
            numbers = pa.array(np.arange(first, first + keys.num_rows))
            numbered = self.engine.upload(keys.select(key).append_column("k", numbers))
            cells = self.of_phrases(numbered) if name == TABLE else self.of_queries(numbered, key)
            parts.append(cells.select("user", "k", "cell", "earliest"))
            first += keys.num_rows
        return ibis.union(*parts) if len(parts) > 1 else parts[0]

    def of_phrases(self, released: ir.Table) -> ir.Table:
        """user, k, cell and earliest: each user's cells of released phrases."""
        private = self.levels.private
        texts = self.uses.select("tokens", *private).distinct()
        runs = self.engine.stage(runs_among(texts, self.longest, private, released))
        phrases = self.uses.inner_join(runs, ["tokens", *private])
        return phrases.group_by(["user", "k", "cell"]).agg(earliest=phrases.earliest.min())

    def of_queries(self, released: ir.Table, key: Sequence[str]) -> ir.Table:
        """user, k, cell and earliest: each user's cells of released queries."""
        if self.queries is None:
            raise TypeError("this method counts no whole queries; this is a bug in querycloak")
        return self.queries.inner_join(released, key)

    @property
    def engine(self) -> Engine:
        """The engine that holds the queries."""
        return self.levels.engine


def cells_of_phrases(log: SearchLog, method: Phrases, plan: CellPlan) -> CellsOfPhrases:
    """Read each user's queries with their public cells, once, for the selection of phrases and the counts of cells."""
    grouping, engine = method.grouping, log.engine
    cells, private = grouping.cells(log.source.choices), grouping.private
    rows = with_values(log.asked, private)
    searches = engine.stage(users_cells(engine, rows, (QUERY, *private), cells, viewed=False))
    uses = uses_of_words(engine, searches, (*private, "cell"))
    words, asked = (
        engine.stage(each.group_by(["user", text, *private]).agg(earliest=each.earliest.min()))
        for each, text in ((uses, "tokens"), (searches, QUERY))
    )
    levels = levels_of(engine, words, asked, method.selector(method.checked_cells(method.given)))
    queries = searches if method.queries else None
    return CellsOfPhrases(levels, method.longest, grouping.by, cells, uses, queries, plan)


def cells_in_rows(
    engine: Engine,
    rows: ir.Table,
    private: Sequence[str],
    cells: PublicCells,
    longest: int,
    released: ir.Table | None = None,
) -> ir.Table:
    """user, phrase, private attributes, cell and earliest of phrases in these searches.

    released: the phrases to count; None for all.
    """
    asked = rows.select([name for name in rows.columns if name not in ("rank", "url")])  # as in `log.asked`
    searches = engine.stage(users_cells(engine, asked, (QUERY, *private), cells, viewed=False))
    uses = uses_of_words(engine, searches, (*private, "cell"))
    texts = uses.select("tokens", *private).distinct()
    runs = engine.stage(runs_among(texts, longest, private, released))
    phrases = uses.inner_join(runs, ["tokens", *private])
    return phrases.group_by(["user", *KEY, *private, "cell"]).agg(earliest=phrases.earliest.min())
