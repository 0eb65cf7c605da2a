"""The random walk by sparse sums is that of powers of a matrix; ranks are those of a sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.evaluation.numbered_logs import NumberedClicks, WeightedPairs
from querycloak.evaluation.tasks.retrieval import STAY, STEPS, Wanted, ranks, some_searches, walk_of

QUERIES, URLS = 6, 5
Weights = dict[tuple[int, int], int]
clicks_given = st.dictionaries(st.tuples(st.integers(0, QUERIES - 1), st.integers(0, URLS - 1)), st.integers(1, 4))
next_given = st.dictionaries(st.tuples(st.integers(0, QUERIES - 1), st.integers(0, QUERIES - 1)), st.integers(1, 4))
ALL = Wanted(np.arange(QUERIES, dtype=np.int32), np.arange(QUERIES + 1) * URLS, np.tile(np.arange(URLS, dtype=np.int32), QUERIES))  # noqa: E501  # fmt: skip


def pairs_of(given: Weights) -> WeightedPairs:
    table = np.array([(a, b, w) for (a, b), w in given.items()], np.int64).reshape(-1, 3)
    return WeightedPairs.of(table[:, 0], table[:, 1], table[:, 2], QUERIES)


def by_matrix(clicks: Weights, transitions: Weights) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """P(url after three steps | query), from the third power of the whole matrix."""
    weights = np.zeros((QUERIES, QUERIES + URLS))
    for (query, url), weight in clicks.items():
        weights[query, QUERIES + url] += weight
    for (query, other), weight in transitions.items():
        weights[query, other] += weight
    matrix = np.zeros((QUERIES + URLS, QUERIES + URLS))
    for query in range(QUERIES):
        out = weights[query].sum()
        if out:
            matrix[query] = (1 - STAY) * weights[query] / out
        matrix[query, query] += STAY if out else 1.0
    matrix[QUERIES:, QUERIES:] = np.eye(URLS)
    return np.linalg.matrix_power(matrix, 3)[:QUERIES, QUERIES:]


@settings(max_examples=200)
@given(clicks_given, next_given, st.integers(1, 3))
def test_as_by_powers_of_the_matrix(clicks: Weights, transitions: Weights, threads: int) -> None:
    transitions = {pair: weight for pair, weight in transitions.items() if pair[0] != pair[1]}
    found, reached = ranks(ALL, walk_of(pairs_of(clicks), pairs_of(transitions)), URLS, threads)
    probabilities = by_matrix(clicks, transitions)
    for query in range(QUERIES):
        keys = np.round(probabilities[query] * STEPS).astype(np.int64)
        order = np.lexsort((np.arange(URLS), -keys)).tolist()
        expected = [order.index(url) + 1 if probabilities[query, url] > 0 else 0 for url in range(URLS)]
        assert found[query * URLS : (query + 1) * URLS].tolist() == expected
        assert reached[query] == (probabilities[query] > 0).any()


def test_by_hand() -> None:
    """Query 0 is clicked on url 0 once and leads to query 1 three times, which is clicked on url 1 only.

    Places after 0, 1, 2 steps, as far as at a query: 0 has 1, .1, .01; 1 has 0, .675, .0675 + .0675.
    To url 0 from query 0: .9/4; to url 1 from query 1: .9. So .24975 against .729.
    """
    clicks, transitions = {(0, 0): 1, (1, 1): 2}, {(0, 1): 3}
    assert by_matrix(clicks, transitions)[0, :2] == pytest.approx([0.24975, 0.729])
    wanted = Wanted(np.array([0], np.int32), np.array([0, 3]), np.array([0, 1, 2], np.int32))
    found, reached = ranks(wanted, walk_of(pairs_of(clicks), pairs_of(transitions)), URLS, 1)
    assert found.tolist() == [2, 1, 0]
    assert reached.tolist() == [True]


def test_ties_go_by_text() -> None:
    wanted = Wanted(np.array([0], np.int32), np.array([0, 2]), np.array([1, 4], np.int32))
    walk = walk_of(pairs_of({(0, 4): 7, (0, 0): 7, (0, 1): 7}), pairs_of({}))
    assert ranks(wanted, walk, URLS, 1)[0].tolist() == [2, 3]


def test_a_query_that_nobody_clicked_reaches_nothing() -> None:
    walk = walk_of(pairs_of({(1, 1): 1}), pairs_of({}))
    wanted = Wanted(np.array([0], np.int32), np.array([0, 1]), np.array([1], np.int32))
    found, reached = ranks(wanted, walk, URLS, 2)
    assert (found.tolist(), reached.tolist()) == ([0], [False])


def test_of_too_many_searches_some_are_drawn_with_all_their_clicks() -> None:
    draw = np.random.default_rng(1)
    sizes = draw.integers(1, 5, 1000)
    search = np.repeat(np.arange(1000), sizes)
    numbers = np.arange(search.size, dtype=np.int32)
    clicks = NumberedClicks(search, search.astype(np.int32) % 7, search.astype(np.int32) % 11, numbers, numbers % 10)
    assert some_searches(clicks, 1000) is clicks
    some = some_searches(clicks, 300)
    assert np.array_equal(np.unique(some.search), np.arange(300))
    assert np.array_equal(some.search, some_searches(clicks, 300).search)
    # Which searches they are shows in the urls, which are all different here.
    whole = np.unique(search[some.url])
    assert np.array_equal(np.bincount(some.search), sizes[whole])
    assert np.array_equal(some.query, clicks.query[some.url])
    assert 100 < np.median(whole) < 900
