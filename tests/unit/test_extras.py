"""What is left out of a plain installation, and what is said to whoever asks for it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from querycloak import Optimal, compare, extras
from querycloak.errors import ResourceError
from querycloak.signing.signoff import check_signoff
from tests.commands import in_process
from tests.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {"vl-convert-python": "vl_convert"}


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without extras."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)


@pytest.mark.parametrize("extra", extras.PACKAGES)
def test_packages_of_an_extra_are_those_of_the_project(extra: str) -> None:
    asked = [Requirement(text).name for text in PROJECT["optional-dependencies"][extra]]
    assert tuple(sorted(IMPORTED_AS.get(name, name) for name in asked)) == extras.PACKAGES[extra]
    assert not set(asked) & {Requirement(text).name for text in PROJECT["dependencies"]}


@pytest.mark.usefixtures("plain")
def test_a_comparison_names_its_extra_before_it_reads(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"^a comparison needs altair and ortools and .*querycloak\[compare\]'$"):
        compare(tmp_path / "no.tsv", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("plain")
def test_the_paper_variant_of_optimal_names_its_extra() -> None:
    published = Optimal(variant="paper", epsilon=1.0, delta=0.5)
    no_log: Any = None
    with pytest.raises(ResourceError, match=r"^optimal as published needs .*querycloak\[compare\]'$"):
        published.count(no_log)
    assert published.proven() is not None  # a promise needs no solver


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["diff", "june", "july", "--picture", "changes.html"], "a picture of the changes"),
        (["report", "june", "--out", "pages"], "the page to sign"),
        (["ledger", "show", "people", "--picture", "budgets.html"], "a picture of budgets"),
    ],
)
def test_a_page_with_pictures_names_its_extra_before_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = in_process(*command)
    assert refused.returncode == 2
    assert " ".join(refused.stderr.split()).startswith(
        f"querycloak: {what} needs altair and vl_convert, not installed here: pip install 'querycloak[compare]'"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("plain")
def test_a_signoff_names_its_extra_before_it_charges() -> None:
    nothing: Any = None
    with pytest.raises(ResourceError, match=r"^the page to sign needs altair and vl_convert"):
        check_signoff(nothing, nothing, nothing)


def test_nothing_is_refused_where_the_extra_is_installed() -> None:
    extras.require(extras.COMPARE, "a comparison")
