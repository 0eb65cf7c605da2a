"""All vectors whose cosine with a given one is at least theta, exactly (affinity.md, step 3).

A concept has one weight wherever it occurs, so vectors are sets, and their product is the squared norm of what they
share. Squared norms and products are whole numbers below 2^43, and every comparison with theta is in whole numbers;
the filters before it use floating point, with a margin that only lets more through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.text.compiled import kernel
from querycloak.text.lists import Lists, first_at_least, sort_span

# theta is a whole number of millionths.
MILLION = 1_000_000
_MARGIN = 1e-9
_ONE_LESS, _ONE_MORE = 1 - _MARGIN, 1 + _MARGIN
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class IndexArrays(NamedTuple):
    """An index as compiled code takes it."""

    starts: NDArray[np.int64]
    concepts: NDArray[np.int32]
    squares: NDArray[np.int64]
    norms: NDArray[np.int64]
    prefixes: NDArray[np.int32]
    posting_starts: NDArray[np.int64]
    posted: NDArray[np.int32]
    posted_rest: NDArray[np.float32]
    posted_signs: NDArray[np.uint64]
    theta: int
    square_share: float


@dataclass(frozen=True)
class Index:
    """Vectors in ascending order of their norms, and for each concept those that hold it in their rarer part."""

    vectors: Lists
    squares: NDArray[np.int64]
    norms: NDArray[np.int64]
    prefixes: NDArray[np.int32]
    postings: Lists
    posted_rest: NDArray[np.float32]
    posted_signs: NDArray[np.uint64]
    order: NDArray[np.int64]
    theta: int

    @classmethod
    def of(cls, vectors: Lists, weights: NDArray[np.int64], theta: int) -> Index:
        """Index sets of concepts; `order` tells which vector stands where."""
        frequency = np.bincount(vectors.values, minlength=len(weights))
        by_rarity = np.argsort(frequency, kind="stable")
        rank = np.empty(len(weights), np.int32)
        rank[by_rarity] = np.arange(len(weights), dtype=np.int32)
        squares = weights[by_rarity] ** 2
        ranked = Lists(vectors.starts, rank[vectors.values])
        norms, prefixes = prefix_lengths(ranked, squares, theta)
        order = np.argsort(norms, kind="stable")
        ranked, norms, prefixes = ranked.take(order), norms[order], prefixes[order]
        postings, rest, signs = _post(ranked, prefixes, squares, norms)
        return cls(ranked, squares, norms, prefixes, postings, rest, signs, order, theta)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def arrays(self) -> IndexArrays:
        """The index as compiled code takes it."""
        return IndexArrays(
            starts=self.vectors.starts,
            concepts=self.vectors.values,
            squares=self.squares,
            norms=self.norms,
            prefixes=self.prefixes,
            posting_starts=self.postings.starts,
            posted=self.postings.values,
            posted_rest=self.posted_rest,
            posted_signs=self.posted_signs,
            theta=self.theta,
            square_share=_square_share(self.theta),
        )


def prefix_lengths(
    ranked: Lists, squares: NDArray[np.int64], theta: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The squared norm of each vector, and how many of its first concepts are its prefix; sorts the concepts."""
    norms, prefixes = np.empty(len(ranked), np.int64), np.empty(len(ranked), np.int32)
    _sort_and_weigh(ranked.starts, ranked.values, squares, norms)
    _prefixes(ranked.starts, ranked.values, squares, norms, _square_share(theta), prefixes)
    return norms, prefixes


def _square_share(theta: int) -> float:
    return (theta / MILLION) ** 2


def _post(
    ranked: Lists, prefixes: NDArray[np.int32], squares: NDArray[np.int64], norms: NDArray[np.int64]
) -> tuple[Lists, NDArray[np.float32], NDArray[np.uint64]]:
    counts = np.zeros(len(squares) + 1, np.int64)
    _count_postings(ranked.starts, ranked.values, prefixes, counts)
    starts = np.cumsum(counts)
    data, rest = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    signs = np.empty(starts[-1], np.uint64)
    _fill_postings(ranked.starts, ranked.values, prefixes, squares, norms, starts.copy(), data, rest, signs)
    return Lists(starts, data), rest, signs


@kernel
def _sort_and_weigh(starts, data, squares, norms):  # type: ignore[no-untyped-def]
    for v in range(norms.size):
        sort_span(data, starts[v], starts[v + 1])
        norm = 0
        for i in range(starts[v], starts[v + 1]):
            norm += squares[data[i]]
        norms[v] = norm


@kernel
def _prefixes(starts, data, squares, norms, square_share, prefixes):  # type: ignore[no-untyped-def]
    """The fewest first (rarest) concepts without which the rest has less than theta^2 of the squared norm."""
    for v in range(norms.size):
        most = norms[v] * square_share * _ONE_LESS
        rest, length = norms[v], 0
        while length < starts[v + 1] - starts[v] and rest >= most:
            rest -= squares[data[starts[v] + length]]
            length += 1
        prefixes[v] = length


@kernel
def _count_postings(starts, data, prefixes, counts):  # type: ignore[no-untyped-def]
    for v in range(prefixes.size):
        for i in range(starts[v], starts[v] + prefixes[v]):
            counts[data[i] + 1] += 1


@njit(cache=True, nogil=True, inline="always")
def _sign(concept):  # type: ignore[no-untyped-def]
    """The bit of a concept, one of 64."""
    return np.uint64(1) << (np.uint64(concept) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(58))


@kernel
def _fill_postings(starts, data, prefixes, squares, norms, places, posted, posted_rest, posted_signs):  # type: ignore[no-untyped-def]
    for v in range(prefixes.size):
        rest = norms[v]
        signs = np.uint64(0)
        for i in range(starts[v], starts[v + 1]):
            signs |= _sign(data[i])
        for i in range(starts[v], starts[v] + prefixes[v]):
            place = places[data[i]]
            posted[place] = v
            # Rounded up: float32 keeps 24 bits.
            posted_rest[place] = np.float32(rest) * np.float32(1.000001)
            posted_signs[place] = signs
            places[data[i]] += 1
            rest -= squares[data[i]]


@njit(cache=True, nogil=True, inline="always")
def _high_product(a, b):  # type: ignore[no-untyped-def]
    """The upper 64 bits of a product of two unsigned 64-bit numbers."""
    a_low, a_high = a & _LOW_HALF, a >> _HALF
    b_low, b_high = b & _LOW_HALF, b >> _HALF
    cross = (a_low * b_low >> _HALF) + (a_high * b_low & _LOW_HALF) + a_low * b_high
    return a_high * b_high + (a_high * b_low >> _HALF) + (cross >> _HALF)


@kernel
def affine(shared, norm, other, theta):  # type: ignore[no-untyped-def]
    """True if shared^2 * 10^12 >= theta^2 * norm * other, in 128 bits."""
    left = np.uint64(shared) * np.uint64(MILLION)
    right, factor = np.uint64(theta) * np.uint64(norm), np.uint64(theta) * np.uint64(other)
    high_left, high_right = _high_product(left, left), _high_product(right, factor)
    if high_left != high_right:
        return high_left > high_right
    return left * left >= right * factor


@kernel
def neighbours_of(v, index, neighbours):  # type: ignore[no-untyped-def]
    """Write the vectors affine to v, itself left out, into `neighbours`; returns their number."""
    count = 0
    starts, data, squares, norms = index.starts, index.concepts, index.squares, index.norms
    posting_starts, posted, posted_rest = index.posting_starts, index.posted, index.posted_rest
    norm, first, last = norms[v], starts[v], starts[v + 1]
    bound = norm * index.square_share * _ONE_LESS
    lowest = first_at_least(norms, 0, norms.size, bound)
    rest = norm
    for i in range(first, first + index.prefixes[v]):
        # If this is the first concept that both hold, they share no more than the rest of each.
        concept = data[i]
        largest = float(rest) * float(rest) / bound * _ONE_MORE
        place = first_at_least(posted, posting_starts[concept], posting_starts[concept + 1], lowest)
        for at in range(place, posting_starts[concept + 1]):
            other = posted[at]
            if norms[other] > largest:
                break
            least = bound * norms[other] * _ONE_LESS
            if other == v or float(posted_rest[at]) * float(posted_rest[at]) < least:
                continue
            # A concept whose bit the other lacks is not shared: most are told so without looking at the other.
            possible = 0
            for j in range(i, last):
                if index.posted_signs[at] & _sign(data[j]):
                    possible += squares[data[j]]
            if float(possible) * float(possible) < least:
                continue
            shared = _shared_from(data, squares, first, i, last, starts[other], starts[other + 1])
            if shared > 0 and affine(shared, norm, norms[other], index.theta):
                neighbours[count] = other
                count += 1
        rest -= squares[concept]
    return count


@njit(cache=True, nogil=True, inline="always")
def _shared_from(data, squares, first, at, last, other, other_last):  # type: ignore[no-untyped-def]
    """The squared norm of what two vectors share, if the first concept that they share stands at `at`; else 0."""
    i, shared = first, 0
    while i < last and other < other_last:
        if data[i] == data[other]:
            if i < at:
                return 0
            shared += squares[data[i]]
            i += 1
            other += 1
        elif data[i] < data[other]:
            i += 1
        else:
            other += 1
    return shared
