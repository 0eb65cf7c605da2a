"""Tables 1, 2, 3 and 5 of Carpineto and Romano (2015), as data from any log: private output."""

from __future__ import annotations

from typing import Any

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.degrees import words_of
from querycloak.methods.affinity.method import DEFAULT_CONCEPT_USERS
from querycloak.methods.affinity.ngram_concepts import GRID, Concepts, least_users, mine_concepts
from querycloak.methods.generalize.clusters import Tree
from querycloak.methods.generalize.count import generalise
from querycloak.methods.generalize.phrases import UNMATCHED
from querycloak.methods.uses import uses_of
from querycloak.text.ngrams import LONGEST, WordCounts, distinct_grams, longer_grams, total_occurrences
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.wordnet import wordnet

MOST_WORDS = 5
TOP = 10


def affinity_tables(log: SearchLog, concept_users: float = DEFAULT_CONCEPT_USERS) -> dict[str, Any]:
    """The four tables by name, as plain values."""
    uses = uses_of(log)
    log.checked()
    words = words_of(log, uses)
    concepts = mine_concepts(log.engine, words, concept_users, 2)
    users = log.engine.fetch(uses.agg(users=uses.user.nunique()))["users"][0].as_py()
    return {
        "private": True,
        "users": users,
        "table_1": query_lengths(log.engine, words),
        "table_2": gram_statistics(log.engine, words, least_users(concept_users, users)),
        "table_3": top_concepts(concepts),
        "table_5": high_level_partition(log.engine, uses, wordnet()),
    }


def query_lengths(engine: Engine, uses: ir.Table) -> list[dict[str, Any]]:
    """Table 1: distinct queries and searches of 1, 2, 3, 4, and 5 words or more."""
    by_query = uses.group_by("query").agg(searches=uses.searches.sum())
    blanks = (by_query.query.length() - by_query.query.replace(" ", "").length()).cast("int64")
    counted = by_query.select("searches", words=(blanks + 1).clip(upper=MOST_WORDS))
    found = engine.fetch(counted.group_by("words").agg(queries=counted.count(), searches=counted.searches.sum()))
    rows = {int(row["words"]): row for row in found.to_pylist()}
    return [
        {"words": words, "queries": int(rows[words]["queries"]), "searches": int(rows[words]["searches"])}
        for words in sorted(rows)
    ]


def gram_statistics(engine: Engine, uses: ir.Table, least: int) -> list[dict[str, Any]]:
    """Table 2: how many n-grams there are, unique and with repetitions; all, and those of enough users."""
    totals = engine.fetch(total_occurrences(uses)).to_pylist()[0]
    words = engine.stage(WordCounts.of(engine, uses).used_by(least))
    pairs = engine.stage(longer_grams(uses, 2, words, least))
    rows = []
    for length, frequent in ((1, words), (2, pairs), (3, longer_grams(uses, 3, pairs, least))):
        shared = engine.fetch(frequent.agg(unique=frequent.count(), all=frequent.occurrences.sum())).to_pylist()[0]
        unique = engine.fetch(distinct_grams(uses, length).count().as_table())[0][0].as_py()
        rows.append(
            {
                "length": length, "unique": int(unique), "occurrences": int(totals[f"grams_{length}"] or 0),
                "frequent_unique": int(shared["unique"]), "frequent_occurrences": int(shared["all"] or 0),
            }
        )  # fmt: skip
    return rows


def top_concepts(concepts: Concepts, top: int = TOP) -> dict[str, list[dict[str, Any]]]:
    """Table 3: the pairs and triples of words with the most mutual information."""
    names = concepts.names.to_pylist()
    lengths = np.array([name.count(" ") + 1 for name in names])
    found = {}
    for length, title in ((2, "bigrams"), (LONGEST, "trigrams")):
        places = np.flatnonzero(lengths == length)
        best = sorted(places.tolist(), key=lambda place: (-int(concepts.weights[place]), names[place]))[:top]
        found[title] = [{"words": names[place], "score": int(concepts.weights[place]) / GRID} for place in best]
    return found


def high_level_partition(engine: Engine, uses: ir.Table, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """Table 5: distinct queries under each concept of the third level, each query counted once; unmatched: the root."""
    found = generalise(engine, uses, taxonomy)
    tree = Tree.of(taxonomy)
    groups = _third_level(tree)
    of_query = np.where(found.concepts == UNMATCHED, tree.root, groups[np.maximum(found.concepts, 0)])
    counts = np.bincount(of_query, minlength=len(taxonomy))
    rows = [{"concept": taxonomy.shown(tree.root), "level": 1, "queries": int(counts[tree.root])}]
    children = _children(tree, tree.root)
    for child in children:
        rows.append({"concept": taxonomy.shown(child), "level": 2, "queries": int(counts[child])})
        rows += [
            {"concept": taxonomy.shown(each), "level": 3, "queries": int(counts[each])}
            for each in _children(tree, child)
        ]
    return rows


def _children(tree: Tree, concept: int) -> list[int]:
    below = np.flatnonzero(tree.parents == concept)
    return [int(each) for each in below if each != concept]


def _third_level(tree: Tree) -> NDArray[np.int64]:
    """For every concept the one of the first three levels that it is or lies under."""
    found = np.arange(len(tree.parents))
    second = tree.parents == tree.root
    top = second | second[tree.parents]  # levels two and three; the root is among the first
    while True:
        above = np.where(top[found], found, tree.parents[found])
        if (above == found).all():
            return found
        found = above
