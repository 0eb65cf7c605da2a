"""Proof notes name code that is there, and cite the literature that they belong to."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import querycloak

PACKAGE = Path(querycloak.__file__).parent
NOTES = sorted((PACKAGE / "privacy").rglob("*.md"))
MODULES = {
    path.stem: "querycloak." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in (PACKAGE / "privacy").rglob("*.py")
    if path.stem != "__init__"
}
NAMED = re.compile(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)+)`")
FILES = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")


def found(name: str) -> bool:
    """Whether `module.function`, `Class.method` or `file.py` is there."""
    first, *rest = name.split(".")
    if rest[-1] in ("py", "md"):
        return any(path.name == name for path in PACKAGE.rglob(f"*.{rest[-1]}"))
    holders = [importlib.import_module(module) for stem, module in MODULES.items() if stem == first]
    if not holders:
        everywhere = map(importlib.import_module, MODULES.values())
        holders = [getattr(module, first) for module in everywhere if hasattr(module, first)]
    for step in rest:
        holders = [getattr(holder, step) for holder in holders if hasattr(holder, step)]
    return bool(holders)


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.name)
def test_what_a_note_names_is_there(note: Path) -> None:
    text = note.read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert [name for name in named if not found(name)] == []
    roots = (PACKAGE, PACKAGE.parents[1])
    assert [file for file in FILES.findall(text) if not any((root / file).exists() for root in roots)] == []
    assert named


def test_the_search_notices_what_is_not_there() -> None:
    assert found("histogram.release")
    assert found("Randomness.choose")
    assert found("order.py")
    assert not found("histogram.published")
    assert not found("Randomness.guess")
    assert not found("hockeystick.hockey_stick")
    assert not found("spending.py")


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (
            "histogram.md",
            ["partition selection", "set union", "contribution bounding", "hockey-stick", "group privacy"],
        ),
        ("histogram.md", ["Korolova", "Wilkins", "Canonne", "Balle", "Desfontaines"]),
        ("selection.md", ["partition selection", "set union", "policy Gaussian", "MAD2R", "DP-SIPS", "Gopi"]),
        ("bound_choice.md", ["contribution bound", "exponential mechanism", "McSherry"]),
        ("composition.md", ["privacy-loss distribution", "Koskela", "Gopi", "Zhu", "Doroshenko"]),
        ("ledger.md", ["basic composition", "Rogers"]),
    ],
)
def test_experts_find_their_words(note: str, words: list[str]) -> None:
    (path,) = [path for path in NOTES if path.name == note]
    text = path.read_text(encoding="utf-8").lower()
    assert [word for word in words if word.lower() not in text] == []
