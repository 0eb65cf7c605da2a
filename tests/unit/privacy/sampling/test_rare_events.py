"""How many of very many unlikely events happen (query_pool.md, the binomial for large f)."""

from collections import Counter
from fractions import Fraction
from itertools import islice
from math import comb, exp, factorial, sqrt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from querycloak.privacy.sampling.exact import Chance
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import MANY, Randomness
from querycloak.privacy.sampling.rare_events import MOST_EXPECTED, RareEvents, share_out


def exact_survival(n: int, p: Fraction, j: int) -> Fraction:
    return sum((comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(j, n + 1)), Fraction(0))


@given(st.integers(1, 40), st.fractions(Fraction(1, 10**6), Fraction(1, 2)), st.sampled_from([8, 64, 200]))
@example(2, Fraction(1, 16), 8)
def test_bounds_hold_the_binomial_tail(n: int, p: Fraction, bits: int) -> None:
    bounds = islice(RareEvents(n, Chance.exactly(p)).survival(0, bits), n + 2)
    for j, (low, high) in enumerate(bounds, 1):
        assert low <= exact_survival(n, p, j) * 2**bits < high
        assert high - low <= 2


@given(st.integers(1, 10**15), st.fractions(Fraction(1, 10**12), Fraction(1, 2)))
def test_parts_make_up_the_whole_and_few_are_expected_in_each(n: int, p: Fraction) -> None:
    parts = share_out(n, Chance.exactly(p))
    assert sum(size * number for size, number in parts) == n
    assert all(size == 1 or size * p <= MOST_EXPECTED for size, _ in parts)


@pytest.mark.parametrize("n", [10**9, 10**12])
def test_the_number_of_rare_events_has_its_law(n: int) -> None:
    """With n this large the binomial is Poisson's law but for a part in 10^7: each frequency within six deviations."""
    chance = Chance.exactly(Fraction(3, n))
    randomness, runs = Randomness(seed=n), 5_000
    seen = Counter(randomness.binomial(n, chance) for _ in range(runs))
    for k in range(12):
        expected = exp(-3) * 3**k / factorial(k)
        assert abs(seen[k] / runs - expected) <= 6 * sqrt(expected / runs) + 1 / runs


def test_many_parts_have_mean_and_variance_of_the_whole() -> None:
    chance = Laplace(2.0).tail(30)
    n = 10**12
    mean = n * chance.up()
    assert mean > 100_000
    randomness = Randomness(seed=4)
    draws = [randomness.binomial(n, chance) for _ in range(60)]
    assert abs(sum(draws) / 60 - mean) < 6 * sqrt(mean / 60)
    spread = sum((draw - mean) ** 2 for draw in draws) / 60
    assert 0.25 * mean < spread < 2.5 * mean


def test_few_or_likely_events_are_decided_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Randomness, "_rare")
    assert Randomness(seed=1).binomial(MANY, Laplace(1.0).tail(40)) == 0
    assert 0 < Randomness(seed=1).binomial(MANY + 1, Chance.exactly(Fraction(1, 3))) < MANY


def test_events_are_counted_from_none() -> None:
    with pytest.raises(ValueError, match="from none"):
        next(RareEvents(3, Chance.exactly(Fraction(1, 3))).survival(1, 64))
