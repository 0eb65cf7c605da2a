"""Releases that version 0.2.0 has written, one of every kind: loaded, described and verified."""

from __future__ import annotations

from pathlib import Path

import pytest

import querycloak as qc
from querycloak.releases.folder import card_digest

RELEASES = Path(__file__).parents[2] / "fixtures" / "0.2.0" / "releases"
NAMES = sorted(path.name for path in RELEASES.iterdir() if (path / "card.json").is_file())


@pytest.mark.parametrize("name", NAMES)
def test_a_release_of_0_2(name: str) -> None:
    release = qc.load(RELEASES / name)
    assert all(release.table(kind).num_rows >= 0 for kind in release.tables)
    assert "NOT PRIVATE" in qc.verify(RELEASES / name).warnings[0]
    verified = qc.verify(RELEASES / name, digest=card_digest(RELEASES / name))
    assert verified.ok, verified.problems
