"""docs/own-task.md: its task and its export, as entry points of an installed package would bring them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.errors import InputError, ParameterError
from querycloak.evaluation import task
from querycloak.exports import export as export_module
from tests.evaluated import Asked, write_rows
from tests.pages import ROOT, examples
from tests.unit.releases.making import CLICKS, a_release

PAGE = ROOT / "docs" / "own-task.md"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page where Python finds them, and the entry points of its pyproject.toml."""
    points = []
    for example in examples(PAGE):
        if example.file is None:
            continue
        (tmp_path / str(example.file)).write_text(example.text)
        group = ""
        for line in example.text.splitlines() if example.language == "toml" else ():
            if line.startswith("["):
                group = line.strip("[]").removeprefix('project.entry-points."').removesuffix('"')
            elif group.startswith("querycloak."):
                name, _, value = line.partition(" = ")
                points += [EntryPoint(name, value.strip('"'), group)] if value else []
    assert [point.group for point in points] == ["querycloak.tasks", "querycloak.exports"]
    points += [EntryPoint("broken", "no_such_module:Task", "querycloak.tasks")]
    points += [EntryPoint("ranking", "no_such_module:Task", "querycloak.tasks")]  # a name that is taken
    for module in (task, export_module):
        monkeypatch.setattr(module, "entry_points", lambda group: [each for each in points if each.group == group])
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_task_of_another_package_is_measured(package: Path) -> None:
    rows: list[Asked] = [(f"u{user}", 60 * n, f"q{n}", None, None) for user in range(4) for n in range(4)]
    train, test = (
        write_rows(package / f"{side}.parquet", [(f"{side}{user}", *rest) for user, *rest in rows])  # type: ignore[misc]
        for side in ("train", "test")
    )
    queries = pa.table({"query": ["q0", "q1", "q2"], "count": pa.array([4, 4, 4], pa.int64())})
    releases = {"mine": a_release(tables={"queries": queries}), "clicks": a_release(tables={"clicks": CLICKS})}
    with qc.read(train) as ours:
        with pytest.raises(InputError, match="was made of another log"):
            qc.evaluate(ours, test, releases, tasks=["known-queries"])
        evaluation = qc.evaluate(ours, test, {"mine": releases["mine"]}, tasks=["known-queries"])
    values = {row.release: row.value for row in evaluation.rows if row.reading == "all"}
    assert (values["mine"], values["original"]) == (0.75, 1.0)
    with pytest.raises(InputError, match="the task 'broken' of another package cannot be loaded: ModuleNotFoundError"):
        task.tasks_named(["broken"])
    assert type(task.tasks_named(["ranking"])[0]).__module__.startswith("querycloak.")


def test_an_export_of_another_package_is_written(package: Path) -> None:
    a_release().export("query-lines", package / "lines.txt")
    assert (package / "lines.txt").read_text() == "weather\nnews\nmaps\n"
    with pytest.raises(ParameterError, match="one with a table of queries"):
        a_release(tables={"clicks": CLICKS}).export("query-lines", package / "none.txt")
