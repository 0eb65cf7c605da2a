"""The most popular texts that begin with a prefix, from sorted texts: those with one prefix stand together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

NOTHING = -1


class SortedTexts(NamedTuple):
    """Texts in one array of UTF-8 bytes, in order; text i is `data[offsets[i]:offsets[i + 1]]`."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, texts: pa.LargeStringArray) -> SortedTexts:
        """The texts of an Arrow array, whose bytes are not copied."""
        _, offsets, data = texts.buffers()
        places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        return cls(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), places)


def ranges(prefixes: SortedTexts, texts: SortedTexts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each prefix the first of the texts that begin with it, and the first after these."""
    found: tuple[NDArray[np.int64], NDArray[np.int64]] = _ranges(prefixes, texts)
    return found


def most_popular(
    first: NDArray[np.int64], last: NDArray[np.int64], counts: NDArray[np.float64], most: int
) -> NDArray[np.int32]:
    """Of each range of texts those with the largest counts above 0, ties by text; `NOTHING` where there are fewer."""
    found: NDArray[np.int32] = _most_popular(first, last, counts, most)
    return found


@njit(cache=True, nogil=True)
def _ranges(prefixes, texts):  # type: ignore[no-untyped-def]
    number = prefixes.offsets.size - 1
    first, last = np.empty(number, np.int64), np.empty(number, np.int64)
    for place in range(number):
        begin, end = prefixes.offsets[place], prefixes.offsets[place + 1]
        first[place] = _bound(prefixes.data, begin, end, texts, 0)
        last[place] = _bound(prefixes.data, begin, end, texts, 1)
    return first, last


@njit(cache=True, nogil=True)
def _bound(data, begin, end, texts, beyond):  # type: ignore[no-untyped-def]
    """The first text whose beginning is at least the prefix (0), or comes after it (1)."""
    low, high = 0, texts.offsets.size - 1
    while low < high:
        middle = (low + high) // 2
        if _compared(data, begin, end, texts.data, texts.offsets[middle], texts.offsets[middle + 1]) < beyond:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _compared(prefix, begin, end, data, start, stop):  # type: ignore[no-untyped-def]
    """-1, 0 or 1 as the text's beginning comes before the prefix, is it, or comes after it."""
    for at in range(end - begin):
        if start + at >= stop:
            return -1
        theirs, ours = data[start + at], prefix[begin + at]
        if theirs != ours:
            return -1 if theirs < ours else 1
    return 0


@njit(cache=True, nogil=True)
def _most_popular(first, last, counts, most):  # type: ignore[no-untyped-def]
    found = np.full((first.size, most), NOTHING, np.int32)
    best = np.zeros(most)
    for place in range(first.size):
        best[:] = 0.0
        for text in range(first[place], last[place]):
            count = counts[text]
            if count <= best[-1]:  # texts come in order, so an equal one comes too late
                continue
            at = most - 1
            while at > 0 and count > best[at - 1]:
                best[at], found[place, at] = best[at - 1], found[place, at - 1]
                at -= 1
            best[at], found[place, at] = count, text
    return found
