"""Completions from sorted texts are those that a loop over all texts finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from querycloak.evaluation.tasks.completion import NOTHING, UNKNOWN, SortedTexts, followed, most_popular, ranges

words = st.text("abé\U0001f600 ", max_size=5)


def texts_of(words: list[str]) -> SortedTexts:
    return SortedTexts.of(pa.array(words, pa.large_string()))


@given(st.dictionaries(words, st.integers(0, 3), max_size=30), st.lists(words, max_size=6))
def test_as_by_looking_at_all(asked: dict[str, int], prefixes: list[str]) -> None:
    texts = sorted(asked, key=lambda text: text.encode())
    counts = np.array([asked[text] for text in texts], np.float64)
    first, last = ranges(texts_of(prefixes), texts_of(texts))
    found = most_popular(first, last, counts, 3)
    for place, prefix in enumerate(prefixes):
        fitting = [text for text in texts if text.startswith(prefix) and asked[text] > 0]
        expected = sorted(fitting, key=lambda text: (-asked[text], text.encode()))[:3]
        assert [texts[number] for number in found[place] if number != NOTHING] == expected


def test_a_slice_of_an_array_is_read_from_its_offset() -> None:
    texts = SortedTexts.of(pa.array(["x", "a", "ab", "b"], pa.large_string())[1:])
    first, last = ranges(texts_of(["a", "", "c"]), texts)
    assert (first.tolist(), last.tolist()) == ([0, 0, 3], [2, 3, 3])


def test_no_texts() -> None:
    assert [bound.tolist() for bound in ranges(texts_of(["a"]), texts_of([]))] == [[0], [0]]


def test_lists_are_filled_up_with_what_they_lack() -> None:
    lists = np.array([[4, 2, NOTHING], [NOTHING, NOTHING, NOTHING], [1, 2, 3]], np.int32)
    others = np.array([[2, UNKNOWN, 5], [UNKNOWN, UNKNOWN, NOTHING], [7, 8, 9]], np.int32)
    assert followed(lists, others).tolist() == [[4, 2, UNKNOWN], [UNKNOWN, UNKNOWN, NOTHING], [1, 2, 3]]
