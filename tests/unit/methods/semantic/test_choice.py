"""What is shipped about WordNet is what the code computes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from querycloak.methods.semantic.choice import best_choice, certified_for, digest_of, figures, share_of, similarity_of
from querycloak.methods.semantic.domains import Domain
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.weights import (
    EqualityWeights,
    SemanticWeights,
    blind_similarity_of,
    expected_similarities,
)
from querycloak.text.taxonomy_table import taxonomy_of
from querycloak.text.wordnet import wordnet


def test_figures_are_about_this_taxonomy_and_no_other() -> None:
    assert digest_of(wordnet()) == figures()["digest"]
    assert certified_for(wordnet(), "sqc1") is not None
    assert certified_for(wordnet(), "sqc2") is None
    assert certified_for(taxonomy_of([("a", ["only"], [])]), "sqc1") is None


@pytest.mark.parametrize("name", ["usual=100", "depth=4"])
def test_similarities_are_those_that_the_code_computes(name: str) -> None:
    domain = Domain.of(wordnet(), np.arange(len(wordnet()), dtype=np.int32), name)
    losses = figures()["losses"]
    by: dict[str, SemanticWeights | EqualityWeights] = {
        "sqc1": SemanticWeights(domain.taxonomy),
        "nsqc": EqualityWeights(domain.taxonomy),
    }
    for criterion, weights in by.items():
        for place in (5, 14, 20):
            (exponent,) = weights.exponents([losses[place]])
            (found,) = expected_similarities(domain, criterion, [exponent])
            assert figures()["similarity"][name][criterion][place] == pytest.approx(found, abs=1e-3)
    assert figures()["blind"][name] == pytest.approx(blind_similarity_of(domain), abs=1e-3)


def test_the_whole_domain_is_ready_at_once_and_only_its_searched_part_is_counted() -> None:
    weights = SemanticWeights(wordnet(), certified=certified_for(wordnet(), "sqc1"))
    exponents = weights.exponents([0.5, 8.0, 9.0])
    assert 0 < exponents[0] < exponents[1] <= exponents[2]
    assert "_counted" not in vars(weights.kinship)


@pytest.mark.slow
def test_shipped_exponents_keep_their_losses_exactly() -> None:
    weights = SemanticWeights(wordnet())
    known = certified_for(wordnet(), "sqc1")
    assert known is not None
    slope, excess = weights._bound
    assert slope == pytest.approx(known.slope)
    assert excess.tolist() == pytest.approx(list(known.excess))
    assert weights.least_similarity == pytest.approx(known.least_similarity)
    for loss, exponent in known.exact:
        assert weights.exact_loss(exponent) <= loss


def test_auto_takes_what_is_most_similar() -> None:
    for loss in (0.1, 2.0, 10.0):
        chosen = best_choice(loss)
        best = similarity_of(*chosen, loss)
        assert best is not None
        every = [similarity_of(name, c, loss) or 0.0 for name, by in figures()["similarity"].items() for c in by]
        assert best == max(every)
    method = Semantic(epsilon=10, max_queries=1, domain="auto")
    assert (method.chosen.domain, *best_choice(method.loss)) == (
        "all",
        method.chosen.candidates,
        method.chosen.criterion,
    )
    whole = Semantic(epsilon=10, max_queries=1, domain="all")
    assert method.similarity is not None
    assert whole.similarity is not None
    assert method.similarity[0] > whole.similarity[0]
    assert f"{method.similarity[0]:.2f} to what was asked" in str(method.reach()["log"].notes)
    assert Semantic(epsilon=10, max_queries=1, domain="sport").parameters()["expected_similarity"] is None


@pytest.mark.parametrize("draws", [1, 2, 5, 100])
def test_a_delta_lets_each_draw_lose_more(draws: int) -> None:
    pure, with_delta = share_of(10.0, None, draws), share_of(10.0, 1e-6, draws)
    assert pure == pytest.approx(10 / draws)
    assert pure <= with_delta
    assert _delta(with_delta, draws, 10.0) <= 1e-6
    if draws == 100:
        assert with_delta / pure == pytest.approx(1.9, abs=0.05)
        assert _delta(with_delta * 1.01, draws, 10.0) > 1e-6


def _delta(share: float, draws: int, epsilon: float) -> float:
    """Kairouz, Oh and Viswanath (2015), Theorem 3.3: the composition of pure mechanisms, term by term."""
    terms = (
        math.comb(draws, k) * (math.exp((draws - k) * share) - math.exp(epsilon + k * share)) for k in range(draws + 1)
    )
    return sum(max(term, 0.0) for term in terms) / (1 + math.exp(share)) ** draws


def test_a_delta_stands_in_the_guarantee() -> None:
    method = Semantic(epsilon=10, delta=1e-6, max_queries=100)
    assert (method.proven().kind, method.proven().delta) == ("approximate-dp", 1e-6)
    assert "privacy-loss distributions" in method.proven().because
