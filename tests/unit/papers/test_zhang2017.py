"""A_Click and A_Session as published: claimed, proven, and the knobs for a budget (histogram.md, claim 5)."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.papers.zhang2017 import paper_claimed, paper_guarantees, paper_proven
from querycloak.privacy.calibration.deltas import tail_bounds
from querycloak.privacy.sampling.noise import Laplace
from tests.unit.privacy.privacy_oracles import TRUNCATION, divergence, one_key_two_draws, values_for


@pytest.mark.parametrize(("scale", "threshold", "sensitivity"), [(0.5, 3, 3), (1.0, 4, 3), (1.0, 4, 4), (2.0, 3, 2)])
def test_the_papers_variant_over_all_ways_to_spend_the_sensitivity(
    scale: float, threshold: int, sensitivity: int
) -> None:
    """Claim 5: at 2 D/b no partition of D over own and shared keys exceeds the delta, and one attains it."""
    noise = Laplace(scale)
    epsilon = 2 * sensitivity / scale
    values = values_for(noise, [12])
    worst = 0.0
    choices = [(v, count) for v in range(1, sensitivity + 1) for count in (None, 1, threshold, threshold + 2)]
    for number in (1, 2):
        for keys in itertools.combinations_with_replacement(choices, number):
            if sum(v for v, _ in keys) <= sensitivity:
                worst = max(worst, _papers_divergence(keys, noise, threshold, values, epsilon))
    proven = paper_proven(noise, threshold, sensitivity)
    assert worst <= proven + TRUNCATION
    if tail_bounds(noise, threshold + 1 - sensitivity)[1] == proven:
        assert worst == pytest.approx(proven, abs=TRUNCATION)


def _papers_divergence(
    keys: tuple[tuple[int, int | None], ...], noise: Laplace, threshold: int, values: range, epsilon: float
) -> float:
    laws = [
        (
            one_key_two_draws((count or 0) + v, noise, noise, threshold, values),
            one_key_two_draws(count, noise, noise, threshold, values),
        )
        for v, count in keys
    ]
    return divergence(laws, epsilon)


@given(st.floats(0.3, 3), st.integers(1, 12), st.integers(0, 30))
def test_the_papers_two_extremes_dominate_every_partition(scale: float, sensitivity: int, above: int) -> None:
    noise, threshold = Laplace(scale), sensitivity + above
    passes = [0.0] + [tail_bounds(noise, threshold + 1 - v)[0] for v in range(1, sensitivity + 1)]
    best = [0.0] * (sensitivity + 1)  # largest -ln of nothing passing, by units spent
    for units in range(1, sensitivity + 1):
        best[units] = max(best[units - v] - math.log1p(-passes[v]) for v in range(1, units + 1))
    assert -math.expm1(-best[sensitivity]) <= paper_proven(noise, threshold, sensitivity) * (1 + 1e-12)


def test_the_papers_claim_survives_extremes() -> None:
    epsilon, _ = paper_claimed(1.0, 1.0, 2)
    assert epsilon == pytest.approx(2 * (1.0 + 1.0))  # ln alpha = max(1, ln 2)
    assert paper_claimed(0.001, 100.0, 2)[1] == 0.0
    assert paper_claimed(0.001, 2.0, 10)[1] > 1


def test_the_papers_guarantees() -> None:
    claimed, proven = paper_guarantees(Laplace(1), 20, 4)
    assert claimed.epsilon == proven.epsilon == 8.0
    # alpha's second term is the larger one for a low threshold and wide noise: claimed more than proven
    claimed, proven = paper_guarantees(Laplace(20), 40, 1)
    assert proven.epsilon == 0.1
    assert claimed.epsilon is not None
    assert claimed.epsilon == pytest.approx(max(0.05, math.log(1 / (1 - math.exp(-39 / 20) / 2))) + 0.05)
    assert claimed.epsilon > proven.epsilon


@pytest.mark.parametrize(
    ("threshold", "sensitivity", "message"),
    [
        (
            4,
            8,
            r"threshold must be high enough for delta to stay below 1 \(it is 218\), got 4; raise threshold or lower",
        ),
        (0, 1, "threshold must be at least 1, got 0"),
        (20, 0, "max_keys_per_user must be at least 1, got 0"),
    ],
)
def test_bad_paper_knobs(threshold: int, sensitivity: int, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        paper_guarantees(Laplace(1), threshold, sensitivity)


@given(st.floats(0.01, 100), st.integers(1, 30), st.integers(1, 30))
def test_what_the_paper_can_claim_is_within_our_proof(scale: float, threshold: int, sensitivity: int) -> None:
    """Claim 5 needs sensitivity <= threshold; a claimed delta below 1 implies it."""
    _, delta = paper_claimed(scale, threshold, sensitivity)
    assert delta >= 1 or sensitivity <= threshold
