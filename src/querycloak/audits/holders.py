"""Inverted index from texts to the released names that hold them, with compiled searches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from querycloak.evaluation.target import in_pieces

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NameIndex:
    """The names that hold text i: name[starts[i]:starts[i + 1]], ascending numbers into `names`, none twice."""

    names: pa.Array
    starts: Numbers
    name: NDArray[np.int32]

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], texts: pa.Array) -> NameIndex:
        """From batches of (name, text); only rows of the texts asked for are kept, so a log of any size will do."""
        owned, text_places = [], []
        for rows in in_pieces(batches):
            place = pc.index_in(rows.column(1), texts)
            known = pc.is_valid(place)
            owned += rows.column(0).filter(known).chunks
            text_places += place.filter(known).chunks
        coded = pa.chunked_array(owned, pa.string()).combine_chunks().dictionary_encode()
        names, name = coded.dictionary, coded.indices.to_numpy()
        text = pa.chunked_array(text_places, pa.int32()).to_numpy()
        # A pair as one number: sorted, without repeats.
        pairs = np.unique(text.astype(np.int64) * max(len(names), 1) + name)
        text, name = np.divmod(pairs, max(len(names), 1))
        starts = np.searchsorted(text, np.arange(len(texts) + 1)).astype(np.int64)
        return cls(names, starts, name.astype(np.int32))

    def fitting(self, known: Numbers, *, released_only: bool = False) -> Fitting:
        """For each row of known texts how many names hold them all (2 stands for more), and the last one found.

        released_only: texts that nobody holds are left out of the question; without any other nobody fits.
        """
        number, one = np.zeros(len(known), np.int64), np.full(len(known), -1, np.int64)
        _fit(self.starts, self.name, known, released_only, number, one)
        return Fitting(number, one)

    def best(self, known: Numbers, mark: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """For each row of known texts: of the names that hold the most of them, how many are marked, and how many."""
        marked, all_best = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
        _best(self.starts, self.name, known, mark, np.zeros(len(self.names), np.int32), marked, all_best)
        return marked, all_best


class Fitting(NamedTuple):
    """Number of names that fit (2 stands for more), and one of them."""

    number: Numbers
    name: Numbers


@njit(cache=True, nogil=True)
def _holds(name, first, last, wanted):  # type: ignore[no-untyped-def]
    while first < last:
        middle = (first + last) // 2
        if name[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first


@njit(cache=True, nogil=True)
def _shortest(starts, known, released_only):  # type: ignore[no-untyped-def]
    """The text that the fewest hold; -1 if none is held, or one is not and may not be left out."""
    shortest, least = -1, 0
    for text in known:
        size = starts[text + 1] - starts[text]
        if size == 0:
            if not released_only:
                return -1
        elif shortest < 0 or size < least:
            shortest, least = text, size
    return shortest


@njit(cache=True, nogil=True)
def _holds_all(starts, name, known, candidate):  # type: ignore[no-untyped-def]
    for text in known:
        first, last = starts[text], starts[text + 1]
        if first == last:
            continue
        place = _holds(name, first, last, candidate)
        if place == last or name[place] != candidate:
            return False
    return True


@njit(cache=True, nogil=True)
def _fit(starts, name, known, released_only, number, one):  # type: ignore[no-untyped-def]
    for row in range(known.shape[0]):
        shortest = _shortest(starts, known[row], released_only)
        if shortest < 0:
            continue
        for i in range(starts[shortest], starts[shortest + 1]):
            if _holds_all(starts, name, known[row], name[i]):
                number[row] += 1
                one[row] = name[i]
                if number[row] == 2:
                    break


@njit(cache=True, nogil=True)
def _best(starts, name, known, mark, tally, marked, all_best):  # type: ignore[no-untyped-def]
    for row in range(known.shape[0]):
        most = 0
        for column in range(known.shape[1]):
            for i in range(starts[known[row, column]], starts[known[row, column] + 1]):
                tally[name[i]] += 1
                most = max(most, tally[name[i]])
        for column in range(known.shape[1]):
            for i in range(starts[known[row, column]], starts[known[row, column] + 1]):
                if tally[name[i]] == most and most > 0:
                    all_best[row] += 1
                    marked[row] += mark[name[i]]
                tally[name[i]] = 0  # so that a name counts once, and the next row begins with nothing
