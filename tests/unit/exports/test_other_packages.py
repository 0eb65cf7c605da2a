"""Releases and exports as the packages that they are for read them, in an environment of their own (slow)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.pages import ROOT, examples
from tests.unit.exports.test_exports import SEARCHES, clicks
from tests.unit.releases.making import CLICKS, SESSIONS, TABLES, a_release

PACKAGES = ("datasets>=5.2,<6", "ir_datasets>=0.6.3,<0.7", "adbc-driver-sqlite>=1.13,<2")
CLAX = ("clax-models>=0.1.1,<0.2", "jax<0.7")  # which 0.1.1 needs and does not ask for
_TABLES_OF = """
import json, sys, datasets
loaded = {}
for folder in sys.argv[1:]:
    for name in datasets.get_dataset_config_names(folder):
        loaded[f"{folder}/{name}"] = datasets.load_dataset(folder, name, split="train").to_list()
print(json.dumps(loaded, default=str))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the other packages, and nothing of ours."""
    return environment(tmp_path_factory.mktemp("packages"), PACKAGES)


@pytest.fixture(scope="module")
def python_of_clax(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has CLAX, with torch and jax."""
    return environment(tmp_path_factory.mktemp("clax"), CLAX)


def environment(place: Path, packages: tuple[str, ...]) -> Path:
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    subprocess.run([place / "bin" / "pip", "install", "--quiet", *packages], check=True, capture_output=True)
    return place / "bin" / "python"


def run(python: Path, program: str, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache"), "PYTHONPATH": ""}
    done = subprocess.run(
        [python, "-c", program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("format_name", ["parquet", "tsv", "csv"])
def test_a_release_folder_is_a_data_set_of_hugging_face(python: Path, tmp_path: Path, format_name: str) -> None:
    odd = pa.table({"query": ["null", "NA", "maps"], "count": pa.array([9, 5, 3], pa.int64())})
    a_release(tables={**TABLES, "queries": odd}).save(tmp_path / "release", format_name)
    loaded = json.loads(run(python, _TABLES_OF, tmp_path, "release"))
    assert list(loaded) == [f"release/{kind}" for kind in TABLES]
    assert loaded["release/queries"] == odd.to_pylist()
    assert loaded["release/clicks"] == CLICKS.to_pylist()
    if format_name == "parquet":
        assert loaded["release/sessions"] == SESSIONS.to_pylist()


_EMPTY = """
import datasets
try:
    datasets.load_dataset("release", "queries")
    print("loaded")
except ValueError:
    streamed = datasets.load_dataset("release", "queries", split="train", streaming=True)
    print(list(streamed), list(streamed.features), datasets.load_dataset("release", split="train").num_rows)
"""


@pytest.mark.slow
def test_a_table_without_rows_can_be_streamed(python: Path, tmp_path: Path) -> None:
    """The package loads no split without rows; the first table with rows is the one that it loads without a name."""
    a_release(tables={**TABLES, "queries": TABLES["queries"].slice(0, 0)}).save(tmp_path / "release")
    assert run(python, _EMPTY, tmp_path).strip() == f"[] ['query', 'count'] {CLICKS.num_rows}"


def beside_ours(python: Path, script: Path, folder: Path) -> str:
    """Run a script of a page with our packages first and the other packages behind them."""
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    search = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")])])
    program = f"import sys, runpy; sys.path.append({str(packages)!r}); runpy.run_path({str(script)!r})"
    environment = {**os.environ, "PYTHONPATH": search, "IR_DATASETS_HOME": str(folder / "ir")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def script_of(page: str, name: str, folder: Path) -> Path:
    (text,) = (each.text for each in examples(ROOT / "docs" / page) if each.file == name)
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.slow
def test_an_export_is_a_data_set_of_ir_datasets(python: Path, tmp_path: Path) -> None:
    clicks().export("ir-datasets", tmp_path / "june-ir")
    script = script_of("receive-a-release.md", "register_june.py", tmp_path)
    assert beside_ours(python, script, tmp_path).split() == ["2", "4"]


@pytest.mark.slow
def test_an_export_with_rows_has_a_query_log_of_ir_datasets(python: Path, tmp_path: Path) -> None:
    a_release(tables={"log": SEARCHES}).export("ir-datasets", tmp_path / "set")
    (tmp_path / "searches.py").write_text(_QUERY_LOG)
    assert beside_ours(python, tmp_path / "searches.py", tmp_path).splitlines() == [
        "InputError",
        "3 2 False",
        "p q q",
        "0 1 2",
    ]


_QUERY_LOG = """
import ir_datasets
from querycloak.errors import InputError
from querycloak.exports.ir_dataset import register

register("june", "set")
try:
    register("june", "set")
except InputError as error:
    print(type(error).__name__)
dataset = ir_datasets.load("june")
searches = list(dataset.qlogs_iter())
print(dataset.qlogs_count(), len(list(dataset.queries_iter())), dataset.has_qrels())
print(*sorted(search.query for search in searches))
print(*sorted(len(search.items) for search in searches))
"""


@pytest.mark.slow
def test_clax_trains_on_an_export(python_of_clax: Path, tmp_path: Path) -> None:
    """Sessions of a log with views: position 1 is clicked in half of the searches, position 2 never."""
    searches = [(f"s{n}", rank, n % 2 == 0 and rank == 1) for n in range(400) for rank in (1, 2)]
    log = pa.table(
        {
            "session": [session for session, _, _ in searches],
            "day": ["2026-01-02"] * len(searches),
            "query": ["q"] * len(searches),
            "rank": pa.array([rank for _, rank, _ in searches], pa.int32()),
            "url": [str(rank) for _, rank, _ in searches],
            "clicked": [clicked for _, _, clicked in searches],
        }
    )
    a_release(tables={"log": log}).export("clax", tmp_path / "records-clax")
    script = script_of("receive-a-release.md", "train_clax.py", tmp_path)
    measured = run(python_of_clax, script.read_text(), tmp_path, "records-clax").splitlines()[-1].split()
    assert measured[1] == "PBM"
    assert 1.0 < float(measured[3]) < 2.0  # perplexity; 2 is a coin


@pytest.mark.slow
def test_a_log_comes_from_a_database_by_arrow(python: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "searches.sqlite") as connection:
        connection.execute("CREATE TABLE searches (reader TEXT, asked_at TEXT, words TEXT, place INTEGER, page TEXT)")
        rows = [(str(n), "2026-01-05 10:00:00", "garden shovel", 1, "page-3") for n in range(3)]
        connection.executemany("INSERT INTO searches VALUES (?, ?, ?, ?, ?)", rows)
    script = script_of("other-logs.md", "adbc_log.py", tmp_path)
    assert beside_ours(python, script, tmp_path).split() == ["3"]
