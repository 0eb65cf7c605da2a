import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.histogram import HistogramRelease, noisy_counts, release, release_groups
from querycloak.privacy.sampling.exact import Chance
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from tests.unit.privacy.privacy_oracles import surprising

COUNTS = [1, 2, 2, 4, 7]
ZEROS = 2
RUNS = 60_000


def slow_release(
    counts: list[int], noise: Noise, threshold: int, randomness: Randomness, *, zeros: int, runs: int
) -> HistogramRelease:
    """Draw for every key: the plain form that the fast one must equal in law."""
    true = np.array(counts + [0] * zeros)
    noisy = true + randomness.noise(noise, runs * true.size).reshape(runs, true.size)
    run, key = np.nonzero(noisy > threshold)
    return HistogramRelease(run, key, noisy[run, key], noisy.size)


def oddities(released: HistogramRelease, noise: Noise, threshold: int, runs: int = RUNS) -> list[object]:
    """Return what a release of COUNTS and ZEROS shows too often or too rarely, each at 1e-9."""
    true = COUNTS + [0] * ZEROS
    found = Counter(zip(released.key.tolist(), released.count.tolist(), strict=True))
    odd: list[object] = []
    for key, count in enumerate(true):
        for value in range(threshold - 3, count + 40):
            p = noise.pmf(value - count).up() if value > threshold else 0.0
            if surprising(found[key, value], runs, p) or (p == 0 and found[key, value]):
                odd.append((key, value))
    return odd + odd_pairs(released, noise, threshold, runs)


def odd_pairs(released: HistogramRelease, noise: Noise, threshold: int, runs: int) -> list[object]:
    true = COUNTS + [0] * ZEROS
    passed = np.zeros((runs, len(true)), dtype=bool)
    passed[released.run, released.key] = True
    odd: list[object] = []
    for a in range(len(true)):
        for b in range(a):
            p = noise.tail(threshold + 1 - true[a]).up() * noise.tail(threshold + 1 - true[b]).up()
            if surprising(int((passed[:, a] & passed[:, b]).sum()), runs, p):
                odd.append(("together", a, b))
    return odd


@pytest.mark.parametrize("noise", [Laplace(0.5), Laplace(2), Gaussian(1.4), Gaussian(3)], ids=str)
@pytest.mark.parametrize("threshold", [-1, 0, 3, 5])
@pytest.mark.parametrize("form", [release, slow_release])
def test_both_routes_have_the_exact_law(form: Callable[..., Any], noise: Noise, threshold: int) -> None:
    released = form(COUNTS, noise, threshold, Randomness(seed=11), zeros=ZEROS, runs=RUNS)
    assert not oddities(released, noise, threshold)


def test_the_operating_systems_generator_too() -> None:
    noise = Laplace(2)
    released = release(COUNTS, noise, 3, Randomness(), zeros=ZEROS, runs=8000)
    assert not oddities(released, noise, 3, runs=8000)


@dataclass(frozen=True)
class OffByOneChance(Laplace):
    def tail(self, m: int) -> Chance:
        return Laplace(self.scale).tail(m - 1)


class FirstOnes(Randomness):
    def choose(self, n: int, k: int) -> IntArray:
        return np.arange(k, dtype=np.int64)


class Unconditional(Randomness):
    def at_least(self, noise: Noise, start: int, size: int) -> IntArray:
        return start + np.abs(Randomness(seed=9).noise(noise, size))


@pytest.mark.parametrize(
    ("noise", "threshold", "randomness"),
    [
        (Laplace(2), 2, Randomness(seed=1)),  # >= 3 instead of > 3
        (Laplace(2), 4, Randomness(seed=1)),
        (OffByOneChance(2), 3, Randomness(seed=1)),
        (Laplace(2.2), 3, Randomness(seed=1)),
        (Laplace(2), 3, FirstOnes(seed=1)),
    ],
    ids=["not strict", "too strict", "chance off by one", "other noise", "not uniform"],
)
def test_broken_releases_are_caught(noise: Noise, threshold: int, randomness: Randomness) -> None:
    released = release(COUNTS, noise, threshold, randomness, zeros=ZEROS, runs=RUNS)
    assert oddities(released, Laplace(2), 3)


def test_broken_conditional_noise_is_caught() -> None:
    released = release(COUNTS, Gaussian(3), 5, Unconditional(seed=1), zeros=ZEROS, runs=RUNS)
    assert oddities(released, Gaussian(3), 5)


@pytest.mark.parametrize("source", [Randomness, lambda: Randomness(seed=8)])
def test_rate_of_100000_keys_of_one_user_each(source: Callable[[], Randomness]) -> None:
    """histogram.md, claim 2: 4.93e-3; an off-by-one gives 1.34e-2."""
    users = 100_000
    rate = math.exp(-5) / (1 + math.exp(-1))
    assert rate == pytest.approx(4.93e-3, rel=1e-3)

    def passing(threshold: int) -> int:
        return release(np.ones(users, dtype=np.int64), Laplace(1), threshold, source()).key.size

    assert not surprising(passing(5), users, rate, alarm=1e-7)
    assert surprising(passing(4), users, rate, alarm=1e-7)


def test_the_rate_test_has_power_against_the_known_error() -> None:
    assert surprising(round(100_000 * 1.34e-2), 100_000, 4.93e-3)


def test_hopeless_keys_cost_nothing() -> None:
    released = release(np.ones(200_000, dtype=np.int64), Laplace(0.5), 9, Randomness(), zeros=10_000_000)
    assert released.draws == released.key.size
    assert released.draws < 50


counts_lists = st.lists(st.integers(1, 30), max_size=40)
noises = st.one_of(st.floats(0.2, 5).map(Laplace), st.floats(0.2, 5).map(Gaussian))


@given(counts_lists, noises, st.integers(-2, 25), st.integers(0, 5), st.integers(1, 4), st.integers(0, 99))
def test_shape_of_a_release(counts: list[int], noise: Noise, threshold: int, zeros: int, runs: int, seed: int) -> None:
    released = release(counts, noise, threshold, Randomness(seed=seed), zeros=zeros, runs=runs)
    assert (released.count > threshold).all()
    assert all(0 <= key < len(counts) + zeros for key in released.key)
    assert all(0 <= run < runs for run in released.run)
    cells = list(zip(released.run.tolist(), released.key.tolist(), strict=True))
    assert cells == sorted(set(cells))
    assert released.key.size <= released.draws <= (len(counts) + zeros) * runs


@given(counts_lists, noises, st.integers(0, 25), st.randoms(use_true_random=False), st.integers(0, 99))
def test_order_of_keys_does_not_matter(
    counts: list[int], noise: Noise, threshold: int, shuffle: Any, seed: int
) -> None:
    """With the same seed the same counts come out: only which of equal keys carries them may differ."""
    shuffled = list(counts)
    shuffle.shuffle(shuffled)
    one = release(counts, noise, threshold, Randomness(seed=seed))
    other = release(shuffled, noise, threshold, Randomness(seed=seed))
    pairs = sorted((counts[k], c) for k, c in zip(one.key, one.count, strict=True))
    assert pairs == sorted((shuffled[k], c) for k, c in zip(other.key, other.count, strict=True))


@given(noises, st.integers(0, 99))
def test_groups_and_keys_say_the_same(noise: Noise, seed: int) -> None:
    counts = [1, 1, 1, 3, 3, 9]
    whole = release(counts, noise, 2, Randomness(seed=seed), runs=3)
    groups = release_groups([1, 3, 9], [3, 2, 1], noise, 2, Randomness(seed=seed), runs=3)
    starts = np.array([0, 3, 5])
    listed = sorted(zip(groups.run, starts[groups.group] + groups.rank, groups.count, strict=True))
    assert listed == list(zip(whole.run, whole.key, whole.count, strict=True))
    assert groups.draws == whole.draws


def test_two_draws_are_unbiased_and_one_is_not() -> None:
    counts, noise = [3] * 2000, Laplace(2)
    one = release(counts, noise, 4, Randomness(seed=2), runs=20)
    two = release(counts, noise, 4, Randomness(seed=2), runs=20, published_noise=Laplace(2))
    assert one.count.mean() > 5
    assert abs(two.count.mean() - 3) < 0.2
    assert (two.count <= 4).any()
    assert two.draws == 2 * two.key.size


def test_counts_of_public_keys_without_threshold() -> None:
    rows = noisy_counts([0, 5, 100], Laplace(1), Randomness(seed=1), runs=20_000)
    assert rows.shape == (20_000, 3)
    assert rows.mean(axis=0) == pytest.approx([0, 5, 100], abs=0.1)
    assert rows.std(axis=0) == pytest.approx([1.36] * 3, abs=0.1)


def test_nothing_in_nothing_out() -> None:
    released = release([], Laplace(1), 3, Randomness())
    assert (released.key.size, released.draws) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [0, 1]}, "counts must be from 1 to 2.53 each, got 'one outside'; pass public keys"),
        ({"counts": [1.5]}, "counts must be a one-dimensional array of whole numbers, got 'float64 of shape"),
        ({"counts": [[1]]}, "counts must be a one-dimensional array"),
        ({"threshold": 1.5}, "threshold must be a whole number, got 1.5; give the count K"),
        ({"threshold": True}, "threshold must be a whole number, got True"),
        ({"zeros": -1}, "zeros must be at least 0, got -1"),
        ({"runs": 0}, "runs must be at least 1, got 0"),
        ({"runs": 2**53, "counts": [1] * 600}, "runs must be few enough for 2.62 draws per group"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "counts": [1],
        "noise": Laplace(1),
        "threshold": 3,
        "randomness": Randomness(),
    }
    with pytest.raises(ParameterError, match=message):
        release(**(arguments | changes))


def test_sizes_must_fit_values() -> None:
    with pytest.raises(ParameterError, match="sizes must be as many as values"):
        release_groups([1, 2], [1], Laplace(1), 3, Randomness())
