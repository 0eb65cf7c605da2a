"""Texts as numbers: each different text has one, in order of first appearance.

An exact table: equal hashes are told apart by their bytes.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.text.compiled import kernel, part
from querycloak.text.spans import Spans

Numbers = NDArray[np.int32]
Kind = TypeVar("Kind", bound=np.generic)
UNKNOWN = -1
_FEWEST_SLOTS = 1 << 10


class Lexicon:
    """Numbers for texts; it grows as texts are added."""

    def __init__(self) -> None:
        self._slots = np.full(_FEWEST_SLOTS, UNKNOWN, np.int32)
        self._data: NDArray[np.uint8] = np.empty(1 << 12, np.uint8)
        self._ends: NDArray[np.int64] = np.zeros(
            1 << 8, np.int64
        )  # _ends[i] is where text i ends and text i + 1 begins, from 1 on
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @classmethod
    def of(cls, texts: pa.Array | pa.ChunkedArray) -> Lexicon:
        """The texts, numbered as they come."""
        lexicon = cls()
        for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
            lexicon.add(chunk)
        return lexicon

    def add(self, texts: pa.Array) -> Numbers:
        """The number of each text, a new one where it is new."""
        spans = Spans.of(texts)
        self._make_room(len(spans), int(spans.lengths.sum(dtype=np.int64)))
        numbers = np.empty(len(spans), np.int32)
        self._count = _add(*spans_of(spans), self._slots, self._data, self._ends, self._count, numbers)
        return numbers

    def add_all(self, texts: pa.ChunkedArray) -> Numbers:
        """The number of each text of all chunks."""
        return np.concatenate([np.empty(0, np.int32), *(self.add(chunk) for chunk in texts.chunks)])

    @property
    def table(self) -> tuple[Numbers, NDArray[np.uint8], NDArray[np.int64]]:
        """Arrays for `find` in compiled code."""
        return self._slots, self._data, self._ends

    def _make_room(self, texts: int, size: int) -> None:
        most = self._count + texts
        self._ends = grown(self._ends, most + 1)
        self._data = grown(self._data, int(self._ends[self._count]) + size)
        if 2 * most > len(self._slots):
            slots = np.full(1 << (2 * most).bit_length(), UNKNOWN, np.int32)
            _refill(slots, self._data, self._ends, self._count)
            self._slots = slots


def spans_of(spans: Spans) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32]]:
    """The parts of spans, as compiled code takes them."""
    return spans.data, spans.starts, spans.ends


def grown(array: NDArray[Kind], least: int) -> NDArray[Kind]:
    """The array, with room for this many."""
    if least <= len(array):
        return array
    larger = np.zeros(max(least, len(array) + len(array) // 2), array.dtype)
    larger[: len(array)] = array
    return larger


SEED, PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
"""Start and factor of the hash FNV-1a, which the lookup of texts uses."""


@njit(cache=True, nogil=True, inline="always")
def mixed(hashed):  # type: ignore[no-untyped-def]
    """A hash whose lowest bits, which name a slot, depend on its highest ones."""
    return hashed ^ (hashed >> np.uint64(29))


@kernel
def find(data, start, end, slots, texts, text_ends):  # type: ignore[no-untyped-def]
    """The slot of a text: one that holds its number, or the empty one where it belongs."""
    hashed = SEED
    for i in range(start, end):
        hashed = (hashed ^ np.uint64(data[i])) * PRIME
    return probe(mixed(hashed), data, start, end, slots, texts, text_ends)


@part
def probe(value, data, start, end, slots, texts, text_ends):  # type: ignore[no-untyped-def]
    """The slot of a sequence of any numbers, from the one that its hash value names on."""
    mask = np.uint64(slots.size - 1)
    slot = value & mask
    while slots[slot] >= 0:
        begins = text_ends[slots[slot]]
        if text_ends[slots[slot] + 1] - begins == end - start:
            same = True
            for i in range(end - start):
                if texts[begins + i] != data[start + i]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _add(data, starts, ends, slots, texts, text_ends, count, numbers):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        slot = find(data, np.int64(starts[row]), np.int64(ends[row]), slots, texts, text_ends)
        if slots[slot] < 0:
            slots[slot] = count
            at = text_ends[count]
            for i in range(starts[row], ends[row]):
                texts[at] = data[i]
                at += 1
            count += 1
            text_ends[count] = at
        numbers[row] = slots[slot]
    return count


@kernel
def _refill(slots, texts, text_ends, count):  # type: ignore[no-untyped-def]
    for number in range(count):
        slots[find(texts, text_ends[number], text_ends[number + 1], slots, texts, text_ends)] = number
