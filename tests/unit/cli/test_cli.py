"""The command line: exit codes, one clear line for every mistake, nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from querycloak.errors import EngineError
from querycloak.interruption import interrupt
from tests.commands import PATIENCE, in_process, querycloak
from tests.logs import ROWS, WRITERS, aol, write

KEYS = [
    "format",
    "format_certain",
    "rows_read",
    "rows_kept",
    "set_aside",
    "users",
    "searches",
    "clicks",
    "distinct_queries",
    "distinct_pairs",
    "one_user_share",
    "words_per_query",
    "wordnet_coverage",
    "sessions",
    "first_time",
    "last_time",
    "rows_per_user",
    "actions",
    "views",
    "attributes",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.tsv", aol(ROWS))


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def test_inspect_as_json(log: Path, tmp: Path) -> None:
    done = querycloak("inspect", log, "--json", tmp=tmp)
    assert (done.returncode, done.stderr) == (0, "")
    profile = json.loads(done.stdout)
    assert [key for key in profile if key != "private"] == KEYS
    shares = {"1": 2 / 7, "2": 3 / 7, "3": 2 / 7, "4": 0, "5+": 0}
    assert profile == {
        "format": "aol",
        "format_certain": True,
        "private": True,
        "rows_read": 8,
        "rows_kept": 8,
        "set_aside": {},
        "users": 3,
        "searches": 7,
        "clicks": 6,
        "distinct_queries": 7,
        "distinct_pairs": 6,
        "one_user_share": 1.0,
        "words_per_query": {"mean": 2.0, "shares": shares},
        # Nothing in Chinese; in "ärger mit straße" it takes "mit" for the institute.
        "wordnet_coverage": {"searches": 6 / 7, "distinct_queries": 6 / 7},
        "sessions": 4,
        "first_time": "1970-01-01T12:00:00",
        "last_time": "1970-01-01T12:40:01",
        "rows_per_user": {"users": 3, "median": 3.0, "largest": 3, "one_row": 0, "rows": 8},
        "actions": {},
        "views": None,
        "attributes": {},
    }
    assert list(tmp.iterdir()) == []


def test_inspect_for_people_says_first_that_it_is_private(log: Path) -> None:
    done = in_process("inspect", log, COLUMNS="80")
    assert done.returncode == 0
    assert done.stdout.startswith("PRIVATE OUTPUT")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "█" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "no-such.tsv"], "LOG: no such file or folder: 'no-such.tsv'\n"),
        (["inspect", "{empty}"], "LOG is empty (0 bytes)"),
        (["inspect", "{binary}"], "LOG is not text (a binary file?)"),
        (["inspect", "{folder}"], "LOG is a folder without log files"),
        (["inspect", "{zip}"], "LOG is a zip archive: unpack it"),
        (["inspect", "{cut}"], "LOG: its gzip data is damaged or cut short"),
        (["inspect", "{log}", "{utf16}"], "LOG 2 is written in UTF-16: save it as UTF-8"),
        (["inspect", "{log}", "--log-format", "bing"], "--log-format must be one of aol, excite"),
        (["inspect", "{log}", "--columns", "user"], "--columns must be written like user=...,time=...,query=..."),
        (["inspect", "{log}", "--columns", "user=a,time=b"], "--columns must say user, time and query, and lacks"),
        (["inspect", "{log}", "--columns", "page=a,time=b"], "--columns maps 'page', which is none of user, time"),
        (["inspect", "{csv}", "--columns", "user=who,time=x,query=what"], "no column 'x'; existing columns: when, who"),
        (["inspect", "{log}", "--engine", "hive"], "--engine must be duckdb, spark"),
        (["inspect", "{log}", "--engine", "sc://127.0.0.1:1"], "nobody answers at 'sc://127.0.0.1:1'"),
        (["inspect", "{log}", "--engine", "spark://127.0.0.1:1"], "nobody answers at 'spark://127.0.0.1:1'"),
        (["inspect", "{log}", "--threads", "0"], "--threads must be at least 1, got 0"),
        (["inspect", "{log}", "--memory", "much"], "--memory must be an amount, got 'much'; such as 3GB or 500MB"),
        (["inspect", "{log}", "--since", "spring"], "--since must be a date such as 2006-03-01"),
        (["inspect", "{log}", "--since", "2007-01-01", "--until", "2006-01-01"], "--since must be before --until"),
        (["inspect", "{log}", "--max-bad", "2"], "--max-bad must be a share between 0 and 1, got 2.0"),
        (["inspect", "{log}", "--gap-minutes", "0"], "--gap-minutes must be a finite number above 0"),
        (["inspect", "{log}", "--leave-out", "nobody.txt"], "the file given with --leave-out cannot be read"),
        (["inspect", "{log}", "--encoding", "klingon"], "--encoding must be an encoding that Python knows"),
        (["inspect", "{log}", "--encoding", "utf-16"], "in which ASCII bytes stand for ASCII alone"),
        (["inspect", "{log}", "--log-format", "excite"], "9 of 9 rows are bad"),
        (["inspect", "{log}", "--keep-url", "all"], "--keep-url: 'all' is not one of 'full', 'path'"),
        (["inspect", "{log}", "--threads", "1.5"], "--threads must be a whole number, got '1.5'; see --help"),
        (["inspect", "{log}", "--max-bad", "few"], "--max-bad must be a number, got 'few'; see --help"),
        (["inspect", "{log}", "--rejected", "/no/such/folder/x"], "the file for rejected rows cannot be written"),
        (["inspect"], "Missing argument 'LOG' (see --help)"),
        (["inspct"], "No such command 'inspct'"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_line_and_exit_2(tmp_path: Path, tmp: Path, arguments: list[str], message: str) -> None:
    files: dict[str, str | bytes] = {
        "log": aol(ROWS),
        "empty": "",
        "binary": bytes(range(256)) * 20,
        "zip": b"PK\x03\x04" + b"x" * 99,
        "cut": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x4c",
        "utf16": aol(ROWS).encode("utf-16"),
        "csv": WRITERS["csv"](ROWS),
    }
    places = {name: str(write(tmp_path / f"{name}.tsv", content)) for name, content in files.items()}
    (tmp_path / "folder").mkdir()
    places["folder"] = str(tmp_path / "folder")
    done = in_process(*(argument.format(**places) for argument in arguments), tmp=tmp)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("querycloak: ")
    assert list(tmp.iterdir()) == []


def test_no_room_for_the_private_folder(log: Path, tmp_path: Path) -> None:
    done = in_process("inspect", log, tmp=tmp_path / "nowhere")
    assert done.returncode == 2
    assert "set QUERYCLOAK_TMP to a folder with room" in done.stderr


def test_too_many_bad_rows_can_be_looked_at_and_allowed(tmp_path: Path, tmp: Path) -> None:
    log = write(tmp_path / "log.tsv", aol(ROWS) + "prose\n" * 8)
    aside = tmp_path / "aside.jsonl"
    refused = in_process("inspect", log, "--rejected", aside, tmp=tmp)
    assert refused.returncode == 2
    assert "--max-bad" in refused.stderr
    assert aside.read_text().count("L103") == 8
    former = in_process("inspect", log, "--max-bad", "0.5", "--json", "--set-aside", tmp_path / "former.jsonl", tmp=tmp)
    assert former.returncode == 0
    assert (tmp_path / "former.jsonl").read_text() == aside.read_text()


def test_a_bug_says_so_without_its_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from querycloak.cli.running import run

    def broken() -> None:
        raise RuntimeError("user 4711 asked for something")

    assert run(broken) == 1
    told = capsys.readouterr().err
    assert "this is a bug in querycloak (RuntimeError at tests.unit.cli.test_cli:" in told
    assert "4711" not in told


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_reading(tmp_path: Path, tmp: Path, way: signal.Signals) -> None:
    log = write(tmp_path / "log.tsv", aol(ROWS * 300_000))
    settings = {**os.environ, "QUERYCLOAK_TMP": str(tmp)}
    command = [sys.executable, "-m", "querycloak", "inspect", str(log), "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings)
    while not list(tmp.iterdir()) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.7)
    process.send_signal(way)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert err == ENDED
    assert list(tmp.iterdir()) == []


ENDED = "querycloak: interrupted; nothing half-written is left, and what was charged to a ledger stays charged\n"
INTERRUPTED_AT_IMPORT = """
import os, runpy, signal, sys
class Interrupter:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupter())
runpy.run_module("querycloak", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["querycloak.cli.cli", "typer", "querycloak.methods.clicks.method", "numpy"])
def test_interrupted_while_modules_are_imported(module: str) -> None:
    code = INTERRUPTED_AT_IMPORT.format(module=module)
    command = [sys.executable, "-c", code, "guarantee", "clicks", "--epsilon", "8", "--delta", "1e-6"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", ENDED)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_an_error_line_is_composed(number: signal.Signals) -> None:
    code = INTERRUPTED_AT_IMPORT.format(module="querycloak.cli.error_line").replace("SIGINT", number.name)
    command = [sys.executable, "-c", code, "ledger", "show", "nobody", "--ledger", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) in [(130, "", 1), (2, "", 1)], done.stderr
    assert done.stderr.startswith("querycloak: ")


def test_signals_one_after_another_end_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    from querycloak.cli import running

    def ended_by(_: BaseException) -> int:
        interrupt(signal.SIGTERM, None)
        return 2

    def interrupted_again() -> None:
        monkey.setattr(running, "_ended_by", ended_by)
        raise ValueError

    with pytest.MonkeyPatch.context() as monkey:
        assert running.run(interrupted_again) == 2
    monkey = pytest.MonkeyPatch()
    told = running.interrupted

    def cut_short() -> int:
        monkey.setattr(running, "interrupted", told)
        raise KeyboardInterrupt

    monkey.setattr(running, "interrupted", cut_short)
    assert running.run(running._stop) == 130
    assert capsys.readouterr().err == ENDED


def test_an_interrupt_that_a_library_made_an_error_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    from querycloak.cli import running

    def broken() -> None:
        with pytest.raises(KeyboardInterrupt):
            interrupt(signal.SIGINT, None)
        raise EngineError("the engine failed while staging a table (RuntimeError)")

    assert running.run(broken) == 130
    assert capsys.readouterr().err == ENDED
    assert running.run(lambda: None) == 0


def piped(command: list[str], lines: int) -> tuple[int, str]:
    """Exit code and stderr of a command whose reader goes away after some lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", "querycloak", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    for _ in range(lines):
        assert process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    return process.wait(timeout=PATIENCE), told


@pytest.mark.parametrize("lines", [0, 1])
def test_a_closed_pipe_is_no_failure(log: Path, lines: int) -> None:
    assert piped(["guarantee", "clicks", "--epsilon", "8", "--delta", "1e-6", "--explain"], lines) == (0, "")
    assert piped(["inspect", str(log)], lines) == (0, "")
    assert piped(["--help"], lines) == (0, "")


def test_a_broken_pipe_elsewhere_is_our_bug(capsys: pytest.CaptureFixture[str]) -> None:
    from querycloak.cli.running import run

    def broken() -> None:
        raise BrokenPipeError

    assert run(broken) == 1
    assert "this is a bug in querycloak (BrokenPipeError" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "code"), [("inspect nowhere", 2), ("ledger show --ledger books", 0)])
def test_streams_that_a_shell_closed_change_nothing(tmp_path: Path, words: str, code: int) -> None:
    command = f"{shlex.quote(sys.executable)} -m querycloak {words} >&- <&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "bug" not in done.stderr


def test_a_mistake_told_to_nobody_keeps_its_exit_code() -> None:
    process = subprocess.Popen([sys.executable, "-m", "querycloak", "inspect", "nowhere"], stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait(timeout=PATIENCE) == 2


def test_what_a_killed_run_left_behind_is_removed_by_the_next(log: Path, tmp: Path) -> None:
    stale = tmp / ".querycloak-private-stale"
    stale.mkdir()
    write(stale / "spilled", "private")
    assert querycloak("inspect", log, tmp=tmp).returncode == 0
    assert list(tmp.iterdir()) == []


def test_a_mistake_keeps_the_former_demo(tmp_path: Path, tmp: Path) -> None:
    former = tmp_path / "former"
    former.mkdir()
    (former / "comparison.json").write_text('{"querycloak": "comparison", "version": 1, "demo": true}')
    before = sorted(former.iterdir())
    done = in_process("demo", "--users", "0", "--out", former, tmp=tmp)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--users must be a whole number from 1 to" in done.stderr
    assert sorted(former.iterdir()) == before


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "--help"], ["release", "--help"]])
def test_help_loads_no_engine(arguments: list[str]) -> None:
    """Half a second is for people; what a test can hold is that nothing heavy is imported."""
    code = (
        "import sys; sys.argv[1:] = sys.argv[1:]\n"
        "from querycloak.cli.cli import app\nfrom querycloak.cli.running import run\n"
        "run(lambda: app(standalone_mode=False))\n"
        "heavy = {'duckdb', 'ibis', 'numba', 'pyarrow', 'pyspark', 'opendp', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_summaries_of_commands_are_not_cut() -> None:
    for arguments in ([], ["guarantee"], ["release"], ["tune"], ["ledger"]):
        done = in_process(*arguments, "--help", COLUMNS="80")
        assert done.returncode == 0
        assert "..." not in done.stdout.split("Commands:")[1]
        assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("querycloak rel", ["release"]),
        ("querycloak release sess", ["sessions"]),
        ("querycloak release clicks --selection ", ["laplace", "gaussian", "weighted", "multi-round"]),
        ("querycloak guarantee sessions --max-keys-per-user ", ["auto"]),
        ("querycloak inspect --log-format u", ["ubi"]),
        ("querycloak evaluate --task l", ["language", "loss"]),
        ("querycloak audit release --attack s", ["singling-out", "secrets"]),
        ("querycloak reproduce h", ["hong2012"]),
    ],
)
def test_a_shell_is_offered_what_may_follow(typed: str, offered: list[str]) -> None:
    at = str(typed.count(" "))
    done = in_process(COMP_WORDS=typed, COMP_CWORD=at, _QUERYCLOAK_COMPLETE="complete_bash")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, offered, "")


def test_version() -> None:
    done = querycloak("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"querycloak \d+\.\d+\S*\n", done.stdout)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "chlamydia"), "a disk is full: free some room"),
        (OSError(errno.EMFILE, "chlamydia"), "too many files are open: raise the limit"),
        (MemoryError("chlamydia"), "memory or address space (ulimit -v) is used up"),
    ],
)
def test_what_a_machine_lacks_is_no_bug_wherever_it_is_noticed(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from querycloak.cli import running

    def lacking() -> None:
        raise error

    assert running.run(lacking) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "chlamydia" not in told
