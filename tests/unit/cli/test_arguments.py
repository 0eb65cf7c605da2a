"""What is handed to a public function and is of the wrong kind gets a sentence, not an AttributeError."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import querycloak as qc
from querycloak.errors import ParameterError, QuerycloakError
from tests.logs import ROWS, aol, write

# What nobody means: each is tried in the place of every argument.
ODD: dict[str, Any] = {"None": None, "a number": 3, "bytes": b"x", "a list": [None], "a class": object}
NUMBERS = {"int", "int | None", "float | None", "float", "<class 'float'>"}
CALLBACKS = {
    "on_step",
    "on_users",
    "output_filter",
    "last_look",
    "show_names",
    "baselines",
    "truth",
    "follow_links",
    "digest",
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[qc.SearchLog]:
    with qc.read(write(tmp_path_factory.mktemp("log") / "log.tsv", aol(ROWS)), log_format="aol") as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(log: qc.SearchLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qc.KAnonymity(min_users=2).release(log).save(tmp_path_factory.mktemp("release") / "out").folder


def calls(log: qc.SearchLog, folder: Path, new: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Every public function and what would be given to it."""
    source = log.source.files[0].location
    method = qc.KAnonymity(min_users=2)
    return {
        "read": (qc.read, {"logs": source}),
        "release": (method.release, {"log": log}),
        "explain": (qc.Affinity(min_users=2).explain, {"log": log, "query": "x"}),
        "save": (method.release(log).save, {"folder": new, "format": "tsv"}),
        "profile": (qc.profile, {"log": log}),
        "sessions": (log.sessions, {"gap_minutes": 30}),
        "connect": (qc.connect, {}),
        "Ledger": (qc.Ledger, {"path": new}),
        "load": (qc.load, {"folder": folder}),
        "verify": (qc.verify, {"folder": folder}),
        "describe": (qc.describe, {"release": folder}),
        "evaluate": (qc.evaluate, {"train": log, "test": log, "releases": [folder], "tasks": []}),
        "split": (qc.split, {"log": log, "out": new, "by": "user"}),
        "compare": (qc.compare, {"log": log, "out": new, "releases": []}),
        "synthesize": (qc.synthesize, {"out": new / "x.tsv", "users": 1}),
        "find_leaks": (qc.find_leaks, {"folder": folder, "log": log}),
        "audit_method": (qc.audit_method, {"method": method}),
        "audit_release": (qc.audit_release, {"train": log, "releases": [folder], "control": log, "attacks": []}),
        "report": (qc.report, {"release": folder, "out": new}),
        "diff": (qc.diff, {"before": folder, "after": folder}),
        "export": (qc.export, {"release": folder, "as_": "csv", "out": new}),
    }


NAMES = [
    "read", "release", "explain", "save", "profile", "sessions", "connect", "Ledger", "load", "verify", "describe",
    "evaluate", "split", "compare", "synthesize", "find_leaks", "audit_method", "audit_release", "report", "diff",
    "export",
]  # fmt: skip


def test_these_are_all_public_functions(log: qc.SearchLog, folder: Path, tmp_path: Path) -> None:
    functions = {name for name in qc.__all__ if inspect.isfunction(getattr(qc, name))} - {"measures"}
    assert functions <= set(NAMES)
    assert list(calls(log, folder, tmp_path / "new")) == NAMES


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("name", NAMES)
def test_an_argument_of_the_wrong_kind_gets_a_sentence(
    log: qc.SearchLog, folder: Path, tmp_path: Path, name: str, odd: Any
) -> None:
    function, usual = calls(log, folder, tmp_path / "new")[name]
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in CALLBACKS or odd == parameter.default or (odd is None and parameter.default is None):
            continue
        if odd == 3 and str(parameter.annotation) in NUMBERS:
            continue
        with pytest.raises(QuerycloakError):
            function(**{**usual, parameter.name: odd})


def test_the_sentences(log: qc.SearchLog, tmp_path: Path) -> None:
    clicks, text = qc.Clicks(epsilon=1, delta=1e-6), cast("Any", "x")
    opens = "querycloak.read(PATH) opens one"
    either = "a path, a list of paths, or one table of pandas, Polars, Arrow or DuckDB"
    calls: dict[str, Callable[[], Any]] = {
        f"logs must be given, {either}; a path is a text or a pathlib.Path": lambda: qc.read(ODD["None"]),
        f"logs must be {either}, got a value of type int; a path is": lambda: qc.read(ODD["a number"]),
        f"log must be a search log, got a value of type str; {opens}": lambda: clicks.release(text),
        "ledger must be a ledger, got a value of type str; querycloak.Ledger(FILE) opens one": lambda: clicks.release(
            log, ledger=text, population="p"
        ),
        f"log must be a search log, got a value of type int; {opens}": lambda: qc.profile(ODD["a number"]),
        "folder must be given, a path; name the folder of a release": lambda: qc.load(ODD["None"]),
    }
    for said, call in calls.items():
        with pytest.raises(ParameterError) as refusal:
            call()
        assert str(refusal.value).startswith(said)
