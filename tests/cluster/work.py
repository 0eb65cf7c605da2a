"""What runs on a cluster, in a process of its own: `-m tests.cluster.work ADDRESS LOG FOLDER`.

Commands in one session, from one seed. What they gave goes into FOLDER/results.json, with the flaws of every plan and
the size of all that came to this process. Then each line of standard input, `FOLDER PATIENCE KILLED ...`, asks for
`clicks` once more: KILLED are workers (their process numbers) that are killed amid it, and PATIENCE says how many
seconds a job waits for others from then on. Its FOLDER/results.json has how it ended, too, and how many rows are there
of a table that was settled before.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import querycloak as qc
from querycloak.cli.running import run, run_and_exit
from querycloak.engines import Engine, connect, spark, spark_session
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.method import Method
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.loading import load
from tests.commands import in_process
from tests.spark_plans import flaws

SEED = 5
PART = 1 << 17
"""Bytes that one task reads: small logs, too, are read by several executors."""
RELEASES: dict[str, Method] = {
    "clicks": qc.Clicks(epsilon=8, delta=1e-4, max_keys_per_user=32, selection="multi-round"),
    "sessions": qc.Sessions(epsilon=8, delta=1e-4, selection="gaussian", no_clicks=True),
    "affinity": qc.Affinity(min_users=3, theta=0.8, concept_users=5),
}
COMMANDS = ("inspect", "split", *RELEASES)
LIMIT = 100.0, 0.1
SETTLED = 1000
POPULATION = "people"
RESULTS = "results.json"


@dataclass
class Watched:
    """What was computed for one command."""

    fetched: list[tuple[list[str], int]] = field(default_factory=list)
    """Columns and rows of all that came to this process at once."""
    streamed: list[list[str]] = field(default_factory=list)
    """Columns of what came batch after batch."""
    settled: int = 0
    """How many tables executors keep without knowing how they were computed."""
    flaws: list[str] = field(default_factory=list)
    """What in plans would bring all rows to one place."""


class Watch:
    """Looks at everything that an engine computes; at plans where Spark is asked directly.

    A Connect server makes the same plans, and every look at one is a request to it.
    """

    def __init__(self, address: str) -> None:
        self.plans = not address.startswith("sc://")
        self.by_command: dict[str, Watched] = {}
        self.command = ""
        self.before_fetch: Callable[[], None] = lambda: None

    @property
    def now(self) -> Watched:
        """Of the command that runs."""
        return self.by_command.setdefault(self.command, Watched())

    def install(self) -> None:
        """From here on."""
        kind: Any = spark.SparkEngine
        fetch, stage, settle, stream = kind.fetch, kind.stage, kind.settle, kind.stream

        def fetching(engine: Any, table: Any) -> pa.Table:
            self._look(engine, table)
            self.before_fetch()
            found = fetch(engine, table)
            self.now.fetched.append((found.column_names, found.num_rows))
            return found

        def staging(engine: Any, table: Any) -> Any:
            self._look(engine, table)
            return stage(engine, table)

        def settling(engine: Any, table: Any) -> Any:
            self._look(engine, table)
            self.now.settled += 1
            return settle(engine, table)

        def streaming(engine: Any, table: Any) -> Any:
            self._look(engine, table)
            self.now.streamed.append(list(table.columns))
            return stream(engine, table)

        kind.fetch, kind.stage, kind.settle, kind.stream = fetching, staging, settling, streaming

    def _look(self, engine: Any, table: Any) -> None:
        if self.plans:
            self.now.flaws += sorted(flaws(engine.plan(table)))


def result(command: str, engine: str, path: Path, folder: Path, ledger: Ledger | None = None) -> Any:
    """What a command gives, as plain values that can be compared."""
    if command == "inspect":
        done = in_process("inspect", path, "--json", "--engine", engine)
        return [done.returncode, done.stderr, json.loads(done.stdout or "null")]
    if command == "split":
        made = folder / "split"
        done = in_process("split", path, "--by", "user", "--test", "0.3", "--out", made, "--engine", engine)
        return [done.returncode, *(_digest(pq.read_table(made / f"{side}.parquet")) for side in ("train", "test"))]
    with read(path, engine=connect(engine)) as log:
        return _released(RELEASES[command], log, folder / command, ledger)


def _released(method: Method, log: SearchLog, folder: Path, ledger: Ledger | None) -> Any:
    population = None if ledger is None else POPULATION
    method.release(log, ledger=ledger, population=population, randomness=Randomness(SEED)).save(folder)
    release = load(folder)
    return {kind: _digest(release.table(kind)) for kind in release.tables}


def _digest(table: pa.Table) -> Any:
    rows = sorted(map(repr, table.to_pylist()))
    return [len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()]


def main(address: str, path: Path, folder: Path) -> None:
    """Run everything there, then what standard input asks for."""
    spark.PART, watch = PART, Watch(address)
    session = connect(address, threads=2, memory="512MiB")  # which all commands then share
    watch.install()
    found: dict[str, Any] = {}
    ledger = _ledger(folder)
    for watch.command in COMMANDS:
        found[watch.command] = result(watch.command, address, path, folder, ledger)
    watched = {command: asdict(each) for command, each in watch.by_command.items()}
    _write(folder, {"found": found, "watched": watched})
    for line in sys.stdin:
        place, patience, *killed = line.split()
        watch.command = place
        watch.before_fetch = partial(_kill_once, watch, float(patience), list(map(int, killed)))
        _release_once_more(session, address, path, Path(place))
    session.close()


def _release_once_more(session: Engine, address: str, path: Path, folder: Path) -> None:
    settled = session.settle(session.upload(pa.table({"number": range(SETTLED)})))
    found: list[Any] = []
    code = run(lambda: found.append(result("clicks", address, path, folder, _ledger(folder))))
    there = session.fetch(settled.agg(rows=settled.count()))["rows"].to_pylist() if code == 0 else []
    _write(folder, {"code": code, "found": found, "settled": there})


def _ledger(folder: Path) -> Ledger:
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.set_limit(POPULATION, *LIMIT)
    return ledger


def _write(folder: Path, results: dict[str, Any]) -> None:
    """Whole, for somebody waits for it."""
    half = folder / "results.half"
    half.write_text(json.dumps(results))
    half.rename(folder / RESULTS)


def _kill_once(watch: Watch, patience: float, workers: Sequence[int]) -> None:
    """At the third fetch, when executors keep rows and the ledger is charged."""
    if len(watch.now.fetched) != 2:
        return
    spark_session.PATIENCE_FOR_WORKERS = patience
    for worker in workers:
        os.killpg(worker, signal.SIGKILL)


if __name__ == "__main__":
    run_and_exit(lambda: main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
