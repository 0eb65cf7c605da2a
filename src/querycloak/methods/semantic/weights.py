"""Integer weights of the exponential mechanism over a domain, and the exact loss of drawing by them (semantic.md).

A concept o comes out for i with probability W(i, o) / Z(i): whole numbers, so that a draw has exactly this law, and
what is proven is proven of these numbers, not of the exponentials that they round. How similar a draw is to what was
asked is a mean over all uses of concepts (*Figures*).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.errors import EngineError
from querycloak.methods.semantic.choice import Certified
from querycloak.methods.semantic.domains import Domain, own_uses
from querycloak.methods.semantic.kinship import UNRELATED, Floats, Ints, Kinship
from querycloak.privacy.calibration.bisection import bisected
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.text.taxonomy import Taxonomy

Weights = NDArray[np.int64]
# Sums of floats err by far less than this share of a value.
_MARGIN = 1e-9
_FLOATS = 1e-12  # and, in sums of logarithms, than this
_EXACT_ABOVE = 2.0  # of loss: below it the bound of claim 3 gives away too little to be worth a pass over all pairs
_REFINEMENTS, _NEAR_ENOUGH, _STEP = 3, 0.97, 0.99  # each step is a pass over all pairs
_GRID = 2.0 ** np.arange(-12, 7)


def similarity(own: Ints, others: Ints, shared: Ints) -> Floats:
    """Similarity of two concepts, from their numbers of ancestors and of shared ancestors (Sanchez et al., eq. 5)."""
    union = own + others - shared
    return np.asarray(1 - np.log2(1 + (union - shared) / union))


class SemanticWeights:
    """SQC1 and SQC2: weight grows with similarity; with topics (SQC2), nothing in common across topics."""

    def __init__(self, taxonomy: Taxonomy, topics: Ints | None = None, certified: Certified | None = None) -> None:
        self.kinship = Kinship.of(taxonomy, topics)
        self._above = taxonomy.ancestors_of
        self._certified = certified
        self._across_topics = topics is not None
        self._solved: dict[float, float] = {}
        width = self.kinship.width
        own, kin = (np.broadcast_to(each, (width, width * width)) for each in np.ogrid[:width, : width * width])
        others, shared = kin % width, kin // width
        possible = (shared <= np.minimum(own, others)) & (shared > 0)
        self._quality = np.zeros(possible.shape)  # and of those of another topic
        self._quality[possible] = similarity(own[possible], others[possible], shared[possible])
        # Totals must stay below 2^63.
        self._bits = 62 - int(self.kinship.concepts).bit_length()

    @property
    def concepts(self) -> int:
        """Number of concepts that can come out."""
        return self.kinship.concepts

    @cached_property
    def least_similarity(self) -> float:
        """The least quality that any two concepts of the domain have."""
        if self._certified is not None:
            return self._certified.least_similarity
        return float(self._by_class(self._quality).min())

    def weights(self, exponent: float) -> Weights:
        """W = e^(exponent * (quality - 1)) in units of 2^-bits, rounded, at least 1: by ancestors and class of kin."""
        return np.maximum(1, np.rint(np.exp(exponent * (self._quality - 1)) * 2.0**self._bits)).astype(np.int64)

    def matrix(self, exponent: float) -> Weights:
        """W of every source (rows) and candidate (columns), for small domains."""
        above, kin = self._above, self.kinship
        holds = np.zeros((len(kin.type_of), len(kin.type_of)), np.float32)
        holds[above.owners(), above.values] = 1
        shared = np.rint(holds @ holds.T).astype(np.int64)
        own, topics = kin.ancestors[kin.type_of], kin.topics[kin.type_of]
        classes = np.where(topics[:, None] == topics, shared * kin.width + own, UNRELATED)
        return self.weights(exponent)[own[:, None], classes]

    def exact_loss(self, exponent: float) -> float:
        """max over outputs of ln(max Pr / min Pr) over inputs, of the integer weights (claim 2)."""
        weights = self.weights(exponent)
        totals = self._sums(self._by_class(weights))
        return self.kinship.widest_spread(np.log(weights), np.log(totals)) + _FLOATS

    def exponents(self, losses: Sequence[float]) -> list[float]:
        """For each loss, the largest certified exponent with at most this exact loss."""
        if self.concepts == 1:
            return [0.0] * len(losses)
        unsolved = [loss for loss in losses if loss not in self._solved]
        for loss, start in zip(unsolved, self._by_bound(unsolved), strict=True):
            self._solved[loss] = self._refined(loss, start)
        return [self._solved[loss] for loss in losses]

    def paper_exponents(self, losses: Sequence[float]) -> list[float]:
        """e / (2 sensitivity), a hair less where rounding to integers would exceed e (claim 4)."""
        if self.concepts == 1:
            return [0.0] * len(losses)
        sensitivity = 1.0 if self._across_topics else 1.0 - self.least_similarity
        return [_with_rounding(loss, sensitivity, self._bits) for loss in losses]

    def draw(self, sources: Ints, levels: Ints, exponents: Sequence[float], randomness: Randomness) -> Ints:
        """A concept for each source concept, by the weights of the exponent that its level names."""
        tables = np.stack([self.weights(exponent) for exponent in exponents])
        kinship = self.kinship
        # Only the kin of what was searched for is counted: a small part of a large domain.
        wanted, types = np.unique(kinship.type_of[sources], return_inverse=True)
        classes_of, sizes = kinship.classes_of(wanted)
        parts = types, levels, kinship.ancestors[wanted], classes_of.starts, classes_of.values, sizes, tables
        totals = np.empty(len(sources), np.int64)
        _totals(*parts, totals)
        drawn = randomness.below_each(totals)
        classes, ranks = np.empty(len(sources), np.int32), np.empty(len(sources), np.int64)
        _locate(*parts, drawn, classes, ranks)
        return kinship.members_of_class(sources, classes, ranks)

    def _by_class(self, table: NDArray[Any]) -> NDArray[Any]:
        """The entries of a table for every type and each of its classes, one after another."""
        classes = self.kinship.classes
        return table[self.kinship.ancestors[classes.owners()], classes.values]

    def _sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of a value over all concepts, for each type."""
        return np.add.reduceat(values * self.kinship.sizes, self.kinship.classes.starts[:-1])

    def _by_bound(self, losses: Sequence[float]) -> list[float]:
        """Claim 3: loss(x) <= slope x + excess(x), the second convex, so chords between points lie above it."""
        slope, excess = self._bound
        points = np.concatenate([[0.0], _GRID])
        # Rounding to integers moves each logarithm by at most this; convex too.
        rounding = 4.1 * np.exp(points * (1 - self.least_similarity)) * 2.0 ** -(self._bits + 1)
        reached = slope * points + np.concatenate([[0.0], excess]) + rounding
        within = np.asarray(losses) * (1 - _MARGIN) - _FLOATS
        return [float(exponent) for exponent in np.interp(within, reached, points)]

    @cached_property
    def _bound(self) -> tuple[float, Floats]:
        if self._certified is not None:
            return self._certified.slope, np.array(self._certified.excess)
        quality = self._by_class(self._quality)
        means = self._sums(quality) / self.concepts
        slope = self.kinship.widest_spread(self._quality, means)
        excess = [
            float(np.max(np.log(self._sums(np.exp(x * (quality - 1))) / self.concepts) + x * (1 - means)))
            for x in _GRID
        ]
        return slope * (1 + _MARGIN), np.array(excess) + _FLOATS

    def _refined(self, loss: float, start: float) -> float:
        """Go from a safe exponent towards the loss, one exact evaluation at a time."""
        if loss < _EXACT_ABOVE:
            return start
        if self._certified is not None:
            return max(start, self._certified.exponent_within(loss))
        reached = self.exact_loss(start)
        if reached > loss:
            raise EngineError("an exponent exceeds its bound; this is a bug in querycloak")
        best, guess = start, start
        for _ in range(_REFINEMENTS):
            if _NEAR_ENOUGH * loss <= reached <= loss:
                break
            guess *= _STEP * loss / reached
            reached = self.exact_loss(guess)
            if reached <= loss:
                best = max(best, guess)
        return best


class EqualityWeights:
    """NSQC: a concept stays with more weight than any other has; the others are all alike."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.concepts = len(taxonomy)
        self._bits = 62 - self.concepts.bit_length()

    def _weights(self, exponent: float) -> tuple[int, int]:
        """Weights of the concept itself (rounded down) and of any other (rounded up)."""
        other = math.ceil(math.exp(-exponent) * (1 << self._bits) * (1 + 2.0**-50)) + 1
        return 1 << self._bits, min(other, 1 << self._bits)

    def matrix(self, exponent: float) -> Weights:
        """W of every source (rows) and candidate (columns), for small domains."""
        own, other = self._weights(exponent)
        table = np.full((self.concepts, self.concepts), other, np.int64)
        np.fill_diagonal(table, own)
        return table

    def exact_loss(self, exponent: float) -> float:
        """The ratio of the two weights, because every input has the same total."""
        own, other = self._weights(exponent)
        return math.log(own / other)

    def exponents(self, losses: Sequence[float]) -> list[float]:
        """The loss itself."""
        return list(losses)

    def paper_exponents(self, losses: Sequence[float]) -> list[float]:
        """e / (2 sensitivity), the sensitivity being 1."""
        return [loss / 2 for loss in losses]

    def draw(self, sources: Ints, levels: Ints, exponents: Sequence[float], randomness: Randomness) -> Ints:
        """The concept itself or, of all others, any."""
        weights = np.array([self._weights(exponent) for exponent in exponents], np.int64)
        own, other = weights[levels, 0], weights[levels, 1]
        drawn = randomness.below_each(own + (self.concepts - 1) * other)
        stays = drawn < own
        place = np.where(stays, 0, (drawn - own) // other).astype(np.int32)
        return np.where(stays, sources, place + (place >= sources)).astype(np.int32)


def _with_rounding(loss: float, sensitivity: float, bits: int) -> float:
    """The largest e / (2 sensitivity) such that rounded weights keep within e (claim 4)."""

    def exceeds(exponent: float) -> bool:
        error = 0.5 * math.exp(min(exponent * sensitivity, 700.0)) / 2.0**bits + 2.0**-50
        return error >= 0.5 or 2 * sensitivity * exponent + 2 * math.log((1 + error) / (1 - error)) > loss

    paper = loss / (2 * sensitivity)
    return bisected(exceeds, 0.0, paper, precision=2.0**-52, floor=paper * 2.0**-60)[0]


@njit(cache=True, nogil=True)
def _totals(types, levels, ancestors, starts, classes, sizes, tables, totals):  # type: ignore[no-untyped-def]
    for draw in range(types.size):
        kind = types[draw]
        table = tables[levels[draw], ancestors[kind]]
        total = np.int64(0)
        for i in range(starts[kind], starts[kind + 1]):
            total += sizes[i] * table[classes[i]]
        totals[draw] = total


@njit(cache=True, nogil=True)
def _locate(types, levels, ancestors, starts, classes, sizes, tables, drawn, chosen, ranks):  # type: ignore[no-untyped-def]
    """The class that a number below the total falls into, and which of its members."""
    for draw in range(types.size):
        kind = types[draw]
        table = tables[levels[draw], ancestors[kind]]
        left = drawn[draw]
        for i in range(starts[kind], starts[kind + 1]):
            mass = sizes[i] * table[classes[i]]
            if left < mass:
                chosen[draw], ranks[draw] = classes[i], left // table[classes[i]]
                break
            left -= mass


SOURCES = 128
"""Number of concepts that represent all: one at every 128th part of all uses."""


def expected_similarities(domain: Domain, criterion: str, exponents: Sequence[float]) -> list[float]:
    """Mean similarity of the drawn to the asked concept, by exponent."""
    sums = np.zeros(len(exponents))
    number = 0
    for source, true, quality in _sources(domain):
        number += 1
        for place, exponent in enumerate(exponents):
            sums[place] += _mean(true, quality if criterion == "sqc1" else _equal(domain, source), exponent)
    return [float(each) for each in sums / number]


def blind_similarity_of(domain: Domain) -> float:
    """The mean similarity of any candidate."""
    return float(np.mean([true.mean() for _, true, _ in _sources(domain)]))


def similar_to(taxonomy: Taxonomy, concept: int, others: Ints) -> Floats:
    """The similarity of each of these concepts to one."""
    above = taxonomy.ancestors_of.take(others)
    return _similar(taxonomy.ancestors(concept), above.values, above.starts, len(taxonomy))


def _mean(true: Floats, quality: Floats, exponent: float) -> float:
    weights = np.exp(exponent * (quality - 1))
    return float((weights * true).sum() / weights.sum())


def _equal(domain: Domain, source: int) -> Floats:
    quality = np.zeros(len(domain.taxonomy))
    quality[domain.place_of[source]] = 1.0
    return quality


def _sources(domain: Domain) -> Iterator[tuple[int, Floats, Floats]]:
    """Concepts of the domain; of each how similar all candidates are to it, and to the candidate in its place."""
    finer, cut = domain.finer, domain.taxonomy
    # A candidate's ancestors are candidates: its numbers in the finer taxonomy say whom it shares with a source.
    above = cut.ancestors_of
    for source in _typical(finer):
        true = _similar(finer.ancestors(source), domain.within[above.values], above.starts, len(finer))
        place = int(domain.place_of[source])
        yield source, true, _similar(cut.ancestors(place), above.values, above.starts, len(cut))


def _similar(mine: Ints, above: Ints, starts: np.ndarray, size: int) -> Floats:
    marked = np.zeros(size, np.int64)
    marked[mine] = 1
    shared = np.add.reduceat(marked[above], starts[:-1])
    return similarity(np.full(len(shared), len(mine)), np.diff(starts), shared)


def _typical(taxonomy: Taxonomy) -> list[int]:
    """Concepts at equal steps through all uses; through all concepts where no uses are known."""
    uses = own_uses(taxonomy)
    weights = uses if uses.any() else np.ones_like(uses)
    steps = (np.arange(SOURCES) + 0.5) / SOURCES * weights.sum()
    return [int(each) for each in np.searchsorted(np.cumsum(weights), steps, side="right")]
