"""Figures about WordNet's nouns, solved once and shipped: exponents with their exact losses, expected similarities.

`scripts/make_semantic_figures.py` writes them, and a test holds that they are what the code computes. They are about
the public taxonomy alone; a digest says which.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from querycloak.methods.semantic.choice import CRITERIA
from querycloak.text.taxonomy import Taxonomy

__all__ = ["Certified", "best_choice", "certified_for", "digest_of", "predicted_distances", "similarity_of"]

FILE = "public_figures.json"
ALL = "all"


@dataclass(frozen=True)
class Certified:
    """Solution of a domain: the bound of claim 3, and exponents whose exact losses were computed (claim 2)."""

    slope: float
    excess: tuple[float, ...]
    least_similarity: float
    exact: tuple[tuple[float, float], ...]
    """Losses in ascending order, each with an exponent whose exact loss does not exceed it."""

    def exponent_within(self, loss: float) -> float:
        """The largest exponent that is known to keep within this loss; 0 if none is."""
        return max((exponent for known, exponent in self.exact if known <= loss), default=0.0)


@cache
def figures() -> dict[str, Any]:
    """Content of the file."""
    read: dict[str, Any] = json.loads((files("querycloak.methods.semantic") / FILE).read_text("utf-8"))
    return read


def certified_for(taxonomy: Taxonomy, criterion: str) -> Certified | None:
    """Solution for this whole taxonomy and this criterion; None if there is none."""
    certified = figures()["certified"].get(criterion)
    if certified is None or len(taxonomy) != figures()["concepts"] or digest_of(taxonomy) != figures()["digest"]:
        return None
    exact = tuple((loss, exponent) for loss, exponent in certified["exact"])
    return Certified(certified["slope"], tuple(certified["excess"]), certified["least_similarity"], exact)


def digest_of(taxonomy: Taxonomy) -> str:
    """A digest of who stands above whom: all that exponents depend on."""
    parents = taxonomy.parents_of
    content = parents.starts.astype("<i8").tobytes() + parents.values.astype("<i4").tobytes()
    return hashlib.sha256(content).hexdigest()


def similarity_of(candidates: str | None, criterion: str, loss: float) -> float | None:
    """The mean similarity of what is drawn to what was asked, between figures that were computed; None if unknown."""
    similarities = figures()["similarity"].get(candidates or ALL, {}).get(criterion)
    if similarities is None:
        return None
    losses = np.log(figures()["losses"])
    return round(float(np.interp(np.log(loss), losses, similarities)), 3)


def blind_similarity(candidates: str | None) -> float | None:
    """The same for a draw that knows nothing."""
    similarity = figures()["blind"].get(candidates or ALL)
    return None if similarity is None else round(float(similarity), 3)


def best_choice(loss: float, criteria: Collection[str] = CRITERIA) -> tuple[str | None, str]:
    """The candidates and the criterion under which what is drawn is most similar to what was asked, at this loss."""
    known = figures()["similarity"]
    tried = [(candidates, criterion) for candidates, by in known.items() for criterion in by if criterion in criteria]
    candidates, criterion = max(tried, key=lambda each: similarity_of(each[0], each[1], loss) or 0.0)
    return (None if candidates == ALL else candidates), criterion


def predicted_distances(loss: float) -> dict[tuple[str, str], float]:
    """For each candidates and criterion the total variation of the totals of one draw, at this loss."""
    losses = np.log(figures()["losses"])
    return {
        (name, criterion): float(np.exp(np.interp(np.log(loss), losses, np.log(distances))))
        for name, by in figures()["totals"].items()
        for criterion, distances in by.items()
    }
