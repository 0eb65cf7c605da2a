"""Sessions and their subsequences, against the plain loops of sessions.md, on both engines."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read
from querycloak.logs.sequences import as_lists
from querycloak.methods.sessions.joint_plans import CHARACTERS_PER_USER, MOST_KEYS, sensitivity
from querycloak.methods.sessions.method import Sessions
from tests.logs import Row, aol, write

GAP = 30 * 60
Keys = dict[str, Counter[tuple[str, ...]]]


def some_rows(seed: int, users: int = 40) -> list[Row]:
    """Short histories over few queries: repeats, pages, several clicks, pauses of all lengths, ties in time."""
    draw = random.Random(seed)
    rows = []
    for user in range(users):
        second = draw.randrange(3600)
        for _ in range(draw.randrange(30)):
            second += draw.choice([0, 1, 60, 60, GAP - 1, GAP, GAP + 1])
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            rows.append((f"u{user}", clock, draw.choice("abcd"), draw.choice(["", "1"]), ""))
    return [(u, t, q, r, "http://x/" if r else "") for u, t, q, r, _ in rows if t < "24"]


def sessions_of(rows: list[Row], user: str) -> list[list[str]]:
    """The rules of sessions.md, one row after another."""
    mine = sorted((t, q) for u, t, q, _, _ in rows if u == user)
    found: list[list[str]] = []
    before: tuple[int, str] | None = None
    for clock, query in mine:
        hours, minutes, seconds = map(int, clock.split(":"))
        at = 3600 * hours + 60 * minutes + seconds
        if before is None or at - before[0] > GAP:
            found.append([query])
        elif query != before[1]:
            found[-1].append(query)
        before = at, query
    return [session for session in found if len(session) > 1]


def subsequences(session: list[str]) -> list[tuple[str, ...]]:
    return [chosen for length in range(2, len(session) + 1) for chosen in combinations(session, length)]


def repeats(key: tuple[str, ...]) -> bool:
    return any(first == second for first, second in pairwise(key))


def expected(rows: list[Row], most_sessions: int, most_queries: int, *, paper: bool, keep: bool = False) -> Keys:
    keys: Keys = {}
    for user in {row[0] for row in rows}:
        cut = [session[:most_queries] for session in sessions_of(rows, user)]
        if paper:
            keys[user] = Counter(key for session in cut[:most_sessions] for key in subsequences(session))
        else:
            in_order = [
                key
                for session in cut
                for key in sorted(subsequences(session), key=lambda k: (len(k), k))
                if keep or not repeats(key)
            ]
            keys[user] = Counter(list(dict.fromkeys(in_order))[: sensitivity(most_sessions, most_queries)])
    return {user: counted for user, counted in keys.items() if counted}


def counted_by(method: Sessions, log: SearchLog) -> Keys:
    """What the method counts, by user."""
    from querycloak.methods.keys.contribution_bounding import first_keys

    table = method.contributions(log)["sessions"]
    if method.variant == "default":
        table = first_keys(table, ("queries",), method.plans["sessions"].per_user)
    rows = log.engine.fetch(table)
    keys: Keys = {}
    for user, queries in zip(rows["user"].to_pylist(), as_lists(rows["queries"]).to_pylist(), strict=True):
        keys.setdefault(user, Counter())[tuple(queries)] += 1
    return keys


def a_method(most_sessions: int, most_queries: int, **more: Any) -> Sessions:
    options = {"sessions_per_user": most_sessions, "queries_per_session": most_queries, "noise": 1.0, "threshold": 200}
    return Sessions(**options, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", ["default", "paper"])
@pytest.mark.parametrize(("most_sessions", "most_queries"), [(1, 2), (1, 3), (2, 4)])
def test_users_add_what_the_proof_note_says(
    engine: Engine, tmp_path: Path, variant: str, most_sessions: int, most_queries: int
) -> None:
    rows = some_rows(seed=most_queries)
    method = a_method(most_sessions, most_queries, variant=variant)
    counted = counted_by(method, read(write(tmp_path / "log.tsv", aol(rows)), engine=engine))
    wanted = expected(rows, most_sessions, most_queries, paper=variant == "paper")
    assert counted == wanted
    assert max(sum(keys.values()) for keys in counted.values()) == sensitivity(most_sessions, most_queries)
    if variant == "default":
        assert {number for keys in counted.values() for number in keys.values()} == {1}
    elif most_queries == 4:
        assert any(number > 1 for keys in counted.values() for number in keys.values())


@pytest.mark.parametrize("most_queries", [3, 5])
def test_a_query_twice_in_a_row_counts_only_if_repeats_are_kept(
    engine: Engine, tmp_path: Path, most_queries: int
) -> None:
    rows = some_rows(seed=3)
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    dropped, kept = (counted_by(a_method(2, most_queries, repeats=how), log) for how in (None, "keep"))
    assert dropped == expected(rows, 2, most_queries, paper=False)
    assert kept == expected(rows, 2, most_queries, paper=False, keep=True)
    assert not any(repeats(key) for keys in dropped.values() for key in keys)
    assert any(repeats(key) for keys in kept.values() for key in keys)


def test_the_paper_counts_every_subsequence() -> None:
    with pytest.raises(ParameterError, match="the paper variant counts every subsequence"):
        a_method(1, 3, variant="paper", repeats="drop")
    assert a_method(1, 3, variant="paper").parameters()["repeats"] == "keep"
    assert a_method(1, 3).parameters()["repeats"] == "drop"


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_a_user_more_changes_nobody_elses_part_and_order_does_not_matter(
    engine: Engine, tmp_path: Path, variant: str
) -> None:
    rows = some_rows(seed=8)
    newcomer = [("new", t, q, r, a) for _, t, q, r, a in rows if r][:60]
    shuffled = random.Random(1).sample(rows + newcomer, len(rows + newcomer))
    method = a_method(2, 3, variant=variant)
    without, with_one_more = (
        counted_by(method, read(write(tmp_path / f"{len(some)}.tsv", aol(some)), engine=engine))
        for some in (rows, shuffled)
    )
    changed = with_one_more.pop("new")
    assert with_one_more == without
    assert 0 < sum(changed.values()) <= sensitivity(2, 3)


STEPS = st.tuples(st.sampled_from(["u", "v", "new"]), st.sampled_from([0, 60, GAP, GAP + 1]), st.sampled_from("abc"))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=40), st.integers(1, 2), st.integers(2, 4), st.randoms(use_true_random=False))
def test_laws_of_what_users_add(
    duckdb_engine: Engine,
    tmp_path: Path,
    steps: list[tuple[str, int, str]],
    most_sessions: int,
    most_queries: int,
    shuffling: random.Random,
) -> None:
    """sessions.md: bounded, one user's own affair, whatever the order of the rows."""
    at, rows = 0, []
    for user, pause, query in steps:
        at += pause
        rows.append((user, f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}", query, "", ""))
    shuffled = shuffling.sample(rows, len(rows))
    others = [row for row in shuffled if row[0] != "new"]
    for variant in ("default", "paper"):
        method = a_method(most_sessions, most_queries, variant=variant)
        whole, without = (
            counted_by(method, read(write(tmp_path / "log.tsv", aol(some)), log_format="aol", engine=duckdb_engine))
            for some in (shuffled, others)
        )
        assert whole == expected(rows, most_sessions, most_queries, paper=variant == "paper")
        assert {user: keys for user, keys in whole.items() if user != "new"} == without
        assert all(sum(keys.values()) <= sensitivity(most_sessions, most_queries) for keys in whole.values())


def test_a_session_of_four_queries_has_eleven_subsequences(engine: Engine, tmp_path: Path) -> None:
    """Zhang & Yang, ICTIR 2017, equation 5."""
    rows = [("u", f"12:0{i}:00", f"q{i}", "", "") for i in range(1, 5)]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    one, two, three, four = "q1", "q2", "q3", "q4"
    listed = [
        (one, two, three, four), (one, two, three), (one, two, four), (one, three, four), (two, three, four),
        (one, two), (one, three), (one, four), (two, three), (two, four), (three, four),
    ]  # fmt: skip
    for variant in ("default", "paper"):
        assert counted_by(a_method(1, 4, variant=variant), log) == {"u": Counter(listed)}


@pytest.mark.parametrize(
    ("asked", "session"),
    [
        ([(0, "a"), (0, "a"), (1, "b")], ["a", "b"]),  # two clicks of one search
        ([(0, "a"), (1, "a"), (2, "b"), (3, "a")], ["a", "b", "a"]),  # the second page, and a return
        ([(0, "a"), (29, "a"), (58, "b")], ["a", "b"]),  # turning pages keeps a session alive
        ([(0, "a"), (30, "b")], ["a", "b"]),  # exactly the gap
        ([(0, "a"), (31, "b")], None),
        ([(0, "a"), (5, "a")], None),
        ([(0, "b"), (0, "a")], ["a", "b"]),  # ties break by the query's text
    ],
)
def test_what_a_session_is(
    duckdb_engine: Engine, tmp_path: Path, asked: list[tuple[int, str]], session: list[str] | None
) -> None:
    rows = [("u", f"12:{minute:02}:00" if minute < 60 else "13:00:00", query, "", "") for minute, query in asked]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=duckdb_engine)
    counted = counted_by(a_method(1, 3, variant="paper"), log)
    assert counted == ({"u": Counter(subsequences(session))} if session else {})


def test_a_query_may_hold_any_character_where_nothing_is_normalised(engine: Engine, tmp_path: Path) -> None:
    texts = ["a\x1fb", "\x1e1", "\x1e", "A\x1e0\x1f"]
    rows = [("u", f"12:0{i}:00", text, "", "") for i, text in enumerate(texts)]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine, choices=Choices(normalise=False))
    read_back = [row["query"] for row in log.engine.fetch(log.rows).to_pylist()]
    counted = counted_by(a_method(1, 4, variant="paper"), log)
    assert counted == {"u": Counter(subsequences(sorted(read_back, key=texts.index)))}
    assert all(len(key) >= 2 for key in counted["u"])


def test_a_sequence_asked_by_all_comes_out_as_a_list(engine: Engine, tmp_path: Path) -> None:
    rows = [(f"u{u}", f"12:0{i}:00", f"q{i}", "", "") for u in range(40) for i in range(3)]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    release = Sessions(noise=0.2, threshold=30, sessions_per_user=1, queries_per_session=3, no_clicks=True).release(log)
    assert list(release.tables) == ["sessions"]
    published = {tuple(row["queries"]): row["count"] for row in release.table("sessions").to_pylist()}
    assert set(published) == {("q0", "q1"), ("q0", "q2"), ("q1", "q2"), ("q0", "q1", "q2")}
    assert all(abs(count - 40) <= 5 for count in published.values())


def test_a_higher_threshold_releases_no_more(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", aol(some_rows(seed=3, users=300))), engine=duckdb_engine)
    numbers = []
    for threshold in (12, 20, 30, 300):
        method = Sessions(
            noise=0.05,
            threshold=threshold,
            sessions_per_user=2,
            queries_per_session=3,
            no_clicks=True,
            repeats="keep",
        )
        numbers.append({tuple(row["queries"]) for row in method.release(log).table("sessions").to_pylist()})
    assert all(above < below for below, above in pairwise(numbers[:-1]))
    assert not numbers[-1]


def affordable(sessions: list[list[str]], characters: int) -> list[list[str]]:
    """sessions.md, work of one user: sessions in order, until they would have too many characters."""
    counted, so_far = [], 0
    for session in sessions:
        so_far += (sum(map(len, session)) + len(session)) * 2 ** (len(session) - 1)
        if so_far > characters:
            break
        counted.append(session)
    return counted


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_sessions_count_until_a_users_sequences_are_too_long(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    rows = [(u, t, q * (1 + 6 * int(t[4])), r, a) for u, t, q, r, a in some_rows(seed=5)]
    method = a_method(4, 4, variant=variant, no_clicks=True)
    whole = counted_by(method, read(write(tmp_path / "log.tsv", aol(rows)), engine=engine))
    monkeypatch.setattr("querycloak.methods.sessions.count.CHARACTERS_PER_USER", 400)
    counted = counted_by(method, read(tmp_path / "log.tsv", engine=engine))
    cut = {user: affordable([s[:4] for s in sessions_of(rows, user)], 400) for user in {row[0] for row in rows}}
    wanted: Keys = {}
    for user, sessions in cut.items():
        asked = [(user, f"{hour:02}:{i:02}:00", q, "", "") for hour, s in enumerate(sessions) for i, q in enumerate(s)]
        wanted |= expected(asked, 4, 4, paper=variant == "paper")
    assert counted == wanted != whole


def test_the_sequences_of_one_user_are_bounded_in_characters(duckdb_engine: Engine, tmp_path: Path) -> None:
    """30 sessions of seven long queries are 3 MB; all their subsequences would be 200 MB."""
    rows = [
        ("u", f"{hour:02}:{20 * half + i:02}:00", f"{hour} {half} {i} {'x' * 16_000}", "", "")
        for hour in range(15)
        for half in range(2)
        for i in range(7)
    ]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=duckdb_engine)
    method = Sessions(noise=1, threshold=900, sessions_per_user=1, queries_per_session=7, gap_minutes=5, no_clicks=True)
    table = method.contributions(log)["sessions"]
    found = log.engine.fetch(table.agg(characters=table.queries.length().sum(), rows=table.count())).to_pylist()[0]
    assert 0 < found["characters"] <= CHARACTERS_PER_USER
    assert found["rows"] == 120 * 2  # 112,000 characters each, 64 times: of two of them 14 million


TABLE_4 = [
    (1, 10, 1, 3, 8.00, "4.96e-03"),  # printed truncated, as 4.95e-3
    (1, 20, 1, 3, 8.00, "2.25e-07"),
    (1, 30, 1, 3, 8.00, "1.02e-11"),
    (3, 20, 1, 3, 2.67, "9.66e-03"),
    (3, 30, 1, 3, 2.67, "3.44e-04"),
    (1, 20, 1, 4, 22.00, "6.79e-04"),
    (2, 30, 1, 4, 11.00, "4.12e-04"),
    (1, 20, 2, 3, 16.00, "2.46e-05"),
    (2, 30, 2, 3, 8.00, "6.68e-05"),
]


@pytest.mark.parametrize(("noise", "threshold", "sessions", "queries", "epsilon", "delta"), TABLE_4)
def test_zhang_and_yang_table_4(
    noise: float, threshold: int, sessions: int, queries: int, epsilon: float, delta: str
) -> None:
    """Zhang & Yang, ICTIR 2017, Table 4, each row, as claimed."""
    method = Sessions(
        variant="paper",
        no_clicks=True,
        noise=noise,
        threshold=threshold,
        sessions_per_user=sessions,
        queries_per_session=queries,
    )
    claimed = method.claimed()
    assert claimed is not None
    assert (round(claimed.epsilon or 0, 2), f"{claimed.delta:.2e}") == (epsilon, delta)
    assert (method.proven().delta or 1) < (claimed.delta or 0)


def test_budgets_of_both_tables_add_up() -> None:
    """sessions.md, paper variant: the paper's own run."""
    method = Sessions(
        variant="paper", noise=1, threshold=20, sessions_per_user=1, queries_per_session=3, max_keys_per_user=4
    )
    claimed, proven = method.claimed(), method.proven()
    assert claimed is not None
    assert (claimed.epsilon, f"{claimed.delta:.2e}") == (8.0, "2.25e-07")
    assert (proven.epsilon, f"{proven.delta:.2e}") == (16.0, "6.05e-08")


def test_both_tables_as_one_histogram_need_a_lower_threshold() -> None:
    """sessions.md, default variant, step 2."""
    budget = {"epsilon": 8, "delta": 2.25e-7, "selection": "gaussian"}
    together, apart = Sessions(**budget), Sessions(**budget, split="clicks=1,sessions=1")  # type: ignore[arg-type]
    assert [plan.threshold for plan in together.plans.values()] == [33, 33]
    assert [plan.threshold for plan in apart.plans.values()] == [43, 43]
    assert together.proven().epsilon == 8
    assert (apart.proven().epsilon or 9) <= 8
    for method in (together, apart):
        assert (method.proven().delta or 1) <= 2.25e-7


def test_a_budget_for_the_paper_variant_covers_both_tables() -> None:
    method = Sessions(epsilon=16, delta=6.06e-8, variant="paper")
    assert (method.parameters()["noise"], method.parameters()["threshold"]) == (1.0, 20)
    assert (method.proven().epsilon, (method.proven().delta or 1) <= 6.06e-8) == (16.0, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give the budget .epsilon, delta. or explicit noise .noise, threshold."),
        ({"gap_minutes": 0}, "gap_minutes must be a finite number above 0, got 0"),
        ({"queries_per_session": 1}, "queries_per_session must be at least 2, got 1"),
        ({"queries_per_session": 11}, "queries_per_session must be at most 10, got 11"),
        ({"sessions_per_user": 0}, "sessions_per_user must be at least 1, got 0"),
        ({"queries_per_session": 9}, f"at most {MOST_KEYS}; 1 times 502 would make up to 502 rows for each user"),
        ({"split": "clicks=1,sessions=1"}, "split is for a budget"),
        ({"selection": "weighted"}, "selection='weighted' has several noises"),
        ({"selection": "best"}, "selection must be one of laplace, gaussian, weighted, multi-round"),
        ({"variant": "paper", "two_draws": True}, "the paper variant has Laplace noise, two draws"),
    ],
)
def test_sessions_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    knobs = {"noise": 1, "threshold": 900, "sessions_per_user": 1} if options else {}
    with pytest.raises(ParameterError, match=message):
        Sessions(**{**knobs, **options})


def test_many_rows_can_be_insisted_on() -> None:
    method = Sessions(noise=1, threshold=900, sessions_per_user=1, queries_per_session=9, no_clicks=True, force=True)
    assert method.parameters()["sequences_per_user"] == 502
    with pytest.raises(ParameterError, match="split"):
        Sessions(epsilon=1, delta=1e-6, selection="gaussian", split="clicks=1,queries=1")
