"""Linkage of records and of periods: slow ways as oracles, and logs in which everybody or nobody can be linked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from querycloak.audits.attack import Finding
from querycloak.audits.attacks.period_linkage import NO_PERIOD, PeriodLinkage, _ranks
from querycloak.audits.attacks.record_linkage import (
    RecordLinkage,
    Records,
    _precision,
    alike,
    different_users,
    features,
    same_user,
)
from querycloak.audits.audit_data import AuditData
from querycloak.audits.release_audit import original, pseudonyms
from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.evaluation.target import MADE_UP, NO_OWNERS
from querycloak.releases.row_kinds import RowKind
from tests.unit.audits.toy_logs import a_log, counted, knowing, named_rows

# Everybody has words of their own; or everybody asks the same.
OWN = {f"u{i:03}": [f"word{i} more{i}", f"word{i} less{i}", f"word{i}"] for i in range(240)}
SAME = {f"u{i:03}": ["weather", "news today", "maps"] for i in range(240)}
OTHERS = {f"v{i}": ["weather", "maps"] for i in range(4)}


def records(random: np.random.Generator) -> Records:
    users = [f"u{number}" for number in random.integers(0, 5, 60)]
    queries = [" ".join(f"w{word}" for word in random.integers(0, 9, 3)) for _ in users]
    urls = [None if number == 0 else f"http://site{number}.example/page" for number in random.integers(0, 4, 60)]
    times = pa.array(random.integers(0, 10**6, 60), pa.timestamp("s"))
    return Records.of(pa.table({"user": users, "query": queries, "url": urls, "time": times}), 1_000, random)


def test_features_are_those_of_the_slow_way() -> None:
    random = np.random.default_rng(1)
    found = records(random)
    one, other = random.integers(0, len(found), (2, 200))
    words = [set(found.word[found.starts[i] : found.starts[i + 1]].tolist()) for i in range(len(found))]
    heavy = {word: math.log1p(len(found) / sum(word in each for each in words)) for word in set().union(*words)}
    for a, b, seen in zip(one.tolist(), other.tolist(), features(found, one, other), strict=True):
        shared = words[a] & words[b]
        norm = math.sqrt(sum(heavy[w] ** 2 for w in words[a]) * sum(heavy[w] ** 2 for w in words[b]))
        assert seen[0] == len(shared)
        assert seen[1] == pytest.approx(sum(heavy[w] for w in shared))
        assert seen[2] == pytest.approx(max((heavy[w] for w in shared), default=0))
        assert seen[3] == pytest.approx(sum(heavy[w] ** 2 for w in shared) / norm)
        assert seen[4] == (found.query[a] == found.query[b])
        clicked = [found.host[i] >= 0 for i in (a, b)]
        assert seen[9] == (float(found.host[a] == found.host[b]) if all(clicked) else -1)
        assert seen[10] == pytest.approx(math.log1p(abs(int(found.time[a]) - int(found.time[b])) / 1e6))


def test_pairs_are_what_they_are_called() -> None:
    random = np.random.default_rng(2)
    found = records(random)
    one, other = same_user(found, 500, random)
    assert (found.user[one] == found.user[other]).all()
    assert (one != other).all()
    for pairs in (different_users(found, 500, random), alike(found, 500, random)):
        assert len(pairs[0]) > 100
        assert (found.user[pairs[0]] != found.user[pairs[1]]).all()
    ends = np.array([len(found) // 2, len(found)])
    one, other = different_users(found, 500, random, ends)
    assert ((one < ends[0]) == (other < ends[0])).all()


def test_every_pair_of_one_user_is_as_likely() -> None:
    random = np.random.default_rng(3)
    table = pa.table({"user": ["a"] * 3 + ["b"] * 2, "query": list("vwxyz")})
    found = Records.of(table, 10, random)
    one, other = same_user(found, 80_000, random)
    _, number = np.unique(np.minimum(one, other) * 5 + np.maximum(one, other), return_counts=True)
    assert len(number) == 4
    assert np.abs(number / 20_000 - 1).max() < 0.05


def test_precision_by_hand() -> None:
    # Half of the true pairs score above .5, one in four of the others: .1 * .5 / (.1 * .5 + .9 * .25).
    found = _precision(np.array([0.9, 0.8, 0.1, 0.2]), np.array([0.95, 0.1, 0.1, 0.1]), 0.5, 0.1)
    assert found.value == pytest.approx(0.05 / (0.05 + 0.225))


def linked(knowledge: AuditData, release: object) -> dict[str | None, Finding]:
    return {each.setting: each for each in RecordLinkage().run(release, knowledge)}  # type: ignore[arg-type]


def test_words_of_ones_own_link_records(duckdb_engine: Engine, tmp_path: Path) -> None:
    knowledge = knowing(duckdb_engine, tmp_path, OWN, OTHERS)
    rows = linked(knowledge, original(knowledge))
    # Fifty users of three records: 50 * 6 pairs of one user among 150 * 149.
    assert rows["no times, 50 users, recall 0.85"].baseline == pytest.approx(300 / (150 * 149), rel=0.05)
    for times in ("times", "days", "no times"):
        assert (rows[f"{times}, 50 users, recall 0.85"].main or 0) > 0.95
    assert set(linked(knowledge, named_rows(OWN))) == {
        f"{among}, recall {recall}" for among in ("50 users", "all users") for recall in (0.85, 0.5, 0.1)
    }


def test_records_that_are_all_alike_cannot_be_linked(duckdb_engine: Engine, tmp_path: Path) -> None:
    knowledge = knowing(duckdb_engine, tmp_path, SAME, OTHERS)
    found = linked(knowledge, named_rows(SAME))["50 users, recall 0.85"]
    assert (found.risk or 0) < 0.05


def test_what_records_it_needs(duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knowledge = knowing(duckdb_engine, tmp_path, {"1": ["a"]}, OTHERS)
    attack = RecordLinkage()
    assert (
        attack.unsupported_reason(counted({"a": 1}), knowledge)
        == "its tables hold counts, and no records that could be linked"
    )
    assert attack.unsupported_reason(named_rows(OWN, rows=RowKind.MADE_UP), knowledge) == MADE_UP
    (few,) = attack.run(named_rows({"1": ["a", "b"]}), knowledge)
    assert "fewer than 100 names" in (few.why or "")
    monkeypatch.setattr("querycloak.audits.attacks.record_linkage.find_spec", lambda name: None)
    assert "install 'querycloak[audit]'" in (attack.unsupported_reason(named_rows(OWN), knowledge) or "")


def test_ranks_are_those_of_the_slow_way() -> None:
    random = np.random.default_rng(4)
    known, released = (np.round(random.random((30, 6)) * (random.random((30, 6)) < 0.5), 1) for _ in range(2))
    above, equal = _ranks(sp.csr_matrix(known), sp.csr_matrix(released))
    likeness = known @ released.T
    for person in range(30):
        close = np.isclose(likeness[person], likeness[person, person], rtol=1e-9, atol=1e-12)
        assert equal[person] == close.sum()
        assert above[person] == ((likeness[person] > likeness[person, person]) & ~close).sum()


def test_people_are_found_again_by_what_they_ask(duckdb_engine: Engine, tmp_path: Path) -> None:
    earlier = {user: [f"{queries[0]} again"] for user, queries in OWN.items()}
    knowledge = knowing(
        duckdb_engine, tmp_path, OWN, OTHERS, other_period=a_log(duckdb_engine, tmp_path, "other", earlier)
    )
    attack = PeriodLinkage()
    by_name = {each.setting: each for each in attack.run(original(knowledge), knowledge)}
    assert by_name["top 1 of 240, same names"].main == 1
    by_profile = {each.setting: each for each in attack.run(pseudonyms(knowledge), knowledge)}
    assert by_profile["top 1 of 240"].main == 1
    assert by_profile["top 1 of 240"].baseline == by_profile["top 1 of 240"].control == 1 / 240
    # Where all rows are the same, the right one is one of 240.
    alike_rows = {each.setting: each for each in attack.run(named_rows({key: ["weather"] for key in OWN}), knowledge)}
    assert alike_rows["top 1 of 240"].main == pytest.approx(1 / 240)
    assert alike_rows["top 10 of 240"].main == pytest.approx(10 / 240)
    assert (alike_rows["top 1 of 240"].why or "").startswith("invalid")


def test_what_periods_it_needs(duckdb_engine: Engine, tmp_path: Path) -> None:
    attack = PeriodLinkage()
    assert attack.unsupported_reason(named_rows(OWN), knowing(duckdb_engine, tmp_path, OWN, OTHERS)) == NO_PERIOD
    strangers = a_log(duckdb_engine, tmp_path, "other", {"nobody": ["a"]})
    knowledge = knowing(duckdb_engine, tmp_path, OWN, OTHERS, other_period=strangers)
    assert attack.unsupported_reason(named_rows(OWN, owned=False), knowledge) == NO_OWNERS
    with pytest.raises(InputError, match="the other period shares no user with TRAIN"):
        list(attack.run(named_rows(OWN), knowledge))
