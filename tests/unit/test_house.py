"""The house in order: one-way imports, public names, the tree of errors, documented commands."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer

import querycloak
from querycloak import errors, extend
from querycloak.cli.cli import app
from querycloak.methods.option import options_of
from querycloak.methods.registry import METHODS
from tests.conftest import slow_cases

SOURCE = Path(querycloak.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
# A folder may import only from itself and those before it.
ORDER = [
    "compiled_code", "lazy_names", "sentence", "shown_in_notebooks", "errors", "memory_limits", "extras",
    "interruption", "files", "privacy", "engines", "text", "language", "logs", "synthetic", "releases", "methods",
    "papers", "evaluation", "exports", "audits", "contract", "extend", "comparison", "reproduction", "pages",
    "signing", "studio", "cli",
]  # fmt: skip
ENTRANCES = ("__init__.py", "__main__.py")


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in ENTRANCES)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_data_flows_one_way(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "querycloak" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER.index(parts[1]) <= ORDER.index(own), f"{own} imports {name}"


def test_the_page_on_architecture_lists_every_folder_in_order() -> None:
    listed = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert listed == ORDER


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_engines_know_the_engines(path: Path) -> None:
    known = {name.split(".")[0] for name in imports_of(path)} & {"duckdb", "pyspark"}
    assert not known or path.parent.name == "engines"


def test_public_names() -> None:
    assert querycloak.__all__ == sorted(querycloak.__all__)
    assert querycloak.__all__ == [
        "Affinity", "Choices", "Clicks", "EuRecords", "Generalize", "Guarantee", "KAnonymity", "Ledger", "Optimal",
        "Phrases", "Profile", "Queries", "QueryPool", "Release", "SearchLog", "Semantic", "Sessions", "Synthetic",
        "Verified", "audit_method", "audit_release", "compare", "connect", "describe", "diff", "evaluate",
        "export", "find_leaks", "load", "measures", "profile", "read", "report", "split", "synthesize", "verify",
    ]  # fmt: skip
    for name in querycloak.__all__:
        assert getattr(querycloak, name) is not None
    # Type checkers see the same names, from the same homes.
    seen = imports_of(SOURCE / "__init__.py")
    assert [name for name, home in querycloak._HOMES.items() if f"{home}.{name}" not in seen] == []
    assert sorted(querycloak._HOMES) == querycloak.__all__
    with pytest.raises(AttributeError, match="querycloak has no 'reed'; it has Affinity, "):
        getattr(querycloak, "reed")  # noqa: B009


def test_names_for_other_packages() -> None:
    assert extend.__all__ == [
        "ALWAYS", "COUNTS", "KINDS", "Attack", "AuditData", "AuditLogs", "CaseScores", "Drawn", "DrawnRuns",
        "ExactTester", "Figure", "Finding", "Gaussian", "Guarantee", "Laplace", "Logs", "Measure", "Method", "Outcomes",
        "Output", "Pair", "Past", "PublicCounts", "PublicList", "Randomness", "Release", "RowKind", "SamplingTester",
        "Share", "Step", "Stream", "Subject", "Target", "Task", "draw_runs", "float_up", "number_above_zero",
        "once_per_key", "option", "queries_of", "refuse", "stated", "steps_of", "user_guarantee", "whole",
    ]  # fmt: skip
    for name in extend.__all__:
        assert getattr(extend, name) is not None
    seen = imports_of(SOURCE / "extend.py")
    assert [name for name, home in extend._HOMES.items() if f"{home}.{name}" not in seen] == []
    assert sorted(extend._HOMES) == sorted(extend.__all__)
    with pytest.raises(AttributeError, match=r"querycloak\.extend has no 'Methods'; it has ALWAYS, "):
        getattr(extend, "Methods")  # noqa: B009


@pytest.mark.parametrize("page", ["own-method.md", "own-attack.md", "attacks.md", "audits.md"])
def test_pages_for_other_packages_import_public_modules_only(page: str) -> None:
    imported = set(re.findall(r"(?:from|import) (querycloak[\w.]*)", (DOCS / page).read_text()))
    assert imported <= {"querycloak", "querycloak.extend", "querycloak.contract"}


def test_public_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    defined = [name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)]
    defined.remove("QuerycloakError")
    assert sorted(drawn) == sorted(defined)
    assert sorted([*drawn, "QuerycloakError"]) == errors.__all__
    for name, code in re.findall(r"[├└]── (\w+) .*exit (\d)", errors.__doc__ or ""):
        assert getattr(errors, name).exit_code == int(code)


def all_commands(group: Any, sections: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every command with the sections that may document its options: a method's own, and its group's."""
    found = []
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        own = (f"### {name}",) if name in METHODS else () if sections else (f"## querycloak {name}",)
        found.append(((*sections, *own), command))
        if hasattr(command, "list_commands"):
            found += all_commands(command, (*sections, *own))
    return found


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next of its level or above."""
    assert f"\n{heading}\n" in text, f"no section {heading!r}"
    level = heading.split(maxsplit=1)[0]
    return re.split(rf"\n#{{1,{len(level)}}} ", text.split(f"\n{heading}\n")[1])[0]


def test_every_command_has_help_and_docs() -> None:
    documented = (DOCS / "commands.md").read_text()
    for headings, command in all_commands(typer.main.get_command(app)):
        assert command.help, headings
        told = "".join(section(documented, heading) for heading in headings)
        for option in command.params:
            if option.opts[0].startswith("--") and option.name != "help" and not option.hidden:
                assert re.search(rf"{option.opts[0]}\b(?!-)", told), (headings, option.opts)


def test_every_method_is_public() -> None:
    for kind in METHODS.values():
        assert kind.__name__ in querycloak.__all__


def test_no_assert_on_input() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)], path


def pages() -> list[Path]:
    root = DOCS.parent
    return [*root.glob("*.md"), *DOCS.glob("*.md"), *SOURCE.rglob("*.md")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_the_page_of_commands_lists_options_as_they_are_declared() -> None:
    """`python scripts/make_commands_page.py` writes the tables anew."""
    from scripts.make_commands_page import PAGE, page_with_options

    assert page_with_options(PAGE.read_text()) == PAGE.read_text()


def test_a_file_name_means_one_thing() -> None:
    shared = {"__init__.py", "method.py", "count.py", "paper.py"}  # each method's folder has these
    shared |= {path.name for path in (SOURCE / "papers").glob("*.py")}  # a paper's variant, and its tables
    names = [path.name for path in SOURCE.rglob("*.py") if path.name not in shared]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_what_is_listed_as_slow_is_there() -> None:
    for line in sorted(slow_cases()):
        file, _, name = line.partition("[")[0].partition("::")
        path = Path(__file__).parents[2] / file
        assert path.is_file(), line
        assert not name or f"def {name}(" in path.read_text(), line


def test_every_method_shows_its_options_to_python() -> None:
    for kind in METHODS.values():
        shown = kind.__doc__ or ""
        assert all(f"\n    {each.name}: {each.help}" in shown for each in options_of(kind)), kind
