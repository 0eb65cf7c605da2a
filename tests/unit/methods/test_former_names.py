"""Renamed options and values: former names work everywhere, and cards keep the oldest."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.comparison.comparison_plan import releases_in
from querycloak.errors import ParameterError
from querycloak.methods.method import Method
from querycloak.methods.option import TakesFormerNames, current_options, option, options_of
from querycloak.methods.registry import METHODS
from tests.commands import in_process

BUDGET: dict[str, Any] = {"epsilon": 4, "delta": 1e-3}
TYPED = ("--epsilon", "4", "--delta", "1e-3")
COMMANDS = Path(__file__).parents[3] / "docs" / "commands.md"
WITH_BOUND = ("queries", "clicks", "sessions", "optimal")
BOTH = "per_user is the former name of max_keys_per_user: give only max_keys_per_user"


def made(name: str, **options: Any) -> Method:
    return METHODS[name](**options)


@pytest.mark.parametrize("name", WITH_BOUND)
def test_a_constructor_takes_the_former_name(name: str) -> None:
    former, current = made(name, **BUDGET, per_user=4), made(name, **BUDGET, max_keys_per_user=4)
    assert former == current
    assert vars(former)["max_keys_per_user"] == 4
    with pytest.raises(ParameterError) as refused:
        made(name, **BUDGET, per_user=4, max_keys_per_user=5)
    assert str(refused.value) == BOTH


def test_a_constructor_takes_the_former_value() -> None:
    assert made("clicks", **BUDGET, selection="rounds") == qc.Clicks(**BUDGET, selection="multi-round")
    assert made("sessions", **BUDGET, selection="rounds") == qc.Sessions(**BUDGET, selection="multi-round")
    with pytest.raises(ParameterError, match="one of laplace, gaussian, weighted, multi-round, got 'round'"):
        made("clicks", **BUDGET, selection="round")


def test_a_copy_may_be_changed_by_the_former_name() -> None:
    changed: dict[str, Any] = {"per_user": 4}
    assert replace(qc.Clicks(**BUDGET), **changed) == qc.Clicks(**BUDGET, max_keys_per_user=4)


@pytest.mark.parametrize("name", WITH_BOUND)
def test_cards_and_json_keep_the_oldest_names(name: str) -> None:
    method = made(name, **BUDGET, max_keys_per_user=9)
    options, parameters = method.options(), method.describe()["parameters"]
    assert options == {**BUDGET, "per_user": 9}
    assert parameters["per_user"] == 9
    assert "max_keys_per_user" not in parameters
    assert made(name, **options) == method


def test_cards_and_json_keep_the_oldest_value() -> None:
    method = qc.Clicks(**BUDGET, selection="multi-round")
    assert method.options() == {**BUDGET, "selection": "rounds"}
    assert method.parameters()["selection"] == "rounds"
    assert qc.Clicks(epsilon=8, delta=1e-6).parameters()["auto_choices"] == ["laplace 1", "rounds 16", "rounds 256"]


@pytest.mark.parametrize("name", WITH_BOUND)
def test_the_former_option_can_be_typed_and_is_hidden(name: str) -> None:
    former = in_process("guarantee", name, *TYPED, "--per-user", "9", "--json").stdout
    assert former == in_process("guarantee", name, *TYPED, "--max-keys-per-user", "9", "--json").stdout
    assert json.loads(former)["parameters"]["per_user"] == 9
    shown = in_process("release", name, "--help").stdout
    assert "--max-keys-per-user" in shown
    assert not re.search(r"--per-user\b", shown)
    assert not re.search(r"--per-user\b", COMMANDS.read_text())


def test_the_former_value_can_be_typed_and_is_hidden() -> None:
    former = in_process("guarantee", "clicks", *TYPED, "--selection", "rounds", "--json").stdout
    assert former == in_process("guarantee", "clicks", *TYPED, "--selection", "multi-round", "--json").stdout
    assert json.loads(former)["parameters"]["selection"] == "rounds"
    assert "|multi-round>" in in_process("guarantee", "clicks", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["clicks", "--per-user", "4", "--max-keys-per-user", "5"],
            "--per-user is the former name of --max-keys-per-user: give only --max-keys-per-user",
        ),
        (["clicks", "--per-user", "0"], "--max-keys-per-user must be at least 1, got 0"),
        (["optimal", "--per-user", "some"], "--max-keys-per-user must be a whole number, got 'some'"),
        (["query-pool", "--per-user", "3"], "--per-user does not go with query-pool"),
    ],
)
def test_errors_name_the_current_option(arguments: list[str], message: str) -> None:
    done = in_process("guarantee", *arguments, *TYPED)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("plan", "typed", "bound"),
    [
        ("per-user = 2", [], 2),
        ("max-keys-per-user = 2", [], 2),
        ("per-user = 2", ["--max-keys-per-user", "3"], 3),
        ("max-keys-per-user = 2", ["--per-user", "3"], 3),
        ("per_user = 2", ["--per-user", "3"], 3),
    ],
)
def test_a_plan_may_have_the_former_name_and_what_is_typed_wins(
    plan: str, typed: list[str], bound: int, tmp_path: Path
) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(f"{plan}\nselection = 'rounds'\n")
    done = in_process("guarantee", "clicks", *TYPED, *typed, "--plan", str(file), "--json")
    parameters = json.loads(done.stdout)["parameters"]
    assert (parameters["per_user"], parameters["selection"]) == (bound, "rounds")


def test_a_plan_with_both_names_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text("per-user = 2\nmax-keys-per-user = 3\n")
    done = in_process("guarantee", "clicks", *TYPED, "--plan", str(file))
    assert (done.returncode, "give only --max-keys-per-user" in done.stderr) == (2, True)
    file.write_text("users = 2\n")
    listed = in_process("guarantee", "clicks", *TYPED, "--plan", str(file)).stderr
    assert ", max-keys-per-user, " in listed
    assert ", per-user, " not in listed


def test_releases_of_a_comparison_may_have_the_former_names(tmp_path: Path) -> None:
    file = tmp_path / "releases.toml"
    begin = "[[release]]\nname = 'a'\nmethod = 'clicks'\n[release.options]\nepsilon = 4\ndelta = 1e-3\n"
    file.write_text(f"{begin}per-user = 4\nselection = 'rounds'\n")
    (planned,) = releases_in(file)
    assert planned.made() == qc.Clicks(**BUDGET, max_keys_per_user=4, selection="multi-round")
    file.write_text(f"{begin}per-user = 4\nmax-keys-per-user = 5\n")
    with pytest.raises(ParameterError, match=f"the release 'a' cannot be made: {BOTH}"):
        releases_in(file)


@dataclass(frozen=True, kw_only=True)
class Renamed(metaclass=TakesFormerNames):
    """An option that was renamed twice."""

    most: int = option(1, help="A bound.", formerly=("bound", "limit"))
    kind: str | None = option(help="A word.", former_values={"old": "new", "older": "new"})


def test_an_option_may_have_several_former_names() -> None:
    kind: Any = Renamed
    assert kind(bound=3) == kind(limit=3) == Renamed(most=3)
    assert kind(kind="older") == kind(kind="old") == Renamed(kind="new")
    with pytest.raises(ParameterError, match="limit is the former name of most: give only most"):
        kind(limit=3, most=4)
    with pytest.raises(ParameterError, match="bound is the former name of most: give only most"):
        kind(bound=3, limit=4)
    most, word = options_of(Renamed)
    assert (most.recorded_name, word.recorded_name) == ("bound", "kind")
    assert [word.recorded_value(value) for value in ("new", "other", None)] == ["old", "other", None]
    assert list(current_options(Renamed, {"a": 1, "bound": 2, "z": 3})) == ["a", "most", "z"]
