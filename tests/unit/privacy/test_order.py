"""Count, pay, draw: whoever does one of them out of turn is stopped."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from querycloak.errors import OrderError, QuerycloakError
from querycloak.privacy import order
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.ledger.campaigns import Campaign, Spending
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.exact import Chance
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness, secret_key

Step = Callable[[], AbstractContextManager[None]]
PROMISE = user_guarantee(1.0, None, "a test")

# Several of these would need no random bit at all: they are stopped all the same.
DRAWS: dict[str, tuple[Any, ...]] = {
    "noise": (Laplace(1), 0),
    "many": (Laplace(1), 0),
    "at_least": (Laplace(1), 0, 0),
    "binomial": (0, Chance.exactly(Fraction(1, 2))),
    "bernoulli": (Chance.exactly(1),),
    "proportional_to_exp_minus": ([Fraction(0)],),
    "many_proportional_to_exp_minus": ([Fraction(0)], 1),
    "below": (2, 0),
    "secret": (),
    "below_each": (np.empty(0, np.int64),),
    "choose": (3, 0),
}


def test_every_public_method_of_randomness_is_tried_here() -> None:
    public = {name for name, _ in inspect.getmembers(Randomness, inspect.isfunction) if not name.startswith("_")}
    assert public - {"make_ready"} == set(DRAWS)  # which draws nothing, and comes before the charge


@pytest.mark.parametrize("source", [Randomness, lambda: Randomness(seed=1)], ids=["operating system", "seeded"])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_wait_until_everything_is_paid(name: str, source: Callable[[], Randomness]) -> None:
    draw = getattr(source(), name)
    for step in (order.counting, order.paying):
        with step(), pytest.raises(OrderError, match="random numbers must be drawn after the release is paid"):
            draw(*DRAWS[name])
    with order.drawing():
        draw(*DRAWS[name])
    draw(*DRAWS[name])


def test_secret_keys_may_be_made_while_paying() -> None:
    with order.counting(), pytest.raises(OrderError, match="secret keys must be made after the log is counted"):
        secret_key()
    for step in (order.paying, order.drawing):
        with step():
            assert len(bytes.fromhex(secret_key())) == 32
    assert secret_key() != secret_key()


@pytest.mark.parametrize("step", [order.counting, order.drawing])
def test_nothing_is_charged_out_of_turn(step: Step, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.set_limit("shop", 8, 0)
    spending = Spending(ledger)
    with step():
        with pytest.raises(OrderError, match="must be paid after the log is counted and before anything is drawn"):
            ledger.charge("shop", PROMISE, method="any", parameters={})
        with pytest.raises(OrderError):
            spending.campaign("shop", PROMISE, 3, lambda: 1)
        with pytest.raises(OrderError):
            spending.spend(Campaign(1, "key", 3), ["name"], np.ones(1, np.int64))
        assert ledger.check("shop", PROMISE).charges == ()
    assert not spending.path.exists()
    with order.paying():
        assert ledger.charge("shop", PROMISE, method="any", parameters={}).id == 1


def test_steps_come_one_after_another() -> None:
    for outer in (order.counting, order.paying, order.drawing):
        for inner in (order.counting, order.paying, order.drawing):
            with outer(), pytest.raises(OrderError, match="must come one after another"), inner():
                pass  # pragma: no cover


def test_a_step_ends_also_when_it_fails() -> None:
    with pytest.raises(QuerycloakError, match="on purpose"), order.counting():
        raise QuerycloakError("on purpose")
    Randomness().below(2, 1)


def test_it_is_a_bug_of_the_method() -> None:
    assert OrderError.exit_code == 1
    with pytest.raises(OrderError, match="this is a bug in the method"), order.counting():
        Randomness().below(2, 1)
