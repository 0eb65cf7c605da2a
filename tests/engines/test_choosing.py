"""`per_user="auto"` on two kinds of logs, on both engines; `tune`'s yields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from querycloak.cli.tune_command import tunable, yields
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.keys.key_tables import users_by_keys
from querycloak.methods.keys.selection_plan import BOUNDS, CHOICES
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import Row, aol, write

BUDGET: dict[str, Any] = {"epsilon": 8, "delta": 1e-6}


def people(users: int, each: int) -> list[Row]:
    """Users who click so many pairs each, the pairs as unequal as words are: pair k about 1/k as often as the first."""
    drawn = np.floor(20_000.0 ** np.random.default_rng(1).random((users, each))).astype(int)
    return [
        (f"u{user}", f"{10 + place // 60}:{place % 60:02}:00", f"query {pair}", "1", f"http://{pair}.example/")
        for user, pairs in enumerate(drawn)
        for place, pair in enumerate(pairs)
    ]


LOGS = {"one click each": (12_000, 1), "thirty clicks each": (1_200, 30)}


@pytest.fixture(scope="module", params=LOGS)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, duckdb_engine: Engine) -> SearchLog:
    path = write(tmp_path_factory.mktemp("choosing") / "log.tsv", aol(people(*LOGS[request.param])))
    return read(path, engine=duckdb_engine)


def test_the_default_comes_within_a_tenth_of_the_best_choice(log: SearchLog) -> None:
    """A log with one key per user wants Laplace noise, one with thirty wants rounds: no fixed choice serves both."""

    def released(**options: Any) -> float:
        drawn = (Clicks(**BUDGET, **options).release(log, randomness=Randomness(seed=seed)) for seed in (1, 2, 3))
        return float(np.mean([release.table("clicks").num_rows for release in drawn]))

    fixed = {choice: released(selection=choice.selection, max_keys_per_user=choice.bound) for choice in CHOICES}
    assert min(fixed.values()) < 0.5 * max(fixed.values()), "the bound must matter here"
    assert released() >= 0.9 * max(fixed.values())


def test_what_is_chosen_stands_in_the_release(log: SearchLog) -> None:
    release = Clicks(**BUDGET).release(log)
    said = release.parameters
    assert f"{said['selection']} {said['per_user']}" in said["auto_choices"]
    assert said["auto_choices"] == ["laplace 1", "rounds 16", "rounds 256"]
    assert said["auto_share"] == 0.01
    assert said["threshold"] > 0
    assert (release.counts == "one-draw") == (said["selection"] in ("laplace", "gaussian"))
    assert (release.proven.epsilon, release.proven.delta) == (8, 1e-6)


def test_users_by_their_number_of_keys(engine: Engine, tmp_path: Path) -> None:
    rows = [(f"u{user}", "12:00:00", f"query {key}", "1", "http://x/") for user in range(9) for key in range(user + 1)]
    log = read(write(tmp_path / "log.tsv", aol([*rows, *rows])), engine=engine)
    keys = Clicks(**BUDGET, max_keys_per_user="auto").contributions(log)["clicks"]
    assert users_by_keys(engine, keys, 256) == dict.fromkeys(range(1, 10), 1)
    assert users_by_keys(engine, keys, 4) == {1: 1, 2: 1, 3: 1, 4: 6}


class Watched(Randomness):
    """Looks at the ledger whenever a bound is chosen."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger, self.charged = ledger, list[int]()

    def proportional_to_exp_minus(self, exponents: Any) -> int:
        self.charged.append(len(self.ledger.show("people")[0].charges))
        return super().proportional_to_exp_minus(exponents)


def test_the_choice_is_charged_before_it_is_made(log: SearchLog, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_limit("people", 8, 1e-6)
    watched = Watched(ledger)
    Clicks(**BUDGET, max_keys_per_user="auto").release(log, ledger=ledger, population="people", randomness=watched)
    assert watched.charged == [1]
    (charge,) = ledger.show("people")[0].charges
    assert (float(charge.epsilon), charge.parameters["per_user"]) == (8.0, "auto")
    drawn = charge.parameters["mechanisms"]
    assert [(each["kind"], each["epsilon"]) for each in drawn] == [("any", 0.08), ("any", 7.92)]


def test_yields_against_the_bound(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read(write(tmp_path / "log.tsv", aol(people(3_000, 1))), engine=duckdb_engine)
    found = list(yields(tunable(Clicks(**BUDGET)), log))
    assert [each.bound for each in found] == list(BOUNDS)
    assert all(each.volume >= each.keys > 0 for each in found)
    assert max(found, key=lambda each: each.keys).bound == 1


def test_what_has_no_bound_to_tune() -> None:
    for method, message in (
        (KAnonymity(min_users=5), "k-anonymity, default variant, has no bound to tune"),
        (Clicks(noise=1, threshold=9, variant="paper"), "clicks, paper variant, has no bound to tune"),
        (Clicks(**BUDGET, max_keys_per_user=4), "tune tries every bound: leave max_keys_per_user out"),
    ):
        with pytest.raises(ParameterError, match=message):
            tunable(method)
