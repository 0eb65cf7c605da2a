"""What the source says in messages: parameters stand in sentences as fields, never spelled out for one kind of reader.

`tests/message_law.py` holds every error that any test sees to the same law, as it is read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from typer.main import get_command

import querycloak
from querycloak.cli.cli import app
from querycloak.cli.error_line import options
from querycloak.errors import InputError
from querycloak.sentence import Sentence
from tests.message_law import COMPOUND, breaks_the_law, compound_options, not_options_of

SOURCE = Path(querycloak.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
# Whose arguments are read by people: errors, and what raises them.
SAYING = re.compile(r"\w+Error|BudgetRefused|ChargeGone|CheckFailed|UnknownFormat|MissingColumn|TooManyBadLines")
CHECKS = {"refuse", "refusal", "one_of", "natural", "whole", "share", "number_above_zero", "checked_bound", "Sentence"}


def name_of(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def docstrings(tree: ast.AST) -> set[ast.AST]:
    """Strings that stand alone: they describe, and nobody prints them."""
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def is_sentence(node: ast.Call) -> bool:
    """`Sentence(template, ...)`, or `ParameterError.of(template, ...)` and the same of other errors."""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "of" and isinstance(function.value, ast.Name):
        return SAYING.fullmatch(function.value.id) is not None
    return name_of(node) == "Sentence"


def template_of(node: ast.AST) -> str | None:
    """The template of a sentence, as it stands in the source."""
    if not isinstance(node, ast.Call) or not is_sentence(node) or len(node.args) != 1:
        return None
    template = node.args[0]
    return template.value if isinstance(template, ast.Constant) and isinstance(template.value, str) else None


def texts_in(node: ast.AST, without: set[ast.AST]) -> Iterator[tuple[int, str]]:
    """Literal texts, but for actions (which have a form for each reader) and help (which the command line prints)."""
    if node in without or (isinstance(node, ast.Call) and name_of(node) == "Action"):
        return
    if isinstance(node, ast.keyword) and node.arg == "help":
        return
    template = template_of(node)
    if isinstance(node, ast.Call) and template is not None:
        yield from ((node.lineno, text) for text, *_ in Formatter().parse(template))
        without = {*without, node.args[0]}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        yield from texts_in(child, without)


def spelled_out(texts: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Texts of several words that spell an option, a command, or a parameter with an underscore."""
    group: Any = get_command(app)
    names, commands = compound_options(), "|".join(group.list_commands(None))
    spelled = re.compile(rf"--([a-z]|$)|(?<![`\w])querycloak ({commands})\b")  # in backticks: a page's, not advice
    return [
        (line, text)
        for line, text in texts
        if " " in text.strip("-") and (spelled.search(text) or not names.isdisjoint(COMPOUND.findall(text)))
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_text_spells_a_parameter_for_one_kind_of_reader(path: Path) -> None:
    tree = ast.parse(path.read_text())
    roots: list[ast.AST] = [tree]
    if path.relative_to(SOURCE).parts[0] == "cli":  # the command line's own words; its errors are errors like others
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        roots = [c for c in calls if SAYING.fullmatch(name_of(c)) or name_of(c) in CHECKS or is_sentence(c)]
    without = docstrings(tree)
    assert spelled_out(text for root in roots for text in texts_in(root, without)) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_field_of_a_sentence_is_given_or_is_an_option(path: Path) -> None:
    known = {option.removeprefix("--").replace("-", "_") for option in options() if option.startswith("--")}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not is_sentence(node) or path.name in ("sentence.py", "errors.py"):
            continue
        where = f"{path.name}:{node.lineno}"
        template = template_of(node)
        assert template is not None, f"{where}: a template must be read where it stands"
        fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
        given = {keyword.arg for keyword in node.keywords}
        if None in given:  # handed on: `refusal` has the same values for two templates
            continue
        assert given <= set(fields), f"{where}: given and not said: {given - set(fields)}"
        assert set(fields) - given <= known, f"{where}: no option of any command: {set(fields) - given - known}"


@pytest.mark.any_words
def test_the_law_can_be_broken() -> None:
    assert breaks_the_law(InputError("give --max-keys-per-user less"))
    assert breaks_the_law(InputError("give max_keys_per_user less"))
    assert (
        breaks_the_law(
            InputError(Sentence("give {max_keys_per_user} less, for 'max_keys_per_user' and \"--x\" were typed"))
        )
        is None
    )
    told = "querycloak: look with --rejected FILE, or querycloak inspect --gap-minutes 3"
    assert not_options_of(["release", "clicks", "x"], told) == {"--rejected"}
    assert not_options_of(["inspect", "x"], told) == set()
    source = (
        "refuse('x', 'below max_keys_per_user', 1, f'give --{name} or so', 'see querycloak inspect')\n"
        "Sentence('{max_keys_per_user} of max_bad is', a='say --a b')\n"
        "InputError.of('{by} of max_bad is', a='say --c d')"
    )
    assert [text for _, text in spelled_out(texts_in(ast.parse(source), set()))] == [
        "below max_keys_per_user", "give --", "see querycloak inspect", " of max_bad is", "say --a b",
        " of max_bad is", "say --c d",
    ]  # fmt: skip
