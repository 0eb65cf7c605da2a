"""One place, one run: an output is reserved before anything is charged, and a log that changes is not released."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError, TooManyBadLines
from querycloak.files.locked_folder import take_locked
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.affinity.method import Affinity
from querycloak.methods.clicks.method import Clicks
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.releases.folder import reserve
from tests.commands import in_process
from tests.logs import ROWS, aol, write

BUDGET = ("--epsilon", "4", "--delta", "1e-3")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "ledger")
    book.set_limit("people", 100, 0.5)
    return book


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "log.tsv", aol(ROWS))


def log_of(engine: Engine, path: Path, max_bad: float | None = None) -> SearchLog:
    return read(path, log_format="aol", engine=engine, max_bad=max_bad)


def test_whoever_comes_second_is_refused_and_charged_nothing(tmp_path: Path, path: Path, ledger: Ledger) -> None:
    (tmp_path / "tmp").mkdir()
    command = (
        "release",
        "clicks",
        path,
        *BUDGET,
        "--out",
        tmp_path / "out",
        "--ledger",
        ledger.path,
        "--population",
        "people",
    )
    with reserve(tmp_path / "out"):
        second = in_process(*command, tmp=tmp_path / "tmp")
    assert second.returncode == 2
    assert "another run is about to write" in second.stderr
    assert ledger.show("people")[0].charges == ()
    assert in_process(*command, tmp=tmp_path / "tmp").returncode == 0  # now that nobody has it
    assert len(ledger.show("people")[0].charges) == 1
    assert in_process(*command, tmp=tmp_path / "tmp").returncode == 2
    assert len(ledger.show("people")[0].charges) == 1


def test_a_place_is_reserved_by_one_at_a_time_and_others_are_free(tmp_path: Path) -> None:
    with (
        reserve(tmp_path / "a"),
        reserve(tmp_path / "b"),
        pytest.raises(ParameterError, match="another run is about to write"),
    ):
        reserve(tmp_path / "a")
    with reserve(tmp_path / "a"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_between_the_first_look_and_the_lock_is_noticed_before_a_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, calls = tmp_path / "a", []

    def take(parent: Path, name: str) -> tuple[Path, int] | None:
        calls.append(name)
        if len(calls) == 2:  # the first lock only tries whether the folder can be made
            target.mkdir()
        return take_locked(parent, name)

    monkeypatch.setattr("querycloak.releases.folder.take_locked", take)
    with pytest.raises(ParameterError, match="must not exist yet"):
        reserve(target)
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_run_left_in_the_same_place_is_not_in_the_next_release(tmp_path: Path) -> None:
    kept = reserve(tmp_path / "a")
    (kept.inner / "rows").write_text("of the dead")
    os.close(kept._lock)  # as the kernel does when a process is killed
    with reserve(tmp_path / "a") as mine:
        assert list(mine.inner.iterdir()) == []


def appended(path: Path) -> None:
    with path.open("a") as file:
        file.write("u9\tmore\t2006-03-01 10:00:00\t\t\n")


def replaced(path: Path) -> None:
    other = write(path.with_name("other"), path.read_bytes())
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.rename(path)


def written_over(path: Path) -> None:
    os.utime(path, ns=(0, 0))


CHANGES = [appended, replaced, written_over]


@pytest.mark.parametrize("change", CHANGES)
def test_a_log_that_changes_before_the_draw_is_refused_and_nothing_charged(
    duckdb_engine: Engine, path: Path, ledger: Ledger, change: Callable[[Path], None]
) -> None:
    log = log_of(duckdb_engine, path)
    change(path)
    with pytest.raises(InputError, match="LOG has changed since it was opened"):
        Clicks(epsilon=4, delta=1e-3).release(log, ledger=ledger, population="people")
    assert ledger.show("people")[0].charges == ()


def test_a_log_that_is_replaced_after_it_was_checked_does_not_get_past_max_bad(
    duckdb_engine: Engine, path: Path, ledger: Ledger
) -> None:
    log = log_of(duckdb_engine, path, max_bad=0.1)
    log.checked()
    write(path, aol(ROWS) + "bad\n" * 1_000)
    with pytest.raises((InputError, TooManyBadLines)):
        Clicks(epsilon=4, delta=1e-3).release(log, ledger=ledger, population="people")
    assert ledger.show("people")[0].charges == ()


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_stream_into_the_folder_are_checked_before_it_gets_its_name(
    duckdb_engine: Engine, tmp_path: Path, path: Path, change: Callable[[Path], None]
) -> None:
    write(path, "".join(f"u{user}\twater polo rules\t2006-03-01 10:00:00\n" for user in range(6)))
    release = Affinity(min_users=2, concept_users=2).release(log_of(duckdb_engine, path))
    change(path)
    with pytest.raises(InputError, match="LOG has changed since it was opened"):
        release.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_was_counted_can_be_saved_when_the_log_is_gone(duckdb_engine: Engine, tmp_path: Path, path: Path) -> None:
    release = Clicks(epsilon=4, delta=1e-3).release(log_of(duckdb_engine, path))
    path.unlink()
    assert release.save(tmp_path / "out").folder.is_dir()
