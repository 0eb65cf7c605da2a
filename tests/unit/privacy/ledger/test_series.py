"""Plans for a series: Laplace noise fixed beforehand, charged whole (ledger.md)."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import querycloak as qc
from querycloak.contract.trial import small_log
from querycloak.errors import BudgetRefused, ParameterError
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.series import plan_series, solved_series
from tests.commands import in_process


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("shop", 20, 1e-3)
    return made


def exact_delta(releases: int, each: float, epsilon: float) -> float:
    """Delta of `releases` Laplace counts at their most informative outputs, by the binomial law (oracle)."""
    keep = 1 / (1 + math.exp(-each))
    return sum(
        math.comb(releases, k) * keep**k * (1 - keep) ** (releases - k)
        * max(0.0, 1 - math.exp(epsilon - (2 * k - releases) * each))
        for k in range(releases + 1)
    )  # fmt: skip


def test_52_weeks_within_a_year() -> None:
    """Golden: 52 releases within (3.25, 2.4e-5) have epsilon .111 each; sums allow .0625."""
    plan, guarantee = solved_series(52, 3.25, 2.4e-5)
    each = 1 / plan.draw.noise.size
    assert each == pytest.approx(0.111, abs=1e-3)
    assert guarantee.numbers == (3.25, 2.4e-5)
    q = math.exp(-each)
    own = -52 * math.log1p(-(q**plan.draw.threshold) / (1 + q))
    assert exact_delta(52, each, 3.25) + math.expm1(own) <= 2.4e-5


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.floats(0.3, 6.0), st.sampled_from([1e-7, 1e-5, 1e-3]))
def test_a_series_keeps_its_total(releases: int, epsilon: float, delta: float) -> None:
    """Law, by the oracle: noise and own keys of all releases keep (epsilon, delta); sums would need as much noise."""
    plan, _ = solved_series(releases, epsilon, delta)
    each = 1 / plan.draw.noise.size
    assert each >= epsilon / releases * 0.99
    q = math.exp(-each)
    own = -releases * math.log1p(-(q**plan.draw.threshold) / (1 + q))
    assert exact_delta(releases, each, epsilon) + math.expm1(own) <= delta * (1 + 1e-9)


def test_a_series_is_charged_once_and_its_releases_follow_the_plan(ledger: Ledger, tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text(small_log())
    shared = ("--plan-of", "shop", "--ledger", ledger.path)
    made = in_process("ledger", "plan", "shop", "--releases", "2", "--epsilon", "18", "--delta", "1e-4", "--ledger", ledger.path)  # fmt: skip  # noqa: E501
    assert made.returncode == 0, made.stderr
    for name in ("one", "two"):
        run = in_process("release", "queries", log, *shared, "--out", tmp_path / name)
        assert run.returncode == 0, run.stderr
        verified = in_process("verify", tmp_path / name, "--ledger", ledger.path, "--json")
        assert json.loads(verified.stdout)["ok"], verified.stdout
    (charge,) = ledger.show()[0].charges
    assert (charge.taken, charge.releases_left) == (2, 0)
    assert len(charge.releases) in (1, 2)  # equal releases have one digest
    assert ledger.show()[0].spent[0] == 18
    refused = in_process("release", "queries", log, *shared, "--out", tmp_path / "three")
    assert (refused.returncode, "has no releases left" in refused.stderr) == (3, True)
    assert ledger.verify() == []
    assert "2 of 2 releases begun" in in_process("ledger", "show", "--ledger", ledger.path).stdout


def test_a_release_cannot_deviate_from_its_plan(ledger: Ledger, tmp_path: Path) -> None:
    plan, _ = plan_series(ledger, "shop", 3, 8, 1e-4)
    (tmp_path / "log.tsv").write_text(small_log())
    options = plan.options
    for change in ({"noise": options["noise"] / 2}, {"threshold": 1}, {"max_keys_per_user": 2}, {"two_draws": True}):
        with qc.read(tmp_path / "log.tsv") as log, pytest.raises(ParameterError, match="draws what its plan says"):
            qc.Queries(**{**options, **change}).release(log, ledger=ledger, population="shop")
    typed = ("--plan-of", "shop", "--ledger", ledger.path, "--out", tmp_path / "out")
    for option in (("--epsilon", "1"), ("--max-keys-per-user", "auto"), ("--noise", "1")):
        refused = in_process("release", "queries", tmp_path / "log.tsv", *typed, *option)
        assert (refused.returncode, "is fixed by the plan" in refused.stderr) == (2, True)
    refused = in_process("release", "sessions", tmp_path / "log.tsv", *typed)
    assert refused.returncode == 2
    assert ledger.show()[0].charges[0].taken == 0


def test_plans_that_cannot_be_made(ledger: Ledger) -> None:
    with pytest.raises(BudgetRefused):
        plan_series(ledger, "shop", 52, 21, 1e-4)
    with pytest.raises(ParameterError, match="releases must be"):
        plan_series(ledger, "shop", 0, 1, 1e-4)
    plan_series(ledger, "shop", 2, 1, 1e-5)
    with pytest.raises(ParameterError, match="has a plan with 2 releases left"):
        plan_series(ledger, "shop", 2, 1, 1e-5)
    ledger.set_limit("library", 1, 1e-5)
    refused = in_process("release", "queries", "log", "--plan-of", "library", "--ledger", ledger.path, "--out", "o")
    assert (refused.returncode, "has no plan" in refused.stderr) == (3, True)
    assert len(ledger.show("shop")[0].charges) == 1


TAKE = """
import sys
from querycloak.errors import BudgetRefused
from querycloak.privacy.ledger.ledger import Ledger
begun = 0
for _ in range(6):
    try:
        Ledger(sys.argv[1]).take(1, 5)
        begun += 1
    except BudgetRefused:
        pass
print(begun)
"""


def test_processes_that_begin_releases_at_once_begin_no_more_than_planned(ledger: Ledger) -> None:
    plan_series(ledger, "shop", 5, 1, 1e-5)
    running = [
        subprocess.Popen([sys.executable, "-c", TAKE, ledger.path], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert sum(int(each.communicate()[0]) for each in running) == 5
    assert ledger.show()[0].charges[0].releases_left == 0
    assert ledger.verify() == []


def test_two_plans_at_the_same_time_are_one_charge(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other plan is made when this one has looked and not yet charged."""
    looked = Ledger.trusted
    others: list[str] = []

    def look(self: Ledger, population: str) -> object:
        account = looked(self, population)
        if not others:
            others.append(population)
            plan_series(Ledger(self.path), population, 4, 2, 1e-4)
        return account

    charge = Ledger.charge

    def pay(self: Ledger, *given: object, **named: object) -> object:
        self.trusted("shop")
        return charge(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "trusted", look)
    monkeypatch.setattr(Ledger, "charge", pay)
    with pytest.raises(ParameterError, match="4 releases left"):
        plan_series(ledger, "shop", 4, 2, 1e-4)
    assert len(ledger.show("shop")[0].charges) == 1
