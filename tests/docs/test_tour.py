"""The tour runs from its first cell to its last, in a notebook's own kernel, and ends with what it promises."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.pages import ROOT

TOUR = ROOT / "docs" / "tour.ipynb"
PATIENCE = 1800
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[nbformat.NotebookNode]:
    folder = tmp_path_factory.mktemp("tour")
    tour = nbformat.read(TOUR, as_version=4)
    NotebookClient(
        tour, timeout=PATIENCE, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    assert (folder / "report" / "public.html").exists()
    return list(tour.cells)


def shown(cell: nbformat.NotebookNode, kind: str) -> str:
    return "".join("".join(output["data"].get(kind, "")) for output in cell.outputs if "data" in output)


def test_fifteen_cells_end_with_a_signed_release(cells: list[nbformat.NotebookNode]) -> None:
    assert len(cells) == 15
    assert "problems=()" in shown(cells[-1], "text/plain")
    assert "the card was signed" in shown(cells[-1], "text/plain")
    assert "the ledger knows this release" in shown(cells[-1], "text/plain")


def test_values_are_shown_as_pieces_of_pages(cells: list[nbformat.NotebookNode]) -> None:
    pieces = [shown(cell, "text/html") for cell in cells if cell.cell_type == "code"]
    held = [piece for piece in pieces if "querycloak-piece" in piece]
    assert len(held) == 5  # profile, guarantee, release, evaluation, audit
    assert ["PRIVATE" in piece for piece in held] == [True, False, False, True, True]


def test_the_tour_is_kept_with_its_outputs_and_without_its_machine() -> None:
    """`python scripts/make_tour.py` runs it anew."""
    kept = nbformat.read(TOUR, as_version=4)
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.id for cell in code if not cell.outputs] == []
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [cell.id for cell in kept.cells if cell.metadata] == []
    assert set(kept.metadata.language_info) == {"name"}
    assert "problems=()" in shown(code[-1], "text/plain")
    assert re.findall(r"/(?:home|root|tmp|work|usr|var)\b|Traceback|[Ww]arning:", TOUR.read_text("utf-8")) == []
    assert Path(TOUR).stat().st_size < 60_000
