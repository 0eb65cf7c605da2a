"""The anonymity degree of every query of a log (affinity.md): true figures, private until something is released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.cores import core_degrees
from querycloak.methods.affinity.cosine import Index
from querycloak.methods.affinity.expansion import UNEXPANDABLE, Expanded, expand
from querycloak.methods.affinity.graph import OnShare, build_graph, symmetric
from querycloak.methods.affinity.ngram_concepts import Concepts, mine_concepts
from querycloak.methods.uses import sorted_uses
from querycloak.text.lists import Lists

OnStep = Callable[[str, float], None]


@dataclass(frozen=True)
class Expansion:
    """A log's queries as concepts: all that degrees depend on, for any theta."""

    concepts: Concepts
    expanded: Expanded


def words_of(log: SearchLog, uses: ir.Table) -> ir.Table:
    """The uses with single blanks between words, as n-grams are counted over."""
    if log.source.choices.normalise:
        return uses
    single = uses.query.re_replace(" +", " ").re_replace("^ | $", "")
    return uses.mutate(query=single)


def expand_log(
    log: SearchLog, uses: ir.Table, concept_users: float, min_word_users: int, progress: OnStep = lambda *_: None
) -> Expansion:
    """Find the concepts and expand every query."""
    progress("counting phrases", 0.0)
    concepts = mine_concepts(log.engine, words_of(log, uses), concept_users, min_word_users)
    progress("expanding queries", 0.0)
    return Expansion(concepts, expand(log.engine.stream(sorted_uses(uses)), concepts))


@dataclass(frozen=True)
class Cores:
    """The degree of each vertex, up to `most`, in the order of the index."""

    index: Index
    users: Lists
    degrees: NDArray[np.int32]

    @classmethod
    def of(
        cls,
        expanded: Expanded,
        weights: NDArray[np.int64],
        theta: int,
        most: int,
        *,
        max_neighbours: int | None = None,
        threads: int | None = None,
        progress: OnShare = lambda _: None,
    ) -> Cores:
        """Compare, and peel."""
        index = Index.of(expanded.concepts, weights, theta)
        users = expanded.users.take(index.order)
        graph = build_graph(
            index,
            users,
            expanded.number_of_users,
            most,
            max_neighbours=max_neighbours,
            threads=threads,
            progress=progress,
        )
        whole = graph if max_neighbours is None else symmetric(graph)
        return cls(index, users, core_degrees(whole, expanded.number_of_users, most))

    def of_queries(self, expanded: Expanded) -> NDArray[np.int32]:
        """Each query's degree: 0 for queries that are dropped, their own users for those without concepts."""
        of_vertex = np.zeros(len(self.index), np.int32)
        of_vertex[self.index.order] = self.degrees
        degrees = np.where(expanded.vertex == UNEXPANDABLE, expanded.own_users, 0).astype(np.int32)
        has_vertex = expanded.vertex >= 0
        degrees[has_vertex] = of_vertex[expanded.vertex[has_vertex]]
        return degrees


def degrees_at(
    expansion: Expansion,
    theta: int,
    most: int,
    *,
    max_neighbours: int | None = None,
    threads: int | None = None,
    progress: OnShare = lambda _: None,
) -> NDArray[np.int32]:
    """Each query's degree, those of expandable ones counted up to `most`."""
    weights = expansion.concepts.weights
    cores = Cores.of(
        expansion.expanded, weights, theta, most, max_neighbours=max_neighbours, threads=threads, progress=progress
    )
    return cores.of_queries(expansion.expanded)
