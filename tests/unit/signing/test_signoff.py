"""A sign-off: the plan first, nothing released before somebody decides, one charge however often it is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.errors import OrderError, ParameterError
from querycloak.methods.unprotected import CHOSEN_ON_LOG, DRAWN_AGAIN
from querycloak.signing import signoff as steps
from querycloak.signing.signoff import AFTER_EVIDENCE
from querycloak.signing.signoff_plan import read_plan
from tests.commands import Done, in_process
from tests.evaluated import Asked, write_rows

PLAN = """population = "readers"
population_size = 120
unit = "account"
method = "clicks"
test = 0.3

[about]
owner = "Example Library"
contact = "library@example.org"
purpose = "research on query suggestion"

[options]
epsilon = 3
delta = 1e-3
selection = "laplace"
"""
TOKEN = "quxtoken"
ROWS: list[Asked] = [
    *(
        (f"member{user:03}", minute, f"shared{minute} zorb", f"http://zorb{minute}.example/", 1)
        for user in range(120)
        for minute in range(user % 4 + 1)
    ),
    *((f"member{user:03}", 9, f"{TOKEN}{user} only", f"http://{TOKEN}{user}.example/", 2) for user in range(120)),
]


def run(place: Path, *more: str) -> Done:
    return in_process(
        "signoff", place / "log.parquet", "--plan", place / "plan.toml", "--out", place / "out", "--ledger",
        place / "ledger.sqlite", "--json", *more,
    )  # fmt: skip


def begin(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    write_rows(folder / "log.parquet", ROWS)
    (folder / "plan.toml").write_text(PLAN)
    qc.Ledger(folder / "ledger.sqlite").set_limit("readers", 10, 1e-2)
    return folder


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sign-off whose evidence is ready, and of which nothing is released."""
    place = begin(tmp_path_factory.mktemp("signoff") / "here")
    done = run(place)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["released"] is False
    return place


@pytest.fixture
def place(measured_once: Path, tmp_path: Path) -> Path:
    """A copy of it, to go on with."""
    return shutil.copytree(measured_once, tmp_path / "here")


def charges(place: Path) -> list[Any]:
    return list(qc.Ledger(place / "ledger.sqlite").show("readers")[0].charges)


def public_texts(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (place / "out" / "public").rglob("*") if path.is_file())


def test_evidence_comes_first_and_costs_nothing(place: Path) -> None:
    assert charges(place) == []
    assert not (place / "out" / "public").exists()
    draft = (place / "out" / "private" / "draft.html").read_text()
    assert "PRIVATE" in draft
    assert "not accounted" in draft


def test_yes_releases_charges_once_and_writes_both_pages(place: Path) -> None:
    done = run(place, "--yes")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    release = place / "out" / "public" / "release"
    assert shown["released"]
    assert shown["release"] == str(release)
    assert qc.verify(release, ledger=place / "ledger.sqlite").ok
    (charge,) = charges(place)
    assert charge.releases == (shown["digest"],)
    assert AFTER_EVIDENCE in qc.load(release).proven.unprotected
    private = (place / "out" / "private" / "private.html").read_text()
    for words in ("Singling out", "Is this anonymous under the GDPR", "Is this epsilon normal", "Erasure and retention",
                  "impact assessment (DPIA)", "Art. 38(6)", "one account. A person with two accounts"):  # fmt: skip
        assert words in private
    # The raw log is not kept a second time, and nothing of one person is public.
    assert not (place / "out" / "private" / "split").exists()
    assert TOKEN.encode() not in public_texts(place)
    again = run(place, "--yes")
    assert json.loads(again.stdout)["digest"] == shown["digest"]
    assert len(charges(place)) == 1


class KilledError(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", ["save", "public_page"])
def test_a_run_that_ended_after_its_charge_goes_on_and_charges_once(
    place: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(steps, moment, killed)
        with pytest.raises(KilledError):
            run(place, "--yes")
    assert len(charges(place)) == 1
    done = run(place, "--yes")
    assert done.returncode == 0, done.stderr
    (charge,) = charges(place)
    assert charge.releases == (json.loads(done.stdout)["digest"],)
    release = place / "out" / "public" / "release"
    assert qc.verify(release, ledger=place / "ledger.sqlite").ok
    assert (DRAWN_AGAIN in qc.load(release).proven.unprotected) == (moment == "save")


def test_a_plan_changed_after_the_evidence_stands_on_the_card(place: Path) -> None:
    (place / "plan.toml").write_text(PLAN.replace("epsilon = 3", "epsilon = 2"))
    done = run(place, "--yes")
    assert done.returncode == 0, done.stderr
    assert CHOSEN_ON_LOG in qc.load(place / "out" / "public" / "release").proven.unprotected


def with_list(place: Path, *users: str) -> None:
    """The plan, with a list of users to leave out."""
    (place / "bots.txt").write_text("".join(f"{user}\n" for user in users))
    (place / "plan.toml").write_text(f'{PLAN}\n[log]\nleave_out = "{place / "bots.txt"}"\n')


def test_bots_are_left_out_of_evidence_and_release_by_a_list(tmp_path: Path) -> None:
    """A text that bots alone ask would come out; with the list they are in no part of the sign-off."""
    place = begin(tmp_path / "here")
    bots = [f"crawler{number:03}" for number in range(60)]
    write_rows(place / "log.parquet", [*ROWS, *((bot, 3, "botword", "http://botword.example/", 1) for bot in bots)])
    with_list(place, *bots)
    done = run(place)
    assert done.returncode == 0, done.stderr
    twin = qc.load(place / "out" / "private" / "twin").table("clicks")
    assert "botword" not in twin["query"].to_pylist()
    train = (place / "out" / "private" / "split" / "train.parquet").read_bytes()
    assert b"crawler" not in train
    assert run(place, "--yes").returncode == 0
    release = qc.load(place / "out" / "public" / "release")
    assert "botword" not in release.table("clicks")["query"].to_pylist()
    assert CHOSEN_ON_LOG not in release.proven.unprotected
    assert b"crawler" not in public_texts(place)


@pytest.mark.any_words  # names in a plan are those of the file
def test_a_list_changed_after_the_evidence_changes_the_plan(tmp_path: Path) -> None:
    place = begin(tmp_path)
    with_list(place, "member001")
    first = read_plan(place / "plan.toml").digest
    with_list(place, "member001", "member002")
    assert read_plan(place / "plan.toml").digest != first
    (place / "bots.txt").unlink()
    done = run(place)
    assert done.returncode == 2
    assert "one user a line" in done.stderr


def test_a_charge_pays_for_one_release(place: Path) -> None:
    """Whoever takes the released folder away and starts again gets no second release for the same charge."""
    assert run(place, "--yes").returncode == 0
    shutil.rmtree(place / "out" / "public")
    done = run(place, "--yes")
    assert done.returncode != 0
    assert "has paid for another release" in done.stderr
    name = json.loads((place / "out" / "private" / "signoff.json").read_text())["run"]
    book, method = qc.Ledger(place / "ledger.sqlite"), qc.Clicks(epsilon=3, delta=1e-3, selection="laplace")
    with qc.read(place / "log.parquet") as log, pytest.raises(OrderError):
        method.release(log, ledger=book, population="readers", run=name)


def test_another_log_or_a_paid_plan_is_refused(place: Path) -> None:
    write_rows(place / "log.parquet", ROWS[:-1])
    done = run(place, "--yes")
    assert done.returncode == 2
    assert "a sign-off of another log" in done.stderr


@pytest.mark.any_words  # names in a plan are those of the file
def test_all_that_a_plan_lacks_is_named_at_once(tmp_path: Path) -> None:
    place = begin(tmp_path)
    (place / "plan.toml").write_text('method = "clicks"\n[about]\nowner = "us"\n')
    done = run(place)
    assert done.returncode == 2
    for name in ("population (", "population_size (", "unit (", "options (", "contact in about", "purpose in about"):
        assert name in done.stderr
    assert not (place / "out").exists()


@pytest.mark.any_words  # names in a plan are those of the file
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('unit = "account"', 'unit = "person"', "must say who is a user: account, cookie"),
        ('method = "clicks"', 'method = "cliks"', "must be one of"),
        ("epsilon = 3", "epsilom = 3", "the plan's options have 'epsilom'"),
        ("test = 0.3", "test = 3", "share between 0 and 1"),
        ("population_size = 120", 'population_size = "many"', "whole number"),
        ("test = 0.3", "tests = 0.3", "'tests', which is unknown"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused_before_the_log_is_opened(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    place = begin(tmp_path)
    (place / "log.parquet").unlink()
    (place / "plan.toml").write_text(PLAN.replace(old, new))
    done = run(place)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_population_without_a_limit_is_refused_first(tmp_path: Path) -> None:
    place = begin(tmp_path)
    (place / "plan.toml").write_text(PLAN.replace('"readers"', '"others"'))
    done = run(place)
    assert done.returncode == 2
    assert "has no limit in the ledger" in done.stderr
    assert not (place / "out").exists()


def test_too_small_a_budget_is_refused_first(tmp_path: Path) -> None:
    place = begin(tmp_path)
    (place / "plan.toml").write_text(PLAN.replace("epsilon = 3", "epsilon = 11"))
    assert run(place).returncode == 3


def test_a_method_that_protects_single_queries_has_no_signoff(tmp_path: Path) -> None:
    bounds = 'delta = 1e-3\nselection = "laplace"'
    plan = PLAN.replace('"clicks"', '"semantic"').replace(bounds, 'budget_per = "query"')
    (tmp_path / "plan.toml").write_text(plan)
    with pytest.raises(ParameterError, match="protects each single query"):
        read_plan(tmp_path / "plan.toml")


def command(place: Path) -> list[str]:
    paths = ["--plan", place / "plan.toml", "--out", place / "out", "--ledger", place / "ledger.sqlite"]
    return [
        sys.executable,
        "-m",
        "querycloak",
        "signoff",
        *map(str, [place / "log.parquet", *paths]),
        "--yes",
        "--quiet",
    ]


def goes_on(place: Path, settings: dict[str, str]) -> None:
    """A killed sign-off goes on, pays once, publishes nothing of one person, and leaves nothing behind."""
    done = subprocess.run(command(place), env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (charge,) = charges(place)
    release = place / "out" / "public" / "release"
    assert qc.verify(release, ledger=place / "ledger.sqlite").ok
    assert len(charge.releases) == 1
    assert TOKEN.encode() not in public_texts(place)
    assert not (place / "out" / "private" / "split").exists()
    assert [path for path in place.rglob(".querycloak-*") if "places" not in path.name] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["after charge", "before announce", "before rename", "after rename", "before complete"]
)
def test_killed_at_a_step_of_its_release_a_sign_off_goes_on(place: Path, fault: str) -> None:
    (place / "tmp").mkdir()
    settings = {**os.environ, "QUERYCLOAK_TMP": str(place / "tmp")}
    killed = subprocess.run(
        command(place), env={**settings, "QUERYCLOAK_FAULT": fault}, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert TOKEN.encode() not in public_texts(place)
    goes_on(place, settings)


@pytest.mark.slow
def test_killed_at_several_moments_a_sign_off_goes_on(tmp_path: Path) -> None:
    place = begin(tmp_path / "here")
    (place / "tmp").mkdir()
    settings = {**os.environ, "QUERYCLOAK_TMP": str(place / "tmp")}
    began = time.monotonic()
    whole = begin(tmp_path / "whole")
    subprocess.run(command(whole), env=settings, capture_output=True, check=True)
    lasting = time.monotonic() - began
    for moment in (0.2, 0.4, 0.5, 0.6, 0.5, 0.4, 0.3):  # what was done before is kept, so later ones come further
        process = subprocess.Popen(command(place), env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moment * lasting)
        process.kill()
        process.wait()
        assert TOKEN.encode() not in public_texts(place)
        assert len(charges(place)) <= 1
    goes_on(place, settings)


def test_counts_by_week_take_the_period_of_the_plan(tmp_path: Path) -> None:
    place = begin(tmp_path)
    plan = PLAN.replace('method = "clicks"', 'method = "queries"').replace("selection", 'by = "week"\nselection')
    (place / "plan.toml").write_text(f'{plan}\n[log]\nsince = "2006-02-27"\nuntil = "2006-04-03"\n')
    done = run(place)
    assert done.returncode == 0, done.stderr
    card = json.loads((place / "out" / "private" / "twin" / "card.json").read_text())
    assert (card["log"]["since"][:10], card["log"]["until"][:10]) == ("2006-02-27", "2006-04-03")
