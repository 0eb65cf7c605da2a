"""The studio without a browser: its commands and its plan are real ones, and its guard lets nobody in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import querycloak as qc
from querycloak.cli.cli import app
from querycloak.cli.studio_command import new_studio
from querycloak.errors import InputError
from querycloak.signing.signoff_plan import read_plan
from querycloak.studio.app import TOKEN_HEADER
from querycloak.studio.studio_form import ACCURACY, EPSILON, StudioForm
from querycloak.studio.twin_grid import NEEDS
from tests.commands import in_process
from tests.evaluated import some_rows, write_rows
from tests.studios import TOKEN, Running, running

NASTY = "<script>alert(1)</script>\"'&\u202e"
FILLED = {
    "log": "my logs/log.tsv", "population": "readers", "population_size": "20000", "searches_per_user": "3",
    "owner": f"Library {NASTY}", "contact": "library@example.org", "purpose": 'a "quoted" \\ purpose',
    "out": "signed here", "start": EPSILON, "epsilon": "4",
}  # fmt: skip


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("studio")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYCLOAK_LEDGER", str(folder / "ledger.sqlite"))
        patch.chdir(folder)
        with running(new_studio()) as answering:
            yield answering


def parsed(words: list[str]) -> dict[str, Any]:
    """What the real command line makes of a command: the values of its options, if it takes them all."""
    command: Any = get_command(app)
    assert words[0] == "querycloak"
    context = command.make_context("querycloak", words[1:2], resilient_parsing=True)
    rest = words[1:]
    while hasattr(command, "get_command"):
        command = command.get_command(context, rest[0])
        assert command is not None, rest
        context, rest = None, rest[1:]
    return dict(command.make_context(words[1], list(rest)).params)


def commands_on(text: str) -> list[list[str]]:
    part = text.partition('class="commands"')[2].partition("</dl>")[0]
    return [shlex.split(unescape(each)) for each in re.findall(r"<code>(.*?)</code>", part)]


@pytest.mark.parametrize("need", [need.name for need in NEEDS])
def test_every_command_on_the_screen_is_one_of_the_command_line(studio: Running, need: str) -> None:
    start = ACCURACY if need == "completion" else EPSILON  # solving takes seconds
    text = studio.post("/view", **FILLED | {"need": need, "start": start, "for_users": "300", "by": "country"})
    commands = commands_on(text)
    assert [words[1] for words in commands] == ["inspect", "guarantee", "ledger", "signoff"]
    for words in commands:
        if words[1] == "ledger":  # its limits are still to be typed
            words = [word.replace("EPSILON", "8").replace("DELTA", "1e-5") for word in words]  # noqa: PLW2901
        assert parsed(words)
    assert parsed(commands[-1])["log"] == ["my logs/log.tsv"]


def test_the_screen_shows_what_its_command_prints(studio: Running) -> None:
    text = studio.post("/view", **FILLED | {"start": ACCURACY, "for_users": "100", "population": ""})
    words = commands_on(text)[1]
    done = in_process(*words[1:])
    assert done.returncode == 0, done.stderr
    shown = re.search(r"<strong>epsilon ([\d.]+)</strong>", text)
    assert shown is not None
    assert f"epsilon {shown[1]}" in done.stdout
    assert StudioForm.of(FILLED).signoff_command(yes=True)[-1] == "--yes"


@pytest.mark.parametrize("need", [need.name for need in NEEDS])
def test_the_plan_is_one_of_signoff(tmp_path: Path, need: str) -> None:
    form = StudioForm.of(FILLED | {"need": need, "columns": "user=a,time=b,query=c", "by": "country"})
    path = tmp_path / "plan.toml"
    path.write_text(form.plan_text)
    plan = read_plan(path)
    assert plan.method == form.method
    assert (plan.population, plan.population_size, plan.unit) == ("readers", 20_000, "account")
    assert plan.about.purpose == 'a "quoted" \\ purpose'
    assert plan.log["columns"] == "user=a,time=b,query=c"


def test_markup_is_text(studio: Running) -> None:
    text = studio.post("/view", **dict.fromkeys(FILLED, NASTY) | {"need": NASTY, "unit": NASTY})
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert text.count("<script") == 1


def test_without_the_token_nobody_gets_anything(studio: Running) -> None:
    paths = [
        "/",
        "/state",
        "/studio.css",
        "/studio.js",
        "/pages/draft",
        "/view",
        "/?token=wrong",
        f"/state?token={TOKEN}",
    ]
    for path in paths:
        status, _, text = studio.ask(path)
        assert (status, len(text) < 80) == (403, True)
    assert studio.ask("/", {"cookie": f"querycloak-studio-{studio.port}=wrong"})[0] == 403


def test_the_token_leaves_the_address_at_once(studio: Running) -> None:
    status, headers, _ = studio.ask(f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=strict"} <= set(headers["set-cookie"].split("; "))
    status, headers, text = studio.ask("/", {"cookie": studio.cookie})
    assert status == 200
    assert TOKEN not in text
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "http" not in headers["content-security-policy"]
    assert "server" not in headers


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}],
    ids=str,
)
def test_other_hosts_and_other_pages_get_nothing(studio: Running, headers: dict[str, str]) -> None:
    assert studio.ask("/", {"cookie": studio.cookie} | headers)[0] == 403


def test_only_the_page_itself_can_send_a_form(studio: Running) -> None:
    form = {"population": "somebody"}
    for headers in ({}, {TOKEN_HEADER: TOKEN}, {TOKEN_HEADER: "é"}):
        assert studio.ask("/view", {"cookie": studio.cookie} | headers, form)[0] == 403
    assert studio.studio.form.population != "somebody"


def test_a_budget_is_set_as_ledger_set_does(studio: Running) -> None:
    studio.post("/budget", **FILLED | {"population": "set here", "limit_epsilon": "5", "limit_delta": "1e-4"})
    account = next(each for each in qc.Ledger().show() if each.population == "set here")
    assert (account.epsilon_limit, account.delta_limit) == (5, 1e-4)
    text = studio.post("/view", **FILLED | {"population": "set here", "epsilon": "6"})
    assert "would exceed" in text or "left" in text


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("epsilon", "epsilon must be a number above 0"),
        ("population_size", "the number of people must be a whole number"),
        ("searches_per_user", "the searches of each person must be a number"),
    ],
)
def test_a_field_that_cannot_be_understood_is_named(studio: Running, field: str, message: str) -> None:
    assert message in studio.post("/view", **FILLED | {field: "many"})


def test_nothing_is_released_without_fields_or_evidence(studio: Running) -> None:
    assert "a sign-off also needs" in studio.post("/measure", **FILLED | {"owner": ""})
    assert "measure it first" in studio.post("/release", **FILLED)
    assert "the log must be named" in studio.post("/inspect", **FILLED | {"log": ""})
    with pytest.raises(InputError, match="the need must be one of"):
        _ = StudioForm(need="nothing").chosen_need


def test_a_file_of_somebody_elses_is_not_taken_for_a_plan(studio: Running, tmp_path: Path) -> None:
    (tmp_path / "out.toml").write_text("mine")
    text = studio.post("/measure", **FILLED | {"out": str(tmp_path / "out")})
    assert "the plan must not exist yet" in text
    assert (tmp_path / "out.toml").read_text() == "mine"


def test_the_command_refuses_a_port_that_is_none_and_one_that_is_taken(studio: Running) -> None:
    assert "--port must be between 1 and 65535" in in_process("studio", "--port", "0").stderr
    assert "is taken or not allowed" in in_process("studio", "--port", str(studio.port)).stderr


def test_the_price_says_what_is_left_after_the_release(studio: Running) -> None:
    studio.post("/budget", **FILLED | {"population": "rounded", "limit_epsilon": "8", "limit_delta": "0.00020009"})
    text = studio.post(
        "/view", **FILLED | {"population": "rounded", "start": "epsilon", "epsilon": "3", "delta": "1e-4"}
    )
    assert "Left now: epsilon 8, delta 0.0002." in text
    assert "Left after it: epsilon 5, delta 0.0001" in text


def test_no_sign_off_begins_with_the_example_of_people(studio: Running) -> None:
    text = studio.post("/measure", **FILLED | {"population_size": ""})
    assert "a sign-off also needs the number of people" in text
    assert "interpolated for 20,000 people" in text


def test_users_to_leave_out_stand_in_the_plan_and_in_commands(studio: Running) -> None:
    text = studio.post("/view", **FILLED | {"leave_out": "bots.txt"})
    assert "--leave-out bots.txt" in text
    assert "leave_out = &#34;bots.txt&#34;" in text


def test_hardly_any_rows_are_a_caution_and_a_log_beyond_the_twins_is_named(studio: Running) -> None:
    start = {"start": "epsilon", "epsilon": "1"}
    assert "Hardly anything comes out" in studio.post("/view", **FILLED | start | {"population_size": "1000"})
    text = studio.post("/view", **FILLED | start | {"population_size": "500000"})
    assert "You have 500,000 people" in text
    assert "Hardly anything" not in text


@pytest.mark.slow
def test_a_log_is_inspected_measured_and_released_as_commands_do_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYCLOAK_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "log.parquet", some_rows(1, 120))
    qc.Ledger().set_limit("readers", 10, 1e-2)
    fields = FILLED | {"log": "log.parquet", "population_size": "120", "out": "signed"}
    studio = new_studio()
    studio.take(fields)
    studio.inspect()
    studio.background.join()
    assert ("users", "120") in (studio.figures or ())
    for release in (False, True):
        studio.sign_off(release=release)
        studio.background.join()
        assert studio.background.state is not None
        assert studio.background.state.problem is None
    assert studio.signed is not None
    assert studio.signed.released
    assert qc.verify(tmp_path / "signed" / "public" / "release").digest == studio.signed.digest
    (account,) = qc.Ledger().show("readers")
    assert len(account.charges) == 1
    assert "PRIVATE" in (studio.page("private") or "")
    studio.take(fields | {"epsilon": "3"})
    with pytest.raises(InputError, match="measure it first"):
        studio.sign_off(release=True)
