"""Books that earlier versions of querycloak have made: still read, still charged, still spent.

`ledger-1.sqlite` was made by the last commit that wrote version 1, `ledger-2.sqlite` and its `.users` by version
0.1.0.dev0 before there was `ledger/sqlite.py`.
"""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from querycloak.privacy.accounting.draws import GaussianRounds, Histogram
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.campaigns import Spending
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.noise import Laplace

BOOKS = Path(__file__).parents[3] / "fixtures" / "books"
PROMISE = Guarantee(
    kind="approximate-dp",
    unit="user",
    neighbours="add-remove-user",
    epsilon=2.5,
    delta=1e-7,
    unprotected=("the parameters",),
    because="made for a test",
)
PURE = Guarantee(
    kind="pure-dp", unit="user", neighbours="replace-query", epsilon=4.0, delta=0.0, because="made for a test"
)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    shutil.copytree(BOOKS, tmp_path / "books")
    return tmp_path / "books"


def test_a_ledger_of_version_1(kept: Path) -> None:
    ledger = Ledger(kept / "ledger-1.sqlite")
    before = ledger.path.read_bytes()
    (account,) = ledger.show()
    assert (account.population, account.epsilon_limit, account.delta_limit) == ("shop users", 8.0, 1e-6)
    clicks, rule = account.charges
    assert (clicks.guarantee, clicks.status, clicks.releases) == (PROMISE, "released", ("ab" * 32,))
    assert (rule.guarantee.kind, rule.guarantee.k, rule.status) == ("syntactic", 5, "no release")
    assert account.spent == (Fraction(5, 2), Fraction(1, 10**7))
    assert clicks.parameters["mechanisms"] == [Histogram(Laplace(0.5), 9, 1).to_json()]
    assert ledger.announced() == ()
    assert ledger.path.read_bytes() == before
    assert ledger.charge("shop users", PROMISE, method="clicks", parameters={}).id == 3
    assert ledger.show()[0].spent[0] == 5


def test_a_ledger_of_version_2(kept: Path) -> None:
    ledger = Ledger(kept / "ledger-2.sqlite")
    library, shop = ledger.show()
    assert [charge.id for charge in shop.charges] == [1, 2]
    assert [charge.status for charge in shop.charges] == ["released", "no release"]
    assert [(charge.id, charge.guarantee) for charge in library.charges] == [(3, PURE)]
    assert ledger.announced() == ((2, "cd" * 32, Path("/releases/july")),)
    assert shop.charges[0].parameters["mechanisms"] == [GaussianRounds(0.25, 1e-8).to_json()]
    together = shop.composed(1e-5)
    assert together.epsilon is not None
    assert together.epsilon < together.epsilon_sum == 5.0
    assert ledger.charge("shop users", PROMISE, method="clicks", parameters={}).id == 4


def test_what_users_have_spent(kept: Path) -> None:
    spending = Spending(Ledger(kept / "ledger-2.sqlite"))
    assert spending.has_campaign("library", PURE, 10)
    assert not spending.has_campaign("library", PURE, 11)
    campaign = spending.campaign("library", PURE, 10, lambda: pytest.fail("it was charged before"))
    assert (campaign.charge, len(campaign.key)) == (3, 64)
    # Of ten each, the three have had 3, 10 and 10.
    assert spending.spend(campaign, ["one", "two", "four"], np.array([9, 1, 2])).tolist() == [7, 0, 2]
