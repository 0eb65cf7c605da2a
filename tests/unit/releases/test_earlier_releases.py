"""Releases that version 0.1.0.dev0 has written, on the contract's small log: still loaded, described and verified."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import querycloak as qc
from querycloak.releases.card import VERSION
from querycloak.releases.folder import card_digest
from querycloak.releases.loading import load_card

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
    # Its card lists no options, so that its digest must vouch for the guarantee.
    assert qc.verify(RELEASES / name, digest=card_digest(RELEASES / name)).ok


@pytest.mark.parametrize("name", ["sessions", "clicks-paper"])
def test_an_earlier_card_is_upgraded_and_its_digest_is_of_the_stored_bytes(name: str) -> None:
    stored = (RELEASES / name / "card.json").read_bytes()
    card, written = load_card(RELEASES / name), json.loads(stored)
    assert (written["card_version"], card["card_version"]) == (1, VERSION)
    assert (card["options"], card["composition"], card["population_size"]) == (None, {}, None)
    assert {key: card[key] for key in written} == {**written, "card_version": VERSION}
    assert qc.verify(RELEASES / name).digest == hashlib.sha256(stored).hexdigest()


def test_a_card_of_version_1_with_options_under_former_names(tmp_path: Path) -> None:
    """As 0.2 wrote it: keys without a value are left out, options have the names of that time."""
    release = qc.load(RELEASES / "sessions")
    out = tmp_path / "out"
    release.save(out)
    card = json.loads((out / "card.json").read_text())
    written = {key: value for key, value in card.items() if key not in ("composition", "population_size")}
    options = {"epsilon": 8, "delta": 1e-3, "per_user": 256, "selection": "rounds", "sessions_per_user": 32}
    (out / "card.json").write_text(json.dumps({**written, "card_version": 1, "options": options}))
    assert qc.load(out).options == options
    verified = qc.verify(out)
    assert verified.ok, verified.problems
    assert any("its guarantee was computed again" in each for each in verified.checked)
    (out / "card.json").write_text(json.dumps({**written, "card_version": 1, "options": {**options, "epsilon": 9}}))
    assert not qc.verify(out).ok
