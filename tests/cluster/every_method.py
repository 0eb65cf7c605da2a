"""Every method on a cluster, in a process of its own: `python -m tests.cluster.every_method ADDRESS FILE`.

FILE gets, for each value that the contract suite tries, what the cluster gave otherwise than DuckDB; or null.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scripts.seeded_methods import METHODS

import querycloak as qc
from querycloak import contract
from querycloak.cli.running import run_and_exit
from querycloak.engines import Engine, connect


def problem(name: str, here: Engine, there: Engine) -> str | None:
    kind, options = METHODS[name]
    with contract.Trial(getattr(qc, kind)(**options), engine=here, also_on=there) as trial:
        try:
            contract.RULES["is_the_same_on_another_engine"](trial)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def main(address: str, file: Path) -> None:
    here, there = connect("duckdb"), connect(address, threads=2, memory="1GiB")
    file.write_text(json.dumps({name: problem(name, here, there) for name in METHODS}))
    there.close()


if __name__ == "__main__":
    run_and_exit(lambda: main(sys.argv[1], Path(sys.argv[2])))
