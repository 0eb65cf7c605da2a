"""Concepts: the n-grams that many users share, with their weights (affinity.md, step 1).

An engine counts words, pairs and triples of words: occurrences, searches, users. The table of uses that it starts from
has a row for each user and query: user, query, searches. A word is what stands between blanks.
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
    """word, occurrences, searches (that contain it), uses (user and query) and whether several users have it."""

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
            # Told by the least and the greatest user: no set of users is kept for a word that few have.
            shared=words.user.min() != words.user.max(),
        )
        return cls(engine.stage(counted), uses, engine)

    def used_by(self, least: int) -> ir.Table:
        """Words of at least this many users: x, occurrences, searches, users (2 where two or more are asked for)."""
        if least <= 2:
            several = self.table.filter(self.table.shared)
            return several.select("x", "occurrences", "searches", users=ibis.literal(2, "int64"))
        # Users are at most as many as uses, so most words need no counting of users.
        likely = self.table.filter(self.table.uses >= least)
        exploded = _words(self.uses)
        first = exploded.filter(exploded["first"]).select("x", "user").semi_join(likely, "x")
        users = first.group_by("x").agg(users=first.user.nunique())
        enough = users.filter(users.users >= least)
        return enough.join(likely, "x").select("x", "occurrences", "searches", "users")


def users_of_words(uses: ir.Table, words: Sequence[str]) -> ir.Table:
    """x and users: the number of users of each of these words."""
    every = _words(uses)
    wanted = every.filter(every.x.isin(list(words)))
    return wanted.group_by("x").agg(users=wanted.user.nunique())


def longer_grams(uses: ir.Table, length: int, shorter: ir.Table, least: int) -> ir.Table:
    """n-grams of at least this many users, with their occurrences; both their ends must be among the shorter ones.

    An n-gram has no more users than each of its parts, so nothing is lost by that.
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
    """Every n-gram of this length once."""
    table = _placed(uses, length)
    return table.select(
        **{name: table.words[table.place + offset] for offset, name in enumerate(PARTS[:length])}
    ).distinct()


def total_occurrences(uses: ir.Table) -> ir.Table:
    """One row: the number of n-grams of each length, repeats included."""
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
    """Every word of every use, and whether it is the first of its kind in its query."""
    table = _placed(uses, 1)
    word = table.words[table.place]
    return table.select("user", "searches", x=word, first=table.words.index(word) == table.place)


# Weights are whole numbers of 1/1024, so that every cosine is compared with theta in whole numbers.
GRID = 1 << 10
NO_CONCEPT = -1
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Concepts:
    """The concepts of a log, and the facts about its words that expansion of queries needs.

    `text` numbers the words that are frequent or that enough users have (`safe`); whether others are safe is told by
    `unknown_is_safe`, for queries whose words have been looked at before. A pair is keyed by
    (first word * words + second), a triple by (place of its first pair * words + third); keys are sorted.
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
    """Number of users that a concept needs: a number, or a share of the log's users rounded down; at least two."""
    exact = stated(concept_users)
    return max(2, math.floor(exact * users) if exact < 1 else math.ceil(exact))


def word_weights(searches: Integers) -> Floats:
    """log2(N + 1), N the searches that contain the word."""
    return np.log2(searches.astype(np.float64) + 1)


def pair_weights(pair: Floats, first: Floats, second: Floats) -> Floats:
    """Mutual information of two words of which one follows the other (Church and Hanks, 1990), plus one inside."""
    return np.log2(pair / (first * second) + 1)


def triple_weights(triple: Floats, words: Sequence[Floats], xy: Floats, yz: Floats) -> Floats:
    """Mutual information of three words in a row (Su, Hsu and Saillard, 1991), plus one inside."""
    x, y, z = words
    return np.log2(triple / (x * y * z + x * yz + xy * z) + 1)


def on_grid(weights: Floats) -> Integers:
    """Weights in whole numbers of 1/1024, at least one of them."""
    return np.maximum(1, np.rint(weights * GRID)).astype(np.int64)


def mine_concepts(engine: Engine, uses: ir.Table, concept_users: float, min_word_users: int) -> Concepts:
    """Count n-grams in the engine; returns the frequent ones, and the words of enough users."""
    counts = WordCounts.of(engine, uses)
    return concepts_of(counts, concept_users, counts.used_by(min_word_users).select("x"))


def concepts_of(counts: WordCounts, concept_users: float, safe_words: ir.Table | None) -> Concepts:
    """The frequent n-grams; without safe words, for queries whose words all are."""
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
            "this log has no concepts: no word or phrase that says something was used by {number:g} {kind} "
            "({concept_users}); {lower}use k-anonymity, which needs none",
            number=concept_users,
            kind=kind,
            lower="" if concept_users == 2 else "lower it towards 2, or ",
        )
    return replace(concepts, unknown_is_safe=safe_words is None)


def _sorted(grams: pa.Table, length: int) -> pa.Table:
    return grams.sort_by([(name, "ascending") for name in PARTS[:length]])


def _concepts(frequent: list[pa.Table], totals: list[int], safe_words: pa.ChunkedArray) -> Concepts:
    """Weigh the n-grams, leave out those of stop words alone, and number the rest."""
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
    says_something = [~np.logical_and.reduce([stop[each] for each in of.values()]) for of in places]
    numbers = _numbered(says_something)
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
        weights=on_grid(np.concatenate([w[kept] for w, kept in zip(weights, says_something, strict=True)])),
        names=pa.concat_arrays(
            [_names(t, n).filter(pa.array(k)) for n, (t, k) in enumerate(zip(frequent, says_something, strict=True), 1)]
        ),
    )


def _numbered(kept: list[NDArray[np.bool_]]) -> list[Numbers]:
    """Consecutive numbers for what is kept, over several lists."""
    together = np.concatenate(kept)
    numbers = np.where(together, np.cumsum(together) - 1, NO_CONCEPT).astype(np.int32)
    return np.split(numbers, np.cumsum([len(each) for each in kept])[:-1])


def _names(grams: pa.Table, length: int) -> pa.Array:
    columns = [grams[name].combine_chunks().cast(pa.string()) for name in PARTS[:length]]
    return columns[0] if length == 1 else pc.binary_join_element_wise(*columns, " ")
