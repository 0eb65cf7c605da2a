"""Queries rebuilt as Sanchez et al. (2018) do: every phrase's concept is replaced, phrases without one are left out.

Stop words and the other words of a phrase stay as they were typed, unprotected; the default variant has none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.methods.semantic.replacement import DrawnTables, Replacement, Weights, coarse, rows_of
from querycloak.methods.semantic.searches import Searches
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Stream
from querycloak.text.english import STOP_WORDS, as_words
from querycloak.text.lexicon import Lexicon, find
from querycloak.text.query_concepts import Mentions
from querycloak.text.spans import Spans, string_array


class RebuiltQueries(Replacement):
    """The mechanism with the paper's exponent, on the concepts of every phrase of a query."""

    @property
    def concepts_of(self) -> None:
        """None, because phrases are searched in the queries themselves."""

    def tables(self, searches: Searches, randomness: Randomness) -> DrawnTables:
        """The rows of the release, drawn once."""
        return DrawnTables(rebuilt_queries(self, searches, randomness))

    def exponents(self, weights: Weights, losses: Sequence[float]) -> list[float]:
        """The paper's exponent."""
        return weights.paper_exponents(losses)


def rebuilt_queries(replacement: Replacement, searches: Searches, randomness: Randomness) -> Stream:
    """The queries in which a concept was found, each with new ones in their place; the others are discarded."""
    queries = searches.queries.combine_chunks() if searches.queries is not None else pa.array([], pa.string())
    mentions, concepts = replacement.domains.mentions(queries)
    owner_of = np.repeat(np.arange(len(searches.users)), searches.lengths)
    owners = owner_of[mentions.query]
    domains, places = replacement.domains.placed(concepts)
    shares = np.bincount(owners, minlength=len(searches.users))  # m_x: concepts that are drawn, not queries
    drawn = replacement.draw(owners, domains, places, shares, randomness)
    labels = _labels(replacement, domains, drawn, _in_plural(queries, mentions, replacement))
    kept, texts = _rebuilt(queries, mentions, labels)
    numbered = texts.dictionary_encode()
    order = np.argsort(np.array(numbered.dictionary.to_pylist(), dtype=object), kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    times = coarse(searches.times[kept], replacement.method.times)
    shown = numbered.dictionary.take(pa.array(order))
    return rows_of(searches.users, owner_of[kept], shown, rank[numbered.indices.to_numpy()], times)


def plural(label: str) -> str:
    """A label with its last word in the plural, by the regular rules."""
    if label.endswith(("s", "x", "z", "ch", "sh")):
        return label + "es"
    if label.endswith("y") and label[-2:-1] not in ("", "a", "e", "i", "o", "u"):
        return label[:-1] + "ies"
    return label + "s"


def _in_plural(queries: pa.Array, mentions: Mentions, replacement: Replacement) -> NDArray[np.bool_]:
    """True if the query said a label in another form than its own: nouns have no other but the plural."""
    texts = Spans.of(queries)
    starts = texts.starts[mentions.query]
    written = Spans(texts.data, starts + mentions.start, starts + mentions.end).strings().dictionary_encode()
    forms = [as_words(text) for text in written.dictionary.to_pylist()]
    labels = replacement.domains.finder.taxonomy.labels
    return np.array(
        [
            forms[form] != as_words(labels[label])
            for form, label in zip(written.indices.to_pylist(), mentions.label, strict=True)
        ],
        np.bool_,
    )


def _labels(
    replacement: Replacement, domains: NDArray[np.int32], drawn: NDArray[np.int32], in_plural: NDArray[np.bool_]
) -> pa.Array:
    whole = replacement.domains.whole(domains, drawn)
    used, where = np.unique(whole, return_inverse=True)
    texts = [replacement.domains.taxonomy.shown(int(concept)) for concept in used]
    choices = pa.array([*texts, *map(plural, texts)], pa.string())
    return choices.take(pa.array(where + in_plural * len(texts)))


class _Queries(NamedTuple):
    """The queries that are rebuilt, and for each byte whether it goes, as compiled code takes them."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    dropped: NDArray[np.bool_]


class _Mentions(NamedTuple):
    """Places of mentioned concepts: those of query i are `bounds[i]` to `bounds[i + 1]`."""

    bounds: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


class _Labels(NamedTuple):
    """The new labels, one for each mention."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


def _rebuilt(queries: pa.Array, matches: Mentions, labels: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """The queries with mentions, and their texts with the labels in place of what was mentioned.

    A phrase (the words between two stop words) in which nothing is mentioned is left out, as the paper discards it.
    """
    old, new = Spans.of(queries), Spans.of(labels)
    kept, first = np.unique(matches.query, return_index=True)
    mentions = _Mentions(np.append(first, len(matches.query)), matches.start, matches.end)
    texts = _Queries(old.data, old.starts[kept], old.ends[kept], np.zeros(old.data.size, np.bool_))
    stop_words = Lexicon.of(pa.array(sorted(STOP_WORDS), pa.string())).table
    _drop_unknown_phrases(texts, mentions, *stop_words)
    labelled = _Labels(new.data, new.starts, new.ends)
    offsets = np.zeros(len(kept) + 1, np.int32)
    _write(texts, mentions, labelled, offsets, np.empty(0, np.uint8))
    data = np.empty(int(offsets[-1]), np.uint8)
    _write(texts, mentions, labelled, offsets, data)
    return kept, string_array(offsets, data)


@njit(cache=True, nogil=True)
def _drop_unknown_phrases(texts, mentions, slots, words, word_ends):  # type: ignore[no-untyped-def]
    """Mark the phrases without a mention, each with one blank beside it."""
    for query in range(texts.starts.size):
        first, last = texts.starts[query], texts.ends[query]
        phrase, begin, mention = -1, first, mentions.bounds[query]
        for i in range(first, last + 1):
            if i < last and texts.data[i] != 32:
                continue
            is_stop = slots[find(texts.data, begin, i, slots, words, word_ends)] >= 0
            if not is_stop and phrase < 0:
                phrase = begin
            if phrase >= 0 and (is_stop or i == last):
                end = begin - 1 if is_stop else i
                while mention < mentions.bounds[query + 1] and first + mentions.ends[mention] <= phrase:
                    mention += 1
                if mention == mentions.bounds[query + 1] or first + mentions.starts[mention] >= end:
                    if phrase > first:
                        texts.dropped[phrase - 1 : end] = True
                    else:
                        texts.dropped[phrase : min(end + 1, last)] = True
                phrase = -1
            begin = i + 1


@njit(cache=True, nogil=True)
def _write(texts, mentions, labels, offsets, out):  # type: ignore[no-untyped-def]
    """Write what stays and the new labels; with no room, only where each text ends."""
    position, writes = 0, out.size > 0
    for query in range(texts.starts.size):
        first, at = texts.starts[query], texts.starts[query]
        for mention in range(mentions.bounds[query], mentions.bounds[query + 1] + 1):
            is_last = mention == mentions.bounds[query + 1]
            until = texts.ends[query] if is_last else first + mentions.starts[mention]
            for i in range(at, until):
                if not texts.dropped[i]:
                    if writes:
                        out[position] = texts.data[i]
                    position += 1
            if not is_last:
                for i in range(labels.starts[mention], labels.ends[mention]):
                    if writes:
                        out[position] = labels.data[i]
                    position += 1
                at = first + mentions.ends[mention]
        offsets[query + 1] = position
