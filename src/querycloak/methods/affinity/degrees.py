"""The anonymity degree of every query of a log (affinity.md): true figures, private until something is released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.concepts import Concepts, mine_concepts
from querycloak.methods.affinity.cores import core_degrees
from querycloak.methods.affinity.cosine import Index
from querycloak.methods.affinity.expansion import UNEXPANDABLE, Expanded, expand
from querycloak.methods.affinity.graph import build_graph, symmetric

OnStep = Callable[[str, float], None]


@dataclass(frozen=True)
class Expansion:
    """A log's queries as concepts: all that degrees depend on, whatever theta is."""

    concepts: Concepts
    expanded: Expanded


def uses_of(log: SearchLog) -> ir.Table:
    """Each user's queries, once, with the number of searches; in the engine's private space."""
    searches = log.rows.select("user", "time", "query").distinct()
    uses = searches.group_by(["user", "query"]).agg(searches=searches.count())
    return log.engine.stage(uses)


def words_of(log: SearchLog, uses: ir.Table) -> ir.Table:
    """The uses with single blanks between words, as n-grams are counted over."""
    if log.source.choices.normalise:
        return uses
    single = uses.query.re_replace(" +", " ").re_replace("^ | $", "")
    return uses.mutate(query=single)


def expand_log(log: SearchLog, uses: ir.Table, concept_users: float, min_word_users: int) -> Expansion:
    """Find the concepts and expand every query."""
    concepts = mine_concepts(log.engine, words_of(log, uses), concept_users, min_word_users)
    pairs = uses.select("query", "user").order_by(["query", "user"])
    return Expansion(concepts, expand(log.engine.stream(pairs), concepts))


def degrees_at(
    expansion: Expansion,
    theta: int,
    most: int,
    *,
    max_neighbours: int | None = None,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> NDArray[np.int32]:
    """Each query's degree, those of expandable ones counted up to `most`; 0 for queries that are dropped."""
    expanded = expansion.expanded
    index = Index.of(expanded.concepts, expansion.concepts.weights, theta)
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
    in_order = core_degrees(graph if max_neighbours is None else symmetric(graph), expanded.number_of_users, most)
    of_vertex = np.empty(len(index) + 2, np.int32)
    of_vertex[index.order] = in_order
    degrees = of_vertex[expanded.vertex]
    degrees[expanded.vertex < 0] = 0
    alone = expanded.vertex == UNEXPANDABLE
    degrees[alone] = expanded.own_users[alone]
    return degrees
