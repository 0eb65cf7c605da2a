"""How other people's tools are measured, and that the page says what the table says."""

from __future__ import annotations

import csv
import os
import re
import sys
from pathlib import Path

import pytest
from bench.peer_inputs import Fields
from bench.peer_scripts.on_querycloak import released
from bench.scale import keep
from bench.watched_process import Limits, Watched, last_words, watch
from scripts import make_scale_page as maker

from bench import peers

HERE, PATIENT = dict(os.environ), Limits()


def run(program: str, folder: Path, limits: Limits = PATIENT) -> Watched:
    return watch([sys.executable, "-c", program], folder, limits, HERE)


def test_time_and_memory_of_what_a_command_starts_count(tmp_path: Path) -> None:
    busy = "import time; held = bytearray(200 << 20)\nwhile time.process_time() < 0.6: pass"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}]); print('{{\"released\": 3}}')"
    watched = run(program, tmp_path)
    assert (watched.told, watched.failure) == ({"released": 3}, "")
    assert watched.processor_seconds >= 0.6
    assert watched.gigabytes > 0.19


def test_what_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    watched = run("print('{\"released\": 3}'); raise ValueError('no such column')", tmp_path)
    assert (watched.told, watched.failure) == ({}, "ValueError: no such column")


def test_what_takes_too_long_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    wait = "import time; time.sleep(60)"
    told = tmp_path / "child"
    program = (
        f"import pathlib, subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {wait!r}]); "
        f"pathlib.Path({str(told)!r}).write_text(str(child.pid)); {wait}"
    )
    watched = run(program, tmp_path, Limits(seconds=1))
    assert watched.failure == "not done after 1 seconds"
    state = Path(f"/proc/{told.read_text()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_what_takes_too_much_memory_is_stopped(tmp_path: Path) -> None:
    watched = run("import time; held = bytearray(200 << 20); time.sleep(60)", tmp_path, Limits(gigabytes=0.1))
    assert watched.failure.startswith("stopped at ")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "ended with status 1, without a word"),
        ("Traceback\n  File x\nValueError: wrong\n\n", "ValueError: wrong"),
        ("a.b.PythonException: \n  thrown from the worker\nTraceback\n", "PythonException: thrown from the worker"),
        ("Killed\n", "Killed"),
        ("FileNotFoundError: /tmp/some/where/log.tsv is not there", "FileNotFoundError: log.tsv is not there"),
        ("Error: " + "x" * 200, "Error: " + "x" * 112 + "…"),
    ],
)
def test_last_words(said: str, words: str) -> None:
    assert last_words(said, 1) == words


def test_a_tool_that_failed_is_not_run_on_larger_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, str]] = []

    def fake(tool: peers.Tool, given: Fields, folder: Path, limits: Limits) -> Watched:
        runs.append((tool.name, given["rows"]))
        fails = tool.name == "weak" and given["rows"] == "20"
        return Watched(2.0, 1.0, 0.5, {} if fails else {"released": 7}, "MemoryError: " if fails else "")

    tools = tuple(peers.Tool(name, "querycloak", "", (), "") for name in ("strong", "weak"))
    task = peers.Task(lambda folder, rows: {"rows": str(rows)}, tools, (10, 20, 30))
    monkeypatch.setattr(peers.Tool, "run", fake)
    monkeypatch.setattr(peers, "TASKS", {"trying": task})
    rows = list(peers.rows_of("trying", task.sizes, tmp_path))
    assert [(row["tool"], row["rows"], row["released"]) for row in rows] == [
        ("strong", 10, 7),
        ("weak", 10, 7),
        ("strong", 20, 7),
        ("weak", 20, ""),
        ("strong", 30, 7),
    ]
    assert runs.count(("strong", "10")) == 2  # what is compiled and kept in the first use is not measured
    assert (rows[0]["rows_a_second"], rows[3]["rows_a_second"]) == (5, "")


def test_rows_of_one_task_leave_those_of_another(tmp_path: Path) -> None:
    for task in ("keys", "join", "keys"):
        keep(tmp_path / "peers.csv", [{"task": task, "tool": "ours", "rows": 10}])
    with (tmp_path / "peers.csv").open() as file:
        assert [row["task"] for row in csv.DictReader(file)] == ["join", "keys"]


def test_every_tool_is_pinned_and_has_its_script() -> None:
    for task in peers.TASKS.values():
        for tool in task.tools:
            assert tool.package == peers.OURS or re.fullmatch(r"[\w.\[\]-]+==[\d.]+", tool.package)
            assert (peers.SCRIPTS / tool.script).is_file()


def test_our_own_script_does_the_tasks(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    lines = [f"{user}\tsame words\t2006-03-01 07:17:12\t1\thttp://www.same.com\n" for user in range(40)]
    log.write_text("AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n" + "".join(lines))
    for name in ("keys", "k-anonymity"):
        task, path, *numbers = [each.format(log=log) for each in peers.TASKS[name].tools[0].arguments]
        assert released(task, path, numbers) == 1


def test_the_page_is_what_its_script_writes() -> None:
    blocks = [
        maker.BLOCK.findall(text) for text in (maker.page_with_tables(maker.PAGE.read_text()), maker.PAGE.read_text())
    ]
    assert blocks[0] == blocks[1]
    written = re.findall(r"<!-- table peers:(\S+) -->(.*?)<!-- end -->", maker.PAGE.read_text(), re.DOTALL)
    assert [name for name, _ in written] == [*peers.TASKS, "proves"]
    for row in maker._read(maker.TABLES / "peers.csv"):
        assert f"| {row['tool']} | {row['version']} | {int(row['rows']):,} |" in dict(written)[row["task"]]
        assert f"| {row['task']} | {row['tool']} | {row['proves']} |" in dict(written)["proves"]
