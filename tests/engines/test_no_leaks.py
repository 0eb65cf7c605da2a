"""Nothing of a log in errors, logs or temporary folders, whatever goes wrong, on either engine."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from querycloak.audits.attacks.folder_leaks import Leak, leaks_in, leaks_in_folder
from querycloak.engines import Engine
from querycloak.errors import EngineError, QuerycloakError
from querycloak.logs.profile import profile
from querycloak.logs.searchlog import read
from tests.commands import querycloak
from tests.conftest import LIGHT_JAVA
from tests.logs import AOL_HEADER, write

SECRETS = [
    "SECRETUSER4417749",
    "secret query of lilburn",
    "secret-site.example",
    "SECRETBAD",
    "SECRETNAME",
    "SECRETFIELD",
]
LINE = "SECRETUSER4417749\tsecret query of lilburn\t2006-03-01 10:00:00\t1\thttp://secret-site.example/"
BAD = [
    "SECRETBAD",
    "SECRETBAD\tx\tSECRETBAD\t1\t2",
    "\tSECRETBAD\t2006-03-01 10:00:00\t\t",
    "1\tSECRETBAD\tyesterday\t\t",
]
ENGINES = ["duckdb", "spark"]


def leaks_in_exception(error: BaseException, secrets: Iterable[str]) -> list[Leak]:
    """The secrets in an exception: its words, its attributes, its trace, and all it was raised from or during."""
    secrets = list(secrets)
    leaks: list[Leak] = []
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        each = queue.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        text = "".join(traceback.format_exception(each)) + repr(each) + repr(vars(each))
        leaks += leaks_in(text, secrets, f"exception {type(each).__name__}")
        queue += [each.__cause__, each.__context__]
    return leaks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log full of secrets: in every column, in bad lines, in the names of its folder and files."""
    made = tmp_path / "user=SECRETNAME"
    made.mkdir()
    good = "\n".join([AOL_HEADER, *[LINE] * 30])
    write(made / "SECRETNAME-1.tsv", good + "\n" + "\n".join(BAD[:1]) + "\n")
    write(made / "SECRETNAME-2.tsv", "\n".join([AOL_HEADER, LINE, *BAD]) + "\n")
    return made


def scan(done: Any, tmp: Path) -> list[Leak]:
    found = leaks_in(done.stdout, SECRETS, "stdout") + leaks_in(done.stderr, SECRETS, "stderr")
    assert list(tmp.iterdir()) == [], "something was left behind"
    return found


def test_commands_that_read_tell_nothing(folder: Path, tmp_path: Path) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    done = querycloak("inspect", folder, tmp=tmp)
    assert done.returncode == 2
    assert "rows are bad" in done.stderr
    assert scan(done, tmp) == []
    done = querycloak("inspect", folder, "--max-bad", "1", tmp=tmp)
    assert done.returncode == 0
    assert scan(done, tmp) == []


@pytest.mark.parametrize("engine_name", ["duckdb", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_command_tells_nothing(folder: Path, tmp_path: Path, engine_name: str, spark_or_duckdb: None) -> None:
    """With bad rows in its log, through to a release: one command on Spark, for each starts a Java of its own."""
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    budget = ("--noise", "1", "--threshold", "12", "--max-bad", "1", "--log-format", "aol")
    place = ("--engine", engine_name, "--out", tmp_path / "out")
    done = querycloak("release", "clicks", folder, *budget, *place, tmp=tmp, JAVA_TOOL_OPTIONS=LIGHT_JAVA)
    assert done.returncode == 0
    assert scan(done, tmp) == []
    assert leaks_in_folder(tmp_path / "out", SECRETS) == []


FAILURES: dict[str, tuple[list[str], str]] = {
    "cut": (["{cut}"], "damaged or cut short"),
    "zip": (["{zip}"], "is a zip archive"),
    "unknown format": (["{prose}"], "format of LOG is not known"),
    "several formats": (["{folder}", "{excite}"], "several formats"),
    "no header": (["{headless}", "--columns", "user=a,time=b,query=c"], "its first line has none of the names given"),
    "missing column": (["{json}", "--columns", "user=a,time=b,query=c"], "has the columns 'a', 'b', 'c'"),
    "wrong query": (["{wrong}", "--columns", "user=u,time=t,query=q"], "most of them L103"),
    "no memory": (["{big}", "--memory", "1MB", "--threads", "1"], "memory ran out"),
    "there already": (["{folder}", "--rejected", "{there}"], "must not exist yet"),
    "no folder": (["{folder}", "--rejected", "{prose}/rows"], "cannot be written"),
    "bad list": (["{folder}", "--leave-out", "{cut}"], "--leave-out cannot be read"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_failures_tell_nothing(folder: Path, tmp_path: Path, what: str) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    data = "\n".join([AOL_HEADER, *[f"{LINE}{i}" for i in range(3_000)]]).encode()
    files: dict[str, str | bytes] = {
        "cut": gzip.compress(data)[:-50],
        "zip": b"PK\x03\x04" + data,
        "prose": "SECRETBAD is what this is about.\n",
        "excite": "SECRETUSER4417749\t970916105432\tsecret query of lilburn\n" * 3,
        "headless": "SECRETUSER4417749,2006-03-01 10:00:00,secret query of lilburn\n" * 3,
        "json": '{"SECRETUSER4417749": 1, "secret query of lilburn": 2}\n',
        "wrong": '{"u": "SECRETUSER4417749", "t": "2006-03-01 10:00:00", "secret query of lilburn": 1}\n' * 30
        + '{"u": 1, "t": 2, "q": "SECRETBAD"}\n',
        "big": data * 40,
    }
    places = {name: str(write(tmp_path / f"SECRETNAME-{name}.log", content)) for name, content in files.items()}
    places |= {"folder": str(folder), "there": str(write(tmp_path / "rows.txt", "something else\n"))}
    arguments, message = FAILURES[what]
    done = querycloak("inspect", *(argument.format(**places) for argument in arguments), tmp=tmp)
    assert done.returncode == 2
    assert message in done.stderr
    assert scan(done, tmp) == []


@dataclass(frozen=True)
class Broken:
    """A source that fails as no source should: with the log's words in its mouth."""

    schema = pa.schema([pa.field("query", pa.string()), pa.field("code", pa.int16())])

    def parts(self, size: int | None) -> list[int]:
        return [0]

    def blocks(self, part: int) -> Iterator[int]:
        yield part

    def parse(self, block: int) -> pa.RecordBatch:
        raise RuntimeError("SECRETFIELD")


def test_a_broken_reader_tells_nothing(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EngineError) as raised:
        engine.fetch(engine.table(Broken()))
    assert leaks_in_exception(raised.value, SECRETS) == []
    assert leaks_in("".join(capfd.readouterr()), SECRETS, "output") == []


def test_an_engine_that_quotes_a_value_tells_nothing(
    engine: Engine, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = read(folder, engine=engine, max_bad=1)
    with pytest.raises(EngineError, match="the engine failed while computing a result") as raised:
        engine.fetch(log.rows.mutate(number=log.rows.query.cast("int64")))
    assert leaks_in_exception(raised.value, SECRETS) == []
    with pytest.raises(EngineError) as streamed:
        list(engine.stream(log.rows.mutate(number=log.rows.query.cast("int64"))))
    assert leaks_in_exception(streamed.value, SECRETS) == []
    assert leaks_in("".join(capfd.readouterr()), SECRETS, "output") == []


def test_library_errors_tell_nothing(engine: Engine, folder: Path) -> None:
    with pytest.raises(QuerycloakError) as raised:
        profile(read(folder, engine=engine))
    assert leaks_in_exception(raised.value, SECRETS) == []


def test_a_file_damaged_behind_its_beginning(engine: Engine, tmp_path: Path) -> None:
    data = "\n".join([AOL_HEADER, *[f"{i}{LINE}" for i in range(30_000)]]).encode()
    whole = gzip.compress(data)
    path = write(tmp_path / "SECRETNAME.tsv.gz", whole[: len(whole) // 2])
    with pytest.raises(QuerycloakError, match="LOG: its gzip data is damaged or cut short") as raised:
        read(path, engine=engine).checked()
    assert leaks_in_exception(raised.value, SECRETS) == []


def test_the_scanner_finds_what_is_there(tmp_path: Path) -> None:
    write(tmp_path / "a-SECRETNAME.txt", "nothing")
    write(tmp_path / "b.gz", gzip.compress(b"a secretbad word"))
    pa.parquet.write_table(pa.table({"q": ["SECRETFIELD"]}), tmp_path / "c.parquet")
    assert {leak.secret for leak in leaks_in_folder(tmp_path, SECRETS)} == {"SECRETNAME", "SECRETBAD", "SECRETFIELD"}

    def hiding() -> None:
        try:
            raise ValueError("SECRETBAD")
        except ValueError:
            raise RuntimeError("quiet") from None

    with pytest.raises(RuntimeError) as raised:
        hiding()
    assert {leak.secret for leak in leaks_in_exception(raised.value, SECRETS)} == {"SECRETBAD"}
