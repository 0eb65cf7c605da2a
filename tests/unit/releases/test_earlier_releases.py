"""Releases that version 0.1.0.dev0 has written, on the contract's small log: still loaded, described and verified."""

from __future__ import annotations

from pathlib import Path

import pytest

import querycloak as qc

RELEASES = Path(__file__).parents[2] / "fixtures" / "releases"


@pytest.mark.parametrize(
    ("name", "rows", "epsilon"),
    [("sessions", {"clicks": 29, "sessions": 8}, 8.0), ("clicks-paper", {"clicks": 4}, 8.0)],
)
def test_a_release_of_an_earlier_version(name: str, rows: dict[str, int], epsilon: float) -> None:
    release = qc.load(RELEASES / name)
    assert {kind: release.table(kind).num_rows for kind in release.tables} == rows
    assert release.proven.epsilon == epsilon
    assert set(qc.describe(RELEASES / name).tables) == set(rows)
    assert qc.verify(RELEASES / name).ok
