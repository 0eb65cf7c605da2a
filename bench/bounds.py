"""`--max-keys-per-user auto` against every fixed bound: the standard synthetic log, then its users' first clicks."""

from __future__ import annotations

import json
from pathlib import Path

from bench.measuring import MEMORY, THREADS

BUDGETS = ((8.0, 2.25e-7), (1.0, 1e-6))


def main(_: Path, rows: int, folder: Path) -> None:
    """One line of JSON for each log and budget; it does not depend on rows, so it runs with the smallest."""
    if rows > 1_000_000:
        return
    from querycloak.cli.tune_command import tunable, yields
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.methods.clicks.method import Clicks

    for name, path in _logs(folder).items():
        for epsilon, delta in BUDGETS:
            with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
                fixed = {each.bound: each.keys for each in yields(tunable(Clicks(epsilon=epsilon, delta=delta)), log)}
                chosen = Clicks(epsilon=epsilon, delta=delta, max_keys_per_user="auto").release(log)
            keys = chosen.table("clicks").num_rows
            report = {
                "bench": f"auto bound, {name}",
                "epsilon": epsilon,
                "delta": delta,
                "keys_at_bounds": fixed,
                "chosen": chosen.parameters["per_user"],
                "keys": keys,
                "ratio": round(keys / max(fixed.values()), 3),
            }
            print(json.dumps(report), flush=True)


def _logs(folder: Path) -> dict[str, Path]:
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from querycloak.synthetic.log_writer import PRESETS, synthesize

    standard, single = folder / "standard.parquet", folder / "standard-first-clicks.parquet"
    if not standard.exists():
        synthesize(standard, PRESETS["standard"].users, seed=PRESETS["standard"].seed, truth=False)
    if not single.exists():
        rows = pq.read_table(standard)
        clicked = rows.filter(pc.is_valid(rows["url"])).sort_by([("user", "ascending"), ("time", "ascending")])
        users = clicked["user"].combine_chunks()
        first = pc.not_equal(users.slice(1), users.slice(0, len(users) - 1)).to_numpy(zero_copy_only=False)
        pq.write_table(clicked.filter(np.concatenate([[True], first])), single)
    return {"standard log": standard, "one click each": single}
