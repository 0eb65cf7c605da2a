"""Numbers that the papers print, or that were worked out apart from this code from privacy/calibration/histogram.md."""

import pytest

from querycloak.papers.zhang2017 import paper_claimed, paper_guarantees, paper_proven
from querycloak.privacy.calibration.deltas import histogram_delta
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.calibration.threshold import calibrate
from querycloak.privacy.guarantee import compose
from querycloak.privacy.sampling.noise import Gaussian, Laplace


def three_digits(number: float) -> str:
    return f"{number:.2e}"


@pytest.mark.parametrize(
    ("scale", "threshold", "sessions", "queries", "epsilon", "delta"),
    [
        (1, 10, 1, 3, 8.00, 4.96e-3),  # printed truncated, as 4.95e-3
        (1, 20, 1, 3, 8.00, 2.25e-7),
        (1, 30, 1, 3, 8.00, 1.02e-11),
        (3, 20, 1, 3, 2.67, 9.66e-3),
        (3, 30, 1, 3, 2.67, 3.44e-4),
        (1, 20, 1, 4, 22.00, 6.79e-4),
        (2, 30, 1, 4, 11.00, 4.12e-4),
        (1, 20, 2, 3, 16.00, 2.46e-5),
        (2, 30, 2, 3, 8.00, 6.68e-5),
    ],
)
def test_zhang_and_yang_table_4(
    scale: float, threshold: int, sessions: int, queries: int, epsilon: float, delta: float
) -> None:
    """Zhang and Yang, ICTIR 2017, Table 4, each row."""
    sensitivity = sessions * (2**queries - 1 - queries)
    claimed = paper_claimed(scale, threshold, sensitivity)
    assert round(claimed[0], 2) == epsilon
    assert three_digits(claimed[1]) == three_digits(delta)


def test_what_is_proven_of_the_papers_run() -> None:
    """Zhang & Yang (ICTIR 2017) at b = 1, K = 20, l = 4, by histogram.md, claim 5: each part, and both together."""
    claimed, proven = paper_guarantees(Laplace(1), 20, 4)
    assert (claimed.epsilon, three_digits(claimed.delta or 0)) == (8.0, "2.25e-07")
    assert (proven.epsilon, three_digits(proven.delta or 0)) == (8.0, "3.03e-08")
    assert three_digits(paper_proven(Laplace(1), 20, 4, continuous=True)) == "5.63e-08"
    assert three_digits(2 * paper_proven(Laplace(1), 20, 4, continuous=True)) == "1.13e-07"
    assert compose([proven, proven]).epsilon == 16.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "per_user", "scale", "threshold"),
    [(8, 2.25e-7, 1, 1 / 8, 2), (8, 2.25e-7, 4, 1 / 2, 9), (8, 2.25e-7, 8, 1, 18), (1, 1e-6, 1, 1, 14)],
)
def test_laplace_calibration(epsilon: float, delta: float, per_user: int, scale: float, threshold: int) -> None:
    """histogram.md, claim 2."""
    plan = calibrate(epsilon, delta, per_user, law="laplace")
    assert (plan.noise, plan.threshold, plan.epsilon) == (Laplace(scale), threshold, epsilon)


@pytest.mark.parametrize(
    ("epsilon", "delta", "per_user", "sigma", "threshold", "reached"),
    [
        (8, 2.25e-7, 4, 1.4, 8, 1.30e-7),
        (8, 2.25e-7, 32, 3.9, 23, 1.84e-7),
        (1, 1e-6, 8, 12, 63, 9.15e-7),
    ],
)
def test_gaussian_thresholds(
    epsilon: float, delta: float, per_user: int, sigma: float, threshold: int, reached: float
) -> None:
    """histogram.md, claim 3: the smallest K for that sigma, and its delta."""
    noise = Gaussian(sigma)
    assert three_digits(histogram_delta(noise, threshold, per_user, epsilon)) == three_digits(reached)
    assert histogram_delta(noise, threshold - 1, per_user, epsilon) > delta
    plan = calibrate(epsilon, delta, per_user, law="gaussian")
    assert plan.threshold == threshold
    assert isinstance(plan.noise, Gaussian)
    assert plan.noise.sigma <= sigma


@pytest.mark.parametrize(
    ("per_user", "law"), [(1, Laplace), (2, Laplace), (4, Gaussian), (8, Gaussian), (32, Gaussian)]
)
def test_default_law(per_user: int, law: type) -> None:
    """histogram.md, claim 3: at (8, 2.25e-7) Laplace for l = 1, 2, Gaussian from 4."""
    assert isinstance(calibrate(8, 2.25e-7, per_user).noise, law)


def test_the_rate_of_a_single_key() -> None:
    """histogram.md, claim 2: b = 1, K = 5."""
    assert three_digits(price(Laplace(1), 5, 1).delta) == "4.93e-03"


def test_continuous_formula_is_too_large() -> None:
    """histogram.md, claim 2: 1,490 times at b = 1/8."""
    noise = Laplace(1 / 8)
    assert paper_proven(noise, 5, 1, continuous=True) / paper_proven(noise, 5, 1) == pytest.approx(1490, rel=2e-3)
