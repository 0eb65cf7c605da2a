"""Coarser candidate sets: what is kept, what stands for what is not, and what it buys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.methods.semantic.domains import (
    Domain,
    Domains,
    inclusive_uses,
    kept_concepts,
    own_uses,
    representatives,
)
from querycloak.methods.semantic.weights import SemanticWeights, blind_similarity_of, expected_similarities
from querycloak.text.taxonomy_table import Row, taxonomy_of
from querycloak.text.wordnet import wordnet
from tests.unit.text.test_taxonomy import random_rows


@settings(max_examples=40, deadline=None)
@given(random_rows(), st.integers(1, 4))
def test_what_stands_for_a_concept_is_the_lowest_kept_one_above_it(rows: list[Row], depth: int) -> None:
    taxonomy = taxonomy_of(rows)
    kept = kept_concepts(taxonomy, f"depth={depth}")
    numbers = np.flatnonzero(kept)
    for concept, place in enumerate(representatives(taxonomy, kept).tolist()):
        above = [each for each in taxonomy.ancestors(concept).tolist() if kept[each]]
        assert numbers[place] in above
        assert taxonomy.depths[numbers[place]] == max(taxonomy.depths[each] for each in above)
    assert all(kept[parent] for each in numbers for parent in taxonomy.parents(int(each)))  # nothing between is lost


def test_the_most_usual_concepts_have_all_that_stands_above_them() -> None:
    nouns = wordnet()
    uses = inclusive_uses(nouns)
    assert uses[nouns.root] == own_uses(nouns).sum()
    for number in (30, 1000):
        kept = kept_concepts(nouns, f"usual={number}")
        assert int(kept.sum()) == number
        parents = nouns.parents_of.take(np.flatnonzero(kept)).values
        assert kept[parents].all()
        assert uses[kept].min() >= uses[~kept].max()


def test_words_of_concepts_that_cannot_come_out_are_still_found() -> None:
    domains = Domains.of(wordnet(), "all", "usual=300")
    home, place = domains.placed(domains.concepts(pa.array(["asthma", "zzyzx"])))
    shown = [domains.taxonomy.shown(int(each)) for each in domains.whole(home, place)]
    assert shown[1] == "entity"
    above = {domains.taxonomy.shown(int(each)) for each in wordnet().ancestors(wordnet().concept("asthma"))}
    assert shown[0] in above - {"entity"}


def test_a_taxonomy_without_uses_has_no_usual_concepts() -> None:
    taxonomy = taxonomy_of([("a", ["all"], []), ("b", ["knife"], ["a"])])
    with pytest.raises(ParameterError, match="needs a taxonomy that counts uses"):
        kept_concepts(taxonomy, "usual=1")


@settings(max_examples=15, deadline=None)
@given(random_rows(), st.sampled_from([0.0, 2.0, 9.0]), st.booleans())
def test_expected_similarity_is_the_mean_over_what_is_drawn(rows: list[Row], exponent: float, cut: bool) -> None:
    """By enumeration: every source alike, as the taxonomy counts no uses."""
    taxonomy = taxonomy_of(rows)
    domain = Domain.of(taxonomy, np.arange(len(taxonomy), dtype=np.int32), "depth=2" if cut else None)
    sets = [set(taxonomy.ancestors(each).tolist()) for each in range(len(taxonomy))]

    def alike(one: int, other: int) -> float:
        union = len(sets[one] | sets[other])
        return float(1 - np.log2(1 + (union - len(sets[one] & sets[other])) / union))

    steps = (np.arange(128) + 0.5) / 128 * len(taxonomy)
    total = 0.0
    for source in steps.astype(int).tolist():
        stand_in = int(domain.within[domain.place_of[source]])
        weights = [np.exp(exponent * (alike(stand_in, int(each)) - 1)) for each in domain.within]
        true = [alike(source, int(each)) for each in domain.within]
        total += float(np.dot(weights, true) / np.sum(weights))
    assert expected_similarities(domain, "sqc1", [exponent])[0] == pytest.approx(total / 128)
    if exponent == 0.0:
        assert blind_similarity_of(domain) == pytest.approx(total / 128)


def test_fewer_candidates_keep_the_loss() -> None:
    domain = Domains.of(wordnet(), "all", "usual=100").domains[0]
    weights = SemanticWeights(domain.taxonomy)
    for loss, exponent in zip([0.5, 4.0], weights.exponents([0.5, 4.0]), strict=True):
        assert weights.exact_loss(exponent) <= loss
