"""Runs docs/tour.ipynb in a new folder and writes it back with its outputs: `python scripts/make_tour.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TOUR = Path(__file__).parents[1] / "docs" / "tour.ipynb"


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, without times and versions of the machine that ran it."""
    tour = nbformat.read(path, as_version=4)
    kept = tour.metadata.copy()
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(tour, kernel_name="python3", timeout=None, resources={"metadata": {"path": folder}}).execute()
    return without_machine(tour, kept)


def without_machine(tour: nbformat.NotebookNode, metadata: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Put back the notebook's own metadata, and drop those that a run adds to cells."""
    tour.metadata = metadata
    for cell in tour.cells:
        cell.metadata = nbformat.NotebookNode()
    return tour


if __name__ == "__main__":
    nbformat.write(executed(TOUR), TOUR)
