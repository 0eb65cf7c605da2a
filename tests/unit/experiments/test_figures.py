"""The papers' figures from the command line: each a JSON document that says it is private."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from querycloak.experiments.paper_figures import main
from querycloak.synthetic.log_writer import synthesize


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("figures") / "log.tsv"
    synthesize(path, 400, workers=1)
    return path


@pytest.mark.parametrize(
    ("paper", "held"),
    [("affinity", {"figure_5a", "figure_6", "table_4"}), ("optimal", {"table_4", "figure_6", "proof"})],
)
def test_figures_come_as_json(paper: str, held: set[str], log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([paper, str(log)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["private"] is True
    assert held <= set(found)


def test_a_log_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["affinity", str(tmp_path / "none.tsv")]) == 2
    assert "no such file" in capsys.readouterr().err
