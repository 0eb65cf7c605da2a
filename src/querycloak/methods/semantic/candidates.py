"""Coarser candidate sets: a domain cut at a depth, or its most usual concepts.

With fewer candidates the right one has a larger chance (semantic.md, *Candidates*). All of it is public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import refuse, whole
from querycloak.sentence import Sentence
from querycloak.text.taxonomy import Flags, Taxonomy

Ints = NDArray[np.int32]
DEPTH, USUAL = "depth", "usual"
RULE, WAY_OUT = "depth=N or usual=N", "such as depth=6, or usual=1000; leave it out for all concepts"


def parse_candidates(text: str) -> tuple[str, int]:
    """How candidates are chosen, and the number that says how many."""
    kind, equals, number = (piece.strip() for piece in text.partition("="))
    if kind not in (DEPTH, USUAL) or not equals or not number.isdecimal():
        refuse("candidates", RULE, text, WAY_OUT)
    return kind, whole("candidates", int(number), WAY_OUT, least=1, most=10**6)


def kept_concepts(taxonomy: Taxonomy, text: str) -> Flags:
    """Which concepts of a domain may come out: with each of them, all that stand above it."""
    kind, number = parse_candidates(text)
    if kind == DEPTH:
        return np.asarray(taxonomy.depths <= number)
    uses = inclusive_uses(taxonomy)
    if not uses.any():
        raise ParameterError(
            Sentence("{candidates} by use needs a taxonomy that counts uses, as WordNet does; give depth=N instead")
        )
    # A concept has at least the uses of what is below it; of equal ones the higher goes first: nothing between is lost.
    order = np.lexsort((np.arange(len(taxonomy)), taxonomy.depths, -uses))
    kept = np.zeros(len(taxonomy), np.bool_)
    kept[order[:number]] = True
    return kept


def own_uses(taxonomy: Taxonomy) -> NDArray[np.int64]:
    """How often tagged text uses each concept itself."""
    counted = np.bincount(taxonomy.senses_of.values, taxonomy.sense_counts, minlength=len(taxonomy))
    return np.rint(counted).astype(np.int64)


def inclusive_uses(taxonomy: Taxonomy) -> NDArray[np.int64]:
    """How often tagged text uses each concept or one below it (Resnik 1995)."""
    above = taxonomy.ancestors_of
    counted = np.bincount(above.values, own_uses(taxonomy)[above.owners()], minlength=len(taxonomy))
    return np.rint(counted).astype(np.int64)


def representatives(taxonomy: Taxonomy, kept: Flags) -> Ints:
    """For each concept the kept one that stands for it, numbered among the kept: itself, or the lowest above it."""
    above = taxonomy.ancestors_of
    size = np.int64(len(taxonomy))
    # The deepest comes out on top, and of equally deep ones the first.
    rank = taxonomy.depths[above.values].astype(np.int64) * size + (size - 1 - above.values)
    best = np.maximum.reduceat(np.where(kept[above.values], rank, -1), above.starts[:-1])
    numbers = np.cumsum(kept) - 1
    return np.asarray(numbers[size - 1 - best % size], np.int32)
