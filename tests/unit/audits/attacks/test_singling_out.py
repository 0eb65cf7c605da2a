"""Singling out on logs small enough to see who fits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.audits.attack import Finding
from querycloak.audits.attacks.singling_out import SinglingOut
from querycloak.audits.audit_data import AuditData, NameIndex
from querycloak.audits.release_audit import k_anonymity, original, pseudonyms
from querycloak.engines import Engine
from querycloak.evaluation.target import MADE_UP, NO_NAMES, NO_OWNERS
from querycloak.releases.row_kinds import RowKind
from tests.unit.audits.toy_logs import counted, knowing, named_rows

TRAIN = {"1": ["a", "b"], "2": ["a", "c"], "3": ["a", "b"], "4": ["d", "e"]}
TEST = {"8": ["a", "b"], "9": ["d", "x"]}


@pytest.fixture
def knowledge(duckdb_engine: Engine, tmp_path: Path) -> AuditData:
    return knowing(duckdb_engine, tmp_path, TRAIN, TEST)


def found(knowledge: AuditData, release: object) -> dict[str | None, Finding]:
    return {each.setting: each for each in SinglingOut().run(release, knowledge)}  # type: ignore[arg-type]


def test_who_fits_by_hand(knowledge: AuditData) -> None:
    rows = found(knowledge, named_rows(TRAIN))
    # First query: a, a, a, d: only user 4 is alone. Of the controls a fits three, d one.
    assert (rows["m=1 first"].main, rows["m=1 first"].control) == (1 / 4, 1 / 2)
    assert rows["m=1 first"].risk == 0
    # Both queries: users 2 and 4 are alone; of the controls ab fits two, dx nobody.
    assert (rows["m=2 first"].main, rows["m=2 first"].control, rows["m=2 first"].risk) == (1 / 2, 0, 1 / 2)
    # x stands nowhere: who leaves it out finds user 4.
    assert (rows["m=2 first released"].main, rows["m=2 first released"].control) == (1 / 2, 1 / 2)
    # The rarest of each: b or a with one other, c, b, d or e: 2 and 4 are alone; of the controls b, x.
    assert (rows["m=1 rare"].main, rows["m=1 rare"].control) == (1 / 2, 0)
    assert rows["m=3 first"].why == "no target fits this setting"


def test_the_right_one_where_somebody_knows(knowledge: AuditData) -> None:
    right = found(knowledge, named_rows(TRAIN))["m=2 first right"]
    assert (right.main, right.control, right.baseline) == (1 / 2, 1 / 4, 1 / 4)
    nobody_knows = found(knowledge, named_rows(TRAIN, owned=False))["m=2 first right"]
    assert (nobody_knows.main, nobody_knows.why) == (None, NO_OWNERS)
    # Names in another order: exactly one still fits, but it is somebody else's.
    mixed = {"1": ["d", "e"], "2": ["a", "b"], "3": ["a", "b"], "4": ["a", "c"]}
    assert found(knowledge, named_rows(mixed))["m=2 first"].main == 1 / 2
    assert found(knowledge, named_rows(mixed))["m=2 first right"].main == 0


def test_the_log_itself_and_what_stands_beside(knowledge: AuditData) -> None:
    for made in (original(knowledge), pseudonyms(knowledge)):
        rows = found(knowledge, made)
        assert (rows["m=2 first"].main, rows["m=2 first"].control) == (1 / 2, 0)
        assert rows["m=2 first right"].main == 1 / 2
    assert not set(TRAIN) & set(pseudonyms(knowledge).owners["name"].to_pylist())  # type: ignore[index]
    assert found(knowledge, k_anonymity(knowledge))["m=1 first"].main == 0  # nothing has five users


def test_an_empty_release_singles_out_nobody(knowledge: AuditData) -> None:
    empty = found(knowledge, named_rows({}))
    assert {each.main for each in empty.values() if each.main is not None} == {0.0}


def test_what_it_cannot_be_run_on(knowledge: AuditData) -> None:
    attack = SinglingOut()
    assert attack.unsupported_reason(counted({"a": 3}), knowledge) == NO_NAMES
    assert attack.unsupported_reason(named_rows(TRAIN, rows=RowKind.MADE_UP), knowledge) == MADE_UP
    assert attack.unsupported_reason(named_rows(TRAIN), knowledge) is None


NAMES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=40)


@given(
    rows=NAMES,
    known=st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2, unique=True), min_size=1),
    data=st.data(),
)
def test_searches_are_those_of_the_slow_way(
    rows: list[tuple[int, int]], known: list[list[int]], data: st.DataObject
) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "user": pa.array([str(u) for u, _ in rows], pa.string()),
            "query": pa.array([str(q) for _, q in rows], pa.string()),
        }
    )
    holders = NameIndex.of([batch], pa.array([str(text) for text in range(6)]))
    held = {text: {u for u, q in rows if q == text} for text in range(6)}
    marked = {u for u in range(7) if data.draw(st.booleans())}
    mark = np.array([int(name) in marked for name in holders.names.to_pylist()], np.bool_)
    table = np.array(known, np.int64)
    strict, lenient = holders.fitting(table), holders.fitting(table, released_only=True)
    some, best = holders.best(table, mark)
    for place, texts in enumerate(known):
        everybody = set.intersection(*(held[text] for text in texts))
        assert strict.number[place] == min(len(everybody), 2)
        if len(everybody) == 1:
            assert holders.names[int(strict.name[place])].as_py() == str(*everybody)
        told = [held[text] for text in texts if held[text]]
        assert lenient.number[place] == min(len(set.intersection(*told)) if told else 0, 2)
        tally = {u: sum(u in held[text] for text in texts) for u in range(7)}
        most = max(tally.values())
        winners = {u for u, number in tally.items() if number == most and most > 0}
        assert (some[place], best[place]) == (len(winners & marked), len(winners))
