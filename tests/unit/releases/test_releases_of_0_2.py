"""Releases that version 0.2.0 has written of every seeded value: loaded, verified and described as by 0.2.0 itself.

`scripts/make_fixtures.py 653582d` makes them; verify.json, describe.json and guarantee.json are what 0.2.0 said then.
Keys and numbers must be the same, sentences may differ.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from scripts.compare_releases import differences, renamed
from scripts.renamed import RENAMED_VALUES
from scripts.seeded_methods import METHODS

import querycloak as qc
from querycloak.comparison.comparison_plan import releases_in
from tests.commands import in_process

FIXTURES = Path(__file__).parents[2] / "fixtures" / "0.2.0"
RELEASES = sorted(f"{path.parent.name}/{path.name}" for path in FIXTURES.glob("*/*") if path.is_dir())


def stated(command: str, name: str) -> Any:
    """What 0.2.0 printed, with values under today's names; keys of --json keep theirs."""
    document = json.loads((FIXTURES / f"{command}.json").read_text())[name]
    return renamed(document, {}, RENAMED_VALUES)


def test_there_is_a_release_of_every_seeded_value() -> None:
    made = {path.name for path in (FIXTURES / "releases").iterdir()}
    assert made <= {name.replace(" ", "-") for name in METHODS}
    assert len(made) == 44


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_of_0_2_is_verified_as_before(name: str, tmp_path: Path) -> None:
    ledger = None
    if name.startswith("charged/"):
        ledger = shutil.copy(FIXTURES / "ledger.sqlite", tmp_path / "ledger.sqlite")
    verified = qc.verify(FIXTURES / name, ledger=ledger)
    before = stated("verify", name)
    assert verified.ok
    assert verified.digest == before["digest"]
    assert len(verified.checked) == len(before["checked"])
    assert differences(before, verified.to_json()) == []


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_of_0_2_is_described_as_before(name: str) -> None:
    described = json.loads(json.dumps(qc.describe(FIXTURES / name).to_json()))
    assert differences(stated("describe", name), described) == []


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_of_0_2_is_loaded_with_its_card(name: str) -> None:
    card = json.loads((FIXTURES / name / "card.json").read_text())
    release = qc.load(FIXTURES / name)
    assert {kind: release.table(kind).num_rows for kind in release.tables} == {
        kind: table["rows"] for kind, table in card["tables"].items()
    }
    assert differences(card["proven"], release.proven.to_json()) == []
    claimed = None if release.claimed is None else release.claimed.to_json()
    assert differences(card["claimed"], claimed) == []


def test_the_signature_of_0_2_holds() -> None:
    signature, signers = FIXTURES / "clicks.sig", FIXTURES / "signers"
    assert qc.verify(FIXTURES / "charged" / "clicks", signature=signature, signers=signers).ok
    assert not qc.verify(FIXTURES / "charged" / "semantic", signature=signature, signers=signers).ok


def test_the_plan_of_0_2_gives_the_same_guarantee() -> None:
    options = tomllib.loads((FIXTURES / "clicks.toml").read_text())
    assert {"per_user", "selection"} <= set(options)
    typed = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    by_plan = in_process("guarantee", "clicks", "--plan", FIXTURES / "clicks.toml", "--json")
    assert by_plan.stdout == in_process("guarantee", "clicks", *typed, "--json").stdout
    card = json.loads((FIXTURES / "charged" / "clicks" / "card.json").read_text())
    assert differences(card["proven"], json.loads(by_plan.stdout)["proven"]) == []


def test_the_plan_of_a_comparison_of_0_2_is_read_as_before() -> None:
    planned = releases_in(FIXTURES / "releases.toml")
    assert {each.name for each in planned} == set(json.loads((FIXTURES / "guarantee.json").read_text()))
    for each in planned:
        before = stated("guarantee", each.name)
        del before["tables"]
        assert differences(before, json.loads(json.dumps(each.made().describe()))) == [], each.name
