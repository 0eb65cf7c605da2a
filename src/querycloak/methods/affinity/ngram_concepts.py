"""Concepts: the n-grams that many users share, with their weights (affinity.md, step 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.privacy.sampling.exact import stated
from querycloak.sentence import Sentence
from querycloak.text.english import STOP_WORDS
from querycloak.text.lexicon import Lexicon
from querycloak.text.ngrams import LONGEST, PARTS, WordCounts, longer_grams, total_occurrences

# Weights are whole numbers of 1/1024, so that every cosine is compared with theta in whole numbers.
GRID = 1 << 10
NO_CONCEPT = -1
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Concepts:
    """The concepts of a log, and what else one must know of its words to expand queries.

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
    """Count n-grams in the engine; what comes here are the frequent ones, and the words that enough users have."""
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
        raise InputError(
            Sentence(
                "this log has no concepts: no word or phrase that says something was used by {number:g} {kind} "
                "({concept_users}); {lower}use k-anonymity, which needs none",
                number=concept_users,
                kind=kind,
                lower="" if concept_users == 2 else "lower it towards 2, or ",
            )
        )
    return replace(concepts, unknown_is_safe=safe_words is None)


def _sorted(grams: pa.Table, length: int) -> pa.Table:
    return grams.sort_by([(name, "ascending") for name in PARTS[:length]])


def _concepts(frequent: list[pa.Table], totals: list[int], safe_words: pa.ChunkedArray) -> Concepts:
    """Weigh the n-grams, leave out those of stop words alone, and number the rest."""
    words = frequent[0]
    lexicon = Lexicon.of(words["x"])
    frequent_words = len(lexicon)
    safe_numbers = _numbers(lexicon, safe_words)
    width = max(1, len(lexicon))
    places = [{name: _numbers(lexicon, table[name]) for name in PARTS[:n]} for n, table in enumerate(frequent, 1)]
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


def _numbers(lexicon: Lexicon, texts: pa.ChunkedArray) -> Integers:
    numbers = [lexicon.add(chunk) for chunk in texts.chunks]
    return np.concatenate([np.empty(0, np.int64), *numbers]).astype(np.int64)


def _numbered(kept: list[NDArray[np.bool_]]) -> list[Numbers]:
    """Consecutive numbers for what is kept, over several lists."""
    together = np.concatenate(kept)
    numbers = np.where(together, np.cumsum(together) - 1, NO_CONCEPT).astype(np.int32)
    return np.split(numbers, np.cumsum([len(each) for each in kept])[:-1])


def _names(grams: pa.Table, length: int) -> pa.Array:
    columns = [grams[name].combine_chunks().cast(pa.string()) for name in PARTS[:length]]
    return columns[0] if length == 1 else pc.binary_join_element_wise(*columns, " ")
