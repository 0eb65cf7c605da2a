"""The gate's law, as paid_gate.md states it."""

from __future__ import annotations

import math

import pytest

from querycloak.errors import ParameterError
from querycloak.methods.paid_gate import DRAW, GATE, LEAST, NOISE, gated, passes
from querycloak.privacy.accounting.draws import losses_of
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.sampling.randomness import Randomness
from tests.unit.releases.making import SYNTACTIC


def passing(users: int) -> float:
    return NOISE.tail(LEAST - users).up()


@pytest.mark.parametrize("users", [0, 1, 2, 100, 194, 195, 196, 197, 400, 2000])
def test_one_user_changes_both_answers_by_no_more_than_epsilon(users: int) -> None:
    """Claim 1, among others for a log without a user and one with a single user."""
    factor = math.exp(GATE.numbers[0]) * (1 + 1e-12)
    refusing = [NOISE.tail(number - LEAST + 1).up() for number in (users, users + 1)]
    for smaller, larger in ((passing(users), passing(users + 1)), (refusing[1], refusing[0])):
        assert smaller <= larger <= factor * smaller


def test_errors_are_those_of_the_note() -> None:
    assert passing(0) == pytest.approx(0.01002, abs=5e-6)
    assert 1 - passing(391) == pytest.approx(0.01002, abs=5e-6)
    assert 1 - passing(196) == pytest.approx(0.495, abs=5e-5)
    assert 1 - passing(507) < 0.001 < 1 - passing(506)


def test_draws_have_that_law() -> None:
    let_through = passes(196, Randomness(7), 20_000)
    assert let_through.mean() == pytest.approx(passing(196), abs=0.02)


def test_the_sum_is_stated_and_the_draw_recorded() -> None:
    both = gated(user_guarantee(2.0, 1e-6, "a test"))
    assert both.numbers == (2.02, 1e-6)
    assert "Laplace noise of scale 50" in both.because
    assert losses_of(GATE, [DRAW.to_json()]).epsilon_at(1e-9) == pytest.approx(0.02, rel=0.01)


def test_a_rule_has_no_epsilon_to_add_to() -> None:
    with pytest.raises(ParameterError, match="paid_gate=True goes with differential privacy for each user"):
        gated(SYNTACTIC)
