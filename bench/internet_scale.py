"""What each method costs on Spark, by Spark's own counters: `python -m bench.internet_scale [--users N ...]`.

Synthetic logs of several sizes, all methods in one session of `local[2]`. Counted are bytes and rows that executors
shuffle and how many shuffles there are (what Spark's own pages show), rows and bytes that come to the driver, and
processor seconds of Java, Python and all workers. Rows go to docs/tables/internet-scale.csv;
`python scripts/make_internet_scale_page.py` makes the page of them.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.scale import BUDGET, EPSILON

TABLE = Path(__file__).parents[1] / "docs" / "tables" / "internet-scale.csv"
METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "k-anonymity": ("KAnonymity", {"min_users": 5}),
    "clicks --max-keys-per-user 4": ("Clicks", {**BUDGET, "max_keys_per_user": 4}),
    "clicks": ("Clicks", BUDGET),
    "sessions": ("Sessions", BUDGET),
    "query-pool": ("QueryPool", {"epsilon": EPSILON}),
    "optimal": ("Optimal", BUDGET),
    "semantic": ("Semantic", {"epsilon": EPSILON, "max_queries": 100}),
    "affinity": ("Affinity", {"min_users": 5}),
    "generalize": ("Generalize", {"min_users": 5}),
}
SIZES = (500, 1_000, 2_000)
PART = 1 << 19
"""Bytes that one task reads: in one part nothing would be shuffled."""
_TICKS = os.sysconf("SC_CLK_TCK")


def released(names: Sequence[str], path: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Every method in one session; of each what it shuffled, and what came to this process."""
    from querycloak.engines import connect, spark
    from querycloak.logs.searchlog import read

    spark.PART = PART
    came: Counter[str] = Counter()
    _watch(spark.SparkEngine, came)
    session: Any = connect("spark", threads=2, memory="2GiB")
    with read(path, engine=connect("spark")) as log:  # Java and Python warm up
        rows = log.accounting().rows_read
    for name in names:
        came.clear()
        last, busy, begun = max(_stages(session)), _processor_seconds(), time.monotonic()
        _release(name, path, folder)
        shuffled = [each for each in _stages(session) if each > last and each.written]
        yield {
            "method": name,
            "rows": rows,
            "shuffles": len(shuffled),
            "shuffled_rows": sum(each.rows for each in shuffled),
            "shuffled_bytes": sum(each.written for each in shuffled),
            **{key: came[key] for key in ("fetched_rows", "fetched_bytes", "streamed_rows")},
            "processor_seconds": round(_processor_seconds() - busy, 1),
            "seconds": round(time.monotonic() - begun, 1),
            "load": " ".join(f"{each:.1f}" for each in os.getloadavg()[:2]),
        }
    session.close()


def _release(name: str, path: Path, folder: Path) -> None:
    import querycloak as qc
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read

    kind, options = METHODS[name]
    with read(path, engine=connect("spark")) as log:  # which shares the session, and gives back what it kept
        getattr(qc, kind)(**options).release(log).save(folder / name.replace(" ", ""))


def _watch(kind: Any, came: Counter[str]) -> None:
    fetch, stream = kind.fetch, kind.stream

    def fetching(engine: Any, table: Any) -> Any:
        found = fetch(engine, table)
        came.update(fetched_rows=found.num_rows, fetched_bytes=found.nbytes)
        return found

    def streaming(engine: Any, table: Any) -> Iterator[Any]:
        for batch in stream(engine, table):
            came.update(streamed_rows=batch.num_rows)
            yield batch

    kind.fetch, kind.stream = fetching, streaming


class _Stage(NamedTuple):
    """Bytes and rows that a stage wrote for others to read."""

    number: int
    written: int
    rows: int


def _stages(engine: Any) -> list[_Stage]:
    """The stages that Spark remembers, a thousand or so."""
    context = engine._session.sparkContext
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    nothing = context._jvm.java.util.ArrayList()
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = java.statusStore().stageList(nothing, False, False, none, nothing)
    every = [stages.apply(at) for at in range(stages.size())]
    return [_Stage(each.stageId(), each.shuffleWriteBytes(), each.shuffleWriteRecords()) for each in every]


def _processor_seconds() -> float:
    """Of this process's session so far: Java, its Python workers, and what has ended of them."""
    total, session = 0, os.getsid(0)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        if int(fields[3]) == session:
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def main() -> None:
    """Measure every method at every size, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.internet_scale", description=__doc__)
    parser.add_argument("--users", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        with tempfile.TemporaryDirectory(prefix="querycloak-bench-") as made:
            for row in released(given.only, Path(given.one[0]), Path(made)):
                _add({"users": int(given.one[1]), **row})
        return
    from querycloak.synthetic.log_writer import synthesize

    with tempfile.TemporaryDirectory(prefix="querycloak-bench-") as logs:
        for users in given.users:
            path = Path(logs) / f"{users}.tsv"
            synthesize(path, users, truth=False, workers=2)
            only = ["--only", *given.only, "--one", str(path), str(users)]
            subprocess.run([sys.executable, "-m", "bench.internet_scale", *only], check=True, start_new_session=True)


def _add(row: dict[str, Any]) -> None:
    """Write a row into the table, in place of an older one."""
    rows: list[dict[str, Any]] = []
    if TABLE.exists():
        with TABLE.open(newline="") as file:
            rows = list(csv.DictReader(file))
    same = row["method"], str(row["users"])
    rows = [each for each in rows if (each["method"], each["users"]) != same]
    order = list(METHODS)
    rows = sorted([*rows, row], key=lambda each: (order.index(each["method"]), int(each["users"])))
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, row.keys())
        writer.writeheader()
        writer.writerows(rows)
    print(row, flush=True)


if __name__ == "__main__":
    main()
