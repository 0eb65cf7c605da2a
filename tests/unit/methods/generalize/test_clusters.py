"""Cutting a taxonomy so that what remains has k users (generalize.md), against sets in plain Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.methods.generalize.clusters import UNMATCHED, Matcher, Tree, cut
from querycloak.text.spans import Spans
from querycloak.text.wordnet import wordnet
from tests.unit.methods.affinity.oracles import rows


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[list[int]], int]:
    size = draw(st.integers(1, 14))
    parents = [0, *(draw(st.integers(0, i - 1)) for i in range(1, size))]
    users = draw(st.lists(st.frozensets(st.integers(0, size - 1), max_size=4), max_size=15))
    return parents, [sorted(each) for each in users], draw(st.integers(1, 5))


def slow_cut(parents: list[int], users: list[list[int]], k: int) -> list[int]:
    """By sets, from the last concept to the root: parents have smaller numbers."""
    cluster = [{concept} for concept in range(len(parents))]
    becomes = [-1] * len(parents)
    for concept in reversed(range(len(parents))):
        if sum(bool(set(has) & cluster[concept]) for has in users) >= k:
            for each in cluster[concept]:
                becomes[each] = concept
        elif concept:
            cluster[parents[concept]] |= cluster[concept]
    return becomes


@settings(max_examples=200, deadline=None)
@given(cases())
def test_the_cut_is_the_slow_one_and_every_concept_has_k_users(case: tuple[list[int], list[list[int]], int]) -> None:
    parents, users, k = case
    holders = [[user for user, has in enumerate(users) if concept in has] for concept in range(len(parents))]
    found = cut(Tree(np.array(parents, np.int32), 0), rows(holders), len(users), k).tolist()
    assert found == slow_cut(parents, users, k)
    for concept in set(found) - {-1}:
        assert sum(any(found[c] == concept for c in has) for has in users) >= k


def test_thousands_of_users_are_handed_up() -> None:
    """A star of single users: nobody stands alone, together they stand at the middle."""
    parents = np.array([0, 0, *([1] * 5000)], np.int32)
    holders = [[], [], *([user] for user in range(5000))]
    assert set(cut(Tree(parents, 0), rows(holders), 5000, 5000).tolist()[2:]) == {1}
    assert set(cut(Tree(parents, 0), rows(holders), 5000, 5001).tolist()) == {-1}


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
