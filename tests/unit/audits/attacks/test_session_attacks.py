"""Known visits and linkage of sessions, on a log in which everybody's visits are known."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.audits.attack import Finding
from querycloak.audits.attacks.known_visit import KnownVisit
from querycloak.audits.attacks.session_linkage import SessionLinkage, sessions_of
from querycloak.audits.audit_data import AuditData
from querycloak.audits.release_audit import owners_under_seed
from querycloak.engines import Engine
from querycloak.evaluation.target import NO_OWNERS, Target
from querycloak.logs.searchlog import SearchLog, read
from querycloak.privacy.sampling.randomness import Randomness

OPEN = {"min_term_users": 1, "min_group_users": 1, "max_words": 20, "max_digits": 20}


def log_of(users: range, path: Path, engine: Engine) -> SearchLog:
    """Everybody has a visit a day: one search that all have, one of their own, and a word that recurs."""
    rows = [
        {
            "user": f"u{user}", "time": datetime(2024, 1, 1 + day, 9) + timedelta(minutes=place), "query": query,
            "country": "DE" if user % 2 else "FR",
        }
        for user in users
        for day in range(3)
        for place, query in enumerate(("weather", f"own{chr(97 + user % 26)}{user} day{day}"))
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), path)
    return read(path, engine=engine, attributes=["country"])


@pytest.fixture
def knowledge(duckdb_engine: Engine, tmp_path: Path) -> AuditData:
    train = log_of(range(200), tmp_path / "train.parquet", duckdb_engine)
    return AuditData(train, log_of(range(200, 230), tmp_path / "test.parquet", duckdb_engine))


def released(knowledge: AuditData, **numbers: int) -> Target:
    release = qc.EuRecords(preset="dma-2026", **{**OPEN, **numbers}).release(knowledge.train, randomness=Randomness(5))  # type: ignore[arg-type]
    return Target.of(release, "records", owners=owners_under_seed(release, knowledge.train, 5))


def test_a_visit_is_found_by_its_own_search_and_by_nothing_else(knowledge: AuditData) -> None:
    findings: dict[str | None, Finding] = {
        each.setting: each for each in KnownVisit().run(released(knowledge), knowledge)
    }
    assert (findings["m=2"].main, findings["m=2"].control, findings["m=2 right"].main) == (1.0, 0.0, 1.0)
    assert findings["m=2 and attributes right"].main == 1.0
    # One search at random: half of them are the one that everybody has.
    assert 0.3 < (findings["m=1"].main or 0) < 0.7
    assert findings["m=3"].why == "no target fits this setting"
    common = {each.setting: each for each in KnownVisit().run(released(knowledge, min_term_users=150), knowledge)}
    assert (common["m=1"].main, common["m=2"].main) == (0.0, 0.0)


def test_sessions_of_one_person_are_linked_by_a_word_that_recurs(knowledge: AuditData) -> None:
    target = released(knowledge)
    rows = sessions_of(target)
    assert rows.num_rows == 600
    assert set(rows["group"].to_pylist()) == {"DE", "FR"}
    findings = {each.setting: each for each in SessionLinkage().run(target, knowledge)}
    linked = findings["50 users, recall 0.5"]
    assert (linked.main or 0) > 0.9
    assert (linked.control or 1) < 0.1
    nothing = {each.setting: each for each in SessionLinkage().run(released(knowledge, min_term_users=150), knowledge)}
    assert (nothing["words, 50 users, recall 0.85"].main or 1) < 0.1


def test_sessions_are_linked_only_where_there_are_some_and_owners_are_known(knowledge: AuditData) -> None:
    attack = SessionLinkage()
    counts = Target.of(qc.KAnonymity(min_users=2, keys="queries").release(knowledge.train), "counts")
    assert attack.unsupported_reason(counts, knowledge) == "it has no sessions under ids of their own"
    pseudonyms = qc.EuRecords(preset="ddg-2026").release(knowledge.train)
    assert (attack.unsupported_reason(Target.of(pseudonyms, "ddg"), knowledge) or "").startswith("nothing is left")
    records = qc.EuRecords(preset="dma-2026").release(knowledge.train)
    assert attack.unsupported_reason(Target.of(records, "dma"), knowledge) == NO_OWNERS
