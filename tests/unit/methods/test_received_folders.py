"""Release folders that somebody else may have written: nothing is approved that was not computed, nothing hangs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.errors import InputError, ParameterError
from querycloak.methods.registry import BUILT_IN
from querycloak.releases.card import OUR_METHODS
from querycloak.releases.folder import LARGEST_CARD, card_digest
from tests.commands import in_process
from tests.unit.methods.test_evidence import edited, log, released

__all__ = ["log"]
RELEASES = Path(__file__).parents[2] / "fixtures" / "releases"
NOT_COMPUTED = "the guarantee was not computed again, because"


@pytest.fixture
def folder(log: Path, tmp_path: Path) -> Path:
    return released(log, tmp_path / "out")


def test_a_file_that_the_card_does_not_list_fails(folder: Path, log: Path) -> None:
    assert qc.verify(folder).ok
    (folder / "card.json.sig").write_text("a signature")
    assert qc.verify(folder).ok
    shutil.copy(log, folder / "raw\x1b[2J.tsv")
    done = in_process("verify", folder, "--json")
    assert done.returncode == 4
    outcome = json.loads(done.stdout)
    assert not outcome["ok"]
    assert any("files that the card does not list (raw\ufffd[2J.tsv)" in each for each in outcome["problems"])
    assert "\x1b" not in in_process("verify", folder).stdout


def test_signer_and_ledger_are_named(folder: Path, log: Path, tmp_path: Path) -> None:
    assert qc.verify(folder).to_json() | {"checked": []} == {
        "ok": True, "digest": card_digest(folder), "checked": [], "problems": [], "warnings": [], "signer": None,
        "ledger": None,
    }  # fmt: skip
    ledger = qc.Ledger(tmp_path / "ledger.sqlite")
    ledger.set_limit("people", 20, 1e-3)
    charged = released(log, tmp_path / "charged", ledger)
    assert qc.verify(charged, ledger=ledger.path).ledger == str(ledger.path)
    key, signature, signers = tmp_path / "key", tmp_path / "card.sig", tmp_path / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with (folder / "card.json").open("rb") as card, signature.open("wb") as out:
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "querycloak", "-f", str(key)], stdin=card, stdout=out, check=True)  # noqa: E501  # fmt: skip
    signers.write_text(f"officer@example.org {key.with_suffix('.pub').read_text()}")
    assert qc.verify(folder, signature=signature, signers=signers).signer == "officer@example.org"
    assert "SHA256:" in (qc.verify(folder, signature=signature).signer or "")
    with pytest.raises(ParameterError, match="signers must be given together with a signature"):
        qc.verify(folder, signers=signers)
    assert in_process("verify", folder, "--signers", signers).returncode == 2


NOT_COMPUTABLE: dict[str, Callable[[dict[str, Any]], object]] = {
    "somebody's method": lambda card: card.update(method="ours"),
    "no options": lambda card: (card.update(options=None), card["proven"].update(epsilon=0.01)),
}


@pytest.mark.parametrize("edit", NOT_COMPUTABLE.values(), ids=NOT_COMPUTABLE)
def test_a_guarantee_that_was_not_computed_is_not_approved(
    edit: Callable[[dict[str, Any]], object], folder: Path
) -> None:
    edited(folder, edit)
    assert in_process("verify", folder).returncode == 4
    (problem,) = qc.verify(folder).problems
    assert problem.startswith(NOT_COMPUTED)
    # Whoever has the digest from the owner knows that the card is the owner's.
    vouched = qc.verify(folder, digest=card_digest(folder))
    assert vouched.ok
    assert any(each.startswith(NOT_COMPUTED) for each in vouched.checked)
    assert not qc.verify(folder, digest="0" * 64).ok


CONTRADICTIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "unknown option": lambda card: (card["options"].update(kindness=3), card["proven"].update(epsilon=0.01)),
    "option that names a file": lambda card: card.update(method="query-pool", options={"pool": "/dev/zero"}),
}


@pytest.mark.parametrize("edit", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "9.9"])
def test_a_card_of_another_version_must_not_contradict_its_options(
    edit: Callable[[dict[str, Any]], object], version: str, folder: Path
) -> None:
    edited(folder, lambda card: card["versions"].update(querycloak=version))
    assert qc.verify(folder).ok
    edited(folder, edit)
    assert in_process("verify", folder).returncode == 4
    with pytest.raises(InputError, match="was changed"):
        qc.load(folder)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_the_delta_of_another_version_is_not_approved_if_it_is_smaller(version: str, folder: Path) -> None:
    edited(folder, lambda card: (card["versions"].update(querycloak=version), card["proven"].update(delta=1e-30)))
    (problem,) = qc.verify(folder).problems
    assert problem.startswith(f"{NOT_COMPUTED} its delta is smaller than this version computes")
    assert in_process("verify", folder).returncode == 4


def test_a_seeded_release_is_reported(log: Path, tmp_path: Path) -> None:
    with qc.read(log) as opened:
        from querycloak.privacy.sampling.randomness import Randomness

        release = qc.Clicks(epsilon=4, delta=1e-4).release(opened, randomness=Randomness(1))
    release.save(tmp_path / "seeded")
    assert "NOT PRIVATE" in qc.verify(tmp_path / "seeded").to_json()["warnings"][0]
    for command in ("verify", "describe"):
        assert "NOT PRIVATE" in in_process(command, tmp_path / "seeded").stdout
    edited(tmp_path / "seeded", lambda card: card.update(seeded=False, warnings=[]))
    verified = qc.verify(tmp_path / "seeded")
    assert [each for each in verified.problems if "README.md say NOT PRIVATE" in each]


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "proven true": lambda card: card.update(proven=True),
    "proven missing": lambda card: card.pop("proven"),
    "parameters a text": lambda card: card.update(parameters="many"),
    "rows a text": lambda card: card["tables"]["clicks"].update(rows="many"),
    "tables a list": lambda card: card.update(tables=[1]),
    "accounting without keys": lambda card: card.update(accounting={}),
    "epsilon a text": lambda card: card["proven"].update(epsilon="1"),
    "versions a list": lambda card: card.update(versions=["0.3"]),
    "options a list": lambda card: card.update(options=[["epsilon", 1]]),
    "checksums without digests": lambda card: card["checksums"].update({"README.md": 7}),
    "reach a text": lambda card: card["tables"]["clicks"].update(reach="far"),
    "epsilon beyond floats": lambda card: card["proven"].update(epsilon=10**400),
    "since no date": lambda card: card["log"].update(since=5),
    "attributes a number": lambda card: card["log"].update(attributes=7),
    "minutes a text": lambda card: card["parameters"].update(gap_minutes="long"),
    "last look a list": lambda card: card.update(last_look=[]),
}


@pytest.mark.parametrize("edit", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("command", ["verify", "describe"])
def test_a_damaged_card_is_one_clear_line(edit: Callable[[dict[str, Any]], object], command: str, folder: Path) -> None:
    edited(folder, edit)
    done = in_process(command, folder)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "is damaged or was not written by querycloak (" in done.stderr


@pytest.mark.parametrize("rows", [10**15, 10**11, 2])
def test_the_number_of_rows_is_that_of_the_file(rows: int, folder: Path) -> None:
    edited(folder, lambda card: card["tables"]["clicks"].update(rows=rows))
    assert in_process("verify", folder).returncode in (2, 4)
    with pytest.raises(InputError, match=r"does not hold what its card says|damaged"):
        qc.load(folder)


def test_struct_columns_do_not_pass(folder: Path) -> None:
    table = qc.load(folder).table("clicks")
    wrapped = pa.table(
        {**{name: table[name] for name in table.column_names}, "count": pa.array([{"a": 1}] * len(table))}
    )
    pq.write_table(wrapped, folder / "clicks.parquet")
    digest = hashlib.sha256((folder / "clicks.parquet").read_bytes()).hexdigest()
    edited(folder, lambda card: card["checksums"].update({"clicks.parquet": digest}))
    assert in_process("verify", folder).returncode == 4
    with pytest.raises(InputError, match="does not hold what its card says"):
        qc.load(folder)


@pytest.mark.parametrize("name", ["card.json", "clicks.parquet", "README.md"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_only_regular_files_of_the_folder_are_read(name: str, kind: str, folder: Path, tmp_path: Path) -> None:
    stored = (folder / name).rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero" if kind == "device" else stored)
    with pytest.raises(InputError, match="it is not a regular file"):
        qc.load(folder)
    assert in_process("verify", folder).returncode in (2, 4)


def test_a_card_is_of_bounded_size(folder: Path) -> None:
    with (folder / "card.json").open("ab") as file:
        file.write(b" " * LARGEST_CARD)
    with pytest.raises(InputError, match="file too large"):
        qc.load(folder)


@pytest.mark.parametrize("name", ["clicks.parquet", "README.md"])
def test_files_are_of_bounded_size(name: str, folder: Path) -> None:
    os.truncate(folder / name, 1 << 42)  # a hole: it takes no room on the disk, and an hour to read
    with pytest.raises(InputError, match="file too large"):
        qc.load(folder)


def test_a_card_of_many_rows_does_not_let_a_hole_be_read(folder: Path) -> None:
    edited(folder, lambda card: card["tables"]["clicks"].update(rows=10**9))
    os.truncate(folder / "clicks.parquet", 1 << 42)
    with pytest.raises(InputError, match=r"clicks\.parquet .* has holes, which no file of a release has"):
        qc.load(folder)
    assert in_process("verify", folder).returncode == 4


def test_progress_is_told_of_every_file_and_table(folder: Path) -> None:
    steps: list[tuple[str, float]] = []
    assert qc.verify(folder, on_step=lambda what, share: steps.append((what, share))).ok
    assert ("comparing clicks.parquet with the card", 1.0) in steps
    assert steps[-1] == ("reading the rows of clicks", 0.0)


def test_rows_that_cannot_be_read_do_not_pass(folder: Path) -> None:
    """The end of the file, with columns and number of rows, is sound."""
    data = bytearray((folder / "clicks.parquet").read_bytes())
    data[4:40] = b"\xff" * 36
    (folder / "clicks.parquet").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    edited(folder, lambda card: card["checksums"].update({"clicks.parquet": digest}))
    (problem,) = qc.verify(folder).problems
    assert problem.startswith("clicks.parquet of the release")


def with_checksums(digests: dict[str, str]) -> Callable[[dict[str, Any]], None]:
    return lambda card: card["checksums"].update(digests)


def test_a_table_that_repeats_a_value_without_storing_it_does_not_pass(folder: Path) -> None:
    """Megabytes in a few kilobytes: each passes a check of types and rows."""
    table = qc.load(folder).table("clicks")
    large = table.set_column(0, "query", pa.array(["x" * 2_000_000] * len(table)))
    for dictionary, one in ((True, table), (False, large)):
        pq.write_table(one, folder / "clicks.parquet", use_dictionary=dictionary, compression="zstd")
        digests = {"clicks.parquet": hashlib.sha256((folder / "clicks.parquet").read_bytes()).hexdigest()}
        edited(folder, with_checksums(digests))
        with pytest.raises(InputError, match="does not hold what its card says"):
            qc.load(folder)


def test_escapes_of_a_card_do_not_reach_the_terminal(folder: Path) -> None:
    escape = "\x1b]0;title\x07\u202e"

    def change(card: dict[str, Any]) -> None:
        card.update(method=f"clicks{escape}")
        card["tables"]["clicks"]["reach"]["notes"] = [escape * 500]
        card["checksums"][f"{escape}.txt"] = "0" * 64

    edited(folder, change)
    for command in ("describe", "verify"):
        done = in_process(command, folder)
        assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)
        assert len(done.stdout) < 5000


def test_escapes_of_a_card_that_loads_do_not_reach_the_terminal(folder: Path, tmp_path: Path) -> None:
    """A method that is not installed may have any name and any variant."""
    escape = "\x1b]0;title\x07\u202e"
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    edited(other, lambda card: card.update(method=f"ours{escape}", variant=escape, options=None))
    for words in (("describe", other), ("diff", folder, other)):
        done = in_process(*words)
        assert (done.returncode, "ours" in done.stdout) == (0, True)
        assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)


def test_many_columns_are_shortened(tmp_path: Path) -> None:
    names = ["user", "time", *(f"c{i}\x1b[2J" for i in range(20_000))]
    pq.write_table(pa.table({name: pa.array(["x"]) for name in names}), tmp_path / "log.parquet")
    done = in_process("inspect", tmp_path / "log.parquet", "--columns", "user=user,time=time,query=q")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert len(done.stderr) < 2500
    assert "and 19,972 more" in done.stderr


@pytest.mark.parametrize("name", ["sessions", "clicks-paper"])
def test_a_card_of_the_first_version_needs_somebody_who_vouches_for_it(name: str) -> None:
    (problem,) = qc.verify(RELEASES / name).problems
    assert problem.startswith(f"{NOT_COMPUTED} the card lists no options")
    assert qc.verify(RELEASES / name, digest=card_digest(RELEASES / name)).ok


def test_parameters_of_other_packages_have_the_types_that_they_like(folder: Path) -> None:
    """A release of somebody's own method is not called damaged because it uses a name of ours."""
    edited(folder, lambda card: card["parameters"].update(times=5, longest="all"))
    with pytest.raises(InputError, match="parameters must have values of the types"):
        qc.load(folder)
    edited(folder, lambda card: card.update(method="own-method"))
    assert qc.load(folder).parameters["times"] == 5


def test_methods_whose_parameters_are_checked_are_ours() -> None:
    assert set(BUILT_IN) == OUR_METHODS
