"""Concepts of a taxonomy in queries: the longest label in the query, and of equally long labels the last.

No tagger is needed: the last noun of an English phrase is its head, so the label further right wins. Stop words
separate phrases; no match begins or ends with one, nor with a bare number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.text.compiled import part
from querycloak.text.english import STOP_WORDS, written_forms
from querycloak.text.lexicon import PRIME, SEED, Lexicon, mixed, probe
from querycloak.text.lists import Lists
from querycloak.text.spans import Spans
from querycloak.text.taxonomy import Taxonomy

NO_LABEL = -1
_LONGEST = 8  # words of a label that are looked for


@dataclass(frozen=True)
class Mentions:
    """Matches: query, label, and bytes of the query, in order of query and bytes."""

    query: NDArray[np.int64]
    label: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]


class ConceptFinder:
    """Labels of one taxonomy in normalised queries: made once, used for any number of queries."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        forms = written_forms(taxonomy)
        self._forms = Lexicon.of(pa.array(list(forms), pa.string()))
        self._label_of_form = np.fromiter(forms.values(), np.int32, len(forms))
        self._stop_words = Lexicon.of(pa.array(sorted(STOP_WORDS), pa.string()))

    @cached_property
    def _first_senses(self) -> NDArray[np.int32]:
        """The first sense of each label, as a concept; the last entry stands for no label."""
        senses: Lists = self.taxonomy.senses_of
        return np.append(senses.values[senses.starts[:-1]], np.int32(NO_LABEL))

    def concepts(self, queries: pa.Array) -> NDArray[np.int32]:
        """The concept of the best match in each query; -1 without a match."""
        mentions = self._mentions(queries, per_phrase=False)
        labels = np.full(len(queries), NO_LABEL, np.int32)
        labels[mentions.query] = mentions.label
        return self._first_senses[labels]

    def mentions(self, queries: pa.Array) -> Mentions:
        """The best match in each phrase of each query; phrases without a match have none."""
        return self._mentions(queries, per_phrase=True)

    def concepts_of(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """The first senses of labels, as concepts."""
        return self._first_senses[labels]

    def _mentions(self, queries: pa.Array, *, per_phrase: bool) -> Mentions:
        texts = Spans.of(queries)
        parts = self._forms.table, self._stop_words.table
        counts = np.zeros(len(texts), np.int64)
        nothing = np.empty((0, 3), np.int32)
        _find(texts.data, texts.starts, texts.ends, *parts, per_phrase, _LONGEST, counts, counts, nothing)
        places = np.cumsum(counts) - counts
        room = np.empty((int(counts.sum()), 3), np.int32)
        _find(texts.data, texts.starts, texts.ends, *parts, per_phrase, _LONGEST, counts, places, room)
        return Mentions(
            np.repeat(np.arange(len(texts)), counts), self._label_of_form[room[:, 0]], room[:, 1], room[:, 2]
        )


@part
def _number_of(hashed, buffer, first, last, lexicon):  # type: ignore[no-untyped-def]
    """The number of a text in the buffer, -1 if the lexicon lacks it."""
    slots, texts, text_ends = lexicon
    return slots[probe(mixed(hashed), buffer, first, last, slots, texts, text_ends)]


@part
def _is_letter(byte):  # type: ignore[no-untyped-def]
    return 97 <= byte <= 122 or 48 <= byte <= 57 or byte >= 128


@njit(cache=True, nogil=True)
def _split(data, start, end, buffer, word_starts, word_ends, origins, origin_ends):  # type: ignore[no-untyped-def]
    """Write the words with single blanks between them, and their places in the query; returns their number."""
    count, position, inside = 0, 0, False
    for i in range(start, end):
        byte = data[i]
        if byte == 39:  # an apostrophe goes without parting words
            continue
        if _is_letter(byte):
            if not inside:
                if count == word_starts.size:
                    break
                if count:
                    buffer[position] = 32
                    position += 1
                word_starts[count], origins[count], inside = position, i - start, True
                count += 1
            buffer[position] = byte
            position += 1
            word_ends[count - 1], origin_ends[count - 1] = position, i + 1 - start
        else:
            inside = False
    return count


@part
def _bounds_a_match(buffer, first, last, stop_words):  # type: ignore[no-untyped-def]
    """True if a match may begin or end with this word: neither a stop word nor a bare number."""
    hashed, letters = SEED, False
    for i in range(first, last):
        hashed = (hashed ^ np.uint64(buffer[i])) * PRIME
        letters = letters or buffer[i] > 57
    return letters and _number_of(hashed, buffer, first, last, stop_words) < 0


@part
def _longest_from(start, words, buffer, word_starts, word_ends, bounds, forms, longest):  # type: ignore[no-untyped-def]
    """The longest match that begins with a word: its number of words, and its form."""
    length, best = 0, -1
    hashed = SEED
    at = word_starts[start]
    for stop in range(start, min(words, start + longest) if bounds[start] else start):
        while at < word_ends[stop]:
            hashed = (hashed ^ np.uint64(buffer[at])) * PRIME
            at += 1
        one_letter = stop == start and word_ends[stop] - word_starts[stop] < 2
        if bounds[stop] and not one_letter:
            form = _number_of(hashed, buffer, word_starts[start], word_ends[stop], forms)
            if form >= 0:
                length, best = stop + 1 - start, form
    return length, best


@part
def _phrase_end(start, words, bounds, lengths):  # type: ignore[no-untyped-def]
    """End of the phrase that starts here: before the first word that cannot bound a match and that no match covers."""
    reach = start + 1
    word = start
    while word < reach:
        reach = max(reach, word + lengths[word])
        if reach == word + 1 and reach < words and bounds[reach]:
            reach += 1
        word += 1
    return reach


@part
def _best_between(first, end, lengths):  # type: ignore[no-untyped-def]
    """Start of the longest match, of equally long ones the last."""
    best = first
    for word in range(first, end):
        if lengths[word] >= lengths[best]:
            best = word
    return best


@njit(cache=True, nogil=True)
def _find(data, starts, ends, forms, stop_words, per_phrase, longest, counts, places, room):  # type: ignore[no-untyped-def]
    """Write the best match of each query or phrase to `room`; only their numbers if `room` is empty."""
    width = 64
    for query in range(starts.size):
        width = max(width, ends[query] - starts[query])
    buffer = np.empty(width + 1, np.uint8)
    most = width // 2 + 1
    word_starts, word_ends = np.empty(most, np.int64), np.empty(most, np.int64)
    origins, origin_ends = np.empty(most, np.int64), np.empty(most, np.int64)
    bounds, lengths, matched = np.empty(most, np.bool_), np.empty(most, np.int64), np.empty(most, np.int64)
    for query in range(starts.size):
        words = _split(data, starts[query], ends[query], buffer, word_starts, word_ends, origins, origin_ends)
        for word in range(words):
            bounds[word] = _bounds_a_match(buffer, word_starts[word], word_ends[word], stop_words)
        for word in range(words):
            lengths[word], matched[word] = _longest_from(
                word, words, buffer, word_starts, word_ends, bounds, forms, longest
            )
        matches, first = 0, 0
        while first < words:
            end = words
            if per_phrase:
                end = _phrase_end(first, words, bounds, lengths) if bounds[first] else first + 1
            best = _best_between(first, end, lengths)
            if matched[best] >= 0:
                if room.shape[0]:
                    row = room[places[query] + matches]
                    row[0], row[1], row[2] = matched[best], origins[best], origin_ends[best + lengths[best] - 1]
                matches += 1
            first = end
        counts[query] = matches
