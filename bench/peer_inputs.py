"""What the tools of a task are given: a log, and what is made of it beforehand, outside the measured time."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench import aol_shaped
from bench.measuring import MEMORY, THREADS, once
from bench.synthetic import USERS_PER_ROW

K, THETA = 5, 0.9
DIMENSIONS = 50  # of the vectors of words; the smallest that GloVe comes in
Fields = dict[str, str]


def shaped(folder: Path, rows: int) -> Fields:
    """A log of AOL's shape."""
    path = folder / f"aol-shaped-{rows}.tsv"
    if not path.exists():
        aol_shaped.write_log(path, rows)
    return {"log": str(path), "rows": str(rows)}


def shaped_and_released(folder: Path, rows: int) -> Fields:
    """The same log, and rows of it that querycloak released, for those who only look at releases."""
    given = shaped(folder, rows)
    out = folder / f"k-anonymity-{rows}"
    if not out.exists():
        options = ["--min-users", str(K), "--keys", "log", "--format", "tsv", "--out", str(out)]
        command = [sys.executable, "-m", "querycloak", "release", "k-anonymity", given["log"], *options]
        subprocess.run(command, check=True, capture_output=True)
    return {**given, "released": str(out / "log.tsv")}


def synthetic(folder: Path, rows: int) -> Path:
    """The first rows of a synthetic log, whose queries have words and phrases."""
    from querycloak.synthetic.log_writer import synthesize

    path = folder / f"synthetic-rows-{rows}.tsv"
    if not path.exists():
        whole = folder / f"synthetic-whole-{rows}.tsv"
        synthesize(whole, round(rows * USERS_PER_ROW * 1.3) + 20, truth=False, workers=THREADS)
        with whole.open("rb") as source, path.open("wb") as target:
            target.writelines(islice(source, rows + 1))
        whole.unlink()
    return path


def worded(folder: Path, rows: int) -> Fields:
    """A synthetic log, and vectors of words."""
    vectors = folder / "word-vectors.txt"
    if not vectors.exists():
        write_vectors(vectors)
    return {"log": str(synthetic(folder, rows)), "rows": str(rows), "vectors": str(vectors)}


def write_vectors(path: Path) -> None:
    """Vectors of WordNet's nouns of one word: random directions, one for each concept above the usual sense."""
    from querycloak.text.wordnet import wordnet

    nouns = wordnet()
    directions = np.random.default_rng(1).standard_normal((len(nouns), DIMENSIONS))
    above = nouns.ancestors_of
    summed = np.add.reduceat(directions[above.values], above.starts[:-1])
    summed /= np.linalg.norm(summed, axis=1, keepdims=True)
    with path.open("w") as file:
        for number, label in enumerate(nouns.labels):
            if " " not in label and label.isascii():
                vector = summed[nouns.senses_of[number][0]]
                file.write(f"{label} {' '.join(f'{each:.5f}' for each in vector)}\n")


def compared(folder: Path, rows: int) -> Fields:
    """The vectors of a synthetic log's queries, and how many neighbours one of them has at most."""
    saved = folder / f"query-vectors-{rows}.npz"
    told = saved.with_suffix(".json")
    if not told.exists():
        told.write_text(json.dumps(once(_query_vectors, synthetic(folder, rows), saved).result))
    return {"vectors": str(saved), **json.loads(told.read_text())}


def _query_vectors(path: str, saved: str) -> Fields:
    from bench.peer_scripts.on_querycloak import pairs_of
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.methods.affinity.cores import expand_log
    from querycloak.methods.distinct_queries import uses_of

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        expansion = expand_log(log, uses_of(log), 0.0001, 2)
    vectors: Any = expansion.expanded.concepts
    np.savez(saved, starts=vectors.starts, concepts=vectors.values, weights=expansion.concepts.weights)
    return {"rows": str(len(vectors)), "longest": str(int(pairs_of(saved, THETA).lengths.max()))}
