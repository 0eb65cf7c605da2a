"""Privacy-loss distributions of several draws together (composition.md, claims 1, 3 and 5)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.privacy.accounting.draws import Draw, Histogram
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.sampling.noise import Gaussian, Laplace
from tests.unit.privacy.examples import draws


@pytest.mark.parametrize(
    ("together", "at", "peer", "compositions"),
    [
        (Losses({Gaussian(3.9): 32}), 1e-6, 7.504856677416801, 32),
        (Losses({Gaussian(3.9): 32}), 1e-9, 9.35760835931586, 32),
        (Losses({Gaussian(23.9): 384}), 1e-5, 3.485345945386768, 384),
        (Losses({Gaussian(23.9): 384}), 1e-8, 4.638849605105397, 384),
        (Losses({Laplace(10): 365}), 1e-6, 10.313864609391837, 365),
        (Losses({Laplace(2): 52}), 1e-6, 20.893795382790696, 52),
        (Losses({Gaussian(23.9): 192, Gaussian(12): 24, Laplace(10): 4}), 1e-5, 3.0784845670441214, 220),
        (Losses({Gaussian(1.4): 4, Laplace(0.5): 2}) + Losses.of_guarantee(0.3, 1e-7), 1e-6, 11.428850625612553, 7),
    ],
)
def test_the_same_on_dp_accounting(together: Losses, at: float, peer: float, compositions: int) -> None:
    """dp-accounting 0.6.0, privacy_loss_distribution.from_discrete_gaussian_mechanism, from_discrete_laplace_mechanism

    and from_privacy_parameters, value_discretization_interval 1e-5 (1e-4 for Laplace alone), which it may add once for
    each composition; ours adds what its own grid does.
    """
    found = together.epsilon_at(at)
    assert found is not None
    assert peer - compositions * 1e-5 <= found <= peer * (1 + 1e-6)


@given(draws(), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_n_of_one_kind_are_one_of_n_times_as_many(mechanism: Draw, n: int) -> None:
    one_by_one = sum((mechanism.losses() for _ in range(n)), start=Losses())
    at_once = mechanism.losses() * n
    assert one_by_one == at_once
    assert one_by_one.epsilon_at(1e-5) == at_once.epsilon_at(1e-5)
    if isinstance(mechanism, Histogram) and mechanism.fresh is None:
        wider = Histogram(mechanism.noise, mechanism.threshold, n * mechanism.per_user).losses()
        assert wider.changed == at_once.changed
        assert float(wider.own) == pytest.approx(float(at_once.own), rel=1e-12)


@given(st.lists(draws(), min_size=1, max_size=4), st.floats(0, 3))
@settings(max_examples=40, deadline=None)
def test_more_never_costs_less_and_the_order_does_not_matter(listed: list[Draw], e: float) -> None:
    forwards, backwards = (
        sum((each.losses() for each in order), start=Losses()) for order in (listed, list(reversed(listed)))
    )
    assert forwards.delta_at(e) == backwards.delta_at(e)
    fewer = sum((each.losses() for each in listed[1:]), start=Losses())
    assert fewer.delta_at(e) <= forwards.delta_at(e) * (1 + 1e-3) + 1e-6  # each grid has its own width
    assert forwards.delta_at(e + 0.5) <= forwards.delta_at(e)
