"""A ledger that is replaced while a release is made: what its charge is gone for is not published (ledger.md)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.contract.trial import small_log
from querycloak.errors import ChargeGone
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.payment import Accounting
from querycloak.privacy.ledger.series import plan_series

DIGEST = "ab" * 32


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("shop", 20, 1e-3)
    shutil.copy(made.path, tmp_path / "older")
    return made


def released(ledger: Ledger, **options: Any) -> qc.Release:
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, **options}
    method = qc.Queries(**given)
    log = ledger.path.parent / "log.tsv"
    log.write_text(small_log())
    return method.release(qc.read(log), ledger=ledger, population="shop")


def another(path: Path) -> None:
    """Make a ledger that has a charge of the same number, for the same release."""
    other = Ledger(path)
    other.set_limit("shop", 20, 1e-3)
    released(other)


@pytest.mark.parametrize("instead", ["an older copy", "nothing", "garbage", "another ledger"])
def test_a_release_whose_charge_is_gone_is_not_published(ledger: Ledger, tmp_path: Path, instead: str) -> None:
    release = released(ledger)
    ledger.path.unlink()
    if instead == "an older copy":
        shutil.copy(tmp_path / "older", ledger.path)
    elif instead == "garbage":
        ledger.path.write_bytes(b"garbage" * 1000)
    elif instead == "another ledger":
        another(ledger.path)
    with pytest.raises(ChargeGone, match=r"does not hold charge 1 of this run any more: .* is not published") as caught:
        release.save(tmp_path / "out")
    assert "stays" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_two_releases_do_not_stand_on_charges_of_one_number(ledger: Ledger, tmp_path: Path) -> None:
    released(ledger).save(tmp_path / "out")
    another(tmp_path / "other")
    other = Ledger(tmp_path / "other")
    digest = ledger.show("shop")[0].charges[0].releases[0]
    other.complete(1, digest)  # as if both had been charged there
    assert qc.verify(tmp_path / "out", ledger=ledger.path).ok
    problems = qc.verify(tmp_path / "out", ledger=other.path).problems
    assert "the charge of this number in the ledger is that of another run" in str(problems)


def test_a_release_of_a_series_that_an_older_copy_forgot_is_not_published(ledger: Ledger, tmp_path: Path) -> None:
    plan, _ = plan_series(ledger, "shop", 3, 2.0, 1e-4)
    shutil.copy(ledger.path, tmp_path / "older")
    release = released(ledger, epsilon=None, delta=None, **plan.options)
    shutil.copy(tmp_path / "older", ledger.path)
    with pytest.raises(ChargeGone):
        release.save(tmp_path / "out")


def test_a_ledger_that_is_replaced_after_the_rename_is_named(ledger: Ledger, tmp_path: Path) -> None:
    release = released(ledger)
    shutil.copy(tmp_path / "older", ledger.path)
    with pytest.raises(ChargeGone, match=r"the release is written, but the ledger .* does not hold charge 1"):
        release.accounting.complete(DIGEST)


def test_cards_keep_the_name_of_a_charge_and_earlier_cards_have_none(ledger: Ledger, tmp_path: Path) -> None:
    release = released(ledger)
    release.save(tmp_path / "out")
    assert release.accounting.run == ledger.show("shop")[0].charges[0].parameters["run"]
    assert qc.load(tmp_path / "out").accounting == release.accounting
    assert Accounting.from_json({"population": "shop", "charge": 3}) == Accounting("shop", 3)
