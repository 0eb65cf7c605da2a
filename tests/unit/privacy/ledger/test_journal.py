"""The journal: edits of a ledger and older copies of its spending record are found, and such a ledger pays nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from querycloak.errors import InputError, ParameterError
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.ledger.campaigns import Campaign, Spending
from querycloak.privacy.ledger.ledger import Ledger
from tests.commands import in_process

PROMISE = user_guarantee(1.0, 1e-7, "a test")
DRAWS = {"mechanisms": [{"kind": "gaussian-rounds", "squared_loss": 0.05, "own_keys": 1e-8}]}
FIXTURES = Path(__file__).parents[3] / "fixtures" / "0.2.0"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("shop", 8, 1e-6)
    for _ in range(3):
        made.charge("shop", PROMISE, method="clicks", parameters=DRAWS)
    return made


def edited(ledger: Ledger, *statements: str) -> None:
    """Change the file as another program could, with its rules taken away and put back."""
    connection = sqlite3.connect(ledger.path)
    rules = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    for statement in (*(f"DROP TRIGGER {name}" for name in names), *statements, *rules):
        connection.execute(statement)
    connection.commit()
    connection.close()


EDITS = {
    "parameters": "UPDATE charges SET parameters = '{}' WHERE id = 2",
    "method": "UPDATE charges SET method = 'queries' WHERE id = 2",
    "made": "UPDATE charges SET made = '2020-01-01T00:00:00+00:00' WHERE id = 2",
    "guarantee": "UPDATE charges SET guarantee = replace(guarantee, '1.0', '0.1') WHERE id = 2",
    "population": "UPDATE charges SET population = 'other' WHERE id = 2",
}


@pytest.mark.parametrize("column", EDITS)
def test_an_edit_of_any_column_of_a_charge_is_found_and_the_ledger_pays_no_more(ledger: Ledger, column: str) -> None:
    assert ledger.verify() == []
    edited(ledger, EDITS[column])
    assert "charge 2 is missing or was changed" in ledger.verify()
    calls: list[Callable[[], object]] = [
        lambda: ledger.check("shop", PROMISE),
        lambda: ledger.charge("shop", PROMISE, method="clicks", parameters={}),
        lambda: ledger.trusted("shop"),
    ]
    for call in calls:
        with pytest.raises(InputError, match="so nothing can be charged to it: charge 2 is missing or was changed"):
            call()
    assert len(ledger.show("shop")[0].charges) == (2 if column == "population" else 3)


def test_the_last_entries_of_the_journal_cannot_be_cut_off(ledger: Ledger) -> None:
    edited(ledger, "DELETE FROM journal WHERE id > 2", "DELETE FROM charges WHERE id > 0")
    assert "entry 3 of the journal is missing" in ledger.verify()
    edited(ledger, "DELETE FROM journal")
    assert "entry 1 of the journal is missing" in ledger.verify()


@pytest.mark.parametrize("limit", ["nan", "inf", "-1.0", "a lot"])
def test_a_limit_that_is_no_number_is_a_damaged_ledger(ledger: Ledger, limit: str) -> None:
    edited(ledger, f"UPDATE populations SET epsilon = '{limit}'")
    for call in (lambda: ledger.show("shop"), lambda: ledger.check("shop", PROMISE)):
        with pytest.raises(InputError, match="is damaged; nothing in it was changed; an older copy"):
            call()


def test_the_advice_for_a_damaged_ledger_says_what_an_older_copy_forgets(ledger: Ledger) -> None:
    ledger.path.write_bytes(ledger.path.read_bytes()[:5000])
    done = in_process("ledger", "show", "--ledger", ledger.path)
    assert done.returncode == 2
    assert "has forgotten the charges since: find them with querycloak verify RELEASE --ledger FILE" in done.stderr


def test_a_limit_is_raised_with_a_reason_which_is_kept(ledger: Ledger) -> None:
    for epsilon, delta, why in ((9, 1e-6, None), (8, 2e-6, None), (9, 0, "  ")):
        with pytest.raises(ParameterError, match="raising it needs a reason, which is kept; add why=REASON"):
            ledger.set_limit("shop", epsilon, delta, why=why)
    assert ledger.show("shop")[0].epsilon_limit == 8
    ledger.set_limit("shop", 7, 1e-6)  # less needs none
    ledger.set_limit("shop", 9, 1e-6, why="a second year")
    assert [entry.what["why"] for entry in ledger.limits("shop")] == [None, None, "a second year"]
    words = ("ledger", "set", "shop", "--epsilon", "20", "--delta", "1e-6", "--ledger", ledger.path)
    refused = in_process(*words)
    assert (refused.returncode, "add --because REASON" in refused.stderr) == (2, True)
    assert in_process(*words, "--because", "a third year").returncode == 0
    assert in_process("ledger", "show", "--ledger", ledger.path).stdout.startswith(f"ledger {ledger.path}\n")


def test_a_ledger_of_version_3_gets_digests_of_its_charges_with_the_next_change(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "ledger.sqlite", tmp_path / "ledger")
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.verify() == []
    assert "no digests of whole charges yet" in ledger.notices()[0]
    ledger.set_limit("another", 1, 0)
    assert (ledger.verify(), ledger.notices()) == ([], [])
    edited(ledger, "UPDATE charges SET parameters = '{}' WHERE id = 1")
    assert ledger.verify() == ["charge 1 is missing or was changed"]


def test_an_older_journal_is_a_notice_and_the_ledger_goes_on(ledger: Ledger) -> None:
    connection = sqlite3.connect(ledger.path)
    connection.execute("DROP TABLE journal")
    for name in ("stay", "keep"):
        connection.execute(f"DROP TRIGGER releases_{name}")
    connection.execute("ALTER TABLE populations DROP COLUMN terms")
    connection.execute("ALTER TABLE charges DROP COLUMN cost")
    connection.execute("DROP TABLE lowered")
    connection.execute("DROP TABLE taken")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()
    shown = in_process("ledger", "verify", "--ledger", ledger.path, "--json")
    assert shown.returncode == 0
    assert "has no journal yet" in json.loads(shown.stdout)["notices"][0]
    ledger.charge("shop", PROMISE, method="clicks", parameters={})
    assert (ledger.verify(), ledger.notices()) == ([], [])


def test_a_population_that_is_accounted_in_a_newer_way_is_refused(ledger: Ledger) -> None:
    edited(ledger, """UPDATE populations SET terms = '{"kind": "gaussian"}'""")
    with pytest.raises(InputError, match="is accounted in a way that this querycloak does not know"):
        ledger.charge("shop", PROMISE, method="clicks", parameters={})


@pytest.fixture
def campaign(ledger: Ledger) -> Campaign:
    return Spending(ledger).campaign(
        "shop", PROMISE, 3, lambda: ledger.charge("shop", PROMISE, method="semantic", parameters={}).id
    )


def test_an_older_copy_of_the_spending_record_is_found_and_not_spent_from(ledger: Ledger, campaign: Campaign) -> None:
    spending, one = Spending(ledger), np.ones(1, np.int64)
    assert spending.spend(campaign, ["a"], one).tolist() == [1]
    older = spending.path.read_bytes()
    assert spending.spend(campaign, ["a"], 2 * one).tolist() == [2]
    assert ledger.verify() == []
    spending.path.write_bytes(older)
    assert "is older than the ledger says" in ledger.verify()[0]
    with pytest.raises(InputError, match="has forgotten what users spent since of charge 4; put the newer file back"):
        spending.spend(campaign, ["a"], one)
    with pytest.raises(InputError, match="or move this one away and be charged anew"):
        spending.has_campaign("shop", PROMISE, 3)
    assert in_process("ledger", "verify", "--ledger", ledger.path).returncode == 4
    spending.path.unlink()  # moved away: the next release is charged anew
    assert ledger.verify() == []
    assert not spending.has_campaign("shop", PROMISE, 3)


def test_a_record_that_is_newer_than_the_ledger_is_no_sign(
    ledger: Ledger, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies between both files has spent for nothing."""
    spending, one = Spending(ledger), np.ones(1, np.int64)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "note_spending", lambda *_: None)
        spending.spend(campaign, ["a"], one)
    assert ledger.verify() == []
    assert spending.spend(campaign, ["a"], 3 * one).tolist() == [2]
    assert ledger.verify() == []
