"""Texts as spans and back, the slow way: what the tests of compiled functions are written in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from querycloak.text.spans import Spans


def spans_of(texts: Sequence[bytes], between: bytes = b"\n") -> Spans:
    """The texts in one buffer, with the same bytes before, between and behind them."""
    data, starts, ends = bytearray(between), [], []
    for text in texts:
        starts.append(len(data))
        data += text
        ends.append(len(data))
        data += between
    return Spans(np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(ends, np.int64))


def texts_of(spans: Spans) -> list[bytes]:
    """Each text by itself."""
    return [spans.bytes_at(index) for index in range(len(spans))]
