"""Writing: whole or not at all, one clear line when it cannot be, nothing left behind."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from querycloak.errors import EngineError, ParameterError, ResourceError
from querycloak.files import locked_folder
from querycloak.files.locked_folder import UNFINISHED, remove_stale
from querycloak.files.private_file import sync_folder
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.payment import Accounting, Bill, payment_of
from querycloak.releases import folder as folder_module
from querycloak.releases.folder import Unfinished, check_target
from querycloak.releases.loading import load
from querycloak.releases.tables import Stream
from tests.unit.releases.making import PROVEN, QUERIES, a_release


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_files_are_these_and_no_other(tmp_path: Path) -> None:
    a_release().save(tmp_path / "out")
    a_release().save(tmp_path / "text", "tsv")
    assert names(tmp_path) == ["out", "text"]
    assert names(tmp_path / "out") == ["README.md", "card.json", "croissant.json", "queries.parquet"]
    assert names(tmp_path / "text") == ["README.md", "card.json", "croissant.json", "queries.tsv"]


def test_others_may_read_what_the_umask_allows_and_nothing_before(tmp_path: Path) -> None:
    seen: list[int] = []

    def begin() -> Iterator[pa.RecordBatch]:
        (unfinished,) = tmp_path.glob(".querycloak-unfinished-*")
        seen.append(unfinished.stat().st_mode & 0o777)
        return iter(QUERIES.to_batches())

    a_release(tables={"queries": Stream(QUERIES.schema, begin)}).save(tmp_path / "out")
    assert seen == [0o700]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~umask


def test_what_exists_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    for name in ("file", "link", "folder"):
        with pytest.raises(ParameterError) as refused:
            check_target(tmp_path / name)
        assert str(refused.value) == (
            f"the output must not exist yet, '{tmp_path / name}' does; name another folder, or remove this one first"
        )
        with pytest.raises(ParameterError, match="the output must not exist yet"):
            a_release().save(tmp_path / name)


def test_the_parent_must_exist(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for parent in ("nowhere", "file"):
        with pytest.raises(ParameterError) as refused:
            check_target(tmp_path / parent / "out")
        assert str(refused.value) == (
            f"the output must lie in a folder that exists, '{tmp_path / parent}' does not; "
            "make it first, or name another"
        )


def test_checking_leaves_nothing(tmp_path: Path) -> None:
    assert check_target(tmp_path / "out") == tmp_path / "out"
    assert names(tmp_path) == []


def test_a_parent_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "a message of the system")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(ResourceError) as error:
        check_target(tmp_path / "out")
    assert str(error.value) == (
        f"no release can be written in '{tmp_path}': permission denied; nothing was written; name another folder"
    )


def test_a_format_that_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="format must be one of parquet, tsv, csv, got 'xlsx'"):
        a_release().save(tmp_path / "out", "xlsx")
    assert names(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here; the injected error stands for it")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("format_name", ["parquet", "tsv"])
def test_a_full_disk(small_disk: Path, format_name: str) -> None:
    big = pa.table({"query": [os.urandom(8).hex() for _ in range(200_000)], "count": pa.array(range(200_000))})
    with pytest.raises(ResourceError) as refused:
        a_release(tables={"queries": big}).save(small_disk / "out", format_name)
    assert str(refused.value) == (
        f"the disk of '{small_disk}' is full; nothing was written; free some room or name another"
    )
    assert names(small_disk) == []
    a_release().save(small_disk / "out")
    load(small_disk / "out")


@pytest.mark.parametrize("format_name", ["parquet", "tsv"])
@pytest.mark.parametrize("point", ["write", "fsync", "rename"])
def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, format_name: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "a message of the system")

    if point == "write":
        opened = Path.open

        def opening(path: Path, mode: str = "r", *rest: object, **named: object) -> object:
            return open("/dev/full", "wb", buffering=0) if mode == "xb" else opened(path, mode)

        monkeypatch.setattr(Path, "open", opening)
    elif point == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(ResourceError, match="is full; nothing was written; free some room or name another"):
        a_release().save(tmp_path / "out", format_name)
    assert names(tmp_path) == []


@pytest.mark.parametrize("theirs", [["theirs"], []])
def test_what_appears_meanwhile_is_not_overwritten(tmp_path: Path, theirs: list[str]) -> None:
    def begin() -> Iterator[pa.RecordBatch]:
        (tmp_path / "out").mkdir()
        for name in theirs:
            (tmp_path / "out" / name).touch()
        return iter(QUERIES.to_batches())

    with pytest.raises(ParameterError, match="it appeared while the release was made; nothing was written; name anot"):
        a_release(tables={"queries": Stream(QUERIES.schema, begin)}).save(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == theirs


def test_a_parent_that_cannot_be_synced_says_that_the_release_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(folder: Path) -> None:
        if folder == tmp_path:
            raise OSError(errno.EIO, "a message of the system")
        sync_folder(folder)

    monkeypatch.setattr(folder_module, "sync_folder", failing)
    with pytest.raises(ResourceError, match="the release is there, but may not outlive a power failure"):
        a_release().save(tmp_path / "out")
    load(tmp_path / "out")


def test_an_engine_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def begin() -> Iterator[pa.RecordBatch]:
        yield QUERIES.to_batches()[0]
        raise EngineError("the engine failed")

    with pytest.raises(EngineError, match="the engine failed"):
        a_release(tables={"queries": Stream(QUERIES.schema, begin)}).save(tmp_path / "out")
    assert names(tmp_path) == []


def test_an_interrupted_writer_leaves_nothing(tmp_path: Path) -> None:
    def begin() -> Iterator[pa.RecordBatch]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        a_release(tables={"queries": Stream(QUERIES.schema, begin)}).save(tmp_path / "out")
    assert names(tmp_path) == []


def test_only_what_dead_writers_left_is_removed(tmp_path: Path) -> None:
    stale = tmp_path / ".querycloak-unfinished-dead"
    (stale / "release").mkdir(parents=True)
    (stale / "release" / "queries.parquet").touch()
    (tmp_path / ".querycloak-unfinished-file").touch()
    (tmp_path / ".querycloak-unfinished-link").symlink_to(tmp_path)
    living = Unfinished(tmp_path / "other")
    check_target(tmp_path / "out")
    assert not stale.exists()
    assert living.inner.exists()
    assert {".querycloak-unfinished-file", ".querycloak-unfinished-link"} <= set(names(tmp_path))
    living.remove()
    living.remove()
    assert not living.inner.exists()


def test_a_sibling_taken_for_stale_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer looks for stale folders between the making of ours and its lock."""
    lock = fcntl.flock
    times: list[int] = []

    def slow_lock(opened: int, how: int) -> None:
        if how & fcntl.LOCK_EX and not times:
            times.append(1)
            monkeypatch.setattr(fcntl, "flock", lock)
            remove_stale(tmp_path, UNFINISHED)
        lock(opened, how)

    monkeypatch.setattr(fcntl, "flock", slow_lock)
    with Unfinished(tmp_path / "out") as unfinished:
        assert unfinished.inner.is_dir()
    assert times


def test_names_of_unfinished_folders_cannot_be_taken_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user makes the folder whose name follows from that of the output; before, that was waited for."""
    (planted := tmp_path / f"{UNFINISHED}{hashlib.sha256(b'out').hexdigest()[:16]}").mkdir()
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    with Unfinished(tmp_path / "out") as unfinished:
        assert unfinished.inner.is_dir()
        assert len(unfinished.inner.parent.name) > len(planted.name)
    assert planted.exists()


def test_folders_that_disappear_again_and_again_end_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(path: Path, **_: object) -> int:
        path.rmdir()
        raise FileNotFoundError

    monkeypatch.setattr(locked_folder, "lock_folder", removed)
    with pytest.raises(ResourceError, match="no release can be written"):
        Unfinished(tmp_path / "out")


def test_many_writers_in_one_parent(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            a_release().save(tmp_path / f"out{number}")
        except BaseException as error:  # shown below
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert names(tmp_path) == sorted(f"out{number}" for number in range(16))
    for number in range(16):
        load(tmp_path / f"out{number}")


def test_without_locks_siblings_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    (tmp_path / ".querycloak-unfinished-other").mkdir()
    monkeypatch.setattr(fcntl, "flock", no_locks)
    a_release().save(tmp_path / "out")
    assert names(tmp_path) == [".querycloak-unfinished-other", "out"]


class TestAccounting:
    """Charged before, completed after, and said on the card."""

    def test_the_way_of_a_release(self, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "ledger")
        ledger.set_limit("shop", 8, 1e-6)
        accounting = payment_of(ledger, "shop", Bill("clicks", PROVEN, {"threshold": 9})).pay(None).accounting
        release = a_release(accounting=accounting)
        assert ledger.show("shop")[0].charges[0].status == "no release"
        saved = release.save(tmp_path / "out")
        other = release.save(tmp_path / "text", "tsv")
        (made,) = ledger.show("shop")[0].charges
        assert set(made.releases) == {saved.digest, other.digest}
        assert made.folders == (str(tmp_path / "out"), str(tmp_path / "text"))
        assert load(tmp_path / "out").accounting == accounting

    def test_a_full_disk_does_not_undo_the_charge(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "a message of the system")

        ledger = Ledger(tmp_path / "ledger")
        ledger.set_limit("shop", 8, 1e-6)
        accounting = payment_of(ledger, "shop", Bill("clicks", PROVEN, {"threshold": 9})).pay(None).accounting
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError) as refused:
            a_release(accounting=accounting).save(tmp_path / "out")
        assert str(refused.value) == (
            f"the disk of '{tmp_path}' is full; nothing was written; free some room or name another; charge 1 to "
            "'shop' stays; another release is charged again"
        )
        (made,) = ledger.show("shop")[0].charges
        assert (made.status, made.folders) == ("no release", ())

    def test_half_an_accounting_is_none(self) -> None:
        with pytest.raises(ParameterError, match="must have both a population and a charge, or neither"):
            Accounting("shop")
        with pytest.raises(ParameterError, match="accounting must be 'not accounted', or a population and a charge"):
            Accounting.from_json({"population": "shop"})

    def test_a_completion_that_fails_says_what_is_there(self, tmp_path: Path) -> None:
        """Another process holds the ledger: it can be read, and the charge is there."""
        ledger = Ledger(tmp_path / "ledger", wait_seconds=0.05)
        ledger.set_limit("shop", 8, 1e-6)
        accounting = payment_of(ledger, "shop", Bill("clicks", PROVEN, {"threshold": 9})).pay(None).accounting
        with closing(sqlite3.connect(ledger.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(ResourceError) as refused:
                a_release(accounting=accounting).save(tmp_path / "out")
        assert str(refused.value).startswith(
            "the release is written and charged, but the ledger shows no release for charge 1: "
        )
        load(tmp_path / "out")
