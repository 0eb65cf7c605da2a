"""Concepts: the n-grams that many users share, with their weights (affinity.md, step 1).

An engine counts the occurrences, searches and users of words, pairs and triples. It reads a table of uses, with a row
for each user and query: user, query, searches. Blanks separate words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.privacy.sampling.exact import stated
from querycloak.text.english import STOP_WORDS
from querycloak.text.lexicon import Lexicon

LONGEST = 3
PARTS = ("x", "y", "z")


@dataclass(frozen=True)
class WordCounts:
    """Words with occurrences, searches (that contain them), uses (users' queries) and shared (by several users)."""

    table: ir.Table
    uses: ir.Table
    engine: Engine

    @classmethod
    def of(cls, engine: Engine, uses: ir.Table) -> WordCounts:
        """Count the words once."""
        words = _words(uses)
        counted = words.group_by("x").agg(
            occurrences=words.searches.sum(),
            searches=words.searches.sum(where=words["first"]),
            uses=words["first"].sum(),
            # The least and the greatest user decide: the engine keeps no set of users for rare words.
            shared=words.user.min() != words.user.max(),
        )
        return cls(engine.stage(counted), uses, engine)

    def used_by(self, least: int) -> ir.Table:
        """Words of at least this many users: x, occurrences, searches and users (stated as 2 if `least` is 2)."""
        if least <= 2:
            several = self.table.filter(self.table.shared)
            return several.select("x", "occurrences", "searches", users=ibis.literal(2, "int64"))
        # A word has at most as many users as uses, so users of most words need not be counted.
        likely = self.table.filter(self.table.uses >= least)
        exploded = _words(self.uses)
        first = exploded.filter(exploded["first"]).select("x", "user").semi_join(likely, "x")
        users = first.group_by("x").agg(users=first.user.nunique())
        enough = users.filter(users.users >= least)
        return enough.join(likely, "x").select("x", "occurrences", "searches", "users")


def users_of_words(uses: ir.Table, words: Sequence[str]) -> ir.Table:
    """x and users: these words with their numbers of users."""
    every = _words(uses)
    wanted = every.filter(every.x.isin(list(words)))
    return wanted.group_by("x").agg(users=wanted.user.nunique())


def longer_grams(uses: ir.Table, length: int, shorter: ir.Table, least: int) -> ir.Table:
    """n-grams of at least this many users, with their occurrences.

    shorter: the (n-1)-grams of at least as many users. Others begin and end no such n-gram, and are not looked at.
    """
    names = PARTS[:length]
    table = _placed(uses, length)
    grams = table.select(
        "user", "searches", **{name: table.words[table.place + offset] for offset, name in enumerate(names)}
    )
    known = shorter.select(*PARTS[: length - 1])
    for ends in (names[:-1], names[1:]):
        renamed = known.rename(dict(zip(ends, PARTS, strict=False))) if ends != names[:-1] else known
        grams = grams.semi_join(renamed, list(ends))
    counted = grams.group_by(list(names)).agg(occurrences=grams.searches.sum(), users=grams.user.nunique())
    return counted.filter(counted.users >= least)


def distinct_grams(uses: ir.Table, length: int) -> ir.Table:
    """The distinct n-grams of this length."""
    table = _placed(uses, length)
    return table.select(
        **{name: table.words[table.place + offset] for offset, name in enumerate(PARTS[:length])}
    ).distinct()


def total_occurrences(uses: ir.Table) -> ir.Table:
    """One row with the number of n-grams of each length, repeats included."""
    blanks = (uses.query.length() - uses.query.replace(" ", "").length()).cast("int64")
    words = ibis.ifelse(uses.query == "", 0, blanks + 1)
    counted = uses.select("searches", words=words)
    return counted.agg(
        **{
            f"grams_{n}": ((counted.words - (n - 1)).clip(lower=0) * counted.searches).sum()
            for n in range(1, LONGEST + 1)
        }
    )


def _placed(uses: ir.Table, length: int) -> ir.Table:
    """A row for each place at which an n-gram of this length begins."""
    split = uses.filter(uses.query != "").select("user", "searches", words=uses.query.split(" "))
    enough = split.filter(split.words.length() >= length)
    places = ibis.range(0, enough.words.length() - (length - 1))
    return enough.select("user", "searches", "words", place=places.unnest())


def _words(uses: ir.Table) -> ir.Table:
    """Each word of each use; first: whether the same word stands nowhere before it in the query."""
    table = _placed(uses, 1)
    word = table.words[table.place]
    return table.select("user", "searches", x=word, first=table.words.index(word) == table.place)


# Weights are multiples of 1/1024, so that cosines and theta are compared as whole numbers.
GRID = 1 << 10
NO_CONCEPT = -1
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Concepts:
    """The concepts of a log, and the safe words, which enough users have for an expanded query to hold them.

    words: the frequent and the safe words. unknown_is_safe: whether all other words are safe; true for queries whose
    words were checked before. The key of a pair is first word * words + second word, that of a triple the place of its
    first pair * words + third word; keys are sorted.
    """

    words: Lexicon
    safe: NDArray[np.bool_]
    word_concepts: Numbers
    pair_keys: Integers
    pair_concepts: Numbers
    triple_keys: Integers
    triple_concepts: Numbers
    weights: Integers
    names: pa.Array
    unknown_is_safe: bool = False

    def __len__(self) -> int:
        return len(self.weights)


def least_users(concept_users: float, users: int) -> int:
    """Least number of users of a concept: a number, or a share of the log's users rounded down; at least two."""
    exact = stated(concept_users)
    return max(2, math.floor(exact * users) if exact < 1 else math.ceil(exact))


def word_weights(searches: Integers) -> Floats:
    """log2(N + 1), with N the searches that contain the word."""
    return np.log2(searches.astype(np.float64) + 1)


def pair_weights(pair: Floats, first: Floats, second: Floats) -> Floats:
    """Mutual information of two adjacent words (Church and Hanks, 1990), with 1 added inside the logarithm."""
    return np.log2(pair / (first * second) + 1)


def triple_weights(triple: Floats, words: Sequence[Floats], xy: Floats, yz: Floats) -> Floats:
    """Mutual information of three adjacent words (Su, Hsu and Saillard, 1991), with 1 added inside the logarithm."""
    x, y, z = words
    return np.log2(triple / (x * y * z + x * yz + xy * z) + 1)


def on_grid(weights: Floats) -> Integers:
    """Weights as multiples of 1/1024, at least one of them."""
    return np.maximum(1, np.rint(weights * GRID)).astype(np.int64)


def mine_concepts(engine: Engine, uses: ir.Table, concept_users: float, min_word_users: int) -> Concepts:
    """Count n-grams in the engine and return the concepts and the words of at least `min_word_users` users."""
    counts = WordCounts.of(engine, uses)
    return concepts_of(counts, concept_users, counts.used_by(min_word_users).select("x"))


def concepts_of(counts: WordCounts, concept_users: float, safe_words: ir.Table | None) -> Concepts:
    """The frequent n-grams as concepts; safe_words: None if all words of the queries are safe."""
    engine, uses = counts.engine, counts.uses
    users = engine.fetch(uses.agg(users=uses.user.nunique()))["users"][0].as_py()
    least = least_users(concept_users, users)
    words = engine.stage(counts.used_by(least))
    pairs = engine.stage(longer_grams(uses, 2, words, least))
    triples = longer_grams(uses, 3, pairs, least)
    totals = engine.fetch(total_occurrences(uses)).to_pylist()[0]
    frequent = [
        _sorted(engine.fetch(grams.select(*PARTS[:n], "occurrences", *(["searches"] if n == 1 else []))), n)
        for n, grams in ((1, words), (2, pairs), (3, triples))
    ]
    safe = frequent[0]["x"] if safe_words is None else engine.fetch(safe_words)["x"]
    concepts = _concepts(frequent, [int(totals[f"grams_{n}"] or 0) for n in range(1, LONGEST + 1)], safe)
    if not len(concepts):
        kind = "of its users (a share; two users at least)" if concept_users < 1 else "users"
        raise InputError.of(
            "this log has no concepts: no word or phrase, stop words aside, was used by {number:g} {kind} "
            "({concept_users}); {lower}use k-anonymity, which needs none",
            number=concept_users,
            kind=kind,
            lower="" if concept_users == 2 else "lower it towards 2, or ",
        )
    return replace(concepts, unknown_is_safe=safe_words is None)


def _sorted(grams: pa.Table, length: int) -> pa.Table:
    return grams.sort_by([(name, "ascending") for name in PARTS[:length]])


def _concepts(frequent: list[pa.Table], totals: list[int], safe_words: pa.ChunkedArray) -> Concepts:
    """Weight the n-grams, leave out those of stop words alone, and number the rest."""
    words = frequent[0]
    lexicon = Lexicon.of(words["x"])
    frequent_words = len(lexicon)
    safe_numbers = lexicon.add_all(safe_words)
    width = max(1, len(lexicon))
    places = [
        {name: lexicon.add_all(table[name]).astype(np.int64) for name in PARTS[:n]}
        for n, table in enumerate(frequent, 1)
    ]
    # Sorted by word, hence by number, hence by key: frequent words were numbered in order.
    pair_keys = places[1]["x"] * width + places[1]["y"]
    xy = np.searchsorted(pair_keys, places[2]["x"] * width + places[2]["y"])
    yz = np.searchsorted(pair_keys, places[2]["y"] * width + places[2]["z"])
    p_words, p_pairs, p_triples = (
        table["occurrences"].to_numpy() / max(1, total) for table, total in zip(frequent, totals, strict=True)
    )
    weights = [
        word_weights(words["searches"].to_numpy()),
        pair_weights(p_pairs, *(p_words[places[1][name]] for name in ("x", "y"))),
        triple_weights(p_triples, [p_words[places[2][name]] for name in PARTS], p_pairs[xy], p_pairs[yz]),
    ]
    stop = pc.is_in(words["x"].cast(pa.string()), pa.array(sorted(STOP_WORDS))).to_numpy()
    kept = [~np.logical_and.reduce([stop[each] for each in of.values()]) for of in places]
    numbers = _numbered(kept)
    word_concepts = np.full(width, NO_CONCEPT, np.int32)
    word_concepts[:frequent_words] = numbers[0]
    safe = np.zeros(width, np.bool_)
    safe[safe_numbers] = True
    return Concepts(
        words=lexicon,
        safe=safe,
        word_concepts=word_concepts,
        pair_keys=pair_keys,
        pair_concepts=numbers[1],
        triple_keys=xy * width + places[2]["z"],
        triple_concepts=numbers[2],
        weights=on_grid(np.concatenate([w[k] for w, k in zip(weights, kept, strict=True)])),
        names=pa.concat_arrays(
            [_names(t, n).filter(pa.array(k)) for n, (t, k) in enumerate(zip(frequent, kept, strict=True), 1)]
        ),
    )


def _numbered(kept: list[NDArray[np.bool_]]) -> list[Numbers]:
    """Consecutive numbers over several lists; NO_CONCEPT for entries that are not kept."""
    together = np.concatenate(kept)
    numbers = np.where(together, np.cumsum(together) - 1, NO_CONCEPT).astype(np.int32)
    return np.split(numbers, np.cumsum([len(each) for each in kept])[:-1])


def _names(grams: pa.Table, length: int) -> pa.Array:
    columns = [grams[name].combine_chunks().cast(pa.string()) for name in PARTS[:length]]
    return columns[0] if length == 1 else pc.binary_join_element_wise(*columns, " ")
