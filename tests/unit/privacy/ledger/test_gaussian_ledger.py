"""A ledger that adds up squared Gaussian losses and additive deltas (accounting/filter.md, ledger.md)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import querycloak as qc
from querycloak.contract.trial import small_log
from querycloak.errors import BudgetRefused, InputError, ParameterError
from querycloak.files import fault
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.accounting.gaussian_filter import GaussianCost, cost_of
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.ledger.ledger import Ledger
from tests.commands import in_process

PROMISE = user_guarantee(1.0, 1e-6, "a proof")
YEAR = (3.25, 2.4e-5)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("shop", *YEAR, accounting="gaussian")
    return made


def monthly() -> list[dict[str, object]]:
    """What a release of (1, 1e-6) by weights draws, from the formula alone: half of delta for noise, half for keys."""
    squared = brentq(lambda m: divergence(m, 1.0) - 5e-7, 1e-4, 1.0, xtol=1e-12)
    return [GaussianRounds(squared * (1 - 1e-6), 5e-7 * (1 - 1e-5)).to_json()]


def divergence(squared: float, epsilon: float) -> float:
    """H_mu(epsilon) as filter.md writes it, by another library's normal law."""
    mu = squared**0.5
    return float(norm.cdf(-epsilon / mu + mu / 2) - 2.718281828459045**epsilon * norm.cdf(-epsilon / mu - mu / 2))


def spend(ledger: Ledger, draws: list[dict[str, object]], guarantee: Guarantee = PROMISE) -> int:
    return ledger.charge("shop", guarantee, method="queries", parameters={"mechanisms": draws}).id


def test_twelve_monthly_releases_fit_a_limit_that_sums_exhaust_after_three(ledger: Ledger) -> None:
    """Golden: twelve times (1, 1e-6) come to 3.244 at 2.4e-5 with a quarter for own keys, to 3.32 with half."""
    for _ in range(12):
        spend(ledger, monthly())
    with pytest.raises(BudgetRefused, match="squared loss and additive delta"):
        spend(ledger, monthly())
    (account,) = ledger.show()
    assert account.spent[0] == 12
    total = account.gaussian_spent
    for additive, golden in ((0.25, 3.244), (0.5, 3.32)):
        rest = 2.4e-5 * (1 - additive)
        assert brentq(lambda e, rest=rest: divergence(total.squared, e) - rest, 1, 6) == pytest.approx(golden, abs=2e-3)
    assert account.to_json()["gaussian"]["epsilon_at_delta"] < 3.25


def test_both_sums_are_checked_apart(ledger: Ledger) -> None:
    limit = ledger.show()[0].limit
    assert limit is not None
    keys = [GaussianRounds(1e-9, limit.additive / 2.1).to_json()]
    spend(ledger, keys)
    spend(ledger, keys)
    with pytest.raises(BudgetRefused):
        spend(ledger, keys)
    noise = [GaussianRounds(limit.squared * 0.9, 1e-12).to_json()]
    spend(ledger, noise)
    with pytest.raises(BudgetRefused):
        spend(ledger, noise)


def test_one_laplace_release_of_epsilon_1_exceeds_the_limit(ledger: Ledger) -> None:
    with pytest.raises(BudgetRefused, match="Laplace noise costs more here"):
        spend(ledger, [], user_guarantee(1.0, None, "Laplace"))
    assert ledger.show()[0].charges == ()


def test_accounting_is_fixed_with_the_first_charge(ledger: Ledger) -> None:
    ledger.set_limit("shop", *YEAR, accounting="sum")
    assert ledger.show()[0].terms.is_sum
    ledger.set_limit("shop", *YEAR, accounting="gaussian", additive_share=0.5)
    spend(ledger, monthly())
    for change in ({"accounting": "sum"}, {"additive_share": 0.25}, {"accounting": "gaussian", "additive_share": 0.1}):
        with pytest.raises(ParameterError, match="has charges, so its accounting stays as it was"):
            ledger.set_limit("shop", *YEAR, **change)
    ledger.set_limit("shop", 4, 2.4e-5, why="a longer year")
    assert ledger.show()[0].terms.additive_share == 0.5
    assert ledger.verify() == []


def test_a_population_charged_as_sums_stays_so(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.set_limit("shop", 3, 1e-5)
    spend(ledger, monthly())
    refused = in_process(
        "ledger",
        "set",
        "shop",
        "--epsilon",
        "3",
        "--delta",
        "1e-5",
        "--accounting",
        "gaussian",
        "--ledger",
        ledger.path,
    )
    assert refused.returncode == 2
    assert "leave --accounting and --additive-share out" in refused.stderr


def test_bad_terms_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with pytest.raises(ParameterError, match="delta must be above 0 for squared Gaussian losses"):
        ledger.set_limit("shop", 1, 0, accounting="gaussian")
    with pytest.raises(ParameterError, match="additive_share"):
        ledger.set_limit("shop", 1, 1e-6, accounting="gaussian", additive_share=1.0)
    with pytest.raises(ParameterError, match="additive_share goes with accounting"):
        ledger.set_limit("shop", 1, 1e-6, additive_share=0.5)
    with pytest.raises(ParameterError, match="accounting must be one of"):
        ledger.set_limit("shop", 1, 1e-6, accounting="rho")
    assert ledger.show() == ()


def test_a_lowered_limit_that_is_exceeded_is_shown_as_such(ledger: Ledger) -> None:
    for _ in range(6):
        spend(ledger, monthly())
    shown = in_process("ledger", "set", "shop", "--epsilon", "1", "--delta", "2.4e-5", "--ledger", ledger.path)
    assert shown.returncode == 0
    assert "more is spent than this limit allows, so every release is refused" in shown.stdout
    assert "about 0 more of (1, 1e-6)" in shown.stdout
    with pytest.raises(BudgetRefused):
        spend(ledger, monthly())


def edited(ledger: Ledger, *statements: str) -> None:
    connection = sqlite3.connect(ledger.path)
    for statement in ("DROP TRIGGER charges_keep", "DROP TRIGGER lowered_keep", *statements):
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET cost = ''",
        "UPDATE charges SET cost = replace(cost, 'squared_loss\": 0.0', 'squared_loss\": 0.00')",
        "UPDATE lowered SET cost = replace(cost, '0.01', '0.001')",
        """UPDATE populations SET terms = '{"accounting": "gaussian", "additive_share": 0.5}'""",
        "UPDATE populations SET terms = '{}'",
    ],
)
def test_the_journal_covers_costs_and_terms(ledger: Ledger, statement: str) -> None:
    number = spend(ledger, monthly())
    ledger.lower(number, GaussianCost(0.01, 1e-8, 0.0))
    assert ledger.verify() == []
    edited(ledger, statement)
    assert [sign for sign in ledger.verify() if "rule" not in sign]
    with pytest.raises(InputError, match="nothing can be charged to it"):
        spend(ledger, monthly())


def test_a_reserve_is_lowered_once_and_never_raised(ledger: Ledger) -> None:
    number = spend(ledger, monthly())
    reserved = ledger.show()[0].gaussian_spent
    with pytest.raises(ParameterError, match="no more than what was reserved"):
        ledger.lower(number, GaussianCost(reserved.squared * 1.01))
    ledger.lower(number, GaussianCost(reserved.squared / 2))
    assert ledger.show()[0].gaussian_spent.squared == pytest.approx(reserved.squared / 2)
    with pytest.raises(ParameterError, match="lowered once"):
        ledger.lower(number, GaussianCost())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-4, 0.4), st.floats(1e-9, 3e-6)), max_size=12))
def test_never_more_than_the_limit_is_admitted(costs: list[tuple[float, float]]) -> None:
    """Law: both sums of what was admitted keep the limit, and what was refused would have exceeded one of them."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger")
        limit = ledger.set_limit("shop", *YEAR, accounting="gaussian").limit
        assert limit is not None
        squared = own = 0.0
        for cost in costs:
            try:
                spend(ledger, [GaussianRounds(*cost).to_json()])
            except BudgetRefused:
                assert squared + cost[0] > limit.squared * (1 - 1e-9) or own + cost[1] > limit.additive * (1 - 1e-4)
            else:
                squared, own = squared + cost[0], own + cost[1]
                assert squared <= limit.squared
                assert own <= limit.additive


def pages_of(folder: Path, out: Path, ledger: Ledger) -> tuple[str, str]:
    """The public page, and the balance on the private one."""
    written = qc.report(folder, out, ledger=ledger.path)
    return written.public.read_text(), written.private.read_text().partition('id="budget"')[2]


def test_auto_reserves_the_dearest_plan_and_is_lowered_to_the_chosen_one(ledger: Ledger, tmp_path: Path) -> None:
    method = qc.Queries(epsilon=1, delta=1e-6)
    asked = method.paid_by(ledger, "shop")
    assert asked.parameters()["auto_choices"] == ["gaussian 1", "rounds 16", "rounds 256"]
    (tmp_path / "log.tsv").write_text(small_log())
    with qc.read(tmp_path / "log.tsv") as log:
        release = method.release(log, ledger=ledger, population="shop")
    (charge,) = ledger.show()[0].charges
    assert charge.reserved is not None
    assert charge.lowered is not None
    assert charge.reserved.largest(charge.lowered) == charge.reserved
    assert release.gaussian_dp == charge.lowered.to_card()
    costs = [cost_of(PROMISE, [draw.to_json() for draw in each.method.draws()]) for each in asked.plan.candidates]
    assert charge.reserved.squared >= max(cost.squared for cost in costs)
    assert charge.reserved.own >= max(cost.own for cost in costs)
    saved = release.save(tmp_path / "out")
    card = json.loads((saved.folder / "card.json").read_text())
    assert card["gaussian_dp"]["squared_loss"] == charge.lowered.squared
    assert card["parameters"]["accounting"] == "gaussian"
    assert card["trade_off"] == charge.lowered.trade_off()
    public, balance = pages_of(saved.folder, tmp_path / "pages", ledger)
    assert "The most that any test can detect" in public
    assert "squared loss" in balance
    shown = in_process("ledger", "show", "--ledger", ledger.path, "--picture", tmp_path / "budgets.html")
    assert shown.returncode == 0
    assert "of squared loss" in (tmp_path / "budgets.html").read_text()
    assert (tmp_path / "budgets.html").stat().st_mode & 0o777 == 0o600
    assert qc.load(saved.folder).gaussian_dp == release.gaussian_dp
    assert in_process("verify", saved.folder, "--ledger", ledger.path).returncode == 0


def test_the_ledger_shows_the_period_of_a_charge_and_asks_before_any_data(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(small_log())
    asked = in_process("guarantee", "queries", "--epsilon", "1", "--delta", "1e-6", "--population", "shop", "--ledger", ledger.path, "--json")  # fmt: skip  # noqa: E501
    assert json.loads(asked.stdout)["ledger"] == {"population": "shop", "accepted": True, "more": 12, "why": None}
    refused = in_process("guarantee", "queries", "--epsilon", "1", "--delta", "1e-6", "--selection", "laplace", "--population", "shop", "--ledger", ledger.path)  # fmt: skip  # noqa: E501
    assert "would be refused: the ledger refuses" in " ".join(refused.stdout.split())
    made = in_process(
        "release", "queries", tmp_path / "log.tsv", "--epsilon", "1", "--delta", "1e-6", "--since", "2000-01-01",
        "--population", "shop", "--ledger", ledger.path, "--out", tmp_path / "out",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    shown = in_process("ledger", "show", "--ledger", ledger.path).stdout
    assert "left: about 11 more of (1, 1e-6)" in shown
    assert "rows since 2000-01-01T00:00:00" in shown
    assert str(tmp_path / "out") in shown.replace("\n", "")


KILLED = """
import sys
import querycloak as qc
from querycloak.contract.trial import small_log
from pathlib import Path
place = Path(sys.argv[2]) / "log.tsv"
place.write_text(small_log())
with qc.read(place) as log:
    qc.Queries(epsilon=1, delta=1e-6).release(log, ledger=qc.Ledger(sys.argv[1]), population="shop")
"""


@pytest.mark.parametrize(
    ("place", "lowered"), [("after charge", False), ("before lower", False), ("after lower", True)]
)
def test_a_run_that_dies_keeps_the_reserve(ledger: Ledger, tmp_path: Path, place: str, lowered: bool) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, ledger.path, tmp_path], env={**os.environ, fault.VARIABLE: place}, check=False
    )
    assert run.returncode == -9
    (charge,) = ledger.show()[0].charges
    assert (charge.lowered is not None) == lowered
    assert charge.status == "no release"
    assert ledger.verify() == []


RESERVE = """
import sys
from querycloak.errors import BudgetRefused
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.ledger.ledger import Ledger
draws = [GaussianRounds(0.0524, 4.9e-7).to_json()]
for _ in range(8):
    try:
        Ledger(sys.argv[1]).charge("shop", user_guarantee(1, 1e-6, "p"), method="m", parameters={"mechanisms": draws})
    except BudgetRefused:
        pass
"""


def test_processes_that_reserve_at_once_never_exceed_the_limit(ledger: Ledger) -> None:
    running = [subprocess.Popen([sys.executable, "-c", RESERVE, ledger.path]) for _ in range(2)]
    assert [each.wait() for each in running] == [0, 0]
    (account,) = ledger.show()
    assert account.limit is not None
    assert len(account.charges) == 12
    assert account.limit.admits(account.gaussian_spent)
    assert ledger.verify() == []


def test_levels_of_phrases_are_charged_by_their_draws(ledger: Ledger, tmp_path: Path) -> None:
    """Three levels of one budget cost what `queries` costs at the same budget, not a pure epsilon of three parts."""
    (tmp_path / "log.tsv").write_text(small_log())
    with qc.read(tmp_path / "log.tsv") as log:
        qc.Phrases(epsilon=1, delta=1e-6).release(log, ledger=ledger, population="shop")
    (charge,) = ledger.show()[0].charges
    assert charge.lowered is not None
    rounds = qc.Phrases(epsilon=1, delta=1e-6, selection="multi-round", accounting="gaussian")
    most = cost_of(PROMISE, [draw.to_json() for draw in rounds.draws()])
    assert charge.lowered.squared <= 1.1 * most.squared
    assert most.squared == pytest.approx(charge_of_queries(), rel=0.02)


def charge_of_queries() -> float:
    rounds = qc.Queries(epsilon=1, delta=1e-6, selection="multi-round", accounting="gaussian")
    return cost_of(PROMISE, [draw.to_json() for draw in rounds.draws()]).squared
