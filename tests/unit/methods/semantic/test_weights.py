"""Weights, losses and draws of semantic.md, against definitions and by enumeration."""

from __future__ import annotations

import math
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.methods.semantic.domains import Domains
from querycloak.methods.semantic.weights import EqualityWeights, SemanticWeights
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.taxonomy_table import Row, taxonomy_of
from querycloak.text.wordnet import wordnet
from tests.unit.methods.semantic import oracles
from tests.unit.text.test_taxonomy import random_rows

DOMAINS = {"disease": 0.540, "scientific discipline": 0.592, "sport": 0.562, "social event": 0.561}


def domain(label: str) -> Taxonomy:
    return wordnet().below(wordnet().concept(label))


class Enumerating(Randomness):
    """Hands out the numbers that it is given, and remembers the bounds."""

    def __init__(self, numbers: IntArray | None = None) -> None:
        super().__init__(seed=0)
        self.numbers, self.bounds = numbers, np.empty(0, np.int64)

    def below_each(self, bounds: IntArray) -> IntArray:
        self.bounds = bounds
        return np.zeros_like(bounds) if self.numbers is None else self.numbers


def table_of(weights: SemanticWeights, exponent: float) -> list[list[int]]:
    """W(i, o) for all pairs, from the classes that the code computes."""
    kinship, by_class = weights.kinship, weights.weights(exponent)
    found = np.zeros((kinship.concepts, kinship.concepts), np.int64)
    for source in range(kinship.concepts):
        kind = kinship.type_of[source]
        for i in range(kinship.classes.starts[kind], kinship.classes.starts[kind + 1]):
            kin, size = int(kinship.classes.values[i]), int(kinship.sizes[i])
            members = kinship.members_of_class(
                np.full(size, source, np.int32), np.full(size, kin, np.int32), np.arange(size)
            )
            assert len(set(members.tolist())) == size
            found[source, members] = by_class[kinship.ancestors[kind], kin]
    return [[int(w) for w in row] for row in found]


@settings(max_examples=25, deadline=None)
@given(random_rows(), st.sampled_from([0.01, 0.7, 3.0]), st.integers(0, 3))
def test_classes_of_kin_give_every_pair_its_weight(rows: list[Row], exponent: float, topics: int) -> None:
    taxonomy = taxonomy_of(rows)
    topic_of = [number % (topics + 1) for number in range(len(taxonomy))]
    weights = SemanticWeights(taxonomy, np.array(topic_of) if topics else None)
    wanted = oracles.qualities(taxonomy, "sqc2" if topics else "sqc1", topic_of)
    found = table_of(weights, exponent)
    scale = 2.0 ** (62 - len(taxonomy).bit_length())
    for row, qualities in zip(found, wanted, strict=True):
        for weight, quality in zip(row, qualities, strict=True):
            assert weight == pytest.approx(math.exp(exponent * (quality - 1)) * scale, rel=1e-12)
    # Claim 2: the exact loss is that of these whole numbers, for any two inputs and any output.
    assert weights.exact_loss(exponent) == pytest.approx(oracles.loss(found), abs=1e-9)
    assert weights.exact_loss(exponent) >= oracles.loss(found)


@settings(max_examples=20, deadline=None)
@given(random_rows(), st.sampled_from([1e-15, 1e-4, 0.1, 1.0, 2.5, 9.0, 30.0]))
def test_no_solved_exponent_exceeds_its_loss(rows: list[Row], loss: float) -> None:
    weights = SemanticWeights(taxonomy_of(rows))
    for exponents in (weights.exponents([loss, loss / 3]), weights.paper_exponents([loss, loss / 3])):
        for exponent, most in zip(exponents, (loss, loss / 3), strict=True):
            assert oracles.loss(table_of(weights, exponent)) <= most


@given(random_rows())
def test_similarity_is_symmetric_one_for_equals_and_within_bounds(rows: list[Row]) -> None:
    taxonomy = taxonomy_of(rows)
    table = oracles.qualities(taxonomy)
    for a in range(len(taxonomy)):
        for b in range(len(taxonomy)):
            assert table[a][b] == table[b][a]
            assert 0 <= table[a][b] <= 1
            assert (table[a][b] == 1) == (a == b)
    assert SemanticWeights(taxonomy).least_similarity == pytest.approx(min(map(min, table)), abs=1e-12)


@pytest.mark.parametrize(("label", "golden"), DOMAINS.items())
def test_golden_losses_at_e_1(label: str, golden: float) -> None:
    """semantic.md, claim 4: what the paper's exponent really costs at e = 1."""
    weights = SemanticWeights(domain(label))
    (exponent,) = weights.paper_exponents([1.0])
    assert weights.exact_loss(exponent) == pytest.approx(golden, abs=5e-4)
    table = np.array([weights.kinship.type_of])
    assert table.size == len(domain(label))


@pytest.mark.parametrize("label", DOMAINS)
@pytest.mark.parametrize("criterion", ["sqc1", "sqc2"])
def test_ratios_on_the_four_domains_exhaustively(label: str, criterion: str) -> None:
    """Every input pair and output of the domain, from a table that numpy makes by the definition."""
    taxonomy = domain(label)
    above = np.zeros((len(taxonomy), len(taxonomy)), np.int32)
    above[taxonomy.ancestors_of.owners(), taxonomy.ancestors_of.values] = 1
    shared = above @ above.T
    union = taxonomy.ancestors_of.lengths[:, None] + taxonomy.ancestors_of.lengths[None, :] - shared
    quality = 1 - np.log2(1 + (union - shared) / union)
    topics = taxonomy.depths % 3 if criterion == "sqc2" else np.zeros(len(taxonomy), np.int32)
    quality[topics[:, None] != topics[None, :]] = 0
    weights = SemanticWeights(taxonomy, topics if criterion == "sqc2" else None)
    for loss in (0.1, 1.0, 10.0):
        (exponent,) = weights.exponents([loss])
        chances = np.exp(exponent * quality)
        chances /= chances.sum(axis=1, keepdims=True)
        real = float(np.log(chances.max(axis=0) / chances.min(axis=0)).max())
        assert real <= loss * (1 + 1e-9)
        assert real >= 0.97 * loss  # and the budget is used
        assert weights.exact_loss(exponent) == pytest.approx(real, rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(random_rows(), st.sampled_from([0.3, 2.0]), st.data())
def test_draws_have_exactly_the_probabilities_of_the_table(
    rows: list[Row], exponent: float, data: st.DataObject
) -> None:
    """Claim 1: of the numbers below the total, each concept gets as many as its weight says. Checked at the edges."""
    taxonomy = taxonomy_of(rows)
    weights = SemanticWeights(taxonomy)
    source = data.draw(st.sampled_from(range(len(taxonomy))))
    table = table_of(weights, exponent)[source]
    bound = Enumerating()
    one = np.array([source], np.int32)
    weights.draw(one, np.zeros(1, np.int32), [exponent], bound)
    assert bound.bounds.tolist() == [sum(table)]
    # All stretches of equal outcome, found from their edges: walk through the numbers by the weight at hand.
    at, seen = 0, Counter[int]()
    while at < sum(table):
        (first,) = weights.draw(one, np.zeros(1, np.int32), [exponent], Enumerating(np.array([at])))
        last_number = at + table[first] - 1
        (last,) = weights.draw(one, np.zeros(1, np.int32), [exponent], Enumerating(np.array([last_number])))
        assert first == last
        seen[int(first)] += table[first]
        at += table[first]
    assert [seen[concept] for concept in range(len(taxonomy))] == table


def test_draws_of_many_sources_and_levels_follow_their_laws() -> None:
    taxonomy = domain("sport")
    weights = SemanticWeights(taxonomy)
    exponents = [0.5, 12.0]
    sources = np.repeat(np.array([3, 90], np.int32), 40_000)
    levels = np.tile(np.array([0, 1], np.int32), 40_000)
    drawn = weights.draw(sources, levels, exponents, Randomness(seed=7))
    for source in (3, 90):
        for level, exponent in enumerate(exponents):
            mine = drawn[(sources == source) & (levels == level)]
            by_class = weights.weights(exponent)
            kind = weights.kinship.type_of[source]
            own = weights.kinship.ancestors[kind]
            span = slice(weights.kinship.classes.starts[kind], weights.kinship.classes.starts[kind + 1])
            total = (by_class[own, weights.kinship.classes.values[span]] * weights.kinship.sizes[span]).sum()
            itself = by_class[own, own * weights.kinship.width + own] / total
            share = float((mine == source).mean())
            assert abs(share - itself) < 6 * math.sqrt(itself / len(mine)) + 1e-3


@pytest.mark.parametrize("loss", [0.01, 0.5, 1.0, 10.0, 20.0])
def test_nsqc_costs_half_of_e_in_the_paper_and_all_of_it_by_default(loss: float) -> None:
    weights = EqualityWeights(domain("sport"))
    assert loss * (1 - 1e-6) <= weights.exact_loss(weights.exponents([loss])[0]) <= loss
    assert weights.exact_loss(weights.paper_exponents([loss])[0]) == pytest.approx(loss / 2, rel=1e-6)


def test_nsqc_draws() -> None:
    weights = EqualityWeights(domain("sport"))
    own, other = weights._weights(2.0)
    sources = np.array([5, 5, 5, 5, 0, 176], np.int32)
    numbers = np.array([0, own - 1, own, own + 5 * other, own, own + 175 * other])
    drawn = weights.draw(sources, np.zeros(6, np.int32), [2.0], Enumerating(numbers))
    assert drawn.tolist() == [5, 5, 0, 6, 1, 175]


def test_one_concept_alone() -> None:
    weights = SemanticWeights(taxonomy_of([("a", ["only"], [])]))
    assert weights.exact_loss(3.0) == pytest.approx(0, abs=1e-9)
    drawn = weights.draw(np.zeros(3, np.int32), np.zeros(3, np.int32), [1.0], Randomness(seed=1))
    assert drawn.tolist() == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("label", ["abstraction"])
def test_the_largest_domain_of_the_paper(label: str) -> None:
    nouns = wordnet()
    weights = SemanticWeights(nouns.below(nouns.concept(label, 6)))
    assert weights.concepts == 39_914
    for loss, exponent in zip((0.1, 1.0, 10.0), weights.exponents([0.1, 1.0, 10.0]), strict=True):
        assert 0.97 * loss <= weights.exact_loss(exponent) <= loss


@pytest.mark.parametrize("name", ["sport", "disease", "social event", "scientific discipline"])
def test_exponents_are_as_near_to_the_largest_as_the_note_says(name: str) -> None:
    """semantic.md, claim 3: no loss is exceeded, and an exponent 5 % larger would exceed it."""
    weights = SemanticWeights(Domains.of(wordnet(), name).domains[0].taxonomy)
    for loss in (2.0, 3.0, 5.0, 8.0):
        (exponent,) = weights.exponents([loss])
        assert weights.exact_loss(exponent) <= loss < weights.exact_loss(1.05 * exponent)
    note = (files("querycloak.methods.semantic") / "semantic.md").read_text("utf-8")
    assert "within 5 % of the largest" in note
