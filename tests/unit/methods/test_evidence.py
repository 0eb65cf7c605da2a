"""Cards and ledgers as evidence: what was edited afterwards is found."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.errors import CheckFailed, InputError, ParameterError
from querycloak.evaluation.target import Target
from querycloak.privacy.ledger.ledger_reader import FIRST_TABLES, KIND, SECOND_TABLES
from querycloak.releases.folder import card_digest
from tests.commands import in_process
from tests.logs import aol, write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = [(f"u{i}", "12:00:00", f"query {i % 3}", "1", f"http://{i % 3}.example/") for i in range(90)]
    return write(tmp_path / "log.tsv", aol(rows))


@pytest.fixture
def ledger(tmp_path: Path) -> qc.Ledger:
    book = qc.Ledger(tmp_path / "ledger.sqlite")
    book.set_limit("people", 20, 1e-3, by="the board", why="first year")
    return book


def released(log: Path, folder: Path, ledger: qc.Ledger | None = None, **options: Any) -> Path:
    method = qc.Clicks(**({"epsilon": 4, "delta": 1e-4} | options))
    with qc.read(log) as opened:
        method.release(opened, ledger=ledger, population=None if ledger is None else "people").save(folder)
    return folder


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a card as somebody would who knows that it is JSON."""
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "epsilon": lambda card: card["proven"].update(epsilon=1.0),
    "delta": lambda card: card["proven"].update(delta=1e-9),
    "kind": lambda card: card["proven"].update(kind="pure-dp", delta=0.0),
    "noise": lambda card: card["parameters"].update(noise=99.0),
    "options alone": lambda card: card["options"].update(epsilon=1),
    "options and epsilon": lambda card: (card["options"].update(epsilon=1), card["proven"].update(epsilon=1.0)),
    "no such option": lambda card: card["options"].update(kindness=3),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_card_is_refused(edit: Callable[[dict[str, Any]], object], log: Path, tmp_path: Path) -> None:
    folder = released(log, tmp_path / "out")
    assert qc.load(folder).proven.epsilon == 4.0
    assert qc.verify(folder).ok
    edited(folder, edit)
    with pytest.raises(InputError, match="was changed"):
        qc.load(folder)
    assert not qc.verify(folder).ok


@pytest.mark.parametrize("options", [{"max_keys_per_user": "auto"}, {"selection": "laplace"}, {"variant": "paper"}])
def test_cards_of_every_kind_follow_from_their_options(options: dict[str, Any], log: Path, tmp_path: Path) -> None:
    folder = released(log, tmp_path / "out", **options)
    found = qc.verify(folder)
    assert (found.ok, found.problems) == (True, ())
    assert "the guarantee follows from the card's options" in found.checked


def test_a_digest_that_is_cut_off_is_a_mistake_and_no_alarm(log: Path, ledger: qc.Ledger, tmp_path: Path) -> None:
    folder = released(log, tmp_path / "out", ledger)
    kept = ledger.digest()
    assert kept is not None
    release = hashlib.sha256((folder / "card.json").read_bytes()).hexdigest()
    commands: list[tuple[list[str | Path], str]] = [
        (["verify", folder], release), (["ledger", "verify", "--ledger", ledger.path], kept),
    ]  # fmt: skip
    for command, digest in commands:
        done = in_process(*command, "--digest", digest[:-1])
        assert (done.returncode, done.stdout) == (2, "")
        assert "--digest must be 64 hexadecimal digits" in done.stderr
        assert in_process(*command, "--digest", f"sha256:{digest.upper()}").returncode == 0
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        qc.load(folder, digest="x")


def test_a_digest_tells_what_was_sent(log: Path, tmp_path: Path) -> None:
    folder = released(log, tmp_path / "out")
    digest = hashlib.sha256((folder / "card.json").read_bytes()).hexdigest()
    assert qc.load(folder, digest=f"sha256:{digest}").method == "clicks"
    other = released(log, tmp_path / "other", epsilon=3)  # with the same budget noise may well be the same
    with pytest.raises(CheckFailed, match="not the one given"):
        qc.load(other, digest=digest)
    done = in_process("verify", other, "--digest", digest, "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["problems"] == ["the digest is not the one that was given"]
    shown = in_process("release", "clicks", log, "--epsilon", "4", "--delta", "1e-4", "--out", tmp_path / "third")
    assert hashlib.sha256((tmp_path / "third" / "card.json").read_bytes()).hexdigest() in shown.stdout


def test_a_table_that_was_changed_is_found(log: Path, tmp_path: Path) -> None:
    folder = released(log, tmp_path / "out")
    with (folder / "clicks.parquet").open("ab") as file:
        file.write(b"x")
    done = in_process("verify", folder)
    assert done.returncode == 4
    assert "clicks.parquet" in done.stdout


def test_the_ledger_knows_its_releases(log: Path, ledger: qc.Ledger, tmp_path: Path) -> None:
    folder = released(log, tmp_path / "out", ledger)
    assert qc.verify(folder, ledger=ledger.path).ok
    stranger = released(log, tmp_path / "stranger")
    assert qc.verify(stranger, ledger=ledger.path).problems == ("the card says that it was not accounted",)
    shutil.copytree(folder, tmp_path / "copy")
    edited(tmp_path / "copy", lambda card: card["log"].update(keep_url="host"))
    assert "does not know this digest" in " ".join(qc.verify(tmp_path / "copy", ledger=ledger.path).problems)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="signatures need OpenSSH's client")
def test_signatures_are_those_of_ssh_keygen(log: Path, tmp_path: Path) -> None:
    folder, key = released(log, tmp_path / "out"), tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signed = tmp_path / "card.sig"
    with (folder / "card.json").open("rb") as card, signed.open("wb") as out:
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "querycloak", "-f", str(key)], stdin=card, stdout=out, check=True)  # noqa: E501  # fmt: skip
    signers = tmp_path / "signers"
    signers.write_text(f"officer@example.org {key.with_suffix('.pub').read_text()}")
    assert qc.verify(folder, signature=signed, signers=signers).ok
    assert qc.verify(folder, signature=signed).ok
    signers.write_text("")
    assert qc.verify(folder, signature=signed, signers=signers).problems
    edited(folder, lambda card: card["log"].update(keep_url="host"))
    assert "the signature does not fit the card" in qc.verify(folder, signature=signed).problems


def test_every_change_of_a_limit_is_kept(ledger: qc.Ledger) -> None:
    ledger.set_limit("people", 8, 1e-4, by="the officer", why="too much")
    told = [(each.what["epsilon"], each.what["by"], each.what["why"]) for each in ledger.limits("people")]
    assert told == [("20.0", "the board", "first year"), ("8.0", "the officer", "too much")]
    assert ledger.verify() == []
    shown = " ".join(in_process("ledger", "show", "people", "--ledger", ledger.path).stdout.split())
    assert "set by the officer: too much" in shown
    set_again: list[str | Path] = ["ledger", "set", "people", "--epsilon", "9", "--delta", "0", "--ledger", ledger.path]
    assert in_process(*set_again, "--by", "me", "--because", "because").returncode == 0
    assert ledger.limits("people")[-1].what["by"] == "me"
    ledger.set_limit("others", 1, 0)
    assert ledger.limits("others")[0].what["by"]


CHANGES = {
    "a limit": "UPDATE populations SET epsilon = '99.0'",
    "a journal": "DROP TRIGGER journal_keep; UPDATE journal SET entry = replace(entry, '20.0', '9.0') WHERE id = 2",
    "a journal's end": "DROP TRIGGER journal_stay; DELETE FROM journal WHERE id = (SELECT max(id) FROM journal)",
    "a charge": "DROP TRIGGER charges_stay; PRAGMA foreign_keys = OFF; DELETE FROM charges",
    "a release": "DROP TRIGGER releases_stay; DELETE FROM releases",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_ledger_changed_by_other_means_is_found(change: str, log: Path, ledger: qc.Ledger, tmp_path: Path) -> None:
    released(log, tmp_path / "out", ledger)
    kept = ledger.digest()
    assert kept is not None
    assert in_process("ledger", "verify", "--ledger", ledger.path, "--digest", kept).returncode == 0
    with sqlite3.connect(ledger.path) as connection:
        connection.executescript(change)
    connection.close()
    assert ledger.verify()
    assert in_process("ledger", "verify", "--ledger", ledger.path, "--json").returncode == 4


@pytest.mark.parametrize("table", ["journal", "charges", "releases"])
def test_rows_cannot_be_changed_by_mistake(table: str, log: Path, ledger: qc.Ledger, tmp_path: Path) -> None:
    released(log, tmp_path / "out", ledger)
    connection = sqlite3.connect(ledger.path)
    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET rowid = rowid"):
        with pytest.raises(sqlite3.IntegrityError, match="stay"):
            connection.execute(statement)
    connection.close()


def test_a_ledger_of_an_earlier_version_begins_its_journal_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    connection = sqlite3.connect(path)
    for statement in (*FIRST_TABLES, *SECOND_TABLES):
        connection.execute(statement)
    connection.execute("INSERT INTO populations VALUES ('people', '4.0', '0.0')")
    connection.execute(f"PRAGMA application_id = {KIND.application}")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()
    old = qc.Ledger(path)
    assert old.verify() == []
    assert "older version" in old.notices()[0]
    assert float(old.show("people")[0].left[0]) == 4.0
    old.set_limit("others", 1, 0)
    assert old.verify() == []
    assert [each.what["population"] for each in old.limits("others")] == ["others"]


def test_a_misspelt_population_is_recognised(ledger: qc.Ledger) -> None:
    with pytest.raises(ParameterError, match="did you mean 'people'"):
        ledger.show("peopel")


def of_another_version(folder: Path, **parameters: Any) -> None:
    def change(card: dict[str, Any]) -> None:
        card["versions"]["querycloak"] = "0.0.9"
        card["proven"]["delta"] = 5e-5
        card["parameters"] |= parameters

    edited(folder, change)


def test_another_version_may_have_had_other_noise(log: Path, tmp_path: Path) -> None:
    """Nobody is told that a card was changed because this version would plan its noise otherwise."""
    folder = released(log, tmp_path / "out", selection="laplace")
    of_another_version(folder, tie_probability=None, threshold=99)
    assert qc.load(folder).parameters["threshold"] == 99
    assert not qc.verify(folder).ok
    found = qc.verify(folder, digest=card_digest(folder))
    assert found.ok
    assert any(
        "its delta is smaller than this version computes; the card is vouched for" in each for each in found.checked
    )
    edited(folder, lambda card: card["options"].update(an_option_of_old=3))
    with pytest.raises(InputError, match="its method does not take its options"):
        qc.load(folder)


def test_another_version_had_the_same_epsilon(log: Path, tmp_path: Path) -> None:
    folder = released(log, tmp_path / "out", selection="laplace")
    of_another_version(folder)
    edited(folder, lambda card: card["proven"].update(epsilon=1.0))
    with pytest.raises(InputError, match="its proven guarantee does not follow from its options"):
        qc.load(folder)


@pytest.mark.parametrize("read", [qc.describe, qc.load, Target.in_folder])
def test_whoever_reads_a_release_refuses_an_edited_card(
    read: Callable[[Path], object], log: Path, tmp_path: Path
) -> None:
    folder = released(log, tmp_path / "out")
    read(folder)
    edited(folder, EDITS["epsilon"])
    with pytest.raises(InputError, match="was changed: its proven guarantee does not follow from its options"):
        read(folder)
