"""The same task on PipelineDP, installed in an environment of its own: rows a second side by side.

Each user adds to at most four pairs, once each; epsilon 8, delta 2.25e-7; noisy numbers of users of what passes.
(OpenDP's Polars context was tried too: 0.16 with Polars 1.36 fails on the plan that bounding groups per user makes.)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.measuring import best_of_two
from bench.releasing import DELTA, EPSILON, PER_USER, our_release

LARGEST = 6_000_000  # rows that the peer finishes in memory
SCRIPT = """
import csv, json, sys, time
import pipeline_dp

start = time.perf_counter()
with open(sys.argv[1], newline="") as file:
    next(file)
    lines = csv.reader(file, delimiter="\\t", quoting=csv.QUOTE_NONE)
    rows = [(user, (query, url)) for user, query, _, _, url in lines if url]
budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=float(sys.argv[2]), total_delta=float(sys.argv[3]))
engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
parameters = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
    noise_kind=pipeline_dp.NoiseKind.LAPLACE,
    max_partitions_contributed=int(sys.argv[4]),
    max_contributions_per_partition=1,
)
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: 0
)
result = engine.aggregate(rows, parameters, extractors)
budget.compute_budgets()
print(json.dumps({"released": len(list(result)), "seconds": time.perf_counter() - start}))
"""


def environment(folder: Path) -> Path:
    """The python of an environment with PipelineDP."""
    python = folder / "pipeline-dp" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "pipeline-dp"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pipeline-dp"], check=True)
    return python


def main(path: Path, rows: int, folder: Path) -> None:
    """One line of JSON."""
    if rows > LARGEST:
        return
    arguments = [str(environment(folder)), "-c", SCRIPT, str(path), str(EPSILON), str(DELTA), str(PER_USER)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    peer, ours = json.loads(done.stdout), best_of_two(our_release, path, folder)
    report = {
        "rows": rows,
        "bench": "the same on PipelineDP",
        "rows_a_second": round(rows / ours.seconds),
        "pipeline_dp_rows_a_second": round(rows / peer["seconds"]),
        "ratio": round(ours.seconds / peer["seconds"], 2),
        "released": ours.result["released"],
        "pipeline_dp_released": peer["released"],
    }
    print(json.dumps(report), flush=True)
