"""How similar a draw is to what was asked, on average over all uses of concepts (semantic.md, *Figures*)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from querycloak.methods.semantic.domains import Domain, own_uses
from querycloak.methods.semantic.kinship import Floats, Ints
from querycloak.methods.semantic.weights import similarity
from querycloak.text.taxonomy import Taxonomy

__all__ = ["blind_similarity_of", "expected_similarities", "similar_to"]

SOURCES = 128
"""How many concepts stand for all: one at every 128th part of all uses."""


def expected_similarities(domain: Domain, criterion: str, exponents: Sequence[float]) -> list[float]:
    """For each exponent the mean similarity of the concept drawn to the one that was asked."""
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
