"""However a command ends, nothing of a log stays behind: at once where a signal can be caught, else after the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from querycloak.files.locked_folder import PRIVATE, UNFINISHED, clean_up, make_locked
from tests.commands import querycloak
from tests.logs import AOL_HEADER, ROWS, aol, write

SECRET = "chlamydia"
# Makes a private folder with something in it, gets a signal at some place, and ends as commands do.
COMMAND = """
import atexit, os, shutil, signal, sys
from querycloak.files.locked_folder import PrivateFolder
from querycloak.cli.running import run_and_exit
def kill(): os.kill(os.getpid(), {number})
def work():
    with PrivateFolder() as folder:
        (folder.path / "spill").write_text("chlamydia")
        {at_work}
    print("done")
{before}
run_and_exit(work)
"""
SECOND = """
remove = shutil.rmtree
def twice(*arguments, **more):
    kill()
    remove(*arguments, **more)
shutil.rmtree = twice
"""


def ended(tmp: Path, number: int, at_work: str = "pass", before: str = "") -> subprocess.CompletedProcess[str]:
    script = COMMAND.format(number=int(number), at_work=at_work, before=before)
    settings = {**os.environ, "QUERYCLOAK_TMP": str(tmp)}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=settings, check=False)


def left(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_can_be_caught_leaves_nothing(tmp_path: Path, number: int) -> None:
    done = ended(tmp_path, number, at_work="kill()")
    assert (done.returncode, left(tmp_path)) == (130, [])
    assert done.stderr.startswith("querycloak: interrupted; ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_cut_the_clean_up_short(tmp_path: Path, number: int) -> None:
    done = ended(tmp_path, number, at_work="kill()", before=SECOND)
    assert (done.returncode, left(tmp_path), done.stdout) == (130, [], "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_tear_down_changes_nothing_of_what_was_done(tmp_path: Path, number: int) -> None:
    done = ended(tmp_path, number, before="atexit.register(kill)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_what_a_shell_starts_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    ignored = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    done = ended(tmp_path, signal.SIGHUP, at_work="kill()", before=ignored)
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.fixture
def bad_log(tmp_path: Path) -> Path:
    rows = [f"u{i}\t{SECRET}\tnever\t\t" for i in range(50)]
    return write(tmp_path / "log.tsv", "\n".join([AOL_HEADER, *rows]) + "\n")


def test_killed_while_rows_are_rejected_the_next_command_of_any_kind_cleans_up(tmp_path: Path, bad_log: Path) -> None:
    (tmp := tmp_path / "tmp").mkdir()
    (out := tmp_path / "out").mkdir()
    arguments = ("inspect", bad_log, "--log-format", "aol", "--max-bad", "1", "--rejected", out / "aside.jsonl")
    killed = querycloak(*arguments, tmp=tmp, QUERYCLOAK_FAULT="before put")
    assert killed.returncode == -signal.SIGKILL
    assert left(out)  # raw rows, as a kill leaves them
    next_one = querycloak("guarantee", "clicks", "--epsilon", "1", "--delta", "1e-6", tmp=tmp)
    assert next_one.returncode == 0
    assert list(out.iterdir()) == []
    assert left(tmp) == []


@pytest.mark.parametrize("named", ["out/aside.jsonl", "--out=out/other", "out"])
def test_leftovers_are_known_by_where_they_are_if_notes_of_them_are_lost(
    tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out" / f"{UNFINISHED}dead" / "release").mkdir(parents=True)
    (tmp_path / "out" / f"{UNFINISHED}dead" / "release" / "train.tsv").write_text(SECRET)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"{UNFINISHED}here").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUERYCLOAK_TMP", str(tmp_path / "elsewhere"))  # not the one with the notes
    clean_up(["inspect", named])
    assert left(tmp_path) == []
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "out"]  # the current folder is looked through, too


KILLED_AMID_STATES = """
import sys
from pathlib import Path
from querycloak.comparison.comparison_folder import comparison_folder
from querycloak.reproduction.workbench import reproduction_folder
if sys.argv[1] == "compare":
    with comparison_folder(Path(sys.argv[2]), "same"):
        pass
else:
    reproduction_folder(Path(sys.argv[2]))
"""


@pytest.mark.parametrize("command", ["compare", "reproduce"])
def test_killed_while_it_notes_what_it_does_a_long_command_can_begin_again(tmp_path: Path, command: str) -> None:
    (tmp := tmp_path / "tmp").mkdir()
    arguments = [sys.executable, "-c", KILLED_AMID_STATES, command, str(tmp_path / "out")]
    settings = {**os.environ, "QUERYCLOAK_TMP": str(tmp)}
    killed = subprocess.run(arguments, env={**settings, "QUERYCLOAK_FAULT": "before put"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path / "out") != []
    assert querycloak("--version", tmp=tmp).returncode == 0
    assert os.listdir(tmp_path / "out") == []
    assert subprocess.run(arguments, env=settings, check=False).returncode == 0


def test_killed_while_a_log_is_made_or_a_release_is_written_the_next_command_cleans_up(tmp_path: Path) -> None:
    (tmp := tmp_path / "tmp").mkdir()
    (out := tmp_path / "out").mkdir()
    log = write(tmp_path / "log.tsv", aol(ROWS))
    release = ("release", "k-anonymity", log, "--log-format", "aol", "--min-users", "2", "--out", out / "release")
    assert querycloak(*release, tmp=tmp, QUERYCLOAK_FAULT="before rename").returncode == -signal.SIGKILL
    assert list(out.iterdir()) != []
    assert querycloak("--version", tmp=tmp).returncode == 0
    assert list(out.iterdir()) == []


def test_what_lives_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("QUERYCLOAK_TMP", str(tmp))
    (elsewhere := tmp_path / "elsewhere").mkdir()
    held = [make_locked(tmp, PRIVATE), make_locked(elsewhere, UNFINISHED)]
    clean_up()
    assert all(path.is_dir() for path, _ in held)
    for _, lock in held:
        os.close(lock)
    clean_up()
    assert not any(path.exists() for path, _ in held)


def test_a_folder_of_notes_that_somebody_else_could_write_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYCLOAK_TMP", str(tmp_path))
    (mine := tmp_path / "mine" / f"{UNFINISHED}x").mkdir(parents=True)
    (notes := tmp_path / f".querycloak-places-{os.getuid()}").mkdir(mode=0o777)
    notes.chmod(0o777)
    (notes / "planted").write_text(f"{UNFINISHED}\n{mine.parent}")
    clean_up()
    assert mine.exists()
