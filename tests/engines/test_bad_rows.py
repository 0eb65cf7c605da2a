"""Too many bad rows are refused where somebody asked for that or no guarantee is at stake; else the owner is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from querycloak.engines import Engine
from querycloak.errors import TooManyBadLines
from querycloak.logs.searchlog import read
from querycloak.methods.affinity.method import Affinity
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.generalize.method import Generalize
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.sessions.method import Sessions
from querycloak.methods.unprotected import BAD_ROWS
from tests.commands import in_process
from tests.logs import AOL_HEADER, write

GUARANTEED: list[Method] = [
    Clicks(epsilon=4, delta=1e-3),
    Sessions(epsilon=8, delta=1e-3),
    QueryPool(epsilon=8),
    Optimal(epsilon=8, delta=1e-2, max_keys_per_user=8, linked_per_user=3),
    Optimal(epsilon=2, delta=0.6, variant="paper"),
    Semantic(epsilon=4, domain="sport", max_queries=4),
]
OTHERS: list[Method] = [KAnonymity(min_users=3), Affinity(min_users=3, concept_users=5), Generalize(min_users=3)]
BUDGET = ("--epsilon", "4", "--delta", "1e-3")


def by_name(method: Method) -> str:
    return f"{method.name} {method.variant}"


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 users who ask for the same, and one whose every row is bad: most of the log."""
    fine = [
        f"u{user}\twater polo {asked}\t2006-03-01 12:{asked:02}:00\t1\thttp://{asked}.example/"
        for user in range(40)
        for asked in range(8)
    ]
    bad = ["vandal\twater polo\t2006-02-30 12:00:00\t1\thttp://a.example/"] * 2_000
    return write(tmp_path_factory.mktemp("bad") / "log.tsv", "\n".join([AOL_HEADER, *fine, *bad]) + "\n")


def test_these_are_all_kinds_of_guarantees() -> None:
    assert {method.proven().kind for method in GUARANTEED} == {"pure-dp", "approximate-dp", "sampling-only"}
    assert {method.proven().kind for method in OTHERS} == {"syntactic"}


@pytest.mark.parametrize("method", GUARANTEED, ids=by_name)
def test_one_user_cannot_stop_a_release_that_has_a_guarantee(
    duckdb_engine: Engine, log_file: Path, method: Method
) -> None:
    released = method.release(read(log_file, engine=duckdb_engine))
    assert str(released.remarks[0]) == (
        "2,000 of 2,320 rows are bad (86.2%; most of them L102, unreadable time): times must be written as 2006-03-01 "
        "07:17:12, ISO 8601, 01.03.2006 07:17 (dots: day first), 2006/03/01 07:17 (with AM or PM, an offset, or a zone "
        "such as UTC, CET, EST), a date alone (midnight), or seconds, milli- or microseconds since 1970; look at "
        "them with log.write_rejected(FILE)"
    )
    assert BAD_ROWS not in released.proven.unprotected
    # The accounts that force a text out are stated for the setting that was chosen, so the list may differ.
    assert replace(released.proven, unprotected=()) == replace(method.proven(), unprotected=())
    assert len(released.proven.unprotected) == len(method.proven().unprotected)
    assert released.log["max_bad"] is None


@pytest.mark.parametrize("method", GUARANTEED, ids=by_name)
def test_whoever_asks_for_a_refusal_gets_it(duckdb_engine: Engine, log_file: Path, method: Method) -> None:
    with pytest.raises(TooManyBadLines, match="2,000 of 2,320 rows are bad"):
        method.release(read(log_file, max_bad=0.05, engine=duckdb_engine))


@pytest.mark.parametrize("method", [*GUARANTEED, *OTHERS], ids=by_name)
def test_a_refusal_that_did_not_happen_is_on_the_card(duckdb_engine: Engine, log_file: Path, method: Method) -> None:
    released = method.release(read(log_file, max_bad=0.9, engine=duckdb_engine))
    assert released.proven.unprotected.count(BAD_ROWS) == 1
    assert released.log["max_bad"] == 0.9


@pytest.mark.parametrize("method", OTHERS, ids=by_name)
def test_without_a_guarantee_too_many_bad_rows_are_refused_and_every_card_says_so(
    duckdb_engine: Engine, log_file: Path, method: Method
) -> None:
    with pytest.raises(TooManyBadLines, match=r"at most 5.0% may be"):
        method.release(read(log_file, engine=duckdb_engine))
    assert BAD_ROWS in method.proven().unprotected


def test_the_owner_alone_is_told(tmp_path: Path, log_file: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = in_process("release", "clicks", log_file, *BUDGET, "--out", tmp_path / "out", tmp=tmp_path / "tmp")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("querycloak: private, not for publication: 2,000 of 2,320 rows are bad (86.2%; ")
    assert "since 1970; look at them with querycloak inspect LOG --rejected FILE" in done.stderr
    assert "2,000" not in done.stdout
    written = "".join(path.read_text() for path in (tmp_path / "out").iterdir() if path.suffix in (".json", ".md"))
    assert "2,000" not in written
    asked = ("--max-bad", "0.05", "--out", tmp_path / "second")
    refused = in_process("release", "clicks", log_file, *BUDGET, *asked, tmp=tmp_path / "tmp")
    assert refused.returncode == 2
    assert "or allow more with --max-bad" in refused.stderr
    allowed = ("--max-bad", "0.9", "--out", tmp_path / "third", "--json")
    card = json.loads(in_process("release", "clicks", log_file, *BUDGET, *allowed, tmp=tmp_path / "tmp").stdout)
    assert card["log"]["max_bad"] == 0.9
    assert BAD_ROWS in card["proven"]["unprotected"]
    assert BAD_ROWS in (tmp_path / "third" / "README.md").read_text()
