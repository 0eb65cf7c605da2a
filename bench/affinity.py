"""`release affinity` on a synthetic log of the same size, step by step; and its join against sparse_dot_topn."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import MEMORY, THREADS, once
from bench.synthetic import USERS_PER_ROW

MIN_USERS, THETAS = 10, (0.9, 0.8)
BOUNDED = 50
FULL_CURVE = 2_000_000  # vertices; beyond, every degree up to 1,000 at 0.8 takes longer than anybody waits
MOST = 1000  # the highest degree that figures ask for
# What the other finishes in a minute or so: its product visits every pair that shares a concept.
PEER_VECTORS = 100_000
PEER = """
import json, sys, time
import numpy as np, scipy.sparse as sp
from sparse_dot_topn import sp_matmul_topn
saved = np.load(sys.argv[1])
matrix = sp.csr_matrix((saved["values"], saved["concepts"], saved["starts"]))
start = time.perf_counter()
product = sp_matmul_topn(matrix, matrix.T.tocsr(), top_n=int(sys.argv[2]), threshold=float(sys.argv[3]), n_threads=2)
print(json.dumps({"pairs": int(product.nnz) - matrix.shape[0], "seconds": time.perf_counter() - start}))
"""


def synthetic_log(folder: Path, rows: int) -> Path:
    """A log of about so many rows."""
    from querycloak.synthetic.log_writer import synthesize

    users = round(rows * USERS_PER_ROW)
    path = folder / f"synthetic-{users}.tsv"
    if not path.exists():
        synthesize(path, users, truth=False, workers=THREADS)
    return path


def our_steps(path: str, _: str) -> Any:
    """Every step of a release, and all degrees up to 1,000."""
    from querycloak.engines import connect
    from querycloak.errors import ResourceError
    from querycloak.logs.searchlog import read
    from querycloak.methods.affinity.degrees import Cores
    from querycloak.methods.affinity.expansion import expand
    from querycloak.methods.affinity.ngram_concepts import mine_concepts
    from querycloak.methods.uses import sorted_uses, uses_of

    seconds: dict[str, float] = {}
    start = time.perf_counter()

    def lap(step: str) -> None:
        nonlocal start
        now = time.perf_counter()
        seconds[step] = round(now - start, 1)
        start = now

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        uses = uses_of(log)
        lap("reading")
        concepts = mine_concepts(log.engine, uses, 0.0001, 2)
        lap("concepts")
        expanded = expand(log.engine.stream(sorted_uses(uses)), concepts)
        lap("expansion")
    released = {}
    for theta in THETAS:
        for most in (MIN_USERS, MOST):
            if (theta, most) == (0.8, MOST) and len(expanded.concepts) > FULL_CURVE:
                continue
            step = f"degrees up to {most} at {theta}"
            try:
                cores = Cores.of(expanded, concepts.weights, int(theta * 10**6), most, threads=THREADS)
            except ResourceError:  # more neighbours than may be listed: a release would be told to bound them
                lap(f"{step}, refused")
                cores = Cores.of(
                    expanded, concepts.weights, int(theta * 10**6), most, threads=THREADS, max_neighbours=BOUNDED
                )
                step = f"{step}, at most {BOUNDED} neighbours"
            degrees = cores.of_queries(expanded)
            lap(step)
            released[step] = int((degrees >= MIN_USERS).sum())
            sys.stderr.write(f"{seconds}\n")
    return {
        "distinct": len(expanded.vertex),
        "expandable": int((expanded.vertex >= 0).sum()),
        "vertices": len(expanded.concepts),
        "concepts": len(concepts),
        "plainly_released": int((expanded.own_users >= MIN_USERS).sum()),
        "released": released,
        "seconds": seconds,
    }


def our_join(path: str, spill: str) -> Any:
    """All pairs at 0.9 among some vectors of a log, which are saved for the other to use."""
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.methods.affinity.cosine import Index
    from querycloak.methods.affinity.degrees import expand_log
    from querycloak.methods.affinity.graph import build_graph
    from querycloak.methods.uses import uses_of
    from querycloak.words.lists import Lists

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        expansion = expand_log(log, uses_of(log), 0.0001, 2)
    every = expansion.expanded.concepts
    chosen = np.random.default_rng(1).permutation(len(every))[:PEER_VECTORS]
    vectors, weights = every.take(np.sort(chosen)), expansion.concepts.weights
    # Each vector a user of its own and degrees without end: every list is asked for.
    users = Lists(np.arange(len(vectors) + 1), np.arange(len(vectors), dtype=np.int32))
    best = float("inf")
    for _ in range(3):  # the first compiles
        start = time.perf_counter()
        index = Index.of(vectors, weights, 900_000)
        graph = build_graph(index, users, len(vectors), 1 << 30, threads=THREADS)
        best = min(best, time.perf_counter() - start)
    norms = np.sqrt(np.add.reduceat((weights[vectors.values] ** 2).astype(np.float64), vectors.starts[:-1]))
    values = weights[vectors.values] / np.repeat(norms, vectors.lengths)
    saved = Path(spill) / "vectors.npz"
    np.savez(saved, values=values, concepts=vectors.values, starts=vectors.starts)
    return {
        "pairs": len(graph.neighbours.values),
        "longest": int(graph.neighbours.lengths.max()),
        "seconds": best,
        "vectors": len(vectors),
        "saved": str(saved),
    }


def environment(folder: Path) -> Path:
    """The python of an environment with sparse_dot_topn."""
    python = folder / "sparse-dot-topn" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "sparse-dot-topn"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "sparse_dot_topn"], check=True)
    return python


def join_against_peer(path: Path, folder: Path) -> dict[str, Any]:
    """How long each takes for the same pairs; rounding may move a tie at 0.9 on the other's side."""
    ours = once(our_join, path, folder).result
    arguments = [str(environment(folder)), "-c", PEER, ours["saved"], str(ours["longest"] + 1), str(0.9 - 1e-9)]
    peer = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    return {
        "vectors": ours["vectors"],
        "join_seconds": round(ours["seconds"], 2),
        "sparse_dot_topn_seconds": round(peer["seconds"], 2),
        "ratio": round(ours["seconds"] / peer["seconds"], 4),
        "pairs": ours["pairs"],
        "sparse_dot_topn_pairs": peer["pairs"],
    }


def main(path: Path, rows: int, folder: Path) -> None:  # noqa: ARG001  (the other benches' log has no phrases)
    """One line of JSON for each."""
    log = synthetic_log(folder, rows)
    run = once(our_steps, log, folder)
    report = {"rows": rows, "bench": "affinity", "peak_gb": round(run.gigabytes, 2), **run.result}
    print(json.dumps(report), flush=True)
    if rows <= 10_000_000:
        print(json.dumps({"rows": rows, "bench": "affinity's join", **join_against_peer(log, folder)}), flush=True)
