"""Numbers for texts, against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.text.lexicon import UNKNOWN, Lexicon, find

TEXTS = st.lists(st.lists(st.text(alphabet="ab é", max_size=4) | st.text(max_size=12), max_size=40), max_size=6)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_each_different_text_has_one_number(batches: list[list[str]]) -> None:
    lexicon, true = Lexicon(), dict[str, int]()
    for batch in batches:
        found = lexicon.add(pa.array(batch, pa.string()))
        assert found.tolist() == [true.setdefault(text, len(true)) for text in batch]
    assert len(lexicon) == len(true)


def test_it_grows_and_finds() -> None:
    texts = [f"word {i % 5000}" for i in range(20_000)]
    lexicon = Lexicon.of(pa.chunked_array([texts[:7000], texts[7000:]]))
    assert len(lexicon) == 5000
    slots, data, ends = lexicon.table
    for text, number in (("word 0", 0), ("word 4999", 4999), ("word 5000", UNKNOWN), ("word", UNKNOWN), ("", UNKNOWN)):
        sought = np.frombuffer(text.encode() + b" ", np.uint8)
        assert slots[find(sought, 0, len(text.encode()), slots, data, ends)] == number
