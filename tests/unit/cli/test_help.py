"""`--help`: options under headings, the usual ones on the first screen; three commands for a beginner."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from querycloak import extras
from querycloak.cli import error_line
from querycloak.cli.cli import app
from querycloak.cli.generated_options import GROUP_OF
from querycloak.cli.options import GROUPS
from querycloak.methods.option import options_of
from querycloak.methods.registry import BUILT_IN, METHODS
from tests.commands import in_process

SCREEN = 24


def lines_of(*arguments: str) -> list[str]:
    done = in_process(*arguments, "--help", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def headings(lines: list[str]) -> list[str]:
    return [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]


@pytest.mark.parametrize("method", BUILT_IN)
def test_the_first_screen_of_a_release_has_the_usual_options(method: str) -> None:
    lines = lines_of("release", method)
    first = "\n".join(lines[:SCREEN])
    budget = ["--epsilon"] if "epsilon" in {each.name for each in options_of(METHODS[method])} else []
    assert [option for option in ("LOG", *budget, "--out", "--dry-run", "--format") if option not in first] == []
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].split() == ["--help", "Show", "this", "message", "and", "exit."]


@pytest.mark.parametrize("command", [("release",), ("guarantee",), ("tune",), ("audit", "method")])
@pytest.mark.parametrize("method", BUILT_IN)
def test_options_of_a_method_stand_under_headings_in_one_order(command: tuple[str, ...], method: str) -> None:
    shown = [heading for heading in headings(lines_of(*command, method)) if heading not in ("Arguments", "Options")]
    assert shown == [group for group in GROUPS if group in shown]
    assert len(shown) >= 2


@pytest.mark.parametrize("method", BUILT_IN)
def test_every_option_of_a_release_has_a_group(method: str) -> None:
    group = get_command(app).get_command(None, "release")  # type: ignore[attr-defined]
    options = [each for each in group.get_command(None, method).params if each.param_type_name == "option"]
    assert [each.name for each in options if each.rich_help_panel is None] == []
    assert [each.name for each in options_of(METHODS[method]) if each.name not in GROUP_OF] == []


def test_without_arguments_three_commands_are_shown_and_work() -> None:
    done = in_process()
    assert (done.returncode, done.stdout) == (2, "")
    commands = [line.strip() for line in done.stderr.splitlines() if line.startswith("  querycloak")]
    assert [line.split()[1] for line in commands] == ["demo", "inspect", "guarantee"]
    assert all(len(line) <= 80 for line in done.stderr.splitlines())
    explained = commands[2].split()[1:]
    assert in_process(*explained).returncode == 0


def test_the_first_command_names_the_extra_that_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also the demo itself, before it removes a former one."""
    assert "pip install" not in error_line.start()
    monkeypatch.setitem(extras.PACKAGES, "compare", ("no_such_package",))
    assert "as a page (pip install 'querycloak[compare]'):\n  querycloak demo\n" in error_line.start()
    assert max(map(len, error_line.start().splitlines())) <= 80
    (tmp_path / "former").mkdir()
    done = in_process("demo", "--users", "10", "--out", str(tmp_path / "former"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "a comparison needs no_such_package, not installed here: pip install 'querycloak[compare]'" in done.stderr
    assert (tmp_path / "former").is_dir()
