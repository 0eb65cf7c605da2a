"""Notes and pages name code that exists, and proof notes cite the literature that they belong to.

A name in backticks is looked up in the source text, so this imports nothing: paths, `module.name`, `Class.member`,
`function()` and names with an underscore.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import querycloak

PACKAGE = Path(querycloak.__file__).parent
ROOT = PACKAGE.parents[1]
NOTES = sorted([*PACKAGE.rglob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|md|rst|ipynb|toml|sql)")
FOLDER = re.compile(r"(?:[a-z_]+/)+")
SLASHED = re.compile(r"((?:[a-z_]+/)+[a-z_]+)(?:\.([A-Za-z_]\w*))?")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\(\))?")
CALLED = re.compile(r"([A-Za-z_]\w*)\(.*\)")
UNDERSCORED = re.compile(r"_*[a-zA-Z]+(?:_[a-zA-Z0-9]+)+|_[a-z]+")
FOLDERS = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"bench", "scripts", "tests", "docs", "src"}
MODULES_OF_NOTES = {path.stem for path in PACKAGE.rglob("*.py")} - {"log", "release", "guarantee", "method", "ledger"}
FILES = {
    "sig",
    "json",
    "csv",
    "tsv",
    "gz",
    "parquet",
    "html",
    "txt",
    "jsonl",
    "zip",
    "svg",
    "users",
    "lock",
    "yaml",
    "toml",
    "truth",
    "LICENSE",
}
OTHERS = {
    "spark",
    "numpy",
    "pyarrow",
    "pandas",
    "ibis",
    "numba",
    "contextvars",
    "importlib",
    "os",
    "sys",
    "functools",
    "math",
}


@cache
def members() -> dict[str, set[str]]:
    """Names defined in each module (by its stem, and by its folder) and in each class."""
    names: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        stem = path.parent.name if path.stem == "__init__" else path.stem
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names[node.name] |= _defined(node.body) | {base for b in node.bases for base in _inherited(b)}
        names[stem] |= _defined(ast.parse(path.read_text(encoding="utf-8")).body)
        names[path.parent.name].add(stem)
    return names


def _inherited(base: ast.expr) -> set[str]:
    return {f"<{base.id}"} if isinstance(base, ast.Name) else set()


def _defined(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
                    names.add(inner.attr)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def has(owner: str, name: str) -> bool:
    """Whether a module or a class has this member, its own or inherited."""
    own = members().get(owner, set())
    return name in own or any(has(base[1:], name) for base in own if base.startswith("<"))


@cache
def words() -> frozenset[str]:
    """Every word of the source, the tests, benchmarks and scripts: options, columns, keys, values, functions."""
    sources = [path for folder in ("src", "bench", "scripts") for path in (ROOT / folder).rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*sources, *(ROOT / "tests").rglob("*.py")])
    return frozenset(re.findall(r"\w+", text.replace(Path(__file__).read_text(encoding="utf-8"), "")))


@cache
def paths() -> frozenset[str]:
    """Every path of the repository, from each of its folders on."""
    files = [path for folder in ("src", "docs", "tests", "bench", "scripts") for path in (ROOT / folder).rglob("*")]
    parts = [path.relative_to(ROOT).parts for path in [*files, *ROOT.glob("*")] if "__pycache__" not in path.parts]
    return frozenset("/".join(part[place:]) for part in parts for place in range(len(part)))


def exists(name: str, note: Path) -> bool:
    """Whether a name in backticks exists; True for anything that does not look like a name of code."""
    if PATH.fullmatch(name) or name.endswith(".LICENSE"):
        return name.removeprefix("../") in paths() or (note.parent / name).exists()
    if FOLDER.fullmatch(name):
        return name.rstrip("/") in paths() or name.rstrip("/") in words()
    if (slashed := SLASHED.fullmatch(name)) and slashed.group(1).split("/")[0] in FOLDERS:
        path, member = slashed.groups()
        is_there = path in paths() or f"{path}.py" in paths()
        return is_there and (member is None or has(path.split("/")[-1], member))
    if DOTTED.fullmatch(name):
        return _dotted_exists(name.removesuffix("()").split("."), in_source=PACKAGE in note.parents)
    if called := CALLED.fullmatch(name):
        return called.group(1) in words()
    return not UNDERSCORED.fullmatch(name) or name in words()


def _dotted_exists(parts: list[str], *, in_source: bool) -> bool:
    """Whether the last name is a member of the one before; pages also name members of their examples' variables."""
    if parts[-1] in FILES or parts[0] in OTHERS or has(parts[-2], parts[-1]):
        return True
    return not in_source and parts[0] not in MODULES_OF_NOTES and not parts[0][0].isupper() and parts[-1] in words()


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_of_code_in_a_note_exist(note: Path) -> None:
    text = FENCE.sub("", note.read_text(encoding="utf-8"))
    assert sorted({name for name in CODE.findall(text) if not exists(name, note)}) == []


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_a_note_links_to_exist(note: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", note.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (note.parent / target).exists()] == []


@pytest.mark.parametrize(
    "name",
    [
        "histogram.release", "Randomness.choose", "order.py", "privacy/order.py", "HistogramPlan.guarantee",
        "card.json", "own_chance", "privacy/calibration/", "smallest_integer(fits)",
    ],
)  # fmt: skip
def test_the_search_knows_names_that_exist(name: str) -> None:
    assert exists(name, PACKAGE / "privacy" / "calibration" / "histogram.md")


@pytest.mark.parametrize(
    "name",
    [
        "histogram.published", "Randomness.guess", "hockeystick.hockey_stick", "spending.py", "logs/bounding.py",
        "logs/bounding.once_per_key", "privacy/histogram", "logs/bounding/", "accounting.price", "once_per_click",
        "reconciled_rows(x)",
    ],
)  # fmt: skip
def test_the_search_notices_missing_names(name: str) -> None:
    assert not exists(name, PACKAGE / "privacy" / "calibration" / "histogram.md")


@pytest.mark.parametrize(
    ("note", "terms"),
    [
        (
            "histogram.md",
            ["partition selection", "set union", "contribution bounding", "hockey-stick", "group privacy"],
        ),
        ("histogram.md", ["Korolova", "Wilkins", "Canonne", "Balle", "Desfontaines"]),
        ("selection.md", ["partition selection", "set union", "policy Gaussian", "MAD2R", "DP-SIPS", "Gopi"]),
        ("bound_choice.md", ["contribution bound", "exponential mechanism", "McSherry"]),
        ("composition.md", ["privacy-loss distribution", "Koskela", "Gopi", "Zhu", "Doroshenko"]),
        ("ledger.md", ["basic composition", "Rogers", "Smith"]),
    ],
)
def test_experts_find_their_terms(note: str, terms: list[str]) -> None:
    (path,) = (PACKAGE / "privacy").rglob(note)
    text = path.read_text(encoding="utf-8").lower()
    assert [term for term in terms if term.lower() not in text] == []
