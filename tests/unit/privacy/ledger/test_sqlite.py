"""Files of our own: made for their owner, told from others, one transaction at a time, brought up to date."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from querycloak.errors import InputError, ResourceError
from querycloak.privacy.ledger import campaigns, ledger_reader
from querycloak.privacy.ledger.sqlite import Kind, SqliteFile, version_of

FIRST = ("CREATE TABLE notes (text TEXT NOT NULL)",)
SECOND = ("ALTER TABLE notes ADD COLUMN mark INTEGER NOT NULL DEFAULT 7",)
OLD = Kind(0x51435454, (FIRST,), "notebook", "nothing was noted", "take another", "put a copy back")
NEW = Kind(OLD.application, (FIRST, SECOND), OLD.name, OLD.not_done, OLD.elsewhere, OLD.restore)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "notes"


def note(file: SqliteFile, text: str) -> None:
    with file.writing(create=True) as connection:
        connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def notes(file: SqliteFile) -> list[str]:
    with file.reading() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY rowid")]


def test_what_is_written_is_there(path: Path) -> None:
    note(SqliteFile(path, NEW), "one")
    note(SqliteFile(path, NEW), "two")
    assert notes(SqliteFile(path, NEW)) == ["one", "two"]


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    note(SqliteFile(path, NEW), "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_is_not_there_is_an_empty_one(path: Path) -> None:
    file = SqliteFile(path, NEW)
    assert notes(file) == []
    with file.writing() as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    assert not path.parent.exists()


def test_nothing_is_written_to_a_file_that_is_not_there(path: Path) -> None:
    """A charge or a spending that went nowhere would be forgotten."""

    def lose() -> None:
        with SqliteFile(path, NEW).writing() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('lost')")

    with pytest.raises(InputError, match=r"the notebook .* is not there, so nothing could be written; put a copy back"):
        lose()
    assert not path.exists()


def test_all_or_nothing(path: Path) -> None:
    file = SqliteFile(path, NEW)
    note(file, "one")

    def fail() -> None:
        with file.writing() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('two')")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert notes(file) == ["one"]


def test_an_older_file_is_read_as_it_is_and_brought_up_to_date_by_whoever_writes(path: Path) -> None:
    note(SqliteFile(path, OLD), "one")
    before = path.read_bytes()
    with SqliteFile(path, NEW).reading() as connection:
        assert version_of(connection) == 1
        assert connection.execute("SELECT * FROM notes").fetchall() == [("one",)]
    assert path.read_bytes() == before
    note(SqliteFile(path, NEW), "two")
    with SqliteFile(path, NEW).reading() as connection:
        assert version_of(connection) == 2
        assert connection.execute("SELECT * FROM notes").fetchall() == [("one", 7), ("two", 7)]


def test_a_file_from_the_future_is_left_as_it_is(path: Path) -> None:
    note(SqliteFile(path, NEW), "one")
    before = path.read_bytes()
    for use in (lambda: notes(SqliteFile(path, OLD)), lambda: note(SqliteFile(path, OLD), "two")):
        with pytest.raises(InputError, match="is of version 2, this querycloak knows up to 1; nothing in it was chang"):
            use()
    assert path.read_bytes() == before


def test_waiting_ends(path: Path) -> None:
    file = SqliteFile(path, NEW, wait_seconds=0.05)
    note(file, "one")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ResourceError) as refused:
        note(file, "two")
    assert str(refused.value) == (
        "the notebook is locked by another process, for longer than 0.05 seconds; nothing was noted; "
        "try again when that process has ended"
    )
    other.close()


def zeros_after_the_first_page(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


@pytest.mark.parametrize("kind", [ledger_reader.KIND, campaigns.KIND], ids=["ledger", "spending record"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda path: path.write_text("query\tcount\n" * 20),
            "is not a {name} of querycloak; nothing in it was changed",
        ),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(84)), "is not a {name} of querycloak"),
        (zeros_after_the_first_page, "the {name} {path!r} is damaged; nothing in it was changed"),
    ],
)
def test_both_books_leave_what_is_not_theirs(
    path: Path, kind: Kind, spoil: Callable[[Path], object], message: str
) -> None:
    file = SqliteFile(path, kind)
    with file.writing(create=True):
        pass
    spoil(path)
    before = path.read_bytes()
    for use in (file.reading, file.writing, lambda: file.writing(create=True)):
        with pytest.raises(InputError) as refused, use():
            pass  # pragma: no cover
        assert message.format(name=kind.name, path=str(path)) in str(refused.value)
    assert path.read_bytes() == before


def test_no_two_books_have_one_mark() -> None:
    assert ledger_reader.KIND.application != campaigns.KIND.application
