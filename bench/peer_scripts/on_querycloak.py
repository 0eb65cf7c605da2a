"""querycloak does what the other tools do: TASK LOG NUMBERS..."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from querycloak.methods.method import Method
    from querycloak.text.lists import Lists

THREADS, MEMORY = 2, "3GB"


def pairs_of(saved: str, theta: float) -> Lists:
    """The neighbours of each vector, in the index's order."""
    import numpy as np

    from querycloak.methods.affinity.cosine import MILLION, Index
    from querycloak.methods.affinity.graph import build_graph
    from querycloak.text.lists import Lists

    arrays = np.load(saved)
    vectors = Lists(arrays["starts"], arrays["concepts"])
    # Each vector a user of its own and degrees without end: every list is asked for.
    users = Lists(np.arange(len(vectors) + 1), np.arange(len(vectors), dtype=np.int32))
    index = Index.of(vectors, arrays["weights"], round(theta * MILLION))
    return build_graph(index, users, len(vectors), 1 << 30, threads=THREADS).neighbours


def released(task: str, path: str, numbers: list[str]) -> int:
    """Read, release and save; how many rows came out."""
    import pyarrow.parquet as pq

    import querycloak as qc
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read

    match task, numbers:
        case "keys", [epsilon, delta]:
            method: Method = qc.Clicks(epsilon=float(epsilon), delta=float(delta))
        case "keys", [epsilon, delta, per_user]:
            method = qc.Clicks(epsilon=float(epsilon), delta=float(delta), max_keys_per_user=int(per_user))
        case "k-anonymity", [k]:
            method = qc.KAnonymity(min_users=int(k))
        case "replacement", [epsilon]:
            method = qc.Semantic(epsilon=float(epsilon), budget_per="query")
        case _:
            raise ValueError(f"no such task: {task} {numbers}")
    with (
        tempfile.TemporaryDirectory() as folder,
        read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log,
    ):
        method.release(log).save(Path(folder) / "out")
        return sum(pq.read_metadata(each).num_rows for each in Path(folder).glob("out/*.parquet"))


if __name__ == "__main__":
    task, path, *numbers = sys.argv[1:]
    joins = task == "join"
    found = len(pairs_of(path, float(numbers[0])).values) if joins else released(task, path, numbers)
    print(json.dumps({"released": found}))
