"""No command writes over anything that is there, and none writes into what it reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import querycloak as qc
from querycloak.cli.cli import app
from tests.commands import in_process
from tests.logs import ROWS, aol, write

BUDGET = ("--epsilon", "4", "--delta", "1e-3")
# Every option that names something to write: how a command that has it is typed. A ledger knows its own by a mark.
WRITING = {
    ("inspect", "--rejected"): ("inspect", "LOG", "--rejected", "OUT"),
    ("release", "--out"): ("release", "clicks", "LOG", *BUDGET, "--out", "OUT"),
    ("release", "--ledger"): (
        "release", "clicks", "LOG", *BUDGET, "--out", "NEW", "--population", "p", "--ledger", "OUT",
    ),
    ("split", "--out"): ("split", "LOG", "--by", "user", "--out", "OUT"),
    ("evaluate", "--out"): ("evaluate", "LOG", "LOG", "RELEASE", "--out", "OUT"),
    ("audit release", "--out"): ("audit", "release", "LOG", "RELEASE", "--control", "LOG", "--out", "OUT"),
    ("compare", "--out"): ("compare", "LOG", "--out", "OUT"),
    ("report", "--out"): ("report", "RELEASE", "--out", "OUT"),
    ("export", "--out"): ("export", "RELEASE", "--as", "csv", "--out", "OUT"),
    ("release", "--dropped"): ("release", "clicks", "LOG", *BUDGET, "--out", "NEW", "--dropped", "OUT"),
    ("report", "--ledger"): ("report", "RELEASE", "--out", "NEW", "--ledger", "OUT"),
    ("reproduce", "--out"): ("reproduce", "zhang2016", "--quick", "--out", "OUT"),
    ("synth", "--out"): ("synth", "--users", "1", "--out", "OUT"),
    ("demo", "--out"): ("demo", "--users", "1", "--out", "OUT"),
    ("ledger set", "--ledger"): ("ledger", "set", "p", *BUDGET, "--ledger", "OUT"),
    ("ledger show", "--ledger"): ("ledger", "show", "--ledger", "OUT"),
    ("ledger show", "--picture"): ("ledger", "show", "--picture", "OUT"),
    ("diff", "--picture"): ("diff", "RELEASE", "RELEASE", "--picture", "OUT"),
    ("ledger verify", "--ledger"): ("ledger", "verify", "--ledger", "OUT"),
    ("ledger plan", "--ledger"): ("ledger", "plan", "p", "--releases", "2", *BUDGET, "--ledger", "OUT"),
    ("guarantee", "--ledger"): ("guarantee", "clicks", *BUDGET, "--population", "p", "--ledger", "OUT"),
    ("signoff", "--out"): ("signoff", "LOG", "--plan", "PLAN", "--out", "OUT"),
    ("signoff", "--ledger"): ("signoff", "LOG", "--plan", "PLAN", "--out", "NEW", "--ledger", "OUT"),
    ("verify", "--ledger"): ("verify", "RELEASE", "--ledger", "OUT"),
}  # fmt: skip
PLAN = """population = "p"
population_size = 2
unit = "account"
method = "clicks"
about = {owner = "us", contact = "us", purpose = "a test"}
options = {epsilon = 4, delta = 1e-3}
"""
ENDINGS = {"evaluate": ".json", "audit release": ".json", "synth": ".tsv"}


def moved(log: Path, out: Path) -> None:
    log.rename(out)
    log.symlink_to(out)


TAKEN: dict[str, Callable[[Path, Path], object]] = {
    "the log itself": moved,
    "a link to the log": lambda log, out: out.symlink_to(log),
    "the log by another name": lambda log, out: out.hardlink_to(log),
    "a file of somebody's": lambda log, out: write(out, "mine"),
}


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_these_are_all_options_that_name_something_to_write() -> None:
    found = set()
    for name, command in commands(get_command(app)):
        words = name.split()
        known = " ".join(words[:1]) if words[0] in ("release", "tune", "guarantee") else name
        found |= {(known, option) for each in command.params for option in each.opts if option in OUTPUTS}
    assert found == set(WRITING)


OUTPUTS = {"--out", "--rejected", "--dropped", "--ledger", "--picture"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.tsv", aol(ROWS))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    write(folder / "plan.toml", PLAN)
    with qc.read(write(folder / "log.tsv", aol(ROWS)), log_format="aol") as opened:
        return qc.KAnonymity(min_users=2).release(opened).save(folder / "out").folder


@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("option", WRITING, ids=" ".join)
def test_nothing_that_is_there_is_overwritten(
    tmp_path: Path, log: Path, release: Path, option: tuple[str, str], taken: str
) -> None:
    (tmp_path / "tmp").mkdir()
    out = tmp_path / f"out{ENDINGS.get(option[0], '')}"
    before = log.read_bytes()
    TAKEN[taken](log, out)
    held, names = out.read_bytes(), sorted(os.listdir(tmp_path))
    places = {"LOG": str(log), "OUT": str(out), "RELEASE": str(release), "NEW": str(tmp_path / "new")}
    places["PLAN"] = str(release.parent / "plan.toml")
    done = in_process(*(places.get(word, word) for word in WRITING[option]), tmp=tmp_path / "tmp")
    assert done.returncode in (2, 4), done.stderr
    assert (out.read_bytes(), log.read_bytes()) == (held, before)
    assert sorted(os.listdir(tmp_path)) == names


@pytest.mark.parametrize("option", [each for each in WRITING if each[1] != "--ledger"], ids=" ".join)
def test_a_link_that_leads_nowhere_is_not_written_through(
    tmp_path: Path, log: Path, release: Path, option: tuple[str, str]
) -> None:
    (tmp_path / "tmp").mkdir()
    out = tmp_path / f"out{ENDINGS.get(option[0], '')}"
    out.symlink_to(tmp_path / "elsewhere")
    places = {"LOG": str(log), "OUT": str(out), "RELEASE": str(release), "PLAN": str(release.parent / "plan.toml")}
    done = in_process(*(places.get(word, word) for word in WRITING[option]), tmp=tmp_path / "tmp")
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "command",
    [
        "inspect --rejected",
        "release clicks --epsilon 4 --delta 1e-3 --out",
        "split --by user --out",
        "compare --out",
        "reproduce zhang2016 --quick --out OUT --log",
    ],
)
def test_nothing_is_written_into_a_folder_that_is_read_as_a_log(tmp_path: Path, command: str) -> None:
    (tmp_path / "tmp").mkdir()
    (folder := tmp_path / "logs").mkdir()
    write(folder / "log.tsv", aol(ROWS))
    (tmp_path / "link").symlink_to(folder)
    out = tmp_path / "link" / "out"
    words = [str(out) if word == "OUT" else word for word in command.split()]
    done = in_process(*words, *([] if str(out) in words else [out]), folder, tmp=tmp_path / "tmp")
    assert done.returncode == 2
    assert "lies in the folder of a log, and would be read as a part of it" in done.stderr
    assert os.listdir(folder) == ["log.tsv"]
