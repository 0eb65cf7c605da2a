"""The same task on other people's tools, each in an environment of its own: `make bench-peers`.

Each user adds to at most four pairs of query and url, once each; epsilon 8, delta 2.25e-7; noisy numbers of users of
what passes. Rows of docs/tables/peers.csv; a tool that does not finish stands there with its last words.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import aol_shaped
from bench.measuring import best_of_two
from bench.releasing import DELTA, EPSILON, PER_USER, our_release
from bench.scale import TABLES, keep

SCRIPTS = Path(__file__).parent / "peer_scripts"
PATIENCE = 900
LARGEST = 6_000_000  # rows that the peers finish in memory


@dataclass(frozen=True)
class Peer:
    """A tool that can do the task."""

    package: str
    script: str
    proves: str


PEERS = {
    "PipelineDP": Peer("pipeline-dp", "on_pipeline_dp.py", "(epsilon, delta), users; noise of Google's library"),
    "OpenDP Polars": Peer("opendp[polars]", "on_opendp_polars.py", "(epsilon, delta), users; exact integer noise"),
}


def environment(peer: Peer, folder: Path) -> Path:
    """The python of an environment with the tool."""
    place = folder / peer.script.removesuffix(".py")
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", peer.package], check=True)
    return python


def run_peer(peer: Peer, path: Path, folder: Path) -> dict[str, Any]:
    """What it took, and what came out or was said."""
    places = map(str, (environment(peer, folder), SCRIPTS / peer.script, path))
    arguments = [*places, str(EPSILON), str(DELTA), str(PER_USER)]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    failure, released = "", ""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=PATIENCE)
        if done.returncode:
            failure = (done.stderr.strip().splitlines() or ["ended without a word"])[-1].strip()[:90]
        else:
            released = json.loads(done.stdout)["released"]
    except subprocess.TimeoutExpired:
        failure = f"not done after {PATIENCE} seconds"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "processor_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "released": released,
        "failure": failure,
    }


def rows_of(path: Path, rows: int, folder: Path) -> list[dict[str, Any]]:
    """A row for each tool, ours first."""
    ours = best_of_two(our_release, path, folder)
    found: dict[str, dict[str, Any]] = {
        "querycloak": {
            "seconds": round(ours.seconds, 1),
            "processor_seconds": round(ours.processor_seconds, 1),
            "released": ours.result["released"],
            "failure": "",
            "proves": "(epsilon, delta), users; exact integer noise, proof notes",
        }
    }
    for name, peer in PEERS.items():
        found[name] = {**run_peer(peer, path, folder), "proves": peer.proves}
    load = " ".join(f"{each:.1f}" for each in os.getloadavg()[:2])
    return [{"tool": name, "rows": rows, **told, "load": load} for name, told in found.items()]


def main(path: Path, rows: int, folder: Path) -> None:
    """Lines of JSON, as the other benches print them."""
    if rows <= LARGEST:
        for each in rows_of(path, rows, folder):
            print(json.dumps({"bench": "the same task on other tools", **each}), flush=True)


def write_table() -> None:
    """The table of the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "querycloak-bench")
    given = parser.parse_args()
    given.folder.mkdir(mode=0o700, exist_ok=True)
    for rows in given.rows:
        path = given.folder / f"aol-shaped-{rows}.tsv"
        if not path.exists():
            aol_shaped.write_log(path, rows)
        keep(TABLES / "peers.csv", rows_of(path, rows, given.folder))


if __name__ == "__main__":
    write_table()
