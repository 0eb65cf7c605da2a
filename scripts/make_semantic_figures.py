"""Write the figures about WordNet's nouns that `semantic` ships: `python scripts/make_semantic_figures.py`.

Exponents of the whole taxonomy with their exact losses (a pass over all pairs of types each, so that it takes minutes),
and the expected similarity of every candidate set at every loss. Same taxonomy in, same figures out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from querycloak.methods.semantic.domains import Domain
from querycloak.methods.semantic.public_figures import ALL, FILE, Certified, digest_of
from querycloak.methods.semantic.weights import EqualityWeights, SemanticWeights
from querycloak.text.wordnet import wordnet
from scripts.expected_similarity import blind_similarity_of, expected_similarities

PLACE = Path(__file__).parent.parent / "src/querycloak/methods/semantic" / FILE
LOSSES = [0.01, 0.03, 0.1, 0.2, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 25, 30, 40]
EXACT = [2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 40.0]
NEAR_ENOUGH, STEP = 0.97, 0.99
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


def main() -> None:
    """Solve, write."""
    taxonomy = wordnet()
    solved = certified(SemanticWeights(taxonomy))
    figures: dict[str, object] = {
        "concepts": len(taxonomy),
        "digest": digest_of(taxonomy),
        "certified": {"sqc1": solved},
        "losses": LOSSES,
    }
    similarity, blind = {}, {}
    for name in (ALL, *SETS):
        domain = Domain.of(taxonomy, np.arange(len(taxonomy), dtype=np.int32), None if name == ALL else name)
        known = Certified(**{**solved, "excess": tuple(solved["excess"])}) if name == ALL else None
        semantic = SemanticWeights(domain.taxonomy, certified=known)
        by = {"sqc1": semantic.exponents(LOSSES), "nsqc": EqualityWeights(domain.taxonomy).exponents(LOSSES)}
        similarity[name] = {
            criterion: [round(each, 4) for each in expected_similarities(domain, criterion, exponents)]
            for criterion, exponents in by.items()
        }
        blind[name] = round(blind_similarity_of(domain), 4)
        print(name, len(domain.taxonomy), blind[name], similarity[name]["sqc1"][-8:], flush=True)
    PLACE.write_text(json.dumps({**figures, "similarity": similarity, "blind": blind}, indent=1) + "\n")


if __name__ == "__main__":
    main()
