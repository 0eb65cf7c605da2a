"""Suggestions from words, by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from querycloak.evaluation.subjects import NOTHING, UNKNOWN
from querycloak.evaluation.tasks.suggestion import sharing_words

TEXTS = pa.array(["cheap", "cheap flights", "cheap flights to rome", "flights", "rome", "rome hotels", "weather"])


def test_queries_with_all_words_come_first_then_counts() -> None:
    counts = np.array([5.0, 9.0, 2.0, 7.0, 0.0, 3.0, 8.0])
    asked = np.array([1, 4, 6], np.int32)
    first = np.full((3, 5), NOTHING, np.int32)
    first[0, 0] = 0
    lists = sharing_words(asked, TEXTS, counts, first)
    # The query without a word stays first; "cheap flights to rome" has both words, "flights" one.
    assert lists[0].tolist() == [0, 2, 3, NOTHING, NOTHING]
    assert lists[1].tolist() == [5, 2, NOTHING, NOTHING, NOTHING]
    assert lists[2].tolist() == [NOTHING] * 5


def test_unknown_suggestions_keep_their_places() -> None:
    first = np.array([[UNKNOWN, UNKNOWN, NOTHING]], np.int32)
    lists = sharing_words(np.array([1], np.int32), TEXTS, np.ones(7), first)
    assert lists.tolist() == [[UNKNOWN, UNKNOWN, 2]]
    nothing = sharing_words(np.array([1], np.int32), TEXTS, np.zeros(7), first)
    assert nothing.tolist() == first.tolist()
