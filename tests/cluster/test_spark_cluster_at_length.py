"""`make cluster`: what takes minutes there. Every method, the commands that judge releases, logs that are skewed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scripts.seeded_methods import METHODS

from querycloak.contract.trial import small_log
from tests.cluster.processes import Cluster, running_cluster
from tests.cluster.test_spark_cluster import PLACES
from tests.commands import PATIENCE, Done, in_process
from tests.conftest import require_java

pytestmark = pytest.mark.slow
HEAVY_USER, OTHERS = 1_000_000, 2_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_java()
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.start_connect_server()
        yield made


def there(cluster: Cluster, *arguments: str | Path) -> Done:
    command = [sys.executable, "-m", *map(str, arguments)]
    environment = cluster.environment()
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE)


@pytest.mark.parametrize("place", PLACES)
def test_every_method_gives_on_a_cluster_what_duckdb_gives(cluster: Cluster, tmp_path: Path, place: str) -> None:
    done = there(cluster, "tests.cluster.every_method", getattr(cluster, place), tmp_path / "found.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "found.json").read_text()) == dict.fromkeys(METHODS)


def both(cluster: Cluster, *arguments: str | Path) -> list[Any]:
    """What a command prints on the cluster, and on DuckDB."""
    done = there(cluster, "querycloak", *arguments, "--engine", cluster.standalone, "--quiet")
    here = in_process(*arguments, "--quiet")
    assert (done.returncode, done.stderr) == (here.returncode, here.stderr)
    return [json.loads(each.stdout) for each in (done, here)]


def test_releases_are_judged_alike(cluster: Cluster, tmp_path: Path) -> None:
    log, split, release = tmp_path / "log.tsv", tmp_path / "split", tmp_path / "shared"
    log.write_text(small_log())
    assert in_process("split", log, "--by", "user", "--test", "0.3", "--out", split).returncode == 0
    train, test = split / "train.parquet", split / "test.parquet"
    assert in_process("release", "k-anonymity", train, "--min-users", "3", "--out", release).returncode == 0
    tasks = [word for task in ("suggestion", "completion", "ranking", "counts", "pairs") for word in ("--task", task)]
    found, expected = both(cluster, "evaluate", train, test, release, *tasks, "--json")
    assert found == expected
    found, expected = both(
        cluster, "audit", "release", train, release, "--control", test, "--attack", "leaks", "--json"
    )
    assert found == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_whoever_waits_for_workers_can_be_ended(number: signal.Signals, tmp_path: Path) -> None:
    require_java()
    log = tmp_path / "log.tsv"
    log.write_text(small_log())
    with running_cluster(tmp_path, workers=0) as lonely:
        command = [sys.executable, "-m", "querycloak", "inspect", str(log), "--engine", lonely.standalone]
        pipe = subprocess.PIPE
        waiting = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=lonely.environment())
        lonely.wait_for_program()
        time.sleep(5)  # until it waits for its first result; earlier it ends as well
        waiting.send_signal(number)
        out, said = waiting.communicate(timeout=PATIENCE)
    assert (waiting.returncode, out) == (130, "")
    assert said.startswith("querycloak: interrupted; nothing half-written is left")
    assert said.count("\n") == 1


def skewed_log(path: Path) -> Path:
    """One user has a million rows; one query has a third of all; users are 50,000."""
    random = np.random.default_rng(3)
    rows = HEAVY_USER + OTHERS
    user = np.concatenate([np.zeros(HEAVY_USER, np.int64), random.integers(1, 50_000, OTHERS)])
    query = np.where(random.random(rows) < 1 / 3, 0, random.zipf(1.3, rows) % 200_000)
    time = np.datetime64("2006-03-01", "us") + random.integers(0, 80 * 86_400, rows).astype("timedelta64[s]")
    table = pa.table(
        {
            "user": pa.array(user).cast(pa.string()),
            "time": pa.array(time),
            "query": pa.array(query).cast(pa.string()),
            "rank": pa.array(np.ones(rows, np.int32)),
            "url": pa.array(query // 3).cast(pa.string()),
        }
    )
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    "method", [("clicks", "--epsilon", "8", "--delta", "1e-6"), ("k-anonymity", "--min-users", "9")]
)
def test_a_skewed_log_breaks_nothing(cluster: Cluster, tmp_path: Path, method: tuple[str, ...]) -> None:
    log, out = skewed_log(tmp_path / "log.parquet"), tmp_path / "out"
    done = there(
        cluster, "querycloak", "release", method[0], log, *method[1:], "--out", out, "--engine", cluster.standalone
    )
    assert done.returncode == 0, done.stderr
    assert pq.read_metadata(out / "clicks.parquet").num_rows > 100


def test_a_skewed_log_has_one_profile(cluster: Cluster, tmp_path: Path) -> None:
    found, expected = both(cluster, "inspect", skewed_log(tmp_path / "log.parquet"), "--json")
    assert found == expected
    assert found["rows_read"] == HEAVY_USER + OTHERS
