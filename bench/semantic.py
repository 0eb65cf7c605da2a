"""Semantic replacement: mapping queries, and drawing a million, beside a straightforward loop on a small sample."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from bench.measuring import once

DRAWS, SAMPLE = 1_000_000, 100
LOSS = 0.1


def main(path: Path, _: int, spill: Path) -> None:
    """Print a line for mapping and a line for drawing."""
    for work in (_map, _draw):
        run = once(work, path, spill)
        print(json.dumps({**run.result, "gigabytes": round(run.gigabytes, 2)}))


def _map(path: str, _: str) -> dict[str, Any]:
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.text.query_concepts import ConceptFinder
    from querycloak.text.wordnet import wordnet

    started = time.perf_counter()
    finder = ConceptFinder(wordnet())
    with read(path, engine=connect(threads=1)) as log:
        queries = log.engine.fetch(log.rows.select("query").distinct().limit(1_000_000))["query"].combine_chunks()
    finder.concepts(queries[:10])  # compiled
    ready = time.perf_counter()
    finder.concepts(queries)
    seconds = time.perf_counter() - ready
    return {
        "bench": "semantic, mapping (one core)",
        "distinct queries": len(queries),
        "seconds to begin": round(ready - started, 2),
        "queries a second": round(len(queries) / seconds),
    }


def _draw(_: str, __: str) -> dict[str, Any]:
    import numpy as np

    from querycloak.methods.semantic.weights import SemanticWeights
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.text.wordnet import wordnet

    nouns = wordnet()
    domain = nouns.below(nouns.concept("abstraction", 6))
    sources = Randomness(seed=1).below(len(domain), DRAWS).astype(np.int32)
    levels = np.zeros(DRAWS, np.int32)
    started = time.perf_counter()
    weights = SemanticWeights(domain)
    weights.draw(sources, levels, weights.exponents([LOSS]), Randomness())
    seconds = time.perf_counter() - started
    plain = _plainly(domain, sources[:SAMPLE].tolist(), weights.exponents([LOSS])[0])
    return {
        "bench": "semantic, drawing from abstraction",
        "draws": DRAWS,
        "concepts": len(domain),
        "seconds": round(seconds, 1),
        "plain loop, seconds a draw": round(plain / SAMPLE, 4),
        "ratio to the plain loop": round(plain / SAMPLE * DRAWS / seconds),
    }


def _plainly(domain: Any, sources: list[int], exponent: float) -> float:
    """For each query: all similarities, all weights, one choice."""
    import math
    import random

    above = [frozenset(domain.ancestors(concept).tolist()) for concept in range(len(domain))]
    started = time.perf_counter()
    for source in sources:
        own = above[source]
        weights = []
        for other in above:
            shared = len(own & other)
            union = len(own) + len(other) - shared
            weights.append(math.exp(exponent * (1 - math.log2(1 + (union - shared) / union))))
        random.choices(range(len(domain)), weights)
    return time.perf_counter() - started
