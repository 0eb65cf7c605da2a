"""The contract finds what it looks for: methods that each break one rule, and one that breaks none."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from querycloak import contract
from querycloak.contract.trial import RARE_QUERY, RARE_URL, SECRETS, USERS, user_name
from querycloak.engines import Engine, connect
from querycloak.errors import CheckFailed, QuerycloakError
from querycloak.logs.searchlog import read
from querycloak.methods.method import Method
from querycloak.methods.semantic.method import Semantic
from tests.logs import write
from tests.unit.contract import broken_methods as broken

BROKEN: dict[type[Method], tuple[str, str]] = {
    broken.CanBeChanged: ("is_a_frozen_value", "a method must be frozen, but variant can be changed"),
    broken.IsNoValue: ("is_a_frozen_value", "a copy of a method must be equal to it"),
    broken.HasABadName: (
        "says_what_it_is",
        "name must be words of small letters joined by hyphens, got",
    ),
    broken.HasNoSummary: ("says_what_it_is", "summary must be one line"),
    broken.HasNoHelp: ("says_what_it_is", "option depth must have help"),
    broken.HasATuple: (
        "promises_by_its_parameters_alone",
        "parameters must be the same after they were written",
    ),
    broken.HasAnObject: ("promises_by_its_parameters_alone", "parameters must be a mapping of plain values"),
    broken.PromisesByTheLog: ("promises_by_its_parameters_alone", "it is different after a release"),
    broken.ReleasesNothing: ("releases_what_it_declares", "nothing came out of the log, so nothing was checked"),
    broken.IsUnsorted: ("releases_what_it_declares", "rows of queries must stand by count, the highest first"),
    broken.SpeaksOfOtherTables: (
        "releases_what_it_declares",
        "must speak of tables that are released, and",
    ),
    broken.CostsNothing: ("reads_nothing_if_it_is_refused", "must be refused before the log is read"),
    broken.DrawsElsewhere: ("draws_from_the_seed_alone", "the same seed must give the same tables"),
    broken.TakesTheFirstRow: ("does_not_depend_on_the_order_of_rows", "the order of the log's rows must not matter"),
    broken.AsksTheEngine: ("is_the_same_on_another_engine", "duckdb must give the same tables as duckdb; queries diff"),
    broken.NamesAUser: ("tells_nothing_outside_its_tables", "a user's name of the log stands in queries.parquet"),
    broken.WritesARareQueryOnTheCard: (
        "tells_nothing_outside_its_tables",
        "a rare query or url of the log stands in",
    ),
    broken.FailsElsewhere: ("stays_charged_if_it_is_killed", "it ended with 1 before it was charged"),
}


@pytest.fixture(scope="module")
def second_engine() -> Iterator[Engine]:
    engine = connect("duckdb", threads=1)
    yield engine
    engine.close()


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_what_is_broken_is_found(kind: type[Method], duckdb_engine: Engine, second_engine: Engine) -> None:
    rule, message = BROKEN[kind]
    trial = contract.Trial(kind(), engine=duckdb_engine, also_on=second_engine)
    with trial, pytest.raises(QuerycloakError, match=message):
        contract.RULES[rule](trial)


def test_a_sound_method_breaks_nothing(duckdb_engine: Engine, second_engine: Engine) -> None:
    contract.check(broken.Sound(), engine=duckdb_engine, also_on=second_engine)


def test_all_that_is_broken_is_said_at_once(duckdb_engine: Engine) -> None:
    with pytest.raises(CheckFailed) as raised:
        contract.check(broken.HasABadName(), engine=duckdb_engine)
    assert str(raised.value).startswith("Sound Method breaks the contract of methods. says_what_it_is: name must be")
    with pytest.raises(CheckFailed, match="releases: random numbers must be drawn after the release is paid; this rel"):
        contract.check(broken.Explodes(), engine=duckdb_engine)
    with pytest.raises(CheckFailed, match="releases: epsilon was settled before the draw, which must not change it"):
        contract.check(broken.ChangesItsCard(), engine=duckdb_engine)


@pytest.mark.parametrize(
    ("changed", "rule", "message"),
    [
        ({"charges_at_first_draw": 0}, "pays_before_it_draws", "one charge must be in the ledger at the first draw"),
        ({"described_before": {"proven": 1}}, "promises_by_its_parameters_alone", "must not depend on the log"),
    ],
)
def test_what_no_method_can_do_would_be_found(
    changed: dict[str, object], rule: str, message: str, duckdb_engine: Engine
) -> None:
    """The order of a release is final, so that the outcome is changed here."""
    with contract.Trial(broken.Sound(), engine=duckdb_engine) as trial:
        contract.RULES[rule](trial)
        trial.__dict__["outcome"] = dataclasses.replace(trial.outcome, **changed)  # type: ignore[arg-type]
        with pytest.raises(CheckFailed, match=message):
            contract.RULES[rule](trial)


@pytest.mark.parametrize("key", ["variant", "proven", "epsilon"])
def test_a_card_that_says_something_else_is_found(key: str, duckdb_engine: Engine) -> None:
    with contract.Trial(broken.Sound(), engine=duckdb_engine) as trial:
        described = trial.outcome.described_before
        changed = {**described, key: "other", "parameters": described["parameters"] | {key: 7}}
        trial.__dict__["outcome"] = dataclasses.replace(trial.outcome, described_before=changed)
        with pytest.raises(CheckFailed, match=rf"the card's (parameter )?{key} must be what describe\(\) says"):
            contract.RULES["writes_a_card_of_what_it_promised"](trial)


def test_every_rule_is_shown_to_find_something() -> None:
    shown = {rule for rule, _ in BROKEN.values()}
    assert set(contract.RULES) - shown == {"writes_a_card_of_what_it_promised", "pays_before_it_draws"}


def test_a_class_that_nobody_can_import_says_so(duckdb_engine: Engine) -> None:
    class Local(broken.Sound):
        """Lives in this test."""

    with contract.Trial(Local(), engine=duckdb_engine) as trial, pytest.raises(CheckFailed, match="can be imported"):
        contract.RULES["stays_charged_if_it_is_killed"](trial)


def test_a_guarantee_for_queries_is_tried_without_a_ledger(duckdb_engine: Engine) -> None:
    with contract.Trial(Semantic(epsilon=4, domain="sport", budget_per="query"), engine=duckdb_engine) as trial:
        assert not trial.is_charged
        for rule in contract.RULES.values():
            rule(trial)
        assert trial.outcome.account is None


def test_a_log_of_ones_own(duckdb_engine: Engine) -> None:
    class Asked(broken.Sound):
        """What stands in the log."""

        def queries(self, log: object) -> list[tuple[str, int]]:
            rows = read_rows(log)
            return [(query, rows.count(query)) for query in sorted(set(rows))]

    def read_rows(log: object) -> list[str]:
        return [str(query) for query in log.engine.fetch(log.rows)["query"].to_pylist()]  # type: ignore[attr-defined]

    rows = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n7\tzebra\t2006-03-01 10:00:00\t\t\n8\taardvark\t2006-03-01 10:00:00\t\t\n"  # noqa: E501
    with contract.Trial(Asked(), log=rows, engine=duckdb_engine) as trial:
        for name in ("releases_what_it_declares", "does_not_depend_on_the_order_of_rows"):
            contract.RULES[name](trial)
        assert set(trial.outcome.release.table("queries")["query"].to_pylist()) == {"zebra", "aardvark"}


def test_nothing_is_left_behind(duckdb_engine: Engine) -> None:
    with contract.Trial(broken.Sound()) as trial:
        contract.RULES["releases_what_it_declares"](trial)
        folder = trial.folder
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_the_small_log(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", contract.small_log()), engine=duckdb_engine)
    assert log.checked().rejected == {}
    rows = duckdb_engine.fetch(log.rows).to_pylist()
    assert len({row["user"] for row in rows}) == USERS == len(set(map(user_name, range(USERS))))
    assert sum(row["query"] == RARE_QUERY for row in rows) == sum(row["url"] == RARE_URL for row in rows) == 1
    assert {RARE_QUERY, RARE_URL} < set(SECRETS)
    lines, other = (contract.small_log(reversed_rows=turned).splitlines() for turned in (False, True))
    assert sorted(lines) == sorted(other)
    assert lines[0] == other[0]
    assert lines != other


def test_it_needs_no_pytest() -> None:
    code = "import sys; import querycloak.contract; sys.exit('pytest' in sys.modules or 'hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
