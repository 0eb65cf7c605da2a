"""A release behind the paid gate: two charges, a card that lists it, a refusal that costs the gate alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from querycloak.audits.guarantees.method_audit import audit_method
from querycloak.engines import Engine
from querycloak.errors import BudgetRefused, InputError
from querycloak.logs.searchlog import read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.evidence import load, verify
from querycloak.methods.queries.method import Queries
from querycloak.methods.unprotected import KEPT_ROWS
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.randomness import Randomness
from tests.commands import in_process
from tests.logs import aol, write

METHOD = Queries(epsilon=2, delta=1e-6, max_keys_per_user=1)
MANY = aol((f"u{number}", "12:00:00", "query", "", "") for number in range(1500))
NO_ROWS = aol([])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("shop", epsilon=3, delta=1e-5)
    return made


def test_both_are_charged_and_the_card_states_the_sum(duckdb_engine: Engine, tmp_path: Path, ledger: Ledger) -> None:
    log = read(write(tmp_path / "log.tsv", MANY), engine=duckdb_engine)
    together = METHOD.composition(paid_gate=True)
    release = METHOD.release(log, ledger=ledger, population="shop", paid_gate=True, composition=together)
    release.save(tmp_path / "out")
    first, second = ledger.show("shop")[0].charges
    assert (first.method, first.guarantee.numbers) == ("paid-gate", (0.02, 0.0))
    assert second.guarantee.numbers == METHOD.proven().numbers
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert (card["proven"]["epsilon"], card["composition"]["sum"]["epsilon"]) == (2.02, 2.02)
    assert card["log"]["gate"] == {"noise": {"law": "laplace", "scale": 50.0}, "least": 196, "epsilon": 0.02}
    assert "at least 196" in card["proven"]["because"]
    assert '`gate = {"noise": ' in (tmp_path / "out" / "README.md").read_text()
    assert KEPT_ROWS not in card["proven"]["unprotected"]
    assert load(tmp_path / "out").proven.epsilon == 2.02
    assert verify(tmp_path / "out", ledger=tmp_path / "ledger").problems == ()


def test_a_refusal_costs_the_gate_alone(duckdb_engine: Engine, tmp_path: Path, ledger: Ledger) -> None:
    log = read(write(tmp_path / "log.tsv", NO_ROWS), engine=duckdb_engine, log_format="aol")
    with pytest.raises(InputError) as refused:
        METHOD.release(log, ledger=ledger, population="shop", paid_gate=True, randomness=Randomness(1))
    assert str(refused.value) == (
        "the paid gate refuses: with noise, fewer than 196 users have a row or click that is kept. It costs epsilon "
        "0.02 (charge 1 to 'shop'); nothing else was charged, and nothing was drawn from the log. "
        "querycloak.profile(log) shows, privately, what was read"
    )
    assert [charge.guarantee.numbers for charge in ledger.show("shop")[0].charges] == [(0.02, 0.0)]


def test_clicks_are_counted_where_the_method_counts_them(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", MANY), engine=duckdb_engine)
    clicks = Clicks(epsilon=2, delta=1e-6, max_keys_per_user=1)
    with pytest.raises(InputError, match="the paid gate refuses"):
        clicks.release(log, paid_gate=True, randomness=Randomness(1))


def test_the_limit_must_hold_both_before_anything_is_read(duckdb_engine: Engine, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "small")
    ledger.set_limit("shop", epsilon=2, delta=1e-5)
    log = read(write(tmp_path / "log.tsv", MANY), engine=duckdb_engine)
    with pytest.raises(BudgetRefused, match=r"asked 2\.02 and"):
        METHOD.release(log, ledger=ledger, population="shop", paid_gate=True)
    assert not ledger.show("shop")[0].charges


def test_the_command(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", MANY)
    words = ("release", "queries", log, "--epsilon", "2", "--delta", "1e-6", "--max-keys-per-user", "1", "--paid-gate")
    dry = in_process(*words, "--dry-run")
    assert "epsilon     2.02" in dry.stdout, dry.stderr
    done = in_process(*words, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "epsilon     2.02" in done.stdout
    rule = in_process("release", "k-anonymity", log, "--min-users", "5", "--paid-gate", "--out", tmp_path / "rule")
    assert (rule.returncode, "--refuse-empty refuses a log of which nothing is kept" in rule.stderr) == (2, True)


@pytest.mark.slow
def test_an_audit_tries_a_log_without_users() -> None:
    audit = audit_method(METHOD, runs=200, seed=1, neighbours=["nobody"])
    assert [each.neighbours for each in audit.sampled] == ["nobody: no user, and one"]
    assert audit.holds
