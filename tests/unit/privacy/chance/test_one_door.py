"""Randomness enters through one module only."""

import re
from pathlib import Path

import pytest

import querycloak

PACKAGE = Path(querycloak.__file__).parent
DOOR = PACKAGE / "privacy" / "chance" / "randomness.py"
OTHER_GENERATORS = re.compile(
    r"\bimport\s+(random|secrets)\b|\bfrom\s+(random|secrets)\b|\brandom\.(?!py\b)|\bsecrets\.|default_rng|urandom"
    r"|getrandom|\buuid4?\b|RandomState|\bopendp\b"
)


def code_of(path: Path) -> str:
    """Return a module without its comments and docstrings, which may well name what must not be used."""
    text = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"#.*", "", text)


@pytest.mark.parametrize("folder", ["privacy", "methods"])
def test_no_other_generator(folder: str) -> None:
    modules = [path for path in (PACKAGE / folder).rglob("*.py") if path != DOOR]
    found = [path.name for path in modules if OTHER_GENERATORS.search(code_of(path))]
    assert not found


def test_the_door_is_where_the_generators_are() -> None:
    assert OTHER_GENERATORS.search(code_of(DOOR))


@pytest.mark.parametrize(
    "line",
    [
        "import random",
        "from random import choice",
        "x = np.random.normal()",
        "rng = default_rng()",
        "import secrets",
        "os.urandom(8)",
        "from opendp.measurements import make_laplace",
    ],
)
def test_the_search_finds(line: str) -> None:
    assert OTHER_GENERATORS.search(line)


def test_the_search_spares_our_own_words() -> None:
    assert not OTHER_GENERATORS.search(
        "from querycloak.privacy.chance.randomness import Randomness\nrandomness.below(3, 1)"
    )
