"""Budgets and draws that several tests try."""

import math

from hypothesis import strategies as st

from querycloak.privacy.accounting.draws import Anything, Draw, GaussianRounds, Histogram, PublicCounts
from querycloak.privacy.sampling.noise import Gaussian, Laplace

BUDGETS = [(8.0, 2.25e-7), (1.0, 1e-6), (3.0, math.exp(-10)), (0.2, 1e-5), (30.0, 1e-9)]


def draws() -> st.SearchStrategy[Draw]:
    """A draw of any kind."""
    noises = st.sampled_from([Laplace(2.0), Laplace(5.5), Gaussian(3.0), Gaussian(17.25)])
    histograms = st.builds(Histogram, noises, st.integers(60, 90), st.integers(1, 5), st.none() | noises)
    counts = st.builds(PublicCounts, noises, st.integers(1, 5))
    rounds = st.builds(GaussianRounds, st.floats(1e-3, 0.5), st.floats(1e-12, 1e-6))
    return histograms | counts | rounds | st.builds(Anything, st.floats(0.01, 1), st.sampled_from([0.0, 1e-9, 1e-7]))
