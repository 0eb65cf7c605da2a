"""Rows drawn from candidates that are selected from the log itself (log_domain.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.methods.method import Counted, Drawn
from querycloak.methods.semantic.domains import Domain, Domains
from querycloak.methods.semantic.log_domain import LogSemantic
from querycloak.methods.semantic.replacement import Replacement
from querycloak.methods.semantic.searches import Histories
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import whole_table
from querycloak.text.lists import Lists
from querycloak.text.taxonomy import Taxonomy

OTHER = "(other)"


@dataclass(frozen=True)
class LogRows:
    """Counted queries for the selection of candidates, and the searches to be replaced."""

    engine: Engine
    searches: ir.Table
    method: LogSemantic
    selection: Counted

    def draw(self, randomness: Randomness) -> Drawn:
        """Select candidates, then draw the rows from them."""
        selected = self.selection.draw(randomness)
        candidates = candidates_of(whole_table("queries", selected.tables["queries"]), self.method.loss)
        drawn = self.drawn_from(candidates, randomness)
        facts = selected.unprotected
        return drawn if facts is None else replace(drawn, unprotected=self.method.unprotected(facts))

    def drawn_from(self, candidates: list[str], randomness: Randomness) -> Drawn:
        """The rows, given the candidates."""
        replacement = ListedQueries.among(self.method, candidates)
        drawn = Histories(self.engine, self.searches, self.method.max_queries, replacement).draw(randomness)
        return replace(drawn, remarks=[f"{len(candidates):,} queries were selected as candidates"])


def candidates_of(selected: pa.Table, loss: float) -> list[str]:
    """The queries of largest noisy count, their number as the most unchanged draws need it (log_domain.md, step 2)."""
    rows = selected.filter(pc.not_equal(selected["query"], OTHER))
    ordered = rows.sort_by([("count", "descending"), ("query", "ascending")])
    if not ordered.num_rows:
        return []
    stays = 1 / (1 + np.arange(1, ordered.num_rows + 1) * math.exp(-loss))
    counts = pc.fill_null(ordered["count"], 1).to_numpy().astype(np.float64)  # null: 1 or less
    most = int(np.argmax(stays * np.cumsum(counts))) + 1
    return sorted(ordered["query"][:most].to_pylist())


class ListedQueries(Replacement):
    """The draw over listed queries: a taxonomy of one level, whose root stands for all other queries."""

    @classmethod
    def among(cls, method: LogSemantic, candidates: list[str]) -> ListedQueries:
        """The draw over these candidates and the root."""
        texts = [OTHER, *candidates]
        size = len(texts)
        own = Lists.of_lengths(np.ones(size, np.int64), np.arange(size, dtype=np.int32))
        lengths = np.minimum(np.arange(size), 1).astype(np.int64)
        parents = Lists.of_lengths(lengths, np.zeros(size - 1, np.int32))
        taxonomy = Taxonomy("queries of the log", texts, texts, own, own, np.zeros(size, np.int32), parents)
        every = np.arange(size, dtype=np.int32)
        return cls(method, Domains(taxonomy, (Domain.of(taxonomy, every),)))

    @property
    def concepts_of(self) -> Callable[[pa.Array], NDArray[np.int32]]:
        """Number of each query among the candidates; -1 if it is none."""
        listed = pa.array(list(self.domains.taxonomy.labels), pa.string())
        rest = self.domains.taxonomy.root

        def places(queries: pa.Array) -> NDArray[np.int32]:
            where = pc.fill_null(pc.index_in(queries, value_set=listed), -1).to_numpy(zero_copy_only=False)
            return np.where(where == rest, -1, where).astype(np.int32)

        return places
