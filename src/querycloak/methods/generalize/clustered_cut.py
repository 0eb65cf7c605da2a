"""What queries become, found by executors: to one machine come fewer than k users of each concept that has no more.

A concept with k users of its own stands, whoever they are, and hands nothing up (generalize.md, step 2). So of such a
concept it is enough to know that it has them: k numbers stand for its users.
"""

from __future__ import annotations

from collections.abc import Iterator

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.methods.generalize.clusters import Tree, cut
from querycloak.methods.generalize.phrases import UNMATCHED, matcher_of
from querycloak.text.lexicon import Lexicon
from querycloak.text.lists import Lists
from querycloak.text.spans import Spans
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.wordnet import wordnet

MATCHES = pa.schema({"query": pa.string(), "concept": pa.int32()})


def matches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What an executor does: queries with the concepts of WordNet that they match."""
    for batch in batches:
        queries = batch.column("query")
        concepts = matcher_of(wordnet()).concepts(Spans.of(queries))
        found = pa.record_batch([queries, pa.array(concepts)], schema=MATCHES)
        yield found.filter(pa.array(concepts != UNMATCHED))


def renamings(engine: Engine, uses: ir.Table, taxonomy: Taxonomy, least: int) -> ir.Table:
    """query and concept, in the engine, for the queries that come out; the taxonomy is WordNet's."""
    matched = engine.stage(engine.mapped(uses.select("query").distinct(), matches, MATCHES))
    pairs = engine.stage(uses.join(matched, "query").select("concept", "user").distinct())
    becomes = cut(Tree.of(taxonomy), *_users(engine, pairs, len(taxonomy), least), least)
    kept = np.flatnonzero((becomes >= 0) & (becomes != taxonomy.root))
    shown = pa.array([taxonomy.shown(concept) for concept in becomes[kept]], pa.string())
    names = engine.upload(pa.table({"concept": pa.array(kept.astype(np.int32)), "shown": shown}))
    return engine.stage(matched.join(names, "concept").select("query", concept="shown"))


def _users(engine: Engine, pairs: ir.Table, concepts: int, least: int) -> tuple[Lists, int]:
    """The users of each concept, as numbers, and how many numbers there are."""
    counted = pairs.group_by("concept").agg(n=pairs.count())
    many = engine.fetch(counted.filter(counted.n >= least).select("concept"))["concept"].to_numpy()
    few = engine.fetch(pairs.semi_join(counted.filter(counted.n < least), "concept"))
    lexicon = Lexicon()
    numbers: list[NDArray[np.int32]] = [lexicon.add(chunk) for chunk in few["user"].chunks]
    owners = np.concatenate([few["concept"].to_numpy(), np.repeat(many, least)])
    values = np.concatenate([*numbers, np.tile(np.arange(least, dtype=np.int32), len(many))])
    return Lists.of_pairs(owners, values, concepts), max(len(lexicon), least)
