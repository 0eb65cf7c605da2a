"""One odd user decides neither exit code nor messages nor files, beyond what cards list as unprotected."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.commands import in_process
from tests.failure_channels import ODD_USERS, Channel, failure_channels

Command = Callable[[Path, Path], Sequence[str]]
SURE = {"time", "sizes"}
"""What is reported, and not held to here: no test fails because a machine is busy or noise is large."""


def release(method: str, *options: str) -> Command:
    return lambda log, out: ["release", method, str(log), "--out", str(out), *options]


RECORDS = (
    *("--columns", "user=AnonID,time=QueryTime,query=Query,rank=ItemRank,url=ClickURL,clicked=ItemRank,country=Query"),
    *("--attributes", "country", "--since", "2006-03-01", "--until", "2006-04-01", "--epsilon", "8", "--delta", "1e-3"),
)
"""The log as a table of results shown, whose attribute holds whatever a user typed."""
COMMANDS: dict[str, Command] = {
    "clicks": release("clicks", "--epsilon", "4", "--delta", "1e-3", "--selection", "gaussian"),
    "rounds": release("clicks", "--epsilon", "8", "--delta", "1e-3", "--selection", "multi-round"),
    "auto": release("clicks", "--epsilon", "8", "--delta", "1e-3", "--max-keys-per-user", "auto"),
    "priors": release(
        "clicks", "--epsilon", "8", "--delta", "1e-3", "--selection", "multi-round", "--priors", "public"
    ),
    "coin": release("clicks", "--epsilon", "8", "--delta", "1e-3", "--selection", "laplace"),
    "no counts": release("clicks", "--epsilon", "8", "--delta", "1e-3", "--counts", "none"),
    "counted clicks": release("clicks", "--epsilon", "8", "--delta", "1e-3", "--count-of", "clicks"),
    "clicks paper": release("clicks", "--noise", "1", "--threshold", "20", "--variant", "paper"),
    "queries": release("queries", "--epsilon", "8", "--delta", "1e-3"),
    "queries by attributes": release(
        "queries", "--by", "country,week", "--domain-of", "country=weather;maps", *RECORDS
    ),
    "cells": release(
        "queries", "--by", "country,week", "--domain-of", "country=weather;maps", "--keyed", "none", *RECORDS
    ),
    "views": release("clicks", "--views", "--by", "country", *RECORDS),
    "sessions": release("sessions", "--epsilon", "8", "--delta", "1e-3"),
    "sessions and queries": release("sessions", "--epsilon", "8", "--delta", "1e-3", "--tables", "queries,sessions"),
    "query-pool": release("query-pool", "--epsilon", "8"),
    "optimal": release("optimal", "--epsilon", "8", "--delta", "1e-3"),
    "semantic": release("semantic", "--epsilon", "8", "--domain", "sport", "--max-queries", "4"),
    "few candidates": release(
        *("semantic", "--epsilon", "8", "--domain", "sport", "--max-queries", "4"),
        *("--candidates", "usual=20", "--delta", "1e-6"),
    ),
    "k-anonymity": release("k-anonymity", "--min-users", "5"),
    "affinity": release("affinity", "--min-users", "5"),
    "generalize": release("generalize", "--min-users", "5"),
}
FAST = ("clicks", "k-anonymity")


def judged(*command: str) -> Command:
    """A command that takes TRAIN, a release of it, and a log of others."""

    def words(log: Path, out: Path) -> Sequence[str]:
        others, released = log.parent / "others.tsv", log.parent / "released"
        if not released.exists():  # of the log without the odd user, which comes first
            others.write_text(log.read_text().replace("\nu", "\nv"))
            assert in_process("release", "k-anonymity", log, "--min-users", "5", "--out", released).returncode == 0
        places = {"LOG": str(log), "OTHERS": str(others), "RELEASED": str(released), "OUT": str(out) + ".json"}
        return [places.get(word, word) for word in command]

    return words


def compared(log: Path, out: Path) -> Sequence[str]:
    plan = log.parent / "plan.toml"
    plan.write_text('[[release]]\nname = "few"\nmethod = "k-anonymity"\noptions = { min-users = 5 }\n')
    return ["compare", str(log), "--releases", str(plan), "--out", str(out), "--quiet"]


PRIVATE: dict[str, Command] = {
    "inspect": lambda log, out: ["inspect", str(log), "--json"],
    "tune": lambda log, out: ["tune", "clicks", str(log), "--epsilon", "8", "--delta", "1e-3", "--json"],
    "split": lambda log, out: ["split", str(log), "--by", "user", "--out", str(out)],
    "split by time": lambda log, out: ["split", str(log), "--by", "time", "--out", str(out)],
    "evaluate": judged("evaluate", "LOG", "OTHERS", "RELEASED", "--task", "completion", "--task", "counts", "--quiet"),
    "audit release": judged(
        "audit", "release", "LOG", "RELEASED", "--control", "OTHERS", "--attack", "singling-out", "--attack", "leaks"
    ),
    "compare": compared,
    "reproduce": lambda log, out: [
        "reproduce",
        "zhang2017",
        "--log",
        str(log),
        "--quick",
        "--out",
        str(out),
        "--quiet",
    ],
}
"""What these print is private; whether they end, and how, should still not hang on one user."""


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return in_process(*words)


def unlisted(found: Sequence[Channel]) -> list[Channel]:
    return [each for each in found if not each.listed and each.what not in SURE]


@pytest.mark.parametrize("command", FAST)
def test_one_odd_user_does_not_decide_what_a_release_shows(command: str, tmp_path: Path) -> None:
    assert unlisted(failure_channels(run, {command: COMMANDS[command]}, tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in FAST])
def test_nor_with_any_other_method(command: str, tmp_path: Path) -> None:
    assert unlisted(failure_channels(run, {command: COMMANDS[command]}, tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", PRIVATE)
def test_nor_do_other_commands_fail_because_of_one_user(command: str, tmp_path: Path) -> None:
    found = failure_channels(run, {command: PRIVATE[command]}, tmp_path)
    assert [each for each in unlisted(found) if each.what == "exit code"] == []


def test_a_command_that_tells_is_found(tmp_path: Path) -> None:
    """A reader that fails on long words, and one that leaves a file behind."""

    def telling(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        longest = max(map(len, Path(words[0]).read_bytes().split()))
        Path(words[1]).mkdir()
        if longest > 60_000:
            (Path(words[1]) / "long.txt").write_text("long")
        return subprocess.CompletedProcess(words, int(longest > 60_000), "", "failed" * (longest > 60_000))

    users = {"words of 64 KiB": ODD_USERS["words of 64 KiB"]}
    found = failure_channels(telling, {"reader": lambda log, out: [str(log), str(out)]}, tmp_path, users)
    assert {each.what for each in found} == {"exit code", "messages", "files"}
    assert not any(each.listed for each in found)


def test_what_both_logs_are_told_excuses_nothing(tmp_path: Path) -> None:
    """That rows are bad may be said of one log and not of the other; a file more is not excused by it."""

    def telling(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        odd = b"odd\t" in Path(words[0]).read_bytes()
        Path(words[1]).mkdir()
        if odd:
            (Path(words[1]) / "odd.txt").write_text("odd")
        return subprocess.CompletedProcess(words, 0, "", "3 of 1,200 rows are bad" * odd)

    users = {"control characters": ODD_USERS["control characters"]}
    found = failure_channels(telling, {"reader": lambda log, out: [str(log), str(out)]}, tmp_path, users)
    assert {each.what: each.listed for each in found} == {"messages": True, "files": False}
