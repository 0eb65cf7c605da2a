"""Suggestions found with bounds are those that comparing with everything finds."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.evaluation.numbered_logs import WeightedPairs
from querycloak.evaluation.similar_queries import STEPS, click_index, followers, suggested

QUERIES, URLS = 14, 6
Weights = dict[tuple[int, int], int]
# Small counts and few urls: many vectors are parallel, and ties are everywhere.
clicks_given = st.dictionaries(st.tuples(st.integers(0, QUERIES - 1), st.integers(0, URLS - 1)), st.integers(1, 4))
later_given = st.dictionaries(st.tuples(st.integers(0, QUERIES - 1), st.integers(0, QUERIES - 1)), st.integers(1, 5))


def pairs_of(given: Weights) -> WeightedPairs:
    table = np.array([(a, b, w) for (a, b), w in given.items()], np.int64).reshape(-1, 3)
    return WeightedPairs.of(table[:, 0], table[:, 1], table[:, 2], QUERIES)


def slowly(clicks: Weights, later: Weights, query: int, cosine_share: float) -> list[int]:
    """Every other query's score, by plain loops."""
    vectors: dict[int, dict[int, int]] = defaultdict(dict)
    for (owner, url), weight in clicks.items():
        vectors[owner][url] = weight
    following = {other: weight for (owner, other), weight in later.items() if owner == query}
    total = sum(following.values())
    found = []
    for other in range(QUERIES):
        mine, theirs = vectors[query], vectors[other]
        dot = sum(weight * theirs.get(url, 0) for url, weight in mine.items())
        norms = [sum(weight**2 for weight in vector.values()) ** 0.5 for vector in (mine, theirs)]
        cosine = dot / norms[0] / norms[1] if dot else 0.0
        score = cosine_share * cosine + (1 - cosine_share) * (following.get(other, 0) / total if total else 0.0)
        if other != query and score > 0:
            found.append((-round(score * STEPS), other))
    return [other for _, other in sorted(found)][:5]


@settings(max_examples=300)
@given(clicks_given, later_given, st.sampled_from([0.5, 0.5, 0.2, 1.0, 0.0]), st.integers(1, 3))
def test_as_by_comparing_with_everything(clicks: Weights, later: Weights, cosine_share: float, threads: int) -> None:
    later = {pair: weight for pair, weight in later.items() if pair[0] != pair[1]}
    asked = np.arange(QUERIES, dtype=np.int32)
    index, follow = click_index(pairs_of(clicks), URLS), followers(pairs_of(later))
    found = suggested(asked, index, follow, cosine_share, 5, threads)
    for query in range(QUERIES):
        expected = slowly(clicks, later, query, cosine_share)
        assert [other for other in found[query].tolist() if other >= 0] == expected


@pytest.mark.parametrize("seed", range(4))
def test_on_larger_graphs_with_a_heavy_url(seed: int) -> None:
    """Thousands of queries share a url: the bounds spare most of them, and lose none."""
    generator = np.random.default_rng(seed)
    queries, urls = 3000, 200
    left = np.concatenate([np.arange(queries), generator.integers(0, queries, 4000)])
    right = np.concatenate([np.where(generator.random(queries) < 0.7, 0, generator.integers(0, urls, queries)),
                            generator.integers(0, urls, 4000)])  # fmt: skip
    clicks = WeightedPairs.of(left, right, generator.integers(1, 20, len(left)), queries)
    later = WeightedPairs.of(generator.integers(0, queries, 3000), generator.integers(0, queries, 3000),
                             generator.integers(1, 9, 3000), queries).without_loops()  # fmt: skip
    dense = np.zeros((queries, urls))
    dense[clicks.left, clicks.right] = clicks.weight
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-300)
    asked = generator.choice(queries, 200, replace=False).astype(np.int32)
    found = suggested(asked, click_index(clicks, urls), followers(later), 0.5, 5, 2)
    for case, query in enumerate(asked):
        score = 0.5 * dense @ dense[query]
        own = slice(later.starts[query], later.starts[query + 1])
        score[later.right[own]] += 0.5 * later.weight[own] / max(later.weight[own].sum(), 1)
        score[query] = 0
        best = np.lexsort((np.arange(queries), -np.round(score, 11)))[:5]
        assert np.round(score[found[case]], 10).tolist() == np.round(score[best], 10).tolist()


def test_urls_of_too_many_queries_can_be_left_out() -> None:
    clicks = {(0, 0): 1, (1, 0): 1, (2, 0): 1, (0, 1): 1, (3, 1): 1}
    nothing = followers(pairs_of({}))
    asked = np.array([0], np.int32)
    everything = suggested(asked, click_index(pairs_of(clicks), URLS), nothing, 0.5, 5, 1)
    assert sorted(everything[0].tolist()) == [-1, -1, 1, 2, 3]
    few = suggested(asked, click_index(pairs_of(clicks), URLS, most_queries=2), nothing, 0.5, 5, 1)
    assert few[0].tolist() == [3, -1, -1, -1, -1]
