"""The ledger (version 3) and spending record that version 0.2.0 has made: shown, verified and charged as before.

`scripts/make_fixtures.py 653582d` makes them; ledger.json is what 0.2.0 said of them then. Each kind of draw is charged
twice under a population of its own: a draw that is no longer understood would be added as a sum, which is more.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from scripts.compare_releases import differences, renamed
from scripts.make_fixtures import CHARGED, population_of
from scripts.renamed import RENAMED_VALUES

import querycloak as qc
from querycloak.contract.trial import small_log
from tests.commands import in_process

FIXTURES = Path(__file__).parents[3] / "fixtures" / "0.2.0"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    for name in ("ledger.sqlite", "ledger.sqlite.users"):
        shutil.copy(FIXTURES / name, tmp_path / name)
    return tmp_path / "ledger.sqlite"


def stated(command: str) -> Any:
    return renamed(json.loads((FIXTURES / "ledger.json").read_text())[command], {}, RENAMED_VALUES)


def test_it_is_of_version_3(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)


def test_it_is_shown_as_before_also_what_draws_cost_together(ledger: Path) -> None:
    shown = in_process("ledger", "show", "--ledger", ledger, "--composition", "pld", "--json")
    accounts = json.loads(shown.stdout)
    assert all(each.pop("left_in_words") for each in accounts)  # 0.2.0 did not say it
    assert differences(stated("show"), accounts) == []
    below = [each["composition"]["privacy_loss_distribution"]["below_the_sum"] for each in stated("show")]
    assert (sum(below), len(below)) == (8, 14)


def test_its_journal_is_whole(ledger: Path) -> None:
    verified = in_process("ledger", "verify", "--ledger", ledger, "--json")
    shown = json.loads(verified.stdout)
    assert {key: shown[key] for key in stated("verify")} == stated("verify")
    assert shown["ok"]
    assert "no digests of whole charges yet" in shown["notices"][0]


def test_every_limit_is_kept_with_its_reason(ledger: Path) -> None:
    limits = [each.what for each in qc.Ledger(ledger).limits(population_of("clicks"))]
    assert [(each["epsilon"], each["by"], each["why"]) for each in limits] == [
        ("10.0", "the board", "first year"),
        ("40.0", "the board", "second year"),
    ]


def test_a_release_that_was_announced_is_still_known(ledger: Path) -> None:
    ((_, digest, folder),) = qc.Ledger(ledger).announced()
    assert (digest, folder) == ("cd" * 32, Path("/releases/july"))


def test_it_is_charged_on(ledger: Path) -> None:
    opened, (kind, options) = qc.Ledger(ledger), CHARGED["clicks"]
    bill = getattr(qc, kind)(**options).bill()
    last = max(charge.id for account in opened.show() for charge in account.charges)
    charge = opened.charge(population_of("clicks"), bill.guarantee, method=bill.method, parameters=bill.parameters)
    assert charge.id == last + 1
    (account,) = opened.show(population_of("clicks"))
    assert account.spent[0] == 8
    # The same draw is noted in the same way, but for keys of one user alone, of whom rounds are counted since 0.3.
    first, second = (each.parameters["mechanisms"] for each in account.charges)
    ours = {"own_keys", "averaged"}
    assert [{name: each[name] for name in each if name not in ours} for each in first] == [
        {name: each[name] for name in each if name not in ours} for each in second
    ]
    assert ["averaged" in each for each in (*first, *second)] == [False, True]
    assert opened.verify() == []


def spent(ledger: Path) -> tuple[int, int]:
    """How many users the record has, and how many queries they have spent."""
    with sqlite3.connect(f"{ledger}.users") as connection:
        (row,) = connection.execute("SELECT count(*), sum(queries) FROM spent").fetchall()
    return row[0], row[1]


def test_a_campaign_goes_on_without_a_second_charge(ledger: Path, tmp_path: Path) -> None:
    """Every user may release 3 queries: in the release of 0.2.0 one user had only 2 to release."""
    (tmp_path / "log.tsv").write_text(small_log())
    kind, options = CHARGED["semantic"]
    method, opened, population = getattr(qc, kind)(**options), qc.Ledger(ledger), population_of("semantic")
    assert method.payment(opened, population).is_prepaid
    assert spent(ledger) == (60, 179)
    with qc.read(tmp_path / "log.tsv") as log:
        release = method.release(log, ledger=opened, population=population)
    assert release.table("log").num_rows == 1
    assert spent(ledger) == (60, 180)
    assert len(opened.show(population)[0].charges) == 1
