from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import InputError
from querycloak.logs.formats import detection
from querycloak.logs.formats.delimited import declared_reader
from querycloak.logs.formats.signs import Head
from querycloak.logs.reading import files
from querycloak.logs.reading.files import ByteStream, FileOptions, LogFile, find_files
from querycloak.logs.searchlog import prepare
from tests.commands import in_process

NOBODY = 65534
NAME = "u4417-anna"
LINE = b"u\t2006-03-01 07:17:12\tq\n"
NO_LOGS = (
    "LOG is a folder without log files: their names end in "
    ".tsv .txt .csv .log .json .jsonl .ndjson .parquet .sample .dat (or .gz .bz2 .zst)"
)


def fill(folder: Path, *names: str, data: bytes = LINE) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def found_in(folder: Path) -> list[str]:
    return [Path(file.location).relative_to(folder).as_posix() for file in find_files([folder]).files]


def refusal_of(*logs: str | Path) -> str:
    with pytest.raises(InputError) as refusal:
        find_files(logs)
    assert refusal.value.__context__ is None
    return str(refusal.value)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can come into, as pytest's own cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def without_privileges(open_folder: Path) -> Iterator[None]:
    """Permissions do not bind root: for the length of a test, be nobody."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(NOBODY)
    except PermissionError:
        pytest.skip("runs as root without the right to become another user: no file is unreadable here")
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_stands_for_the_logs_in_it_in_order_of_name(tmp_path: Path) -> None:
    logs = [
        "a.tsv",
        "b.CSV",
        "c/d.jsonl.gz",
        "c/e/f.txt",
        "g.log.bz2",
        "h.parquet",
        "i.dat.zst",
        "j.sample",
        "k.tsv/l.json",
    ]
    fill(tmp_path, *reversed(logs))
    fill(tmp_path, "_SUCCESS", "_temporary/m.tsv", ".n.tsv", ".git/o.txt", "c/_p.csv", "c/.q/r.csv")
    fill(tmp_path, "README.txt", "U500k_README.txt", "c/readme.txt.gz", "LICENSE.txt", "licence.txt", "COPYING.txt")
    fill(tmp_path, "s.md", "t.png", "u", "v.gz", "tsv", "w.tsv.bak", "x.tsv.zip", "y.tsv~")
    fill(tmp_path, "empty.tsv", data=b"")
    os.mkfifo(tmp_path / "pipe.tsv")
    assert found_in(tmp_path) == logs


def test_files_of_a_folder_are_labelled_by_their_place(tmp_path: Path) -> None:
    fill(tmp_path, f"1-{NAME}.tsv", f"3-{NAME}/{NAME}.tsv")
    fill(tmp_path, f"2-{NAME}.tsv", data=b"")
    assert [file.label for file in find_files([tmp_path]).files] == [
        "LOG, file 1 of 3 by name",
        "LOG, file 3 of 3 by name",
    ]


def test_logs_are_labelled_by_their_place_among_those_given(tmp_path: Path) -> None:
    fill(tmp_path, "a.tsv", "folder/b.tsv")
    files = find_files([tmp_path / "folder", str(tmp_path / "a.tsv")]).files
    assert [(file.label, file.size) for file in files] == [
        ("LOG 1, file 1 of 1 by name", len(LINE)),
        ("LOG 2", len(LINE)),
    ]
    assert [file.label for file in find_files([tmp_path / "a.tsv"]).files] == ["LOG"]


@given(st.lists(st.text("abcxyz0189", min_size=8, max_size=12), min_size=1, max_size=4, unique=True))
@settings(deadline=None, max_examples=30)
def test_no_label_holds_the_name_of_a_file(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), *(f"{name}.tsv" for name in names))
        labels = " ".join(file.label for file in find_files([folder, Path(folder, f"{names[0]}.tsv")]).files)
    assert not any(name in labels for name in names)
    assert folder not in labels


def test_a_named_file_is_read_whatever_its_name_is(tmp_path: Path) -> None:
    fill(tmp_path, "README", ".hidden", "no-ending")
    for name in ("README", ".hidden", "no-ending"):
        (found,) = find_files([tmp_path / name]).files
    assert replace(found, stamp=()) == LogFile("LOG", str(tmp_path / name), len(LINE))


def test_no_log_at_all() -> None:
    assert refusal_of() == "no log was given: name a file, a folder or an address"


def test_a_missing_file_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = str(tmp_path / "missing.tsv")
    tables = "; a table of pandas, Polars, Arrow or DuckDB is given as it is, not by a name"
    assert refusal_of(path) == f"LOG: no such file or folder: {path!r}{tables}"
    fill(tmp_path, "there.tsv")
    assert refusal_of(tmp_path / "there.tsv", path) == f"LOG 2: no such file or folder: {path!r}{tables}"


def test_a_folder_without_logs_is_told_which_names_are_looked_for(tmp_path: Path) -> None:
    assert refusal_of(tmp_path) == f"{NO_LOGS}; of the 0 files in it, name one by one those that are logs"
    fill(tmp_path, "_SUCCESS", "README.txt", f"{NAME}.doc")
    assert refusal_of(tmp_path) == f"{NO_LOGS}; of the 3 files in it, name one by one those that are logs"


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, f"{NAME}.tsv", "b.tsv", data=b"")
    assert refusal_of(tmp_path / f"{NAME}.tsv") == "LOG is empty (0 bytes)"
    assert refusal_of(tmp_path) == "LOG, file 1 of 2 by name is empty (0 bytes)"


def test_a_pipe_or_a_device_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    expected = "LOG is not a file that can be read more than once (a pipe or a device): save it first"
    assert refusal_of(tmp_path / NAME) == expected
    assert refusal_of(os.devnull) == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a\0b", "the name is not one the system accepts"),
        (f"{NAME}" * 100, "file name too long"),
        (f"there.tsv/{NAME}", "not a directory"),
        ("loop", "too many levels of symbolic links"),
    ],
)
def test_a_name_that_cannot_be_opened_is_not_repeated(tmp_path: Path, name: str, reason: str) -> None:
    fill(tmp_path, "there.tsv")
    (tmp_path / "loop").symlink_to("loop")
    assert refusal_of(f"{tmp_path}/{name}") == f"LOG cannot be opened: {reason}"


def test_links_are_followed_and_dangling_ones_are_missing(tmp_path: Path) -> None:
    fill(tmp_path, "a.tsv")
    (tmp_path / "good").symlink_to("a.tsv")
    (tmp_path / "dangling").symlink_to("nothing")
    assert find_files([tmp_path / "good"]).files[0].size == len(LINE)
    assert refusal_of(tmp_path / "dangling").startswith("LOG: no such file or folder: ")


def test_a_file_without_permission_is_refused_without_its_name(open_folder: Path, without_privileges: None) -> None:
    path = _made(open_folder, lambda: fill(open_folder, f"{NAME}.tsv"))
    _made(open_folder, lambda: os.chmod(path / f"{NAME}.tsv", 0))
    reason = "cannot be opened: permission denied (check its permissions)"
    assert refusal_of(path / f"{NAME}.tsv") == f"LOG {reason}"
    assert refusal_of(path) == f"LOG, file 1 of 1 by name {reason}"


@pytest.mark.parametrize("closed", ["logs", "logs/inner"])
def test_a_folder_without_permission_is_refused_not_left_out(
    open_folder: Path, without_privileges: None, closed: str
) -> None:
    _made(open_folder, lambda: fill(open_folder, "logs/a.tsv", "logs/inner/b.tsv"))
    _made(open_folder, lambda: os.chmod(open_folder / closed, 0))
    try:
        refusal = refusal_of(open_folder / "logs")
    finally:
        _made(open_folder, lambda: os.chmod(open_folder / closed, 0o755))
    assert "permission denied" in refusal
    assert "inner" not in refusal


def _made(folder: Path, change: Callable[[], None]) -> Path:
    """Change something as the user that owns the folder, then go on as before."""
    now = os.geteuid()
    if now != (owner := folder.stat().st_uid):
        os.seteuid(owner)
    try:
        change()
    finally:
        os.seteuid(now)
    return folder


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{NAME}.tsv", LINE)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (zipped(), "a zip archive"),
        (lzma.compress(LINE), "compressed with xz"),
        (b"\x04\x22\x4d\x18" + LINE, "compressed with lz4"),
        (b"7z\xbc\xaf\x27\x1c" + LINE, "a 7z archive"),
    ],
)
def test_other_compressions_are_refused_with_those_that_are_read(tmp_path: Path, data: bytes, what: str) -> None:
    fill(tmp_path, f"{NAME}.tsv", data=data)
    way_out = "unpack it, or compress it with gzip, bzip2 or zstd"
    assert refusal_of(tmp_path / f"{NAME}.tsv") == f"LOG is {what}: {way_out}"
    assert refusal_of(tmp_path) == f"LOG, file 1 of 1 by name is {what}: {way_out}"


@pytest.mark.parametrize(
    ("name", "data", "compression"),
    [
        ("a.tsv", gzip.compress(LINE), "gzip"),
        ("a.gz", LINE, None),
        ("a.gz", bz2.compress(LINE), "bz2"),
        ("a.tsv", bz2.compress(b""), "bz2"),
        ("a", b"B", None),
        ("a", b"\x1f", None),
    ],
    ids=["gzip", "plain", "bz2", "empty bz2", "B", "1f"],  # compressed bytes as names would differ between runs
)
def test_compression_is_told_by_content_not_by_name(
    tmp_path: Path, name: str, data: bytes, compression: str | None
) -> None:
    fill(tmp_path, name, data=data)
    [file] = find_files([tmp_path / name]).files
    assert file.compression == compression


@pytest.mark.parametrize("line", [b"BZhang\t2006-03-01 07:17:12\tq\n", b"BZh9\t2006-03-01 07:17:12\tq\n"])
def test_a_text_that_begins_like_bzip2_is_a_text(tmp_path: Path, line: bytes) -> None:
    fill(tmp_path, "a.tsv", data=line)
    [file] = find_files([tmp_path / "a.tsv"]).files
    assert file.compression is None
    assert file.head() == line


@given(st.binary(max_size=200), st.integers(0, 250), st.booleans())
@settings(deadline=None, max_examples=50)
def test_the_head_is_the_first_bytes_of_the_content(data: bytes, size: int, compressed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), "log", data=gzip.compress(data) if compressed else data)
        file = LogFile("LOG", str(Path(folder, "log")), len(data), "gzip" if compressed else None)
        assert file.head(size) == data[:size]


def test_a_file_that_goes_away_is_refused_without_its_name(tmp_path: Path) -> None:
    fill(tmp_path, f"{NAME}.tsv")
    [file] = find_files([tmp_path]).files
    (tmp_path / f"{NAME}.tsv").unlink()
    with pytest.raises(InputError) as refusal:
        file.open()
    assert str(refusal.value) == "LOG, file 1 of 1 by name cannot be opened: no such file or directory"
    assert refusal.value.__context__ is None


class _Broken(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, "I/O error", NAME)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (_Broken(LINE), "LOG cannot be read: input/output error"),
        (io.BytesIO(b""), "LOG is empty"),  # emptied since its size was asked, as logs are when they rotate
    ],
)
def test_a_file_that_opens_and_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: ByteStream, message: str
) -> None:
    fill(tmp_path, f"{NAME}.tsv")
    monkeypatch.setattr(LogFile, "open_raw", lambda file: stream)
    assert refusal_of(tmp_path / f"{NAME}.tsv").startswith(message)


def test_an_address_of_a_file_is_read_like_its_path(tmp_path: Path) -> None:
    fill(tmp_path, "a.tsv.gz", data=gzip.compress(LINE))
    [file] = find_files([f"file://{tmp_path}/a.tsv.gz"]).files
    assert file.remote
    assert (file.label, file.compression, file.head()) == ("LOG", "gzip", LINE)


@pytest.mark.parametrize("name", ["", f"/{NAME}"])
def test_an_address_of_no_file_is_not_repeated(tmp_path: Path, name: str) -> None:
    expected = "LOG: nothing can be opened at the address given; it must be one file"
    assert refusal_of(f"file://{tmp_path}{name}") == expected


@pytest.mark.parametrize("address", [f"gopher://{NAME}", f"http://{NAME}/log", "://", f"file://{NAME} {NAME}"])
def test_an_address_of_an_unknown_kind_is_told_which_are_known(address: str) -> None:
    expected = "LOG: the address cannot be opened; file, s3, gs and hdfs addresses can, once set up"
    assert refusal_of(address) == expected


@pytest.mark.parametrize("ending", [".xlsx", ".XLS", ".ods"])
@pytest.mark.parametrize("named", [False, True])
def test_a_workbook_is_refused_with_the_way_to_save_it(tmp_path: Path, ending: str, named: bool) -> None:
    fill(tmp_path, f"{NAME}{ending}", data=b"PK\x03\x04rest")
    with pytest.raises(InputError) as refusal:
        find_files([tmp_path / f"{NAME}{ending}"], FileOptions(format_named=named))
    assert str(refusal.value) == (
        "LOG is a workbook of a spreadsheet program: open it there, save it as CSV (UTF-8) with one header line, and "
        "read that file"
    )


def test_files_of_a_folder_that_are_passed_over_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, "a.tsv", "README.md", "b.doc")
    fill(tmp_path, "c.tsv", data=b"")
    assert (len(find_files([tmp_path]).files), find_files([tmp_path]).skipped) == (1, 3)


def test_names_are_shown_if_the_owner_asks(tmp_path: Path) -> None:
    fill(tmp_path, "a.tsv", f"{NAME}.tsv")
    labels = [file.label for file in find_files([tmp_path], FileOptions(show_names=True)).files]
    assert labels[1] == f"LOG ({tmp_path}), file 2 of 2 by name ({NAME}.tsv)"
    assert NAME not in find_files([tmp_path]).files[1].label


@pytest.fixture
def three_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with as many files as would be many, if they were ten thousand."""
    monkeypatch.setattr(files, "MANY_FILES", 3)
    for number in range(3):
        row = f"u{number}\twater polo\t2006-03-01 12:00:00\t1\thttp://a.example/\n"
        (tmp_path / f"{number}.tsv").write_text(row * 9)
    return tmp_path


def test_many_files_are_told_of_before_they_are_opened(three_files: Path) -> None:
    steps: list[tuple[str, float]] = []
    prepare(three_files, on_step=lambda what, share: steps.append((what, share)))
    assert steps == [("opening 3 files", 0.0), ("recognising 3 files", 0.0)]
    told = in_process("inspect", three_files, "--threads", "1").stderr
    assert "querycloak: opening 3 files: each takes about two milliseconds" in told
    assert "opening" not in in_process("inspect", three_files, "--threads", "1", "--quiet").stderr


def test_beginnings_of_many_files_are_neither_kept_nor_compared_with_all_others(
    three_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name = detection._kind_by_name
    asked: list[int] = []
    kept: list[Head] = []

    def counted(given: list[LogFile]) -> str | None:
        asked.append(len(given))
        return by_name(given)

    def watched(form: Any, heads: list[Head], encoding: str) -> Any:
        kept.extend(heads)
        return declared_reader(form, heads, encoding)

    monkeypatch.setattr(detection, "_HEADS_KEPT", 1)
    monkeypatch.setattr(detection, "_kind_by_name", counted)
    monkeypatch.setattr(detection, "declared_reader", watched)
    assert prepare(three_files).recognised.name == "aol"
    assert asked == [3]
    assert [len(head.lines) for head in kept] == [9, 1, 1]
    assert [bool(head.data) for head in kept] == [True, False, False]
