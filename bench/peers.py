"""The same tasks on other people's tools, each in an environment of its own: `make bench-peers`.

Every run is a process of its own, from its start to its end. A tool that fails or is stopped stands in
docs/tables/peers.csv with its last words, and is not run on larger logs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.peer_inputs import THETA, Fields, K, compared, shaped, shaped_and_released, worded
from bench.releasing import DELTA, EPSILON, PER_USER
from bench.scale import TABLES, keep
from bench.watched_process import Limits, Watched, watch

SCRIPTS = Path(__file__).parent / "peer_scripts"
SIZES = (10_000, 100_000, 1_000_000)
LIMITS = Limits(seconds=300, gigabytes=10)
LARGEST = 6_000_000  # rows of `python -m bench` that the peers finish in memory
OURS = "querycloak"


@dataclass(frozen=True)
class Tool:
    """A tool that can do the task; it runs the script on these arguments, in which {names} stand for inputs."""

    name: str
    package: str
    script: str
    arguments: tuple[str, ...]
    proves: str

    @property
    def version(self) -> str:
        """As pinned; ours as installed."""
        return self.package.partition("==")[2] or version(self.package)

    def python(self, folder: Path) -> Path:
        """The python of an environment with the tool; ours is this one."""
        if self.package == OURS:
            return Path(sys.executable)
        place = folder / self.script.removesuffix(".py")
        python = place / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", place], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", self.package], check=True)
        return python

    def run(self, given: Fields, folder: Path, limits: Limits = LIMITS) -> Watched:
        """What it took, and what came out or was said."""
        surroundings = dict(os.environ)
        if self.package != OURS:
            surroundings.pop("PYTHONPATH", None)
        arguments = [each.format(**given) for each in self.arguments]
        return watch([str(self.python(folder)), str(SCRIPTS / self.script), *arguments], folder, limits, surroundings)


@dataclass(frozen=True)
class Task:
    """Something that several tools can do."""

    inputs: Callable[[Path, int], Fields]
    tools: tuple[Tool, ...]
    sizes: tuple[int, ...] = SIZES


_BUDGET = ("{log}", str(EPSILON), str(DELTA))
_KEYS = (*_BUDGET, str(PER_USER))
_PROVEN = "(epsilon, delta), users; whole-number noise; proof note and tests"
TASKS: Mapping[str, Task] = {
    "keys": Task(
        shaped,
        (
            Tool(OURS, OURS, "on_querycloak.py", ("keys", *_KEYS), _PROVEN),
            Tool(f"{OURS}, its default", OURS, "on_querycloak.py", ("keys", *_BUDGET), _PROVEN),
            Tool(
                "PipelineDP",
                "pipeline-dp==0.3.1",
                "on_pipeline_dp.py",
                _KEYS,
                '(epsilon, delta), users; "still experimental" (its README)',
            ),
            Tool(
                "OpenDP Polars",
                "opendp[polars]==0.16.0",
                "on_opendp_polars.py",
                _KEYS,
                '(epsilon, delta), users; whole-number noise; "contrib": proofs not all vetted (its error index)',
            ),
            Tool(
                "SmartNoise SQL",
                "smartnoise-sql==1.0.10",
                "on_smartnoise.py",
                _KEYS,
                "(epsilon, delta), users; for analysts whom the owner trusts (its README)",
            ),
            Tool(
                "Tumult Analytics",
                "tmlt.analytics==0.21.0",
                "on_tumult.py",
                _KEYS,
                "(epsilon, delta), users; privacy loss computed exactly (its guide on real numbers)",
            ),
            Tool(
                "ZetaSQL",
                "zetasql==0.1.5",
                "on_zetasql.py",
                _KEYS,
                "(epsilon, delta), users (Wilson et al. 2020, named by its documentation)",
            ),
        ),
    ),
    "k-anonymity": Task(
        shaped_and_released,
        (
            Tool(OURS, OURS, "on_querycloak.py", ("k-anonymity", "{log}", str(K)), "k users share what comes out"),
            Tool("anjana", "anjana==1.2.3", "on_anjana.py", ("{log}", str(K)), "k rows share what comes out"),
            Tool(
                "pycanon, looking at our release",
                "pycanon==1.3.6",
                "on_pycanon.py",
                ("{released}", str(K)),
                "nothing of its own: it tells the k of a table",
            ),
        ),
    ),
    "replacement": Task(
        worded,
        (
            Tool(
                OURS,
                OURS,
                "on_querycloak.py",
                ("replacement", "{log}", str(EPSILON)),
                "epsilon for each query, whatever the two queries are",
            ),
            Tool(
                "pypantera",
                "pypantera==1.0.2",
                "on_pypantera.py",
                ("{log}", str(EPSILON), "{vectors}"),
                "epsilon times the distance of two words, for each word (Feyisetan et al. 2020)",
            ),
        ),
        sizes=(1_000, *SIZES),
    ),
    "join": Task(
        compared,
        (
            Tool(OURS, OURS, "on_querycloak.py", ("join", "{vectors}", str(THETA)), "all pairs, in whole numbers"),
            Tool(
                "sparse_dot_topn",
                "sparse_dot_topn==1.2.0",
                "on_sparse_dot_topn.py",
                ("{vectors}", str(THETA), "{longest}"),
                "all pairs, in floating point",
            ),
        ),
    ),
}


def row(task: str, tool: Tool, rows: int, run: Watched) -> dict[str, Any]:
    """A row of the table; what a run that failed has not made is left out."""
    done = not run.failure
    return {
        "task": task,
        "tool": tool.name,
        "version": tool.version,
        "rows": rows,
        "seconds": round(run.seconds, 1),
        "processor_seconds": round(run.processor_seconds, 1),
        "rows_a_second": round(rows / run.seconds) if done else "",
        "peak_gb": round(run.gigabytes, 2),
        "released": run.told["released"] if done else "",
        "failure": run.failure,
        "proves": tool.proves,
        "load": " ".join(f"{each:.1f}" for each in os.getloadavg()[:2]),
    }


def rows_of(name: str, sizes: tuple[int, ...], folder: Path, limits: Limits = LIMITS) -> Iterator[dict[str, Any]]:
    """Every tool on every size, until it fails; on the smallest twice, for what is kept after the first use."""
    task, failed = TASKS[name], set[str]()
    for size in sizes:
        given = task.inputs(folder, size)
        for tool in task.tools:
            if tool.name in failed:
                continue
            run = tool.run(given, folder, limits)
            if size == sizes[0] and not run.failure:
                run = tool.run(given, folder, limits)
            if run.failure:
                failed.add(tool.name)
            yield row(name, tool, int(given["rows"]), run)


def main(_: Path, rows: int, folder: Path) -> None:
    """Lines of JSON, as the other benches print them."""
    if rows <= LARGEST:
        for each in rows_of("keys", (rows,), folder):
            print(json.dumps({"bench": "the same task on other tools", **each}), flush=True)


def write_table() -> None:
    """The table of the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--rows", type=int, nargs="+", help="sizes; if not given, those of the page")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "querycloak-bench")
    given = parser.parse_args()
    given.folder.mkdir(mode=0o700, exist_ok=True)
    for task in given.task:
        for each in rows_of(task, tuple(given.rows or TASKS[task].sizes), given.folder):
            print(json.dumps(each), flush=True)
            keep(TABLES / "peers.csv", [each])


if __name__ == "__main__":
    write_table()
