"""Nothing is refused because of rows unless the owner decides so, and the card then says it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.logs.preflight import EmptyGate, action_counts, hints, why_nothing_came_out
from querycloak.logs.profile import profile
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.queries.method import Queries
from querycloak.methods.unprotected import CHOSEN_ON_LOG, KEPT_ROWS
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.sentence import Sentence
from tests.commands import in_process
from tests.logs import aol, write

METHOD = Clicks(epsilon=2, delta=1e-6, max_keys_per_user=1)
UNREAD = "user,time,query,url\n" + "u1,yesterday,a,http://a.example/\n" * 30
UBI = "".join(
    json.dumps(each) + "\n"
    for number in range(3)
    for each in (
        {"query_id": f"q{number}", "client_id": f"c{number}", "user_query": "shoes", "timestamp": "2024-01-01 10:00"},
        {
            "action_name": "item_click",
            "query_id": f"q{number}",
            "client_id": f"c{number}",
            "object_id": "7",
            "timestamp": "2024-01-01T10:00:05Z",
        },
    )
)  # fmt: skip
ONE_ROW = aol((f"u{number}", "12:00:00", "query", "1", "http://a.example/") for number in range(40))


def opened(folder: Path, engine: Engine, text: str, name: str = "log.csv") -> SearchLog:
    return read(write(folder / name, text), engine=engine)


def ledger_of(folder: Path) -> Ledger:
    ledger = Ledger(folder / "ledger.json")
    ledger.set_limit("shop", epsilon=4, delta=1e-5)
    return ledger


def test_without_a_gate_an_unreadable_log_is_released_as_any_other(duckdb_engine: Engine, tmp_path: Path) -> None:
    release = METHOD.release(opened(tmp_path, duckdb_engine, UNREAD))
    assert [table.num_rows for table in release.tables.values() if isinstance(table, pa.Table)] == [0]
    assert KEPT_ROWS not in release.proven.unprotected


def test_a_gate_refuses_before_anything_is_charged(duckdb_engine: Engine, tmp_path: Path) -> None:
    log, ledger = opened(tmp_path, duckdb_engine, UNREAD), ledger_of(tmp_path)
    log.empty_gate = EmptyGate(refuse=True)
    with pytest.raises(InputError) as refusal:
        METHOD.release(log, ledger=ledger, population="shop")
    assert "none of 30 rows was kept (most of them L102, unreadable time): times must be written as" in str(
        refusal.value
    )
    assert "Nothing was charged, because of refuse_empty=True" in str(refusal.value)
    assert not ledger.show("shop")[0].charges


@pytest.mark.parametrize("answer", [True, False])
def test_an_owner_is_asked_and_the_card_says_so(duckdb_engine: Engine, tmp_path: Path, answer: bool) -> None:
    asked: list[Sentence] = []
    log = opened(tmp_path, duckdb_engine, UNREAD)

    def ask(problem: Sentence) -> bool:
        asked.append(problem)
        return answer

    log.empty_gate = EmptyGate(ask=ask)
    if answer:
        assert KEPT_ROWS in METHOD.release(log).proven.unprotected
    else:
        with pytest.raises(InputError, match="Nothing was charged or released"):
            METHOD.release(log)
    assert len(asked) == 1


def test_the_card_says_so_of_a_log_with_rows_too(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Otherwise the card itself would tell one from the other."""
    log = opened(tmp_path, duckdb_engine, ONE_ROW, "log.tsv")
    log.empty_gate = EmptyGate(refuse=True)
    assert KEPT_ROWS in METHOD.release(log).proven.unprotected


def test_telling_decides_nothing(duckdb_engine: Engine, tmp_path: Path) -> None:
    messages: list[str] = []
    log = opened(tmp_path, duckdb_engine, "user,time,query,url\n")
    log.empty_gate = EmptyGate(lambda problem: messages.append(str(problem)))
    assert KEPT_ROWS not in METHOD.release(log).proven.unprotected
    assert messages == ["the log has no rows: only a header, or nothing that could be one"]


def test_clicks_by_another_name_are_told_with_the_option(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(tmp_path, duckdb_engine, UBI, "log.jsonl")
    log.empty_gate = EmptyGate(refuse=True)
    with pytest.raises(InputError, match=r"Actions of its events: item_click \(3\); name those .* with click_actions"):
        METHOD.release(log)
    assert action_counts(log) == profile(log).actions == {"item_click": 3}


def test_reasons_for_an_empty_release(duckdb_engine: Engine, tmp_path: Path) -> None:
    rows = [(f"u{number}", "12:00:00", f"query {number % 20}", "", "") for number in range(40)]
    shared = opened(tmp_path, duckdb_engine, aol(rows), "shared.tsv")
    reason, most = why_nothing_came_out(shared)
    assert (str(reason), most) == ("the query that most users share has 2 users, too few here", 2)
    alone = opened(tmp_path, duckdb_engine, aol(rows[:20]), "alone.tsv")
    assert "no query is shared by two users" in str(why_nothing_came_out(alone)[0])
    parts = "user,time,query,part\n" + "".join(
        f"u{number},2024-01-01 00:00:00,same,part {number // 2}\n" for number in range(40)
    )
    by_part = read(write(tmp_path / "parts.csv", parts), engine=duckdb_engine, log_format="csv", attributes=["part"])
    reason, most = why_nothing_came_out(by_part, ["part"])
    assert (str(reason), most) == ("the query and part that most users share has 2 users, too few here", 2)


def test_ranks_that_always_come_out_do_not_hide_that_no_pair_did(tmp_path: Path) -> None:
    rows = "".join(f"u{number},2024-01-01 00:00:00,same,1,http://a.example/,0\n" for number in range(3))
    log = write(tmp_path / "log.csv", "user,time,query,rank,url,clicked\n" + rows)
    done = in_process(
        *("release", "clicks", log, "--log-format", "csv", "--views", "--epsilon", "1", "--delta", "1e-6"),
        *("--out", tmp_path / "out"),
    )
    assert done.returncode == 0
    messages = " ".join(done.stderr.split())
    assert "the pair of query and url that most users share has 3 users, too few here" in messages
    assert "Nothing passed. More epsilon would help" in done.stdout


def test_the_command_line_looks_for_shared_keys_with_their_attributes(tmp_path: Path) -> None:
    rows = "".join(f"u{number},2024-01-01 00:00:00,same,section {number}\n" for number in range(40))
    log = write(tmp_path / "log.csv", "user,time,query,section\n" + rows)
    done = in_process(
        *("release", "queries", log, "--log-format", "csv", "--attributes", "section", "--by", "section"),
        *("--epsilon", "1", "--delta", "1e-6", "--out", tmp_path / "out"),
    )
    assert done.returncode == 0
    assert "no query and section is shared by two users: take a coarser attribute" in done.stderr


def test_shapes_that_are_often_mistakes_are_hinted_at(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(tmp_path, duckdb_engine, ONE_ROW, "one.tsv")
    figures = profile(log)
    hint, botnet = hints(log, figures.rows_per_user)
    assert "a botnet of 300 accounts can put a text of its choice on top of what is released" in str(botnet)
    assert "every one of 40 users has one row: is the column of users one of row or session ids?" in str(hint)
    robot = [("guest", f"12:{n // 60:02}:{n % 60:02}", f"q{n}", "", "") for n in range(200)]
    busy = [(f"u{n % 5}", f"13:00:{n:02}", "q", "", "") for n in range(10)]
    log = opened(tmp_path, duckdb_engine, aol([*robot, *busy]), "robot.tsv")
    figures = profile(log)
    hint, _ = hints(log, figures.rows_per_user)
    assert "one user has 200 of 210 rows, where the median is 2: a robot or a shared account" in str(hint)


def test_attributes_with_nearly_as_many_values_as_users_are_hinted_at(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(tmp_path, duckdb_engine, ONE_ROW, "one.tsv")
    figures = profile(log)
    hint, *_ = hints(log, figures.rows_per_user, {"visitor": 39, "country": 20})
    assert str(hint).startswith("visitor has 39 values for 40 users: is it an id?")
    assert not any("country" in str(each) for each in hints(log, figures.rows_per_user))


def test_most_users_with_one_row_are_hinted_at(duckdb_engine: Engine, tmp_path: Path) -> None:
    rows = [(f"u{n % 30}", f"12:00:{n:02}", "q", "", "") for n in range(40)]
    log = opened(tmp_path, duckdb_engine, aol(rows), "log.tsv")
    figures = profile(log)
    hint, _ = hints(log, figures.rows_per_user)
    assert str(hint).startswith(
        "20 of 30 users have one row: with max_keys_per_user=1 they count as much as the others"
    )


def test_hints_come_before_the_charge_and_decide_nothing(duckdb_engine: Engine, tmp_path: Path) -> None:
    shapes: list[str] = []
    log = opened(tmp_path, duckdb_engine, ONE_ROW, "log.tsv")
    log.empty_gate = EmptyGate(hint=lambda shape: shapes.append(str(shape)))
    queries = Queries(epsilon=2, delta=1e-6, max_keys_per_user=1)
    release = queries.release(log)
    assert [text.partition(":")[0] for text in shapes] == [
        "every one of 40 users has one row",
        "a botnet of 300 accounts can put a text of its choice on top of what is released, and no guarantee for one "
        "user prevents it",
    ]
    assert KEPT_ROWS not in release.proven.unprotected
    assert not log.clicks_counted  # a look at clicks would let the gate ask for them


def test_the_card_says_that_the_log_was_looked_at(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(tmp_path, duckdb_engine, ONE_ROW, "log.tsv")
    assert CHOSEN_ON_LOG == "parameters chosen after looking at the log"
    assert CHOSEN_ON_LOG in METHOD.release(log, chosen_on_log=True).proven.unprotected
    assert CHOSEN_ON_LOG not in METHOD.release(log).proven.unprotected


def test_the_command_tells_before_the_charge_and_refuses_if_asked_to(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", UNREAD)
    given = ("release", "clicks", log, "--epsilon", "2", "--delta", "1e-6", "--max-keys-per-user", "1", "--out")
    done = in_process(*given, tmp_path / "told")
    assert done.returncode == 0
    assert "private, before the charge: none of 30 rows was kept (most of them L102" in done.stderr
    assert "nothing came out: none of 30 rows was kept" in done.stderr
    assert "a botnet" not in done.stderr  # hints are for a terminal
    refused = in_process(*given, tmp_path / "refused", "--refuse-empty")
    assert (refused.returncode, (tmp_path / "refused").exists()) == (2, False)
    assert "Nothing was charged, because of --refuse-empty" in refused.stderr
