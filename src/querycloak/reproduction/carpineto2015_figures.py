"""Figures 5 to 7 and Tables 1 to 5 of Carpineto and Romano (2015), as data from any log: private output.

Where the paper samples 5,000 queries, everything here is counted over all of them. EQ is plain k-anonymity, AFF
affinity, WNGEN generalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.evaluation.tasks.loss import (
    NCP,
    SENSITIVE_RELEASED,
    SHARE_RELEASED,
    f_beta,
    f_beta_over,
    ncp_of_generalisation,
    ncp_of_suppression,
    share_released,
)
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.cores import Expansion, degrees_at, expand_log, words_of
from querycloak.methods.affinity.method import DEFAULT_CONCEPT_USERS, Affinity
from querycloak.methods.affinity.ngram_concepts import (
    GRID,
    LONGEST,
    Concepts,
    WordCounts,
    distinct_grams,
    least_users,
    longer_grams,
    mine_concepts,
    total_occurrences,
)
from querycloak.methods.distinct_queries import uses_of
from querycloak.methods.generalize.clusters import UNMATCHED, Matcher, Tree, generalise, matcher_of
from querycloak.reproduction.carpineto2015_printed import SECTION_5
from querycloak.text.spans import Spans
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.wordnet import wordnet

MOST_WORDS = 5
TOP = 10


def affinity_tables(log: SearchLog, concept_users: float = DEFAULT_CONCEPT_USERS) -> dict[str, Any]:
    """Tables 1, 2, 3 and 5, the words of Section 5's examples and the number of users, as plain values."""
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
        "section_5": example_words(log.engine, words),
    }


def example_words(engine: Engine, uses: ir.Table) -> dict[str, int]:
    """Section 5: searches and users of the words in its examples, with the names that the printed numbers have."""
    padded = ibis.literal(" ") + uses.query + ibis.literal(" ")
    visa, model = padded.contains(" visa "), padded.contains(" 2651 ")
    counted = uses.agg(
        occurrences=uses.searches.sum(where=visa),
        users=uses.user.nunique(where=uses.query == "visa"),
        model=uses.user.nunique(where=model),
    )
    row = engine.fetch(counted).to_pylist()[0]
    return dict(zip(SECTION_5, (int(value or 0) for value in row.values()), strict=True))


def query_lengths(engine: Engine, uses: ir.Table) -> list[dict[str, Any]]:
    """Table 1: distinct queries and searches of 1, 2, 3, 4, and 5 words or more."""
    by_query = uses.group_by("query").agg(searches=uses.searches.sum())
    blanks = (by_query.query.length() - by_query.query.replace(" ", "").length()).cast("int64")
    counted = by_query.select("searches", words=(blanks + 1).clip(upper=MOST_WORDS))
    fetched = engine.fetch(counted.group_by("words").agg(queries=counted.count(), searches=counted.searches.sum()))
    rows = {int(row["words"]): row for row in fetched.to_pylist()}
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


def top_concepts(concepts: Concepts) -> dict[str, list[dict[str, Any]]]:
    """Table 3: the pairs and triples of words with the most mutual information."""
    names = concepts.names.to_pylist()
    lengths = np.array([name.count(" ") + 1 for name in names])
    best_concepts = {}
    for length, title in ((2, "bigrams"), (LONGEST, "trigrams")):
        places = np.flatnonzero(lengths == length)
        best = sorted(places.tolist(), key=lambda place: (-int(concepts.weights[place]), names[place]))[:TOP]
        best_concepts[title] = [{"words": names[place], "score": int(concepts.weights[place]) / GRID} for place in best]
    return best_concepts


def high_level_partition(engine: Engine, uses: ir.Table, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """Table 5: distinct queries under each concept of the third level, each query counted once; unmatched: the root."""
    generalised = generalise(engine, uses, taxonomy)
    tree = Tree.of(taxonomy)
    groups = _third_level(tree)
    of_query = np.where(generalised.concepts == UNMATCHED, tree.root, groups[np.maximum(generalised.concepts, 0)])
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
    """Ancestor of each concept on the first three levels; itself if it lies on one."""
    ancestors = np.arange(len(tree.parents))
    second = tree.parents == tree.root
    top = second | second[tree.parents]  # levels two and three; the root is among the first
    while True:
        above = np.where(top[ancestors], ancestors, tree.parents[ancestors])
        if (above == ancestors).all():
            return ancestors
        ancestors = above


KS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 80, 100, 150, 200, 300, 500, 800, 1000)
BETAS = (1.0, 0.1)
THETAS = (0.9, 0.8)
Curves = dict[str, list[float]]


@dataclass(frozen=True)
class AffinityFigures:
    """Curves over `ks` by method; Table 4 and the figures that need labels are empty without them."""

    ks: tuple[int, ...]
    measures: dict[str, str]
    figure_5a: Curves
    figure_5b: Curves
    figure_6: dict[str, Curves]
    figure_7: Curves
    sensitive_released: Curves
    table_4: list[dict[str, Any]]
    queries: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {"private": True, **asdict(self)}


def affinity_figures(
    log: SearchLog,
    *,
    sensitive: pa.Table | None = None,
    user: str | None = None,
    thetas: Sequence[float] = THETAS,
    ks: Sequence[int] = KS,
    concept_users: float = DEFAULT_CONCEPT_USERS,
) -> AffinityFigures:
    """Compute every figure; `sensitive` has the columns user and query, `user` is the one of 5(b) and Table 4.

    Without a user it is the one with the most sensitive queries of degree 2 or more. Without labels Table 4 is empty;
    without labels and user, Figure 5 (b) is empty too.
    """
    uses = uses_of(log)
    log.checked()
    expansion = expand_log(log, uses, concept_users, 2, log.progress)
    expanded = expansion.expanded
    degrees = {"EQ": expanded.own_users}
    for theta in thetas:
        method = Affinity(min_users=max(2, *ks), theta=theta, concept_users=concept_users)
        degrees[f"AFF {theta:g}"] = degrees_at(
            expansion,
            method.millionths,
            max(ks),
            max_neighbours=None,
            threads=log.engine.threads,
            progress=lambda share: log.progress("comparing queries", share),
        )
    labels = _labels(expanded.queries, sensitive)
    shared = labels & (np.maximum.reduce(list(degrees.values())) >= 2)
    person = user or (_most_exposed(sensitive, expanded.queries, shared) if sensitive is not None else None)
    theirs = _queries_of(log, uses, expanded.queries, person) if person is not None else np.zeros(0, np.int64)
    return AffinityFigures(
        ks=tuple(ks),
        measures={str(m): m.citation for m in (SHARE_RELEASED, NCP, SENSITIVE_RELEASED, *map(f_beta, BETAS))},
        figure_5a={name: share_released(each, ks).tolist() for name, each in degrees.items()},
        figure_5b={name: share_released(each[theirs], ks).tolist() for name, each in degrees.items() if len(theirs)},
        figure_6=_figure_6(degrees, labels, ks),
        figure_7=_figure_7(log, uses, degrees, ks),
        sensitive_released={n: share_released(d, ks, labels).tolist() for n, d in degrees.items() if labels.any()},
        table_4=_table_4(expanded.queries, degrees, theirs, labels if labels.any() else ~labels),
        queries=_kinds(expansion, _searches(log, uses, len(expanded.queries))) | {"of the user": len(theirs)},
    )


def _labels(queries: pa.ChunkedArray, sensitive: pa.Table | None) -> NDArray[np.bool_]:
    if sensitive is None:
        return np.zeros(len(queries), np.bool_)
    wanted = pc.unique(sensitive["query"].cast(pa.string()))
    return np.asarray(pc.is_in(queries, wanted).to_numpy())


def _most_exposed(sensitive: pa.Table, queries: pa.ChunkedArray, shared: NDArray[np.bool_]) -> str | None:
    """The user with the most labelled queries of degree 2 or more, if any has one; the least name among equals."""
    some = sensitive.filter(pc.is_in(sensitive["query"].cast(pa.string()), queries.filter(pa.array(shared)).unique()))
    sensitive = some if some.num_rows else sensitive
    if not sensitive.num_rows:
        return None
    counted = sensitive.group_by("user").aggregate([("query", "count_distinct")])
    first = counted.sort_by([("query_count_distinct", "descending"), ("user", "ascending")])
    return str(first["user"][0].as_py())


def _queries_of(log: SearchLog, uses: ir.Table, queries: pa.ChunkedArray, user: str) -> NDArray[np.int64]:
    asked = log.engine.fetch(uses.filter(uses.user == user).select("query"))["query"].cast(pa.string())
    return np.flatnonzero(pc.is_in(queries, pc.unique(asked)).to_numpy())


def _figure_6(degrees: dict[str, NDArray[np.int32]], labels: NDArray[np.bool_], ks: Sequence[int]) -> dict[str, Curves]:
    if not labels.any():
        return {}
    return {
        f"beta {beta:g}": {name: f_beta_over(each, labels, ks, beta).tolist() for name, each in degrees.items()}
        for beta in BETAS
    }


def _figure_7(log: SearchLog, uses: ir.Table, degrees: dict[str, NDArray[np.int32]], ks: Sequence[int]) -> Curves:
    """NCP over all words of all searches."""
    log.progress("matching queries", 0.0)
    taxonomy = wordnet()
    generalised = generalise(log.engine, uses, taxonomy)
    matcher, times = matcher_of(taxonomy), _searches(log, uses, len(generalised.queries))
    covered, words = (np.concatenate(each) for each in zip(*_matched(generalised.queries, matcher), strict=True))
    covered, words = covered * times, words * times
    curves = {
        name: ncp_of_suppression(each, words, ks).tolist()
        for name, each in degrees.items()
        if name == "EQ" or name.startswith("AFF")
    }
    tree = Tree.of(taxonomy)
    curves["WNGEN"] = [
        ncp_of_generalisation(
            generalised.concepts, np.where(becomes == tree.root, -1, becomes), covered, words, tree.leaves_under
        )
        for becomes in map(generalised.becomes, ks)
    ]
    return curves


def _searches(log: SearchLog, uses: ir.Table, queries: int) -> NDArray[np.int64]:
    """Searches of each query, in the order of the queries."""
    counted = uses.group_by("query").agg(searches=uses.searches.sum()).order_by("query")
    # Sums leave an engine as numbers of 128 bits.
    batches = [batch.column("searches").cast(pa.int64()).to_numpy() for batch in log.engine.stream(counted)]
    searches = np.concatenate([np.empty(0, np.int64), *batches])
    if len(searches) != queries:
        raise RuntimeError("two passes over one log gave different queries")
    return searches


def _matched(queries: pa.ChunkedArray, matcher: Matcher) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    parts = [matcher.matches(Spans.of(chunk))[1:] for chunk in queries.chunks]
    return [(covered.astype(np.int64), words.astype(np.int64)) for covered, words in parts] or [(np.zeros(0, np.int64),) * 2]  # noqa: E501  # fmt: skip


def _table_4(
    queries: pa.ChunkedArray,
    degrees: dict[str, NDArray[np.int32]],
    theirs: NDArray[np.int64],
    labels: NDArray[np.bool_],
) -> list[dict[str, Any]]:
    """One user's queries that count as sensitive and have a degree of 2 or more under some method, by plain degree."""
    places = [int(p) for p in theirs if labels[p] and max(int(each[p]) for each in degrees.values()) >= 2]
    rows = [{"query": queries[p].as_py(), **{name: int(each[p]) for name, each in degrees.items()}} for p in places]
    return sorted(rows, key=lambda row: (row["EQ"], row["query"]))


def _kinds(expansion: Expansion, searches: NDArray[np.int64]) -> dict[str, int]:
    vertex = expansion.expanded.vertex
    return {
        "distinct": len(vertex),
        "expandable": int((vertex >= 0).sum()),
        "expandable, searches": int(searches[vertex >= 0].sum()),
        "without concepts": int((vertex == -1).sum()),
        "with a word of too few users": int((vertex == -2).sum()),
        "concepts": len(expansion.concepts),
        "vertices": len(expansion.expanded.concepts),
    }
