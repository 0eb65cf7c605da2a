"""What people see of values: short reprs, pieces for notebooks, tables of other libraries as logs, sentences."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.errors import InputError, ParameterError
from querycloak.pages.notebook import html_of
from querycloak.privacy.sampling.randomness import Randomness

ROWS = 400
COLUMNS: dict[str, list[Any]] = {
    "user": [f"u{number % 40}" for number in range(ROWS)],
    "time": list(pd.date_range("2020-01-01", periods=ROWS, freq="min").to_pydatetime()),
    "query": [f"Word  {number % 4}" for number in range(ROWS)],
    "url": [f"http://site{number % 4}.example/" if number % 3 else None for number in range(ROWS)],
}
TABLES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "arrow": lambda: pa.table(COLUMNS),
    "batches": lambda: pa.table(COLUMNS).to_reader(),
    "duckdb": lambda: duckdb.connect().from_arrow(pa.table(COLUMNS)),
}


@pytest.mark.parametrize("library", TABLES)
def test_a_table_of_another_library_is_a_log(library: str) -> None:
    with qc.read(TABLES[library]()) as log:
        assert repr(log) == "<SearchLog table: a table in memory, on duckdb>"
        found = qc.profile(log)
        assert (found.rows_kept, found.users, found.distinct_queries) == (ROWS, 40, 4)
        assert found.clicks == sum(url is not None for url in COLUMNS["url"])
        assert log.staged is not None
        staged = log.staged.path
        assert staged.exists()
        assert oct(staged.parent.stat().st_mode)[-3:] == "700"
    assert not staged.exists()


def test_columns_can_be_named_and_nothing_of_a_bad_table_is_said() -> None:
    renamed = pd.DataFrame(COLUMNS).rename(columns={"user": "who", "query": "what"})
    with qc.read(renamed, columns={"user": "who", "query": "what", "time": "time"}) as log:
        assert qc.profile(log).users == 40
    with pytest.raises(InputError, match="has no column user"):
        qc.read(renamed)

    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise ValueError("secret value 4111")

    with pytest.raises(InputError, match="cannot be read as Arrow batches") as refused:
        qc.read(Broken())
    assert "4111" not in str(refused.value)
    gc.collect()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("values")
    with qc.read(pa.table(COLUMNS)) as log:
        release = qc.Clicks(epsilon=4, delta=1e-3, selection="laplace").release(log, randomness=Randomness(seed=1))
        release.save(folder / "release")
        sides = qc.split(log, folder / "split", by="user", test=0.4)
        profile = qc.profile(log)
    with qc.read(sides.train) as train, qc.read(sides.test) as test:
        qc.Clicks(epsilon=4, delta=1e-3, selection="laplace").release(train).save(folder / "twin")
        evaluation = qc.evaluate(train, test, [folder / "twin"], ["completion"])
        audit = qc.audit_release(train, [folder / "twin"], control=test, attacks=["leaks"], baselines=False)
    method = qc.audit_method(qc.Clicks(epsilon=1, delta=1e-2, selection="laplace"), runs=200, seed=1)
    return {
        "release": release, "loaded": qc.load(folder / "release"), "profile": profile, "evaluation": evaluation,
        "audit": audit, "method": method, "guarantee": release.proven,
    }  # fmt: skip


def test_reprs_are_one_short_line(made: dict[str, Any]) -> None:
    for value in made.values():
        assert len(repr(value)) < 120
        assert repr(value).startswith(f"<{type(value).__name__}")
        assert "\n" not in repr(value)
    for name in ("profile", "evaluation", "audit"):
        assert "(private)" in repr(made[name])


def test_pieces_say_first_if_they_are_private(made: dict[str, Any]) -> None:
    for name, value in made.items():
        piece = value._repr_html_()
        assert piece == html_of(value)
        assert "<script" not in piece
        assert ("PRIVATE" in piece) == (name in ("profile", "evaluation", "audit"))
    assert "word 1" in made["release"]._repr_html_()
    assert "word 1" in made["loaded"]._repr_html_()
    assert "What is not protected" in made["guarantee"]._repr_html_()
    assert html_of(5) == html_of(5)
    assert "&lt;b&gt;" in html_of("<b>")


def test_an_evaluation_shows_all_cases(made: dict[str, Any]) -> None:
    piece = made["evaluation"]._repr_html_()
    assert "all cases" in piece
    rows = [row for row in made["evaluation"].rows if row.slice is None and row.reading == "all"]
    assert {row.release for row in rows} == {"original", "k-anonymity", "no-data", "twin"}
    assert piece.count("<tr>") == len(rows) + 1


def test_a_release_is_used_like_its_tables(made: dict[str, Any]) -> None:
    release, loaded = made["release"], made["loaded"]
    assert release["clicks"].equals(release.table("clicks"))
    assert list(release) == ["clicks"]
    with pytest.raises(ParameterError, match="this release has no table 'queries'; it has clicks"):
        release["queries"]
    assert loaded.card["checksums"]["algorithm"] == "sha256"
    assert "checksums" not in release.card
    for part in ("method", "parameters", "claimed", "proven", "warnings"):
        assert release.card[part] == loaded.card[part]
    assert release.card["tables"]["clicks"]["rows"] == release["clicks"].num_rows


def test_a_guarantee_explains_itself(made: dict[str, Any]) -> None:
    assert "whether a certain person is in the log at all" in made["guarantee"].explain()
    assert qc.KAnonymity(min_users=5).proven().line == "a rule, k = 5"
    assert qc.QueryPool(epsilon=2).proven().line == "epsilon 2 for each user"


@pytest.mark.parametrize("given", [5, [pa.table(COLUMNS)], b"log", None])
def test_what_is_no_log_gets_a_sentence(given: Any) -> None:
    with pytest.raises(ParameterError, match="one table of pandas, Polars, Arrow or DuckDB"):
        qc.read(given)


def test_a_report_takes_what_was_made(made: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    with qc.read(pa.table(COLUMNS)) as log:
        qc.Clicks(epsilon=4, delta=1e-3, selection="laplace").release(log).save(folder)
    with pytest.raises(InputError, match="the evaluation is about another release"):
        qc.report(folder, tmp_path / "report", evaluation=made["evaluation"])
    written = qc.report(folder, tmp_path / "report", about={"owner": "me"})
    assert "<dd>me</dd>" in written.public.read_text()
    assert written.registry is None
