"""Who pays for a release: nobody, a charge, or a campaign; once, and in turn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from querycloak.errors import BudgetRefused, OrderError, ParameterError
from querycloak.privacy import order
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.payment import NOT_ACCOUNTED, Accounting, Bill, CountedByUser, payment_of

BILL = Bill("semantic", user_guarantee(3.0, None, "a test"), {"epsilon": 3.0})
CAMPAIGN = replace(BILL, campaign=4)


@dataclass(frozen=True)
class Counted(CountedByUser):
    """Users and how many queries each has; a hash that everybody can see through."""

    queries: dict[str, int]
    allowed: dict[str, int] | None = None
    keys: list[str] = field(default_factory=list)

    def asked(self, key: str) -> tuple[list[str], NDArray[np.int64]]:
        self.keys.append(key)
        return [f"{key}:{user}" for user in self.queries], np.array(list(self.queries.values()), np.int64)

    def allowing(self, key: str, names: list[str], allowed: NDArray[np.int64]) -> Counted:
        users = [name.removeprefix(f"{key}:") for name in names]
        return replace(self, allowed=dict(zip(users, allowed.tolist(), strict=True)))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("people", 8, 0)
    return made


def charges(ledger: Ledger) -> int:
    return len(ledger.show("people")[0].charges)


def test_nobody_pays_without_a_ledger() -> None:
    for bill in (BILL, CAMPAIGN):
        payment = payment_of(None, None, bill)
        assert payment.check() is None
        assert not payment.is_prepaid
        paid = payment.pay("counted")
        assert (paid.accounting, paid.counted) == (NOT_ACCOUNTED, "counted")


def test_a_ledger_and_a_population_go_together(ledger: Ledger) -> None:
    for one, other in ((ledger, None), (None, "people")):
        with pytest.raises(ParameterError, match="ledger and population go together"):
            payment_of(one, other, BILL)


def test_a_charge_is_on_the_disk_with_what_the_bill_says(ledger: Ledger) -> None:
    payment = payment_of(ledger, "people", BILL)
    account = payment.check()
    assert account is not None
    assert charges(ledger) == 0
    paid = payment.pay("counted")
    (made,) = ledger.show("people")[0].charges
    named = {**BILL.parameters, "run": paid.accounting.run}
    assert (made.method, made.guarantee, dict(made.parameters)) == ("semantic", BILL.guarantee, named)
    assert paid.accounting == Accounting("people", made.id, made.parameters["run"])
    assert paid.accounting.ledger is ledger
    assert paid.counted == "counted"


def test_what_cannot_be_paid_is_refused_before_and_while_paying(ledger: Ledger) -> None:
    dear = replace(BILL, guarantee=user_guarantee(9.0, None, "a test"))
    for bill in (dear, replace(dear, campaign=4)):
        payment = payment_of(ledger, "people", bill)
        with pytest.raises(BudgetRefused):
            payment.check()
        with pytest.raises(BudgetRefused):
            payment.pay(Counted({"ann": 1}))
    assert charges(ledger) == 0


@pytest.mark.parametrize("bill", [BILL, CAMPAIGN], ids=["charge", "campaign"])
def test_a_release_is_paid_once(ledger: Ledger, bill: Bill) -> None:
    for payment, expected in ((payment_of(ledger, "people", bill), 1), (payment_of(None, None, bill), 1)):
        payment.pay(Counted({"ann": 1}))
        with pytest.raises(OrderError, match="must be paid once"):
            payment.pay(Counted({"ann": 1}))
        assert charges(ledger) == expected


def test_a_payment_that_failed_is_used_up(ledger: Ledger) -> None:
    ledger.set_limit("people", 1, 0)
    payment = payment_of(ledger, "people", BILL)
    with pytest.raises(BudgetRefused):
        payment.pay("counted")
    ledger.set_limit("people", 8, 0, why="a test")
    with pytest.raises(OrderError):
        payment.pay("counted")


def test_nobody_pays_out_of_turn(ledger: Ledger) -> None:
    for payment in (payment_of(None, None, BILL), payment_of(ledger, "people", BILL)):
        for step in (order.counting, order.drawing):
            with step(), pytest.raises(OrderError, match="must be paid after the log is counted"):
                payment.pay("counted")
        with order.paying():
            payment.pay("counted")


def test_a_campaign_is_charged_once_and_spent_user_by_user(ledger: Ledger) -> None:
    first = Counted({"ann": 3, "bob": 1, "cho": 9})
    payment = payment_of(ledger, "people", CAMPAIGN)
    assert not payment.is_prepaid
    with order.paying():
        paid = payment.pay(first)
    assert paid.counted.allowed == {"ann": 3, "bob": 1, "cho": 4}
    assert paid.accounting == Accounting("people", 1, paid.accounting.run)
    assert paid.accounting.run is not None
    # Of a limit of 8, 3 is spent; the campaign goes on even when nothing is left.
    ledger.set_limit("people", 3, 0)
    again = payment_of(ledger, "people", CAMPAIGN)
    assert again.is_prepaid
    account = again.check()
    assert account is not None
    assert account.left[0] == 0
    second = again.pay(Counted({"cho": 1, "ann": 3}, keys=first.keys))
    assert second.counted.allowed == {"cho": 0, "ann": 1}
    assert second.accounting == paid.accounting
    assert charges(ledger) == 1
    assert len(set(first.keys)) == 1  # one key for the whole campaign


def test_other_terms_are_another_campaign(ledger: Ledger) -> None:
    keys: list[str] = []
    for bill in (CAMPAIGN, replace(CAMPAIGN, campaign=5)):
        payment = payment_of(ledger, "people", bill)
        assert not payment.is_prepaid
        payment.pay(Counted({"ann": 1}, keys=keys))
    assert charges(ledger) == 2
    assert len(set(keys)) == 2


def test_a_campaign_needs_to_know_its_users(ledger: Ledger) -> None:
    with pytest.raises(OrderError, match="a campaign needs each user's queries"):
        payment_of(ledger, "people", CAMPAIGN).pay("counted")
    assert charges(ledger) == 0


@pytest.mark.parametrize("campaign", [0, -1, 1.5, True])
def test_a_campaign_pays_for_at_least_one_query(campaign: int) -> None:
    with pytest.raises(ParameterError, match="campaign must be"):
        replace(BILL, campaign=campaign)
