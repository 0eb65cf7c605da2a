"""What each user has spent of a campaign: never more than was charged, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import BudgetRefused, InputError
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.ledger.campaigns import Campaign, Spending
from querycloak.privacy.ledger.ledger import Ledger

PROMISE = user_guarantee(1.0, None, "a test")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("people", 8, 0)
    return made


def begun(ledger: Ledger, queries: int = 5) -> tuple[Spending, Campaign]:
    spending = Spending(ledger)

    def charge() -> int:
        return ledger.charge("people", PROMISE, method="semantic", parameters={}).id

    return spending, spending.campaign("people", PROMISE, queries, charge)


@given(asked=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), max_size=6), queries=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_no_user_ever_gets_more_than_was_charged_for(
    tmp_path_factory: pytest.TempPathFactory, asked: list[list[int]], queries: int
) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("books") / "ledger")
    ledger.set_limit("people", 8, 0)
    spending, campaign = begun(ledger, queries)
    had = np.zeros(3, np.int64)
    for numbers in asked:
        allowed = spending.spend(campaign, ["c", "a", "b"], np.array(numbers, np.int64))
        assert (allowed == np.minimum(numbers, queries - had)).all()
        had += allowed
    assert (had <= queries).all()


def test_a_charge_that_is_refused_begins_no_campaign(ledger: Ledger) -> None:
    ledger.set_limit("people", 0.5, 0)
    with pytest.raises(BudgetRefused):
        begun(ledger)
    assert not Spending(ledger).has_campaign("people", PROMISE, 5)
    ledger.set_limit("people", 8, 0, why="a test")
    assert begun(ledger)[1].charge == 1


def test_a_record_that_disappears_allows_nothing(ledger: Ledger) -> None:
    spending, campaign = begun(ledger)
    spending.path.unlink()
    with pytest.raises(InputError, match="the spending record"):
        spending.spend(campaign, ["a"], np.array([1]))
    assert not spending.path.exists()


def test_a_record_of_another_campaign_allows_nothing(ledger: Ledger, tmp_path: Path) -> None:
    spending, _ = begun(ledger)
    with pytest.raises(InputError, match="the spending record"):
        spending.spend(Campaign(99, "key", 5), ["a"], np.array([1]))


def test_asking_whether_there_is_one_writes_nothing(ledger: Ledger) -> None:
    assert not Spending(ledger).has_campaign("people", PROMISE, 5)
    assert not Spending(ledger).path.exists()


def test_keys_are_each_campaigns_own(ledger: Ledger) -> None:
    keys = {begun(ledger, queries)[1].key for queries in (3, 4, 3)}
    assert len(keys) == 2
    assert all(len(bytes.fromhex(key)) == 32 for key in keys)
