"""Totals computed back from draws: exact on average, their variance, and how near they come (semantic.md, *Totals*)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from querycloak.methods.semantic.choice import most_countable, most_similar, predicted_distances, usual_shares
from querycloak.methods.semantic.domains import Domain
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.replacement import Replacement
from querycloak.methods.semantic.totals import DrawChannel, Totals, accuracy_of, nearest_shares, predicted_distance
from querycloak.methods.semantic.weights import EqualityWeights, SemanticWeights
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.text.taxonomy_table import taxonomy_of
from querycloak.text.wordnet import wordnet
from tests.unit.methods.semantic.test_weights import table_of

SHOP = taxonomy_of(
    [
        ("all", ["goods"], []),
        ("kitchen", ["kitchen"], ["all"]),
        ("knives", ["knife"], ["kitchen"]),
        ("pans", ["pan"], ["kitchen"]),
        ("garden", ["garden"], ["all"]),
        ("spades", ["spade"], ["garden"]),
    ]
)


def usual(number: int) -> Domain:
    return Domain.of(wordnet(), np.arange(len(wordnet()), dtype=np.int32), f"usual={number}")


@pytest.mark.parametrize("topics", [None, [0, 1, 1, 1, 2, 2]])
def test_the_channel_is_the_law_of_the_draw(topics: list[int] | None) -> None:
    weights = SemanticWeights(SHOP, None if topics is None else np.array(topics, np.int32))
    assert weights.matrix(1.7).tolist() == table_of(weights, 1.7)
    channel = DrawChannel.of(weights, 1.7)
    assert channel.probabilities.sum(axis=1) == pytest.approx(1)
    losses = np.log(channel.probabilities.max(axis=0) / channel.probabilities.min(axis=0))
    assert losses.max() == pytest.approx(weights.exact_loss(1.7))


def test_the_inverse_of_equal_weights_is_that_of_their_matrix() -> None:
    channel = DrawChannel.of(EqualityWeights(SHOP), 1.3)
    assert channel.inverse is not None
    assert channel.probabilities @ channel.inverse == pytest.approx(np.eye(6), abs=1e-12)
    assert DrawChannel.of(EqualityWeights(taxonomy_of([("a", ["only"], [])])), 1.0).inverse == pytest.approx(np.eye(1))


@pytest.mark.parametrize("criterion", ["sqc1", "nsqc"])
def test_totals_are_right_on_average_and_so_are_their_variances(criterion: str) -> None:
    """All outcomes of the draws of a tiny log, each with its probability."""
    taxonomy = taxonomy_of([("a", ["a"], []), ("b", ["b"], ["a"]), ("c", ["c"], ["b"])])
    weights = SemanticWeights(taxonomy) if criterion == "sqc1" else EqualityWeights(taxonomy)
    channel = DrawChannel.of(weights, 2.0)
    asked = [0, 2, 2]
    mean, square, variance = np.zeros(3), np.zeros(3), np.zeros(3)
    for drawn in itertools.product(range(3), repeat=len(asked)):
        chance = float(np.prod([channel.probabilities[i, o] for i, o in zip(asked, drawn, strict=True)]))
        totals = Totals.of(channel, np.bincount(drawn, minlength=3), ["a", "b", "c"])
        assert totals is not None
        mean, square = mean + chance * totals.totals, square + chance * totals.totals**2
        inverse = channel.inverse
        assert inverse is not None
        variance += chance * (np.bincount(drawn, minlength=3) @ inverse**2 - totals.totals)
    assert mean == pytest.approx([1, 0, 2], abs=1e-9)
    assert variance == pytest.approx(square - mean**2, abs=1e-9)


def test_candidates_of_one_label_are_one_row() -> None:
    channel = DrawChannel.of(EqualityWeights(SHOP), 3.0)
    drawn = np.array([5, 4, 3, 2, 1, 9])
    apart = Totals.of(channel, drawn, list("abcdef"))
    together = Totals.of(channel, drawn, list("abcdea"))
    assert apart is not None
    assert together is not None
    assert together.labels.to_pylist() == list("abcde")
    assert together.rows.tolist() == [14, 4, 3, 2, 1]
    assert together.totals == pytest.approx([apart.totals[0] + apart.totals[5], *apart.totals[1:5]])
    assert together.table().column_names == ["query", "rows", "total", "standard_error", "share"]


def test_shares_are_the_nearest_that_add_up() -> None:
    assert nearest_shares(np.array([0.7, 0.5, -0.2])).tolist() == pytest.approx([0.6, 0.4, 0])
    assert nearest_shares(np.array([0.2, 0.8])).tolist() == pytest.approx([0.2, 0.8])
    nothing = Totals.of(DrawChannel.of(EqualityWeights(SHOP), 1.0), np.zeros(6, np.int64), list("abcdef"))
    assert nothing is not None
    assert not nothing.shares.any()
    assert nothing.distance == 0


def _distances(number: int, loss: float, searches: int, seed: int) -> tuple[float, float, float]:
    """Total variation of drawn shares and of computed shares to the truth, and the expected one."""
    domain = usual(number)
    weights = EqualityWeights(domain.taxonomy)
    asked = np.repeat(np.arange(number), np.round(usual_shares(domain) * searches).astype(int)).astype(np.int32)
    (exponent,) = weights.exponents([loss])
    drawn = weights.draw(asked, np.zeros(len(asked), np.int32), [exponent], Randomness(seed=seed))
    totals = Totals.of(
        DrawChannel.of(weights, exponent), np.bincount(drawn, minlength=number), list(map(str, range(number)))
    )
    assert totals is not None
    truth = np.bincount(asked, minlength=number) / len(asked)
    order = [int(label) for label in totals.labels.to_pylist()]
    before = np.abs(totals.rows / len(asked) - truth[order]).sum() / 2
    return before, float(np.abs(totals.shares - truth[order]).sum() / 2), totals.distance


def test_pooled_topics_can_be_read_with_30_concepts_and_not_with_100_at_a_small_loss() -> None:
    """20,000 users, 5 queries each, epsilon 8 and 2: golden values of a run with this seed."""
    before, after, expected = _distances(30, 1.6, 100_000, seed=1)
    assert (round(before, 3), round(after, 3)) == (0.277, 0.05)
    assert after < 0.25 * before
    assert expected == pytest.approx(0.058, abs=0.005)
    before, after, expected = _distances(100, 0.4, 100_000, seed=1)
    assert after > 0.9 * before
    assert expected > 1
    assert "too much to read" in _notes(100, 0.4)
    assert "they can be read" in _notes(30, 1.6)


def _notes(number: int, loss: float) -> str:
    channel = DrawChannel.of(EqualityWeights(usual(number).taxonomy), loss)
    totals = Totals.of(channel, np.full(number, 100_000 // number), list(map(str, range(number))))
    assert totals is not None
    return " ".join(accuracy_of(totals, channel).notes)


@pytest.mark.parametrize("name", ["usual=10", "usual=100"])
def test_shipped_predictions_are_those_that_the_code_computes(name: str) -> None:
    domain = usual(int(name.partition("=")[2]))
    for criterion, weights in (("sqc1", SemanticWeights(domain.taxonomy)), ("nsqc", EqualityWeights(domain.taxonomy))):
        channel = DrawChannel.of(weights, weights.exponents([3.0])[0])
        predicted = predicted_distance(channel, usual_shares(domain))
        assert predicted_distances(3.0)[name, criterion] == pytest.approx(predicted, rel=1e-3)


def test_candidates_are_as_many_as_the_draws_can_count() -> None:
    chosen = [most_countable(1.6, draws, None) for draws in (10, 1_000, 40_000, 10**7, 10**10)]
    assert [name for name, _ in chosen] == ["usual=10", "usual=10", "usual=30", "usual=100", "usual=1000"]
    assert {criterion for _, criterion in chosen} == {"nsqc"}
    method = Semantic(epsilon=8, max_queries=5, candidates="totals=100000")
    assert (method.chosen.domain, method.chosen.candidates, method.chosen.criterion) == ("all", "usual=30", "nsqc")
    assert method.parameters()["candidates"] == "usual=30"
    assert method.options() == {"epsilon": 8.0, "max_queries": 5, "candidates": "totals=100000"}


def test_a_taxonomy_of_ones_own_is_chosen_from_its_table() -> None:
    assert most_similar(20.0, lambda: SHOP, ("nsqc",)) == (None, "nsqc")
    assert most_similar(0.5, lambda: SHOP)[0] == "depth=1"
    assert most_countable(1.0, 10, lambda: SHOP)[0] == "depth=1"
    assert most_countable(1.0, 10**6, lambda: SHOP) == (None, "nsqc")


def test_totals_are_computed_where_all_draws_have_one_law() -> None:
    one = Replacement.of(Semantic(epsilon=4, max_queries=2, domain="sport"), wordnet())
    assert one.channel() is not None
    several: tuple[dict[str, Any], ...] = (
        {"max_queries": 2, "domain": "disease|sport"},
        {"max_queries": 2, "domain": "all"},
        {"repeats": "reuse", "domain": "sport"},
        {"variant": "paper", "domain": "sport"},
    )
    for options in several:
        method = Semantic(epsilon=4, **options)
        assert method.mechanism.of(method, wordnet()).channel() is None


def test_the_default_is_chosen_without_a_log() -> None:
    for loss, candidates in ((1.0, "usual=30"), (8.0, "usual=300"), (10.0, "usual=3000")):
        method = Semantic(epsilon=loss, max_queries=1)
        assert (method.chosen.candidates, method.chosen.criterion) == (candidates, "nsqc")
        automatic = Semantic(epsilon=loss, max_queries=1, domain="auto")
        assert method.similarity is not None
        assert automatic.similarity is not None
        assert 0 <= automatic.similarity[0] - method.similarity[0] <= 0.006
    explicit = Semantic(epsilon=8, max_queries=1, criterion="sqc1")
    assert (explicit.chosen.domain, explicit.chosen.candidates) == ("all", None)
    paper = Semantic(epsilon=8, variant="paper")
    assert (paper.chosen.domain, paper.chosen.criterion) == ("all", "sqc1")
