"""The locks of `make demo` and `make test`: they hold what pyproject.toml asks for, and nothing of any machine."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [
    each for name in ("dev", "spark", "audit", "compare", "studio") for each in PROJECT["optional-dependencies"][name]
]
ASKED = {
    "demo": [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["compare"]],
    "test": [*PROJECT["dependencies"], *EXTRAS],
}
PINNED = re.compile(
    r"^([a-z0-9.-]+)(?:\[([a-z0-9,.-]+)\])?==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def text_of(lock: str) -> str:
    return (ROOT / "requirements" / f"{lock}.lock").read_text()


def versions_in(lock: str) -> dict[str, str]:
    return {name: version for name, _, version, _ in PINNED.findall(text_of(lock))}


def extras_in(lock: str) -> dict[str, set[str]]:
    return {name: set(extras.split(",")) - {""} for name, extras, _, _ in PINNED.findall(text_of(lock))}


def asked_by(lock: str) -> Iterator[Requirement]:
    """What pyproject.toml asks for, and what the locked packages do that are installed here."""
    yield from map(Requirement, ASKED[lock])
    held, extras = versions_in(lock), extras_in(lock)
    for each in importlib.metadata.distributions():
        name = canonicalize_name(each.name)
        if held.get(name) == each.version:
            for asked in map(Requirement, each.requires or ()):
                chosen = extras[name] or {""}
                if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in chosen):
                    yield asked


@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_holds_a_version_of_all_that_is_asked_for(lock: str) -> None:
    """If this fails, pyproject.toml has changed: run `make lock`."""
    held = versions_in(lock)
    asked = [Requirement(text) for text in [*ASKED[lock], "hatchling", "editables"]]
    assert [str(each) for each in asked if held.get(canonicalize_name(each.name), "0") not in each.specifier] == []


@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_names_the_extras_that_are_asked_for(lock: str) -> None:
    """pip looks for an extra that has no line in the newest version, and refuses that: installing then ends one day."""
    held = extras_in(lock)
    assert [
        str(each) for each in asked_by(lock) if not each.extras <= held.get(canonicalize_name(each.name), set())
    ] == []


@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_holds_versions_and_checksums_and_nothing_else(lock: str) -> None:
    assert PINNED.sub("", re.sub(r"^#.*\n", "", text_of(lock), flags=re.MULTILINE)) == ""


def test_both_locks_hold_the_same_versions() -> None:
    assert versions_in("demo").items() <= versions_in("test").items()


def test_the_page_of_licences_has_all_that_is_locked() -> None:
    listed = re.findall(r"^\| (\S+) \| (\S+) \| .+ \|$", (ROOT / "docs" / "licences.md").read_text(), re.MULTILINE)
    assert {name: version for name, version in listed if name != "package"} == versions_in("test")
