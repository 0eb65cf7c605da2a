"""Membership: everybody is found in counts without noise, hardly anybody where a promise is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querycloak.audits.attack import Finding
from querycloak.audits.attacks import key_counts
from querycloak.audits.attacks.membership import NOT_HIDDEN, OTHER_TEXTS, Evidence, Membership, independent_draws
from querycloak.audits.audit_data import AuditData
from querycloak.engines import Engine
from querycloak.evaluation.target import Target
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.phrases.method import Phrases
from querycloak.methods.queries.method import Queries
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.explanation import caught_at_most
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import whole_table
from tests.unit.audits.toy_logs import FALSE_PROMISE, asked_at_random, counted, knowing, named_rows, write_log

PEOPLE, KEYS = 3_000, 40


def asked(first: int, people: int) -> dict[str, list[str]]:
    return asked_at_random(first, people, KEYS)


@pytest.fixture(scope="module")
def knowledge(duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> AuditData:
    return knowing(duckdb_engine, tmp_path_factory.mktemp("logs"), asked(0, PEOPLE), asked(PEOPLE, PEOPLE))


def found(knowledge: AuditData, release: Target) -> dict[str | None, Finding]:
    return {each.setting: each for each in Membership().run(release, knowledge)}


def true_counts() -> dict[str, int]:
    everything = [query for queries in asked(0, PEOPLE).values() for query in queries]
    return {query: everything.count(query) for query in sorted(set(everything))}


def test_counts_without_noise_tell_everybody(knowledge: AuditData) -> None:
    rows = found(knowledge, counted(true_counts()))
    assert rows["area under the curve"].main == 1
    assert rows["FPR 0.01"].main == 1
    bound = rows["FPR 0.01, most by what is proven"].main
    assert bound == caught_at_most(0.01, 1.0, 1e-6) == pytest.approx(0.0272, abs=1e-4)
    # A guarantee that is not kept is an alarm; a rule that promises nothing about people is none.
    assert rows["FPR 0.01"].alarm == ("membership: more members are found by counts at FPR 0.01 than is proven")
    rule = Guarantee(kind="syntactic", unit="user", neighbours=None, k=5, because="five users ask it")
    unpromised = found(knowledge, counted(true_counts(), rule))
    assert unpromised["FPR 0.01"].main == 1
    assert not [each for each in unpromised.values() if each.alarm]
    assert "FPR 0.01, most by what is proven" not in unpromised


def test_rows_under_names_tell_everybody(knowledge: AuditData) -> None:
    assert found(knowledge, named_rows(asked(0, PEOPLE)))["area under the curve"].main == 1


def test_rows_that_are_left_out_hide_nobody_in_the_others(
    duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A rule leaves most queries out, as one user's own; those that it shows have exact counts all the same."""
    shown = [
        {user: queries[: 1 + number % 3] for number, (user, queries) in enumerate(asked(first, 300).items())}
        for first in (0, 300)
    ]
    train = {user: [*queries, *(f"{user} {i}" for i in range(5))] for user, queries in shown[0].items()}
    known = knowing(duckdb_engine, tmp_path_factory.mktemp("logs"), train, shown[1])
    assert found(known, named_rows(shown[0]))["area under the curve"].main == 1


@pytest.mark.parametrize(
    "method",
    [
        Clicks(epsilon=1, delta=1e-6, max_keys_per_user=1, selection="laplace"),
        Clicks(epsilon=1, delta=1e-6, max_keys_per_user=3, selection="gaussian"),
        Clicks(epsilon=3, delta=1e-6, selection="multi-round"),
        Sessions(epsilon=3, delta=1e-6),
    ],
    ids=lambda method: f"{method.name}-{method.parameters()['selection']}",
)
def test_promises_are_kept(knowledge: AuditData, method: Clicks | Sessions) -> None:
    release = Target.of(method.release(knowledge.train), "release")
    rows = found(knowledge, release)
    assert not [each.alarm for each in rows.values() if each.alarm]
    # On average no test exceeds 1 - 1 / (1 + e^epsilon), .731 and .953; forty draws of noise vary.
    allowed = 1 - 1 / (1 + np.exp(method.proven().epsilon or 0.0))
    assert 0.4 < (rows["area under the curve"].main or 0) < max(0.9, allowed + 0.02)


def test_the_attack_comes_close_to_what_is_allowed(knowledge: AuditData) -> None:
    """One key of each user, Laplace noise: no test can have a larger area than 1 - 1 / (1 + e), .731, on average."""
    method = Clicks(epsilon=1, delta=1e-6, max_keys_per_user=1, selection="laplace")
    tries = [found(knowledge, Target.of(method.release(knowledge.train), "release")) for _ in range(8)]
    area = np.mean([rows["area under the curve"].main or 0 for rows in tries])
    assert 0.62 < area < 0.80  # forty draws of noise, eight times


def test_bounds_are_told_by_the_counts_that_obey_them(knowledge: AuditData) -> None:
    """Counts of each user's first key alone: with the card's bound they are exact, so everybody is found."""
    first = [queries[0] for queries in asked(0, PEOPLE).values()]
    counts = {query: first.count(query) for query in sorted(set(first))}
    told = counted(counts)
    bounded = Target(**{**vars(told), "parameters": {"queries_per_user": 1}})
    assert found(knowledge, bounded)["area under the curve"].main == 1
    assert (found(knowledge, told)["area under the curve"].main or 1) < 0.9


def test_one_draw_of_noise_is_no_alarm(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Everybody asks one query and its noise happens to be 0: all are told apart, but by a single draw."""
    one = {f"u{i}": ["weather"] for i in range(300)}
    other = {f"v{i}": ["weather"] for i in range(300)}
    rows = found(knowing(duckdb_engine, tmp_path, one, other), counted({"weather": 300}))
    assert rows["FPR 0.01"].main == 1
    assert not [each for each in rows.values() if each.alarm]


def test_how_many_draws_decide() -> None:
    one = np.ones(4)
    everybody_shares = Evidence(np.arange(4), np.zeros(4, np.int64), one)
    assert independent_draws(4, [everybody_shares]) == pytest.approx(1)
    nobody_shares = Evidence(np.arange(4), np.arange(4), one)
    assert independent_draws(4, [nobody_shares]) == pytest.approx(4)
    assert independent_draws(4, [Evidence(np.arange(4), np.array([0, 0, 1, 1]), one)]) == pytest.approx(2)
    # Everybody has the same two keys: two draws.
    both = Evidence(np.repeat(np.arange(4), 2), np.tile(np.arange(2), 4), np.ones(8))
    assert independent_draws(4, [both]) == pytest.approx(2)
    # A strong key of one's own beside a weak one that all share: nearly four.
    assert independent_draws(4, [everybody_shares, nobody_shares._replace(strength=30 * one)]) > 3.9
    assert independent_draws(4, []) == pytest.approx(4)


def test_people_without_a_published_key_are_no_draws() -> None:
    """Of 10,000 people 800 hold one of 40 keys: the share that is found varies as if there were 500 draws."""
    draw = np.random.default_rng(3)
    people, key = 10_000, np.repeat(np.arange(40), 20)
    evidence = Evidence(np.arange(len(key)), key, np.ones(len(key)))
    draws = independent_draws(people, [evidence])
    assert draws == pytest.approx(people * 800 / (40 * 20**2))
    found = (draw.random((20_000, 40)) < 0.1)[:, key].sum(axis=1) / people
    share = found.mean()
    assert found.var() == pytest.approx(share * (1 - share) / draws, rel=0.15)


def test_what_it_cannot_be_run_on(duckdb_engine: Engine, knowledge: AuditData, tmp_path: Path) -> None:
    attack = Membership()
    replaced = Guarantee(
        kind="pure-dp", unit="user", neighbours="replace-query", epsilon=1.0, because="exponential mechanism"
    )
    assert attack.unsupported_reason(counted({}, replaced), knowledge) == NOT_HIDDEN
    assert attack.unsupported_reason(named_rows({}, rows=RowKind.GENERALISED), knowledge) == OTHER_TEXTS
    few = knowing(duckdb_engine, tmp_path, {"1": ["a"]}, {"2": ["a"], "3": ["b"]})
    assert "fewer than four people" in (attack.unsupported_reason(counted({"a": 1}), few) or "")


def test_an_empty_release_tells_nothing(knowledge: AuditData) -> None:
    rows = found(knowledge, counted({}, FALSE_PROMISE))
    assert (rows["area under the curve"].main or 0) == pytest.approx(0.5, abs=0.05)
    assert not [each for each in rows.values() if each.alarm]


def test_several_releases_are_judged_together(knowledge: AuditData) -> None:
    method = Clicks(epsilon=1, delta=1e-6, max_keys_per_user=1, selection="laplace")
    releases = [Target.of(method.release(knowledge.train), f"release-{number}") for number in range(3)]
    attack = Membership()
    alone = [{each.setting: each for each in attack.run(release, knowledge)} for release in releases]
    together = {each.setting: each for each in attack.run_on_several(releases, knowledge)}
    for setting in ("area under the curve", "FPR 0.01"):
        values = [rows[setting].main or 0.0 for rows in alone]
        assert together[setting].main == pytest.approx(np.mean(values), abs=0.05)  # thresholds are each other's
        assert together[setting].targets == sum(rows[setting].targets or 0 for rows in alone)
    assert together["FPR 0.01, most by what is proven"] == alone[0]["FPR 0.01, most by what is proven"]
    assert not [each.alarm for each in together.values() if each.alarm]


@pytest.mark.slow
def test_a_promise_that_no_single_release_refutes(duckdb_engine: Engine, tmp_path: Path) -> None:
    """One key, and noise that happens to be 0: once it shows nothing, sixty times in a row it does."""
    one = {f"u{i}": ["weather"] for i in range(300)}
    other = {f"v{i}": ["weather"] for i in range(300)}
    known = knowing(duckdb_engine, tmp_path, one, other)
    releases = [counted({"weather": 300}) for _ in range(60)]
    attack = Membership()
    assert not [row.alarm for release in releases for row in attack.run(release, known) if row.alarm]
    alarms = [row.alarm for row in attack.run_on_several(releases, known) if row.alarm]
    assert alarms[0].startswith("membership: more members are found by counts and 59 like it at FPR ")


@pytest.mark.slow
def test_pooling_raises_no_false_alarm(duckdb_engine: Engine, tmp_path: Path) -> None:
    """One key under Laplace noise that keeps its promise, sixty times: each draw tells everybody or nobody."""
    one = {f"u{i}": ["weather"] for i in range(300)}
    other = {f"v{i}": ["weather"] for i in range(300)}
    known = knowing(duckdb_engine, tmp_path, one, other)
    noise = Randomness(seed=7).noise(Laplace(1), 60)
    releases = [counted({"weather": 300 + int(each)}) for each in noise]
    rows = {row.setting: row for row in Membership().run_on_several(releases, known)}
    assert not [row.alarm for row in rows.values() if row.alarm]
    # A member scores high if the noise is 0 or more (.731), somebody else if it is 1 or more (.269).
    assert rows["area under the curve"].main == pytest.approx(0.731, abs=0.06)
    assert rows["FPR 0.01"].main == pytest.approx(0.027, abs=0.02)  # the most that is allowed


def test_phrases_are_attacked_level_by_level(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Two words a query: words, pairs and marks are counted; with hardly any noise everybody is found."""
    sides = [
        {user: [f"{query} page" for query in queries] for user, queries in asked(first, 300).items()}
        for first in (0, 300)
    ]
    mine = knowing(duckdb_engine, tmp_path, *sides)
    exact = Phrases(noise=0.01, threshold=1, max_keys_per_user=500).release(mine.train, randomness=Randomness(seed=1))
    assert found(mine, Target.of(exact, "exact"))["area under the curve"].main == pytest.approx(1, abs=0.01)
    noisy = Phrases(epsilon=1, delta=1e-3).release(mine.train, randomness=Randomness(seed=1))
    rows = found(mine, Target.of(noisy, "noisy"))
    assert not [each for each in rows.values() if each.alarm]


def with_countries(engine: Engine, place: Path, people: dict[str, list[str]]) -> SearchLog:
    """A log in which results are shown to everybody, and people are in one of three countries."""
    table = pq.read_table(write_log(place, people))
    number = np.array([int(user[1:]) for user in table["user"].to_pylist()])
    table = table.append_column("country", pa.array(["de", "fr", "it"]).take(pa.array(number % 3)))
    table = table.append_column("clicked", pa.array(number % 2 == 0))
    pq.write_table(table, place)
    return read(place, engine=engine, attributes=("country",))


@pytest.mark.parametrize(
    "method",
    [
        Queries(epsilon=4, delta=1e-3, by="country", domain_of="country=de;fr;it", cells_per_user=3),
        Queries(epsilon=4, delta=1e-3, by="country"),
        Clicks(epsilon=20, delta=1e-3, by="country", views=True),
        Phrases(epsilon=12, delta=1e-3, by="country", domain_of="country=de;fr;it", cells_per_user=6),
    ],
    ids=["public", "private", "views", "phrases"],
)
def test_cells_tell_of_members_no_more_than_is_proven(
    duckdb_engine: Engine, tmp_path: Path, method: Queries | Clicks | Phrases
) -> None:
    sides = [with_countries(duckdb_engine, tmp_path / f"{first}.parquet", asked(first, 600)) for first in (0, 600)]
    knowledge = AuditData(sides[0], sides[1])
    release = Target.of(method.release(sides[0], randomness=Randomness(seed=1)), "cells")
    (tested,) = key_counts.key_counts(release, knowledge)
    assert len(tested.published) > len(release.table(release.kinds[0]))  # cells, not keys
    assert np.abs(tested.published - tested.true).mean() < 15
    rows = found(knowledge, release)
    assert not [each for each in rows.values() if each.alarm]
    # The same table without noise gives everybody away.
    kind = release.kinds[0]
    exact = replace(release, cells={kind: _without_noise(release, kind, tested)})
    assert (found(knowledge, exact)["FPR 0.01"].main or 0) > 0.5


def test_phrases_by_private_values_are_attacked_level_by_level(duckdb_engine: Engine, tmp_path: Path) -> None:
    """With hardly any noise the attack knows every count, and finds everybody."""
    sides = [with_countries(duckdb_engine, tmp_path / f"{first}.parquet", asked(first, 300)) for first in (0, 300)]
    knowledge = AuditData(sides[0], sides[1])
    exact = Phrases(noise=0.01, threshold=1, max_keys_per_user=500, by="country")
    release = Target.of(exact.release(sides[0], randomness=Randomness(seed=1)), "exact")
    levels = list(key_counts.key_counts(release, knowledge))
    assert sum(len(each.published) for each in levels) == whole_table("phrases", release.cells["phrases"]).num_rows
    assert all(np.array_equal(each.published, each.true) for each in levels)
    assert found(knowledge, release)["area under the curve"].main == pytest.approx(1, abs=0.01)
    noisy = Phrases(epsilon=2, delta=1e-3, by="country").release(sides[0], randomness=Randomness(seed=1))
    assert not [each for each in found(knowledge, Target.of(noisy, "noisy")).values() if each.alarm]


def _without_noise(release: Target, kind: str, tested: key_counts.TestedKeys) -> pa.Table:
    table = whole_table(kind, release.cells[kind])
    true = tested.true.astype(np.int64)
    if "count" in table.column_names:
        return table.set_column(table.column_names.index("count"), "count", pa.array(true))
    missed, clicked = np.split(true, 2)
    table = table.set_column(table.column_names.index("viewers"), "viewers", pa.array(missed + clicked))
    return table.set_column(table.column_names.index("clickers"), "clickers", pa.array(clicked))
