"""Randomness enters a release through one module only; what else may draw is listed here, with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import querycloak

PACKAGE = Path(querycloak.__file__).parent
DOOR = "privacy/sampling/randomness.py"
MODULES = {"random", "secrets", "uuid", "opendp"}
NAMES = {
    "random", "urandom", "getrandom", "default_rng", "RandomState", "SystemRandom", "Philox", "PCG64", "uuid", "uuid4",
    "randint", "randrange", "shuffle", "token_bytes", "token_hex", "opendp",
}  # fmt: skip
"""What generators are called: Python's, numpy's, the operating system's, OpenDP's, and those of engines."""
OTHERS = {
    "synthetic/": "invented people, from a seed that everybody may know",
    "audits/": "who is attacked, with what knowledge, and guesses of attackers, from a fixed seed: private output",
    "language/": "samples of a model, from a seed that everybody may know: post-processing of a release",
    "evaluation/": "resampling for intervals and random baselines, from a fixed seed: private output, in no release",
}


def generators(code: str) -> Iterator[str]:
    """What a module takes from another generator; comments and docstrings may name it."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (part for alias in node.names for part in alias.name.split(".") if part in MODULES)
        elif isinstance(node, ast.ImportFrom):
            home, *rest = (node.module or "").split(".")
            yield from (name for name in (home,) if name in MODULES)
            yield from (name for name in (*rest, *(alias.name for alias in node.names)) if name in NAMES)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sample":
            # Ours is told what to draw from; an engine's is not.
            yield from ["sample"] * ("randomness" not in map(ast.unparse, node.args))
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            yield node.attr


def test_no_other_generator_in_the_whole_package() -> None:
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    found = {name: set(generators(path.read_text(encoding="utf-8"))) for name, path in modules.items()}
    drawing = {name for name, used in found.items() if used}
    assert DOOR in drawing
    assert {name for name in drawing if name != DOOR and not name.startswith(tuple(OTHERS))} == set()
    # A reason for which nobody draws any more goes.
    assert [folder for folder in OTHERS if not any(name.startswith(folder) for name in drawing)] == []


def test_what_others_draw_does_not_reach_a_release() -> None:
    """Methods come before `evaluation/` and `audits/`; of `synthetic/`, which comes before them, they use nothing."""
    for folder in ("privacy", "engines", "text", "logs", "releases", "methods"):
        for path in (PACKAGE / folder).rglob("*.py"):
            assert "querycloak.synthetic" not in path.read_text(encoding="utf-8"), path
            assert "querycloak.evaluation" not in path.read_text(encoding="utf-8"), path
            assert "querycloak.audits" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize(
    "line",
    [
        "import random",
        "import os, numpy.random",
        "from random import choice",
        "from numpy.random import normal",
        "from numpy import random",
        "x = np.random.normal()",
        "rng = numpy.random.default_rng()",
        "import secrets",
        "import uuid",
        "os.urandom(8)",
        "from os import urandom",
        "from opendp.measurements import make_laplace",
        "rows.mutate(key=ibis.random())",
        "rows.sample(0.1)",
        "ibis.uuid()",
    ],
)
def test_the_search_finds(line: str) -> None:
    assert list(generators(line))


@pytest.mark.parametrize(
    "line",
    [
        "from querycloak.privacy.sampling.randomness import Randomness\nrandomness.below(3, 1)",
        '"""As os.urandom does."""  # or np.random',
        "PACKAGES = ('opendp', 'random')",
    ],
)
def test_the_search_spares_our_own_words(line: str) -> None:
    assert not list(generators(line))
