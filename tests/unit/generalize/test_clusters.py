"""Cutting a taxonomy so that what remains has k users (generalize.md), against sets in plain Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.methods.generalize.clusters import Tree, cut
from querycloak.methods.generalize.matching import UNMATCHED, Matcher
from querycloak.words.spans import Spans
from querycloak.words.wordnet import wordnet
from tests.unit.affinity.oracles import rows


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[list[int]], int]:
    size = draw(st.integers(1, 14))
    parents = [0, *(draw(st.integers(0, i - 1)) for i in range(1, size))]
    users = draw(st.lists(st.frozensets(st.integers(0, size - 1), max_size=4), max_size=15))
    return parents, [sorted(each) for each in users], draw(st.integers(1, 5))


def slow_cut(parents: list[int], users: list[list[int]], k: int) -> list[int]:
    """By sets of users, from the root down."""

    def below(node: int) -> set[int]:
        return {c for c in range(len(parents)) if node in path(c)}

    def path(node: int) -> list[int]:
        return [node] if node == 0 else [node, *path(parents[node])]

    def of(concepts: set[int]) -> set[int]:
        return {user for user, has in enumerate(users) if set(has) & concepts}

    becomes = [-1] * len(parents)

    def reach(node: int) -> None:
        for each in below(node):
            becomes[each] = node
        children = [c for c in range(1, len(parents)) if parents[c] == node]
        good = [c for c in children if len(of(below(c))) >= k]
        rest = of({node}.union(*(below(c) for c in children if c not in good)))
        if good and 0 < len(rest) < k:
            good.remove(min(good, key=lambda c: (len(of(below(c))), c)))
        for child in good:
            reach(child)

    if len(of(below(0))) >= k:
        reach(0)
    return becomes


@settings(max_examples=200, deadline=None)
@given(cases())
def test_the_cut_is_the_slow_one_and_every_concept_has_k_users(case: tuple[list[int], list[list[int]], int]) -> None:
    parents, users, k = case
    found = cut(Tree(np.array(parents, np.int32), 0), rows(users), k).tolist()
    assert found == slow_cut(parents, users, k)
    for concept in set(found) - {-1}:
        holders = {user for user, has in enumerate(users) if any(found[c] == concept for c in has)}
        assert not holders or len(holders) >= k


def test_leaves_and_order_of_wordnet() -> None:
    tree = Tree.of(wordnet())
    place = np.empty(len(tree.parents), np.int64)
    place[tree.top_down] = np.arange(len(place))
    others = np.arange(len(place)) != tree.root
    assert (place[tree.parents[others]] < place[others]).all()
    leaves = np.ones(len(place), np.bool_)
    leaves[tree.parents[others]] = False
    assert tree.leaves_under[tree.root] == leaves.sum()
    assert (tree.leaves_under[leaves] == 1).all()


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher(wordnet())


@pytest.mark.parametrize(
    ("query", "label", "covered"),
    [
        ("water polo rules", "water polo", 2),
        ("arthritis", "arthritis", 1),
        ("panic disorders", "panic disorder", 2),
        ("how to get rid of asthma cough", "cough", 1),
        ("churches", "church", 1),
        ("cities", "city", 1),
        ("women", "woman", 1),
        ("mice", "mouse", 1),
        ("  blanks   arthritis ", "arthritis", 1),
        ("in the of", None, 0),
        ("zzqx honda", None, 0),
        ("", None, 0),
    ],
)
def test_the_longest_known_phrase_stands_for_a_query(
    matcher: Matcher, query: str, label: str | None, covered: int
) -> None:
    concepts, found, words = matcher.matches(Spans.of(pa.array([query])))
    expected = UNMATCHED if label is None else int(wordnet().concepts(label)[0])
    assert (concepts[0], found[0], words[0]) == (expected, covered, len(query.split()))
