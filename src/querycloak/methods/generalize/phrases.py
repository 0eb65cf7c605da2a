"""The one concept that stands for a query: its longest phrase that the taxonomy knows (generalize.md, step 1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.text.compiled import kernel
from querycloak.text.english import STOP_WORDS
from querycloak.text.lexicon import Lexicon, find, spans_of
from querycloak.text.spans import Spans
from querycloak.text.taxonomy import Taxonomy

UNMATCHED = -1
LONGEST = 4
_MOST_WORDS = 1024
_FULL = "ful"


class Matcher:
    """Every form of every label, and the most usual concept of each."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        known = {form: taxonomy.base(form) for form in _forms(taxonomy)}
        forms = {form: label for form, label in known.items() if label is not None and form not in STOP_WORDS}
        self._forms = Lexicon.of(pa.array(list(forms), pa.string()))
        self._concepts = np.array([taxonomy.concepts(label)[0] for label in forms.values()], np.int32)

    def concepts(self, texts: Spans) -> NDArray[np.int32]:
        """The concept of each query, or UNMATCHED."""
        return self.matches(texts)[0]

    def matches(self, texts: Spans) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """The concept of each query, how many of its words it covers, and how many words there are."""
        concepts, covered, words = (np.empty(len(texts), np.int32) for _ in range(3))
        _match(*spans_of(texts), *self._forms.table, self._concepts, concepts, covered, words)
        return concepts, covered, words


@lru_cache(maxsize=1)
def matcher_of(taxonomy: Taxonomy) -> Matcher:
    """The matcher of a taxonomy, made once: all forms of WordNet's labels take seconds."""
    return Matcher(taxonomy)


def _forms(taxonomy: Taxonomy) -> Iterator[str]:
    """The labels, and the forms that English morphology reduces to one (text/english.py, backwards)."""
    yield from taxonomy.labels
    yield from taxonomy.exceptions
    for label in taxonomy.labels:
        stem, tail = (label[:-3], _FULL) if label.endswith(_FULL) else (label, "")
        yield stem + "s" + tail
        if stem.endswith(("s", "x", "z", "ch", "sh")):
            yield stem + "es" + tail
        if stem.endswith("man"):
            yield stem[:-2] + "en" + tail
        if stem.endswith("y"):
            yield stem[:-1] + "ies" + tail


@njit(cache=True, nogil=True)
def _match(data, starts, ends, slots, form_texts, form_ends, form_concepts, concepts, covered, words):  # type: ignore[no-untyped-def]
    begins, finishes = np.empty(_MOST_WORDS, np.int64), np.empty(_MOST_WORDS, np.int64)
    for row in range(starts.size):
        count = _split(data, starts[row], ends[row], begins, finishes)
        concepts[row], covered[row], words[row] = UNMATCHED, 0, count
        for length in range(min(LONGEST, count), 0, -1):
            # From the right, where the head of an English phrase stands.
            for first in range(count - length, -1, -1):
                slot = find(data, begins[first], finishes[first + length - 1], slots, form_texts, form_ends)
                if slots[slot] >= 0:
                    concepts[row], covered[row] = form_concepts[slots[slot]], length
                    break
            if covered[row]:
                break


@kernel
def _split(data, start, end, begins, finishes):  # type: ignore[no-untyped-def]
    """Starts and ends of words; words beyond the limit are ignored."""
    count, begin = 0, start
    for i in range(start, end + 1):
        if i == end or data[i] == 32:
            if i > begin and count < begins.size:
                begins[count], finishes[count] = begin, i
                count += 1
            begin = i + 1
    return count
