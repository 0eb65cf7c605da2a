"""A real cluster: Spark's own master, two workers and a Spark Connect server, on loopback, shared by all tests here.

The five commands that every owner of a large log runs are here; everything else is `make cluster` (-m slow).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from querycloak.contract.trial import SECRETS, USERS, small_log, user_name
from querycloak.privacy.ledger.ledger import Ledger
from tests.cluster.processes import Cluster, running_cluster
from tests.cluster.work import COMMANDS, POPULATION, RESULTS, SETTLED, result
from tests.commands import PATIENCE
from tests.conftest import require_java

PLACES = ("connect", "standalone")
OWN_PAIRS = 40
FEW = 400
"""More than noise lets out of this log, far fewer than its pairs."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_java()
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.start_connect_server()
        yield made


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contract's log, and for every user pairs that nobody else has: what must not come to the driver."""
    own = [
        f"{user_name(user)}\town {user} {at}\t2006-03-02 12:{at:02}:00\t1\thttp://{user}-{at}.example/"
        for user in range(USERS)
        for at in range(OWN_PAIRS)
    ]
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    path.write_text(small_log() + "\n".join(own) + "\n")
    return path


@pytest.fixture(scope="module")
def on_duckdb(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("duckdb")
    return {command: json.loads(json.dumps(result(command, "duckdb", log_file, folder))) for command in COMMANDS}


class Program:
    """`work` on the cluster: one for all that happens there, for each would start a Java and two executors."""

    def __init__(self, cluster: Cluster, address: str, log_file: Path, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.cluster.work", address, str(log_file), str(folder)]
        self.folder, self._streams = folder, [folder / name for name in ("stdout", "stderr")]
        with self._streams[0].open("wb") as out, self._streams[1].open("wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=err, env=cluster.environment(), text=True
            )

    def results(self, folder: Path | None = None) -> dict[str, Any]:
        """As soon as they are there."""
        path = (folder or self.folder) / RESULTS
        end = time.monotonic() + PATIENCE
        while not path.exists() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        assert path.exists(), self.said()
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def release_once_more(self, folder: Path, killed: Sequence[int], patience: float = PATIENCE) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, (folder, patience, *killed))) + "\n")
        self.process.stdin.flush()
        return self.results(folder)

    def said(self) -> list[str]:
        """On standard output, and on standard error."""
        return [path.read_text() for path in self._streams]

    def end(self) -> int:
        """Its exit code, when nothing more is asked for."""
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@contextlib.contextmanager
def running_program(cluster: Cluster, place: str, log_file: Path, folder: Path) -> Iterator[Program]:
    made = Program(cluster, getattr(cluster, place), log_file, folder)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


@pytest.fixture(scope="module")
def program(cluster: Cluster, log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with running_program(cluster, "standalone", log_file, tmp_path_factory.mktemp("standalone")) as made:
        yield made


@pytest.fixture(
    scope="module",
    params=[pytest.param(place, marks=[pytest.mark.slow] if place == "connect" else []) for place in PLACES],
)
def on_spark(request: pytest.FixtureRequest, cluster: Cluster, log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:  # noqa: E501  # fmt: skip
    if request.param == "standalone":  # which goes on
        standalone: Program = request.getfixturevalue("program")
        return standalone.results()
    with running_program(cluster, request.param, log_file, tmp_path_factory.mktemp(request.param)) as made:
        found = made.results()
        assert (made.end(), made.said()) == (0, ["", ""])
        return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_gives_what_duckdb_gives(command: str, on_spark: dict[str, Any], on_duckdb: dict[str, Any]) -> None:
    assert on_spark["found"][command] == on_duckdb[command]


def test_no_plan_brings_rows_to_one_place(program: Program) -> None:
    watched = program.results()["watched"]
    flaws = {command: set(watched[command]["flaws"]) for command in COMMANDS}
    # Rows that come out are in order, which executors make together.
    assert flaws == {command: {"sorted"} if command == "affinity" else set() for command in COMMANDS}


def test_only_what_may_come_out_comes_to_the_driver(on_spark: dict[str, Any]) -> None:
    for command in COMMANDS:
        for columns, rows in on_spark["watched"][command]["fetched"]:
            # Total weights by digest are 2^24 at most, whatever the size of the log; what affinity peels here, 2^23.
            assert rows < FEW or "digest" in columns or columns[0] == "vertex", (command, columns, rows)
    # Comparing is not done here: what comes row by row is what is saved.
    assert on_spark["watched"]["affinity"]["streamed"] == [["user", "query"]]


def test_workers_log_nothing_of_the_log(on_spark: dict[str, Any], cluster: Cluster) -> None:
    logged = cluster.logged()
    assert "Running task" in logged or "Executor" in logged
    assert [secret for secret in (*SECRETS, "own 7 7") if secret in logged] == []


def test_both_workers_worked(on_spark: dict[str, Any], cluster: Cluster) -> None:
    assert all(any((cluster.folder / f"worker-{number}").glob("app-*/*")) for number in (1, 2))


def test_a_worker_killed_amid_a_release_changes_nothing(
    cluster: Cluster, program: Program, tmp_path: Path, on_duckdb: dict[str, Any]
) -> None:
    """Executors of the other worker do again what is lost, and have a copy of what cannot be done again."""
    program.results()
    done = program.release_once_more(tmp_path, [cluster.workers[0].pid])
    expected = {"code": 0, "found": [on_duckdb["clicks"]], "settled": [SETTLED]}
    assert (done, program.said()) == (expected, ["", ""])
    assert charges(tmp_path) == ["released"]
    assert cluster.workers[0].wait() != 0


def test_all_workers_killed_amid_a_release_end_it_with_one_line(
    cluster: Cluster, program: Program, tmp_path: Path
) -> None:
    program.results()
    alive = [each.pid for each in cluster.workers if each.poll() is None]
    done = program.release_once_more(tmp_path, alive, patience=4)
    assert done == {"code": 2, "found": [], "settled": []}
    assert charges(tmp_path) == ["no release"]
    assert not (tmp_path / "clicks").exists()
    assert program.end() == 0
    out, line = program.said()
    assert line.startswith(f"querycloak: no worker of '{cluster.standalone}' was there for 4 seconds")
    assert (out, line.count("\n")) == ("", 1)


def charges(folder: Path) -> list[str]:
    return [charge.status for charge in Ledger(folder / "ledger.sqlite").show(POPULATION)[0].charges]
