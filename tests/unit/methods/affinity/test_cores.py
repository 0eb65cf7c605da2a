"""Generalized cores against a naive fixed point, and against networkx where every query has its own user."""

from __future__ import annotations

import networkx as nx  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ResourceError
from querycloak.methods.affinity import graph as graphs
from querycloak.methods.affinity.cores import core_degrees
from querycloak.methods.affinity.cosine import Index
from querycloak.methods.affinity.graph import Graph, build_graph, symmetric
from tests.unit.methods.affinity import oracles
from tests.unit.methods.affinity.oracles import rows


@st.composite
def labelled_graphs(draw: st.DrawFn) -> tuple[list[set[int]], list[list[int]], int]:
    """A graph, the users of its vertices, and how many users there are."""
    size = draw(st.integers(1, 16))
    users = draw(st.integers(1, 10))
    adjacent: list[set[int]] = [set() for _ in range(size)]
    for a, b in draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=50)):
        if a != b:
            adjacent[a].add(b)
            adjacent[b].add(a)
    of_vertex = st.frozensets(st.integers(0, users - 1), min_size=1, max_size=5)
    return adjacent, [sorted(draw(of_vertex)) for _ in range(size)], users


def all_open(adjacent: list[set[int]], users: list[list[int]]) -> Graph:
    size = len(adjacent)
    return Graph(np.zeros(size, np.bool_), np.arange(size), rows(adjacent), rows(users))


@settings(max_examples=200, deadline=None)
@given(labelled_graphs(), st.integers(1, 12))
def test_one_peeling_gives_every_core(made: tuple[list[set[int]], list[list[int]], int], most: int) -> None:
    adjacent, users, number = made
    found = core_degrees(all_open(adjacent, users), number, most).tolist()
    assert found == oracles.core_degrees(adjacent, users, most)


@settings(max_examples=100, deadline=None)
@given(labelled_graphs())
def test_with_one_user_for_each_query_it_is_core_numbers_plus_one(
    made: tuple[list[set[int]], list[list[int]], int],
) -> None:
    """Batagelj and Zaversnik's cores count neighbours; ours count the vertex itself as well."""
    adjacent = made[0]
    network = nx.Graph([(a, b) for a, near in enumerate(adjacent) for b in near])
    network.add_nodes_from(range(len(adjacent)))
    own = [[v] for v in range(len(adjacent))]
    found = core_degrees(all_open(adjacent, own), len(own), len(own) + 1)
    numbers = nx.core_number(network)
    assert found.tolist() == [numbers[v] + 1 for v in range(len(adjacent))]


@settings(max_examples=100, deadline=None)
@given(labelled_graphs(), st.integers(2, 11))
def test_a_lower_ceiling_changes_nothing_below_it(made: tuple[list[set[int]], list[list[int]], int], most: int) -> None:
    adjacent, users, number = made
    free = core_degrees(all_open(adjacent, users), number, 12)
    assert core_degrees(all_open(adjacent, users), number, most).tolist() == np.minimum(free, most).tolist()


def test_a_large_random_graph_at_networkx_size() -> None:
    network = nx.powerlaw_cluster_graph(3000, 6, 0.4, seed=7)
    adjacent = [set(network[v]) for v in range(3000)]
    own = [[v] for v in range(3000)]
    found = core_degrees(all_open(adjacent, own), 3000, 60)
    numbers = nx.core_number(network)
    assert found.tolist() == [numbers[v] + 1 for v in range(3000)]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[list[int]], int]:
    concepts = draw(st.integers(1, 8))
    weights = draw(st.lists(st.integers(1, 4), min_size=concepts, max_size=concepts))
    sets = draw(st.lists(st.frozensets(st.integers(0, concepts - 1), min_size=1), min_size=1, max_size=30, unique=True))
    number = draw(st.integers(1, 12))
    users = [sorted(draw(st.frozensets(st.integers(0, number - 1), min_size=1, max_size=6))) for _ in sets]
    return [sorted(each) for each in sets], weights, users, number


def degrees_of(
    sets: list[list[int]],
    weights: list[int],
    users: list[list[int]],
    number: int,
    theta: int,
    most: int,
    max_neighbours: int | None = None,
) -> list[int]:
    index = Index.of(rows(sets), np.array(weights, np.int64), theta)
    graph = build_graph(index, rows(users).take(index.order), number, most, max_neighbours=max_neighbours, threads=2)
    found = np.empty(len(sets), np.int32)
    found[index.order] = core_degrees(graph if max_neighbours is None else symmetric(graph), number, most)
    return found.tolist()


THETAS = st.sampled_from([300_000, 500_000, 707_106, 800_000, 900_000, 1_000_000])


@settings(max_examples=150, deadline=None)
@given(logs(), THETAS, st.integers(1, 9))
def test_what_surely_stays_is_what_the_definition_keeps(
    log: tuple[list[list[int]], list[int], list[list[int]], int], theta: int, most: int
) -> None:
    """Step 4: leaving out the lists of what stays changes no degree."""
    sets, weights, users, number = log
    true = oracles.core_degrees(oracles.neighbours(sets, weights, theta), users, most)
    assert degrees_of(sets, weights, users, number, theta, most) == true


@settings(max_examples=100, deadline=None)
@given(logs(), THETAS, st.integers(1, 9), st.integers(1, 5))
def test_bounded_lists_give_lower_bounds(
    log: tuple[list[list[int]], list[int], list[list[int]], int], theta: int, most: int, kept: int
) -> None:
    exact = degrees_of(*log, theta, most)
    bounded = degrees_of(*log, theta, most, max_neighbours=kept)
    assert all(low <= true for low, true in zip(bounded, exact, strict=True))
    assert degrees_of(*log, theta, most, max_neighbours=30) == exact


def test_bounded_lists_do_lose_something() -> None:
    sets = [[0, i] for i in range(1, 30)]
    users = [[i] for i in range(29)]
    weights = [9, *([1] * 29)]
    assert degrees_of(sets, weights, users, 29, 900_000, 20) == [20] * 29
    assert max(degrees_of(sets, weights, users, 29, 900_000, 20, max_neighbours=3)) < 20


def test_more_neighbours_than_memory_should_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_LISTED", 100)
    sets, users, weights = [[0, i] for i in range(1, 30)], [[i] for i in range(29)], [9, *([1] * 29)]
    with pytest.raises(ResourceError, match="give max_neighbours=100, which"):
        degrees_of(sets, weights, users, 29, 900_000, 40)
    assert degrees_of(sets, weights, users, 29, 900_000, 40, max_neighbours=2)


def test_lists_longer_than_the_room_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_BUFFER", 8)
    monkeypatch.setattr(graphs, "_BLOCK", 3)
    random = np.random.default_rng(2)
    sets = [sorted({0, *random.choice(range(1, 30), 2, replace=False).tolist()}) for _ in range(80)]
    sets = [list(each) for each in {tuple(each) for each in sets}]
    users = [[int(random.integers(0, 40))] for _ in sets]
    weights = [8, *([1] * 29)]
    true = oracles.core_degrees(oracles.neighbours(sets, weights, 900_000), users, 60)
    assert max(true) > 20
    assert degrees_of(sets, weights, users, 40, 900_000, 60) == true
