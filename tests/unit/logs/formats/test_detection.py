"""Which format and compression a log is in: what is named decides; what is not named must not be one user's choice."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from querycloak.engines import Engine
from querycloak.errors import MissingColumn, ParameterError, UnknownFormat
from querycloak.logs.profile import profile
from querycloak.logs.searchlog import prepare, read
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.sessions.method import Sessions
from tests.commands import in_process
from tests.logs import ROWS, WRITERS, aol, excite, rows_of, write

AOL_ROW = b"%s\tquery\t2006-03-01 10:00:00\t1\thttp://a.example/\n"
MAGIC = {
    "parquet": b"PAR1x",
    "bzip2": b"BZh91AY&x",
    "all of bzip2": b"BZh91AY&SY",
    "gzip": b"\x1f\x8b\x08",
    "zstd": b"\x28\xb5\x2f\xfd",
    "zip": b"PK\x03\x04",
    "xz": b"\xfd7zXZ\x00",
    "utf-16": b"\xff\xfe",
    "7z": b"7z\xbc\xaf",
}
SEQUENCES = Sessions(epsilon=4, delta=1e-3, no_clicks=True)
METHODS: list[Method] = [SEQUENCES, KAnonymity(min_users=3, keys="queries")]
Lines = Callable[[int], list[str]]


def excite_lines(users: int) -> list[str]:
    return [f"u{user}\t970916{10 + user % 10}0{number}00\tquery {number}" for user in range(users) for number in (1, 2)]


def aol_lines(users: int) -> list[str]:
    return [f"u{user}\tquery {number}\t2006-03-01 10:0{number}:00" for user in range(users) for number in (1, 2)]


def bot(line: str, rows: int = 4_500) -> list[str]:
    return [line] * rows


def log_of(folder: Path, lines: list[str]) -> Path:
    return write(folder / "log.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("user", MAGIC.values(), ids=MAGIC)
def test_a_named_format_decides_whatever_comes_first(duckdb_engine: Engine, tmp_path: Path, user: bytes) -> None:
    path = write(tmp_path / "log.tsv", AOL_ROW % user + AOL_ROW % b"u2")
    log = read(path, log_format="aol", engine=duckdb_engine)
    assert "u2" in [row[0] for row in rows_of(log)]
    assert log.accounting().rows_read == 2


@pytest.mark.parametrize("user", [MAGIC["bzip2"], MAGIC["all of bzip2"]])
def test_a_named_compression_decides_too(duckdb_engine: Engine, tmp_path: Path, user: bytes) -> None:
    text = AOL_ROW % user + AOL_ROW % b"u2"
    for name, data, compression in (
        ("log.tsv", text, "none"),
        ("log.gz", text, "none"),
        ("log.tsv", gzip.compress(text), "gzip"),
        ("log.gz", bz2.compress(text), "bz2"),
    ):
        log = read(write(tmp_path / name, data), compression=compression, engine=duckdb_engine)
        assert [row[0] for row in rows_of(log)] == [user.decode(), "u2"]
        log.check_format()


def test_what_is_no_compression_is_refused_with_those_that_are(tmp_path: Path) -> None:
    write(tmp_path / "log.tsv", aol(ROWS))
    with pytest.raises(ParameterError, match="compression must be one of none, gzip, bz2, zstd, got 'rar'"):
        read(tmp_path / "log.tsv", compression="rar")


def test_with_a_named_format_the_files_name_tells_its_compression(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "log.tsv.gz", gzip.compress(aol(ROWS).encode()))
    assert len(rows_of(read(path, log_format="aol", engine=duckdb_engine))) == len(ROWS)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize(
    ("name", "data"),
    [("log.tsv", gzip.compress(aol(ROWS).encode())), ("log.gz", aol(ROWS).encode())],
    ids=["gzip without its ending", "an ending without gzip"],
)
def test_what_is_compressed_as_its_name_does_not_say_is_read_and_not_released(
    duckdb_engine: Engine, tmp_path: Path, method: Method, name: str, data: bytes
) -> None:
    path = write(tmp_path / name, data)
    log = read(path, engine=duckdb_engine)
    assert profile(log).rows_kept == len(ROWS)
    with pytest.raises(UnknownFormat, match="do not agree on how it is compressed: say compression='none', or"):
        method.release(log)
    named = "gzip" if name == "log.tsv" else "none"
    assert method.release(read(path, compression=named, max_bad=1, engine=duckdb_engine)).log["format"] == "aol"


@pytest.mark.parametrize("name", WRITERS)
def test_a_log_whose_lines_all_fit_needs_no_name(duckdb_engine: Engine, tmp_path: Path, name: str) -> None:
    if name == "csv":
        return  # its columns have names of their own
    log = read(write(tmp_path / "log.txt", WRITERS[name](ROWS)), engine=duckdb_engine)
    released = SEQUENCES.release(log)
    assert released.log["format_named"] is False
    assert (log.recognised.named, log.recognised.doubt) == (False, None)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize(
    ("lines", "format_name"),
    [
        (["not a row", *aol_lines(30)], "aol"),
        ([*excite_lines(30), "not a row"], "excite"),
        (["AnonID\tQuery\tQueryTime\tItemRank\tClickURL", *excite_lines(1)], "aol"),
        (["user\ttime\tquery", *(f"u{i}\t2006-03-01 10:00:00\tq" for i in range(9)), "odd"], "table"),
        ([*(json.dumps({"user": i, "time": 1733824800, "query": "q"}) for i in range(9)), "[]"], "table"),
    ],
    ids=["aol", "excite", "aol's header", "a header of ours", "json"],
)
def test_a_format_that_not_all_first_lines_fit_is_a_guess_and_not_released(
    duckdb_engine: Engine, tmp_path: Path, method: Method, lines: list[str], format_name: str
) -> None:
    log = read(log_of(tmp_path, lines), engine=duckdb_engine)
    assert log.format == format_name
    with pytest.raises(UnknownFormat) as refusal:
        method.release(log)
    assert "log_format=" in str(refusal.value)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize(
    ("head", "others"),
    [
        (bot("bot\tquery\t2006-03-01 10:00:00"), excite_lines(200)),
        (bot("bot\t970916105432\tquery"), aol_lines(200)),
        (["query\tuser\ttime", *bot("bot\tquery\t1141207200")], aol_lines(200)),
        (["user\ttime\tquery", *bot("bot\t2006-03-01 10:00:00\tquery")], excite_lines(200)),
        (bot('{"user": "bot", "time": 1733824800, "query": "q"}'), ['{"user_query": "q", "client_id": "c"}'] * 99),
        (bot('{"user_query": "q", "client_id": "c", "timestamp": 1733824800000}'),
         ['{"user": "u", "time": 1733824800, "query": "q"}'] * 99),
        (bot('{"user": "bot", "time": 1733824800, "query": "q"}'), aol_lines(99)),
        (bot("bot\tquery\t2006-03-01 10:00:00"), ['{"user": "u", "time": 1733824800, "query": "q"}'] * 99),
    ],
    ids=["aol excite", "excite aol", "table aol", "table excite", "json ubi", "ubi json", "json aol", "aol json"],
)  # fmt: skip
def test_one_user_at_the_head_does_not_decide_how_all_others_are_read(
    duckdb_engine: Engine, tmp_path: Path, method: Method, head: list[str], others: list[str]
) -> None:
    """A bot's 4,500 rows in front of 200 users: without a named format such a log is not released at all."""
    log = read(log_of(tmp_path, [*head, *others]), engine=duckdb_engine)
    with pytest.raises(UnknownFormat, match="log_format"):
        method.release(log)


def test_with_the_format_named_the_same_log_is_released(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = log_of(tmp_path, [*bot("bot\tquery\t2006-03-01 10:00:00"), *excite_lines(200)])
    log = read(path, log_format="excite", engine=duckdb_engine)
    released = SEQUENCES.release(log)
    assert released.log["format_named"] is True
    assert log.accounting().rejected == {"L111": 4_500}


def test_tables_can_be_named_by_their_kind(duckdb_engine: Engine, tmp_path: Path) -> None:
    lines = ["user\tquery\ttime", *(f"{user}\tq\t2006-03-01 10:00:00" for user in ("{u", "{v", "w", "x", "y"))]
    path = log_of(tmp_path, lines)
    with pytest.raises(UnknownFormat, match="could be aol or table: say which with log_format"):
        read(path, engine=duckdb_engine)
    for named in ("table", "csv"):  # a table's header with our names tells that it is a CSV
        log = read(path, log_format=named, engine=duckdb_engine)
        assert {row[0] for row in rows_of(log)} == {"{u", "{v", "w", "x", "y"}
        log.check_format()
    other = write(tmp_path / "other.txt", "\n".join(["{u,q", "{v,q", *["w,q"] * 8]) + "\n")
    with pytest.raises(MissingColumn, match="its first line has none of the names given"):
        read(other, log_format="table", engine=duckdb_engine)
    columns = {"user": "user", "time": "time", "query": "query"}
    assert len(rows_of(read(path, log_format="csv", columns=columns, engine=duckdb_engine))) == 5
    objects = ["odd", *(json.dumps({"user": "u", "time": "2006-03-01 10:00:00", "query": "q"}) for _ in range(3))]
    log = read(log_of(tmp_path, objects), log_format="jsonl", engine=duckdb_engine)
    assert (len(rows_of(log)), log.accounting().rejected) == (3, {"L109": 1})


def test_json_lines_are_looked_through_until_an_object_has_what_a_row_needs(tmp_path: Path) -> None:
    odd, fine = '{"x": 1}', '{"user": "u", "time": "2006-03-01 10:00:00", "query": "q"}'
    path = log_of(tmp_path, [*[odd] * 9_000, fine])
    assert prepare(path, log_format="jsonl").recognised.named


def test_inspect_guesses_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    path = log_of(tmp_path, ["not a row", *excite_lines(30)])
    guessed = in_process("inspect", path, tmp=tmp_path / "tmp")
    assert "excite (guessed: not all of its first lines fit)" in " ".join(guessed.stdout.split())
    told = in_process("inspect", write(tmp_path / "a.txt", excite(ROWS)), tmp=tmp_path / "tmp")
    assert "excite (recognised by its lines)" in " ".join(told.stdout.split())
    named = in_process("inspect", path, "--log-format", "excite", tmp=tmp_path / "tmp")
    assert "(" not in next(line for line in named.stdout.splitlines() if line.startswith("format"))
    found: dict[str, Any] = json.loads(in_process("inspect", path, "--json", tmp=tmp_path / "tmp").stdout)
    assert (found["format"], found["format_certain"]) == ("excite", False)


def test_a_release_says_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    path = log_of(tmp_path, ["not a row", *aol_lines(30)])
    budget = ("--epsilon", "4", "--delta", "1e-3", "--out", tmp_path / "out")
    refused = in_process("release", "clicks", path, *budget, tmp=tmp_path / "tmp")
    assert (refused.returncode, refused.stdout) == (2, "")
    doubt = "LOG seems to be aol, but not all of its first lines are written so: if it is, say --log-format aol"
    assert refused.stderr == f"querycloak: {doubt}\n"
    done = in_process("release", "clicks", path, *budget, "--log-format", "aol", "--json", tmp=tmp_path / "tmp")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["log"]["format_named"] is True


CSV = "who,when,what\n{},2006-03-01 10:00,first\nu2,2006-03-01 10:00,second\n"
MAPPING = {"user": "who", "time": "when", "query": "what"}
OBJECTS = "".join(json.dumps({"who": f"u{i}", "when": "2006-03-01 10:00", "what": "a"}) + "\n" for i in range(3))


@pytest.mark.parametrize("name", ["log.csv", "log.txt"])
@pytest.mark.parametrize("user", ["{", "[", "PAR1"])
def test_with_columns_no_row_turns_a_csv_into_json(duckdb_engine: Engine, tmp_path: Path, name: str, user: str) -> None:
    """The name tells the kind, or the header with the names that were typed; both count as named."""
    path = write(tmp_path / name, CSV.format(user))
    log = read(path, columns=MAPPING, engine=duckdb_engine)
    assert (log.describe()["format_named"], log.recognised.doubt) == (True, None)
    assert sorted(row[2] for row in rows_of(log)) == ["first", "second"]


def test_a_kind_that_only_rows_tell_is_not_named(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.txt", OBJECTS), columns=MAPPING, engine=duckdb_engine)
    assert (log.accounting().rows_kept, log.describe()["format_named"]) == (3, False)
    named = read(write(tmp_path / "log.jsonl", OBJECTS), columns=MAPPING, engine=duckdb_engine)
    assert (named.accounting().rows_kept, named.describe()["format_named"]) == (3, True)
