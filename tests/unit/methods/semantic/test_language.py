"""Logs whose words WordNet does not have are refused, unless their owner insists (semantic.md, *Unprotected*)."""

from __future__ import annotations

from pathlib import Path

import ibis.expr.types as ir
import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.semantic.domains import Domains
from querycloak.methods.semantic.searches import check_language
from querycloak.text.wordnet import wordnet
from tests.commands import in_process
from tests.logs import Row, aol, write

ENGLISH = ("tennis rackets", "asthma inhaler", "weather", "cheap flights", "garden hose", "used car prices")
GERMAN = ("gebrauchtwagen", "kinderarzt", "steuererklärung frist", "zeitung", "schuhe damen", "haustiere versicherung")
CHINESE = ("北京天气", "汽车之家", "火车票", "小说阅读")
METHOD = qc.Semantic(epsilon=8, max_queries=1)


def searched(*queries: str, times: int = 30) -> list[Row]:
    """A user for each query, as often as said."""
    return [(f"u{user:03}", f"1{user % 8}:00:00", query, "", "") for user, query in enumerate(queries * times)]


def opened(folder: Path, engine: Engine, rows: list[Row]) -> SearchLog:
    return read(write(folder / "log.tsv", aol(rows)), engine=engine)


@pytest.mark.parametrize("queries", [GERMAN, CHINESE])
def test_another_language_is_refused_before_anything_is_paid(
    tmp_path: Path, duckdb_engine: Engine, queries: tuple[str, ...]
) -> None:
    ledger = qc.Ledger(tmp_path / "ledger.db")
    ledger.set_limit("people", 10, 0)
    with pytest.raises(InputError, match=r"seems to be in another language.*or insist: any_language=True") as refused:
        METHOD.release(opened(tmp_path, duckdb_engine, searched(*queries)), ledger=ledger, population="people")
    assert not any(query in str(refused.value) for query in queries)
    assert ledger.show("people")[0].charges == ()


def test_the_way_out_of_the_message_works(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = opened(tmp_path, duckdb_engine, searched(*GERMAN))
    insisting = qc.Semantic(epsilon=8, max_queries=1, any_language=True)
    assert insisting.release(log).table("log").num_rows == 30 * len(GERMAN)
    assert insisting.parameters()["any_language"] is True


def test_one_user_in_three_is_enough_and_each_has_one_vote(tmp_path: Path, duckdb_engine: Engine) -> None:
    rows = searched(*ENGLISH[:3], *GERMAN, times=12)
    assert METHOD.release(opened(tmp_path, duckdb_engine, rows)).table("log").num_rows == 108
    # Later searches of those who began in English change nothing; one of them fewer does.
    more = [("u000", "20:00:00", query, "", "") for query in GERMAN]
    assert METHOD.release(opened(tmp_path, duckdb_engine, rows + more)).table("log").num_rows == 108
    with pytest.raises(InputError):
        METHOD.release(opened(tmp_path, duckdb_engine, rows[1:]))


@pytest.mark.parametrize("domain", ["sport", "disease", pytest.param("topics", marks=pytest.mark.slow)])
def test_a_narrow_domain_asks_for_english_not_for_its_own_words(
    tmp_path: Path, duckdb_engine: Engine, domain: str
) -> None:
    method = qc.Semantic(epsilon=8, max_queries=1, domain=domain)
    assert method.release(opened(tmp_path, duckdb_engine, searched(*ENGLISH))).table("log").num_rows == 180
    with pytest.raises(InputError, match="seems to be in another language"):
        method.release(opened(tmp_path, duckdb_engine, searched(*GERMAN)))


@pytest.mark.parametrize("domain", ["sport", "disease"])
def test_a_narrow_domain_takes_the_vote_by_all_of_wordnet(duckdb_engine: Engine, domain: str) -> None:
    """The vote of `test_a_narrow_domain_asks_for_english_not_for_its_own_words`, without a release."""
    concepts_of = Domains.of(wordnet(), domain).vocabulary.concepts

    def asked(queries: tuple[str, ...]) -> ir.Table:
        texts = queries * 30
        users = [f"u{place}" for place in range(len(texts))]
        return duckdb_engine.upload(pa.table({"user": users, "time": [0] * len(texts), "query": texts}))

    check_language(duckdb_engine, asked(ENGLISH), concepts_of)
    with pytest.raises(InputError, match="seems to be in another language"):
        check_language(duckdb_engine, asked(GERMAN), concepts_of)


def test_fewer_than_a_hundred_users_may_ask_anything(tmp_path: Path, duckdb_engine: Engine) -> None:
    assert METHOD.release(opened(tmp_path, duckdb_engine, searched(*GERMAN, times=16))).table("log").num_rows == 96


def test_the_card_says_what_the_refusal_tells() -> None:
    said = "that WordNet has a word of the first search for at least one user in three: otherwise the log is refused"
    assert said in METHOD.proven().unprotected
    assert said not in qc.Semantic(epsilon=8, max_queries=1, any_language=True).proven().unprotected


def test_another_taxonomy_asks_for_no_english(tmp_path: Path, duckdb_engine: Engine) -> None:
    table = tmp_path / "waren.csv"
    table.write_text("id,labels,parents\nalles,waren,\nauto,gebrauchtwagen,alles\nblatt,zeitung,alles\n")
    method = qc.Semantic(epsilon=8, max_queries=1, taxonomy=str(table))
    assert method.release(opened(tmp_path, duckdb_engine, searched(*GERMAN))).table("log").num_rows == 30 * len(GERMAN)
    with pytest.raises(ParameterError, match="any_language is about WordNet"):
        qc.Semantic(epsilon=8, max_queries=1, taxonomy=str(table), any_language=True)


def test_the_terminal_names_options(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", aol(searched(*CHINESE)))
    ended = in_process(
        "release", "semantic", str(log), "--epsilon", "8", "--max-queries", "1", "--out", str(tmp_path / "o")
    )
    assert ended.returncode == 2
    assert "--taxonomy" in ended.stderr
    assert "--any-language" in ended.stderr
