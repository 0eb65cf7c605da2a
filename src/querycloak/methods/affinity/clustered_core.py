"""Queries that pass, computed by executors (affinity.md, "On a cluster"); the collected data are bounded for any log.

To this process come the log's concepts, how many vertices have each, keys of blocks that are too large, and, at the
end, at most MOST_PEELED_HERE neighbours and users of what is still open.
"""

from __future__ import annotations

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.cores import core_degrees, words_of
from querycloak.methods.affinity.graph import Graph
from querycloak.methods.affinity.ngram_concepts import WordCounts, concepts_of
from querycloak.methods.affinity.shared_concepts import (
    EXPANSIONS,
    MOST_IN_BLOCK,
    NEIGHBOURS,
    POSTED,
    TALLY,
    Compare,
    CountConcepts,
    CountPostings,
    Expand,
    Pieces,
    Post,
    Prefixes,
)
from querycloak.text.lexicon import Lexicon
from querycloak.text.lists import Lists

MOST_PEELED_HERE = 1 << 23
"""Neighbours and users together, some 40 bytes each; while more are open, executors peel."""


@dataclass(frozen=True)
class Rule:
    """Requirements of a query that passes."""

    concept_users: float
    min_word_users: int
    theta: int
    min_users: int
    most_in_block: int = MOST_IN_BLOCK
    most_peeled_here: int = MOST_PEELED_HERE


def passed_queries(log: SearchLog, uses: ir.Table, rule: Rule) -> ir.Table:
    """The queries that come out, in the engine."""
    engine = log.engine
    log.progress("counting phrases", 0.0)
    counts = WordCounts.of(engine, words_of(log, uses))
    concepts = concepts_of(counts, rule.concept_users, None)
    log.progress("expanding queries", 0.0)
    known = _with_known_words(log, uses.select("query").distinct(), counts.used_by(rule.min_word_users))
    expansions = engine.stage(engine.mapped(known, Expand(concepts), EXPANSIONS))
    log.progress("comparing queries", 0.0)
    people = _People.of(engine, uses, expansions, rule.min_users)
    passing = _peeled(engine, people, _neighbours(engine, people, concepts.weights, rule), rule)
    log.progress("writing", 0.0)
    alone = uses.semi_join(expansions.filter(expansions.vertex.isnull()), "query")
    asked = alone.group_by("query").agg(n=alone.count())
    enough = asked.filter(asked.n >= rule.min_users).select("query")
    return engine.stage(expansions.semi_join(passing, "vertex").select("query").union(enough))


def _with_known_words(log: SearchLog, queries: ir.Table, known: ir.Table) -> ir.Table:
    """The queries of which every word is known."""
    spaced = words_of(log, queries.mutate(whole=queries.query))
    words = spaced.filter(spaced.query != "").select("whole", x=spaced.query.split(" ").unnest())
    return queries.anti_join(words.anti_join(known, "x").select(query="whole").distinct(), "query")


@dataclass(frozen=True)
class _People:
    """Users of each vertex, in the engine."""

    vertices: ir.Table
    """vertex, hub, users: null for hubs, which have enough by themselves."""
    hubs: ir.Table
    users: ir.Table
    """vertex and user, once each, of all others."""

    @classmethod
    def of(cls, engine: Engine, uses: ir.Table, expansions: ir.Table, enough: int) -> _People:
        """Join uses with the vertices of their queries."""
        pairs = engine.stage(uses.join(expansions.drop_null("vertex"), "query").select("vertex", "user").distinct())
        counts = engine.stage(pairs.group_by("vertex").agg(n=pairs.count()))
        hubs = counts.filter(counts.n >= enough).select("vertex")
        users = engine.stage(pairs.semi_join(counts.filter(counts.n < enough), "vertex"))
        lists = users.group_by("vertex").agg(users=users.user.collect()).mutate(hub=False)
        none = hubs.mutate(users=ibis.null("array<string>"), hub=True)
        return cls(engine.stage(lists.union(none)), hubs, users)


def _neighbours(engine: Engine, people: _People, weights: NDArray[np.int64], rule: Rule) -> ir.Table:
    """Columns vertex and other: neighbours of open vertices; `other` is null for vertices that surely stay."""
    names = people.vertices.select("vertex")
    frequency = np.zeros(len(weights), np.int64)
    tally = _tally(engine, engine.mapped(names, CountConcepts(len(weights)), TALLY))
    frequency[tally["key"].to_numpy()] = tally["vertices"].to_numpy()
    prefixes = Prefixes.of(weights, frequency, rule.theta)
    postings = engine.mapped(names, CountPostings(prefixes), TALLY)
    large = _tally(engine, postings, more_than=rule.most_in_block // 2)
    pieces = Pieces.of(large["key"].to_numpy(), large["vertices"].to_numpy(), rule.most_in_block)
    posted = engine.mapped(people.vertices, Post(prefixes, pieces), POSTED)
    compare = Compare(weights, rule.theta, rule.min_users)
    return engine.stage(engine.mapped(posted, compare, NEIGHBOURS, together="block"))


def _tally(engine: Engine, counts: ir.Table, more_than: int = 0) -> pa.Table:
    total = counts.group_by("key").agg(vertices=counts.vertices.sum())
    return engine.fetch(total.filter(total.vertices > more_than))


def _peeled(engine: Engine, people: _People, neighbours: ir.Table, rule: Rule) -> ir.Table:
    """The vertices of the core; each round removes those with too few users among the rest."""
    stays = engine.stage(neighbours.filter(neighbours.other.isnull()).select("vertex").union(people.hubs).distinct())
    edges = engine.stage(neighbours.drop_null("other").distinct().anti_join(stays, "vertex"))
    while True:
        ends = edges.select("vertex").union(edges.select(vertex="other")).distinct()
        users = people.users.semi_join(ends, "vertex")
        if _rows(engine, edges.select("vertex").union(users.select("vertex"))) <= rule.most_peeled_here:
            core = _core_here(engine.fetch(edges), engine.fetch(users), rule.min_users)
            return stays.union(engine.upload(core))
        near = edges.join(people.users, edges.other == people.users.vertex).select("vertex", "user")
        own = people.users.semi_join(edges, "vertex")
        everybody = near.union(own).distinct()
        counted = everybody.group_by("vertex").agg(n=everybody.count())
        enough = engine.stage(counted.filter(counted.n >= rule.min_users).select("vertex"))
        if _rows(engine, enough) == _rows(engine, edges.select("vertex").distinct()):
            return stays.union(enough)
        left = enough.union(stays).select(other="vertex")
        edges = engine.settle(edges.semi_join(enough, "vertex").semi_join(left, "other"))


def _rows(engine: Engine, table: ir.Table) -> int:
    return int(engine.fetch(table.agg(rows=table.count()))["rows"][0].as_py())


def _core_here(edges: pa.Table, users: pa.Table, enough: int) -> pa.Table:
    """The core, computed in this process; a vertex without a list of neighbours is a hub and stays."""
    lexicon, people = Lexicon(), Lexicon()
    vertices, others, owners = (lexicon.add_all(each) for each in (edges["vertex"], edges["other"], users["vertex"]))
    numbers = people.add_all(users["user"])
    open_vertices, place = np.unique(vertices, return_inverse=True)
    stays = np.ones(len(lexicon), np.bool_)
    stays[open_vertices] = False
    neighbours = Lists.of_pairs(place, others, len(open_vertices))
    graph = Graph(stays, open_vertices.astype(np.int64), neighbours, Lists.of_pairs(owners, numbers, len(lexicon)))
    in_core = (core_degrees(graph, len(people), enough) >= enough)[vertices]
    return pa.table({"vertex": edges["vertex"].filter(pa.array(in_core)).unique()}, pa.schema({"vertex": pa.binary()}))
