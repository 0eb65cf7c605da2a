"""Write the figures about WordNet's nouns that `semantic` ships: `python scripts/make_semantic_figures.py`.

Exponents of the whole taxonomy with their exact losses (a pass over all pairs of types each, so that it takes minutes),
and the expected similarity of every candidate set at every loss. Same taxonomy in, same figures out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from querycloak.methods.semantic.choice import FILE, WHOLE, Certified, digest_of, usual_shares
from querycloak.methods.semantic.domains import Domain
from querycloak.methods.semantic.totals import DrawChannel, predicted_distance
from querycloak.methods.semantic.weights import (
    EqualityWeights,
    SemanticWeights,
    blind_similarity_of,
    expected_similarities,
)
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.wordnet import wordnet

PLACE = Path(__file__).parent.parent / "src/querycloak/methods/semantic" / FILE
LOSSES = [0.01, 0.03, 0.1, 0.2, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 25, 30, 40]
EXACT = [2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 40.0]
NEAR_ENOUGH, STEP = 0.97, 0.99
COUNTED = [f"usual={n}" for n in (10, 30, 100, 300, 1000, 3000)]
MOST_SEMANTIC = 300
SETS = [*(f"depth={depth}" for depth in range(2, 7)), *(f"usual={n}" for n in (30, 100, 300, 1000, 3000))]


def certified(weights: SemanticWeights) -> dict[str, Any]:
    """The bound of claim 3, and exponents of claim 2: each is tried from where the last one led."""
    slope, excess = weights._bound
    starts = dict(zip(EXACT, weights._by_bound(EXACT), strict=True))
    exact, ratio = [], 0.0
    for loss in EXACT:
        exponent, reached = max(starts[loss], ratio * loss), weights.exact_loss(max(starts[loss], ratio * loss))
        best = starts[loss]
        for _ in range(4):
            best = max(best, exponent) if reached <= loss else best
            if NEAR_ENOUGH * loss <= reached <= loss:
                break
            exponent *= STEP * loss / reached
            reached = weights.exact_loss(exponent)
        exact.append((loss, best))
        ratio = best / loss
        print(f"loss {loss}: exponent {best:.6g}, exact loss {reached:.6g}", flush=True)
    return {"slope": slope, "excess": excess.tolist(), "least_similarity": weights.least_similarity, "exact": exact}


def totals(taxonomy: Taxonomy) -> dict[str, dict[str, list[float]]]:
    """For each set and criterion the predicted total variation of totals of one draw, at every loss."""
    predicted: dict[str, dict[str, list[float]]] = {}
    for name in COUNTED:
        domain = Domain.of(taxonomy, np.arange(len(taxonomy), dtype=np.int32), name)
        shares, predicted[name] = usual_shares(domain), {}
        by: dict[str, SemanticWeights | EqualityWeights] = {"nsqc": EqualityWeights(domain.taxonomy)}
        if len(domain.taxonomy) <= MOST_SEMANTIC:
            by["sqc1"] = SemanticWeights(domain.taxonomy)
        for criterion, weights in by.items():
            channels = (DrawChannel.of(weights, exponent) for exponent in weights.exponents(LOSSES))
            predicted[name][criterion] = [float(f"{predicted_distance(each, shares):.4g}") for each in channels]
        print(name, predicted[name], flush=True)
    return predicted


def main() -> None:
    """Solve, write; with the word `totals`, only the predictions of totals."""
    taxonomy = wordnet()
    if sys.argv[1:] == ["totals"]:
        written = {**json.loads(PLACE.read_text()), "totals": totals(taxonomy)}
        PLACE.write_text(json.dumps(written, indent=1) + "\n")
        return
    solved = certified(SemanticWeights(taxonomy))
    figures: dict[str, object] = {
        "concepts": len(taxonomy),
        "digest": digest_of(taxonomy),
        "certified": {"sqc1": solved},
        "losses": LOSSES,
    }
    similarity, blind = {}, {}
    for name in (WHOLE, *SETS):
        domain = Domain.of(taxonomy, np.arange(len(taxonomy), dtype=np.int32), None if name == WHOLE else name)
        known = Certified(**{**solved, "excess": tuple(solved["excess"])}) if name == WHOLE else None
        semantic = SemanticWeights(domain.taxonomy, certified=known)
        by = {"sqc1": semantic.exponents(LOSSES), "nsqc": EqualityWeights(domain.taxonomy).exponents(LOSSES)}
        similarity[name] = {
            criterion: [round(each, 4) for each in expected_similarities(domain, criterion, exponents)]
            for criterion, exponents in by.items()
        }
        blind[name] = round(blind_similarity_of(domain), 4)
        print(name, len(domain.taxonomy), blind[name], similarity[name]["sqc1"][-8:], flush=True)
    figures |= {"similarity": similarity, "blind": blind, "totals": totals(taxonomy)}
    PLACE.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
