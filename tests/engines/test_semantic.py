"""Semantic replacement on logs, on both engines: what comes out, for whom, at what price (semantic.md)."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from querycloak.engines import Engine
from querycloak.errors import BudgetRefused, InputError, ParameterError, ResourceError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.replacement import Replacement, chosen_searches, coarse, rounded_scale
from querycloak.methods.semantic.searches import Searches
from querycloak.papers.rebuilt_queries import plural
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.campaigns import Spending
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.text.taxonomy import topic_concepts, topics_of
from querycloak.text.wordnet import wordnet
from tests.logs import Row, aol, write

SHOP = """id,labels,parents
all,goods,
kitchen,kitchen,all
knives,knife|blade,kitchen
pans,pan|saucepan,kitchen
garden,garden,all
spades,spade|shovel,garden
hoses,hose,garden
"""
QUERIES = ["tennis", "water polo rules", "asthma", "cheap badminton rackets", "zzyzx", "measles"]


def rows(users: int = 5, queries: list[str] | None = None) -> list[Row]:
    asked = queries or QUERIES
    return [
        (f"person-{user}", f"1{user}:0{place}:00", asked[(user + place) % len(asked)], "", "")
        for user in range(users)
        for place in range(user + 1)
    ]


def opened(engine: Engine, folder: Path, given: list[Row] | None = None) -> SearchLog:
    return read(write(folder / "log.tsv", aol(rows() if given is None else given)), engine=engine)


def released(method: Semantic, log: SearchLog, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        method.release(log, **{"randomness": Randomness(seed=3), **more}).table("log").to_pylist()
    )
    return found


@pytest.mark.same_on_spark
def test_same_users_as_many_queries_other_words(engine: Engine, tmp_path: Path) -> None:
    nouns = wordnet()
    sports = {nouns.shown(int(each)) for each in nouns.descendants(nouns.concept("sport"))}
    found = released(Semantic(epsilon=2, domain="sport", max_queries=5), opened(engine, tmp_path))
    assert sorted(Counter(row["user"] for row in found).values()) == [1, 2, 3, 4, 5]
    assert all(set(row) == {"user", "query"} for row in found)
    assert {row["query"] for row in found} <= sports  # also for what is no sport, or nothing at all
    assert not any("person" in row["user"] for row in found)
    assert found == sorted(found, key=lambda row: (row["user"], row["query"]))
    again = {
        row["user"]
        for row in released(
            Semantic(epsilon=2, domain="sport", max_queries=5), opened(engine, tmp_path), randomness=None
        )
    }
    assert not again & {row["user"] for row in found}


@pytest.mark.same_on_spark
def test_domains_by_topic_keep_the_topic_of_every_query(engine: Engine, tmp_path: Path) -> None:
    nouns = wordnet()
    topics = topics_of(nouns, topic_concepts(nouns, "disease|sport"))
    shown = {nouns.shown(concept): int(topics[concept]) for concept in range(len(nouns)) if topics[concept]}
    queries = ["tennis", "asthma", "zzyzx"]
    log = opened(engine, tmp_path, rows(6, queries))
    found = released(Semantic(epsilon=1, domain="disease|sport", criterion="nsqc", max_queries=6), log)
    before = Counter({"tennis": 2, "asthma": 1, "zzyzx": 0}[row[2]] for row in rows(6, queries))
    # A label may name a concept elsewhere too ("shot"), so count what can be nothing else.
    after = Counter(shown.get(row["query"], 0) for row in found)
    assert after[1] >= before[1]
    assert after[2] >= before[2]
    assert sum(after.values()) == sum(before.values())


def test_a_search_with_many_clicks_is_one_query(engine: Engine, tmp_path: Path) -> None:
    clicks = [("u", "12:00:00", "tennis", str(rank), f"http://{rank}.example/") for rank in range(1, 6)]
    assert len(released(Semantic(epsilon=1, domain="sport", max_queries=5), opened(engine, tmp_path, clicks))) == 1


@pytest.mark.same_on_spark
def test_times_as_asked(engine: Engine, tmp_path: Path) -> None:
    log = opened(engine, tmp_path, rows(2))
    for times, wanted in (("keep", {"10:00", "11:00", "11:01"}), ("hour", {"10:00", "11:00"}), ("day", {"00:00"})):
        method = Semantic(epsilon=1, domain="sport", times=times, max_queries=9)  # type: ignore[arg-type]
        assert {f"{row['time']:%H:%M}" for row in released(method, log)} == wanted
        assert any(times in each or "time" in each for each in method.proven().unprotected)
    assert coarse(np.array([86_400_000_000 * 40]), "month") == [86_400_000_000 * 31]


def test_an_empty_log(engine: Engine, tmp_path: Path) -> None:
    log = opened(engine, tmp_path, [("u", "12:00:00", "", "", "")])
    for method in (
        Semantic(epsilon=1, domain="sport", max_queries=1),
        Semantic(epsilon=1, domain="sport", repeats="reuse"),
        Semantic(epsilon=1, domain="sport", criterion="hbdp", max_queries=2),
        Semantic(epsilon=1, domain="sport", variant="paper"),
    ):
        assert released(method, log) == []


def test_the_paper_variant_rebuilds_queries_and_says_what_it_leaks(duckdb_engine: Engine, tmp_path: Path) -> None:
    queries = ["cheap badminton rackets in ashby", "zzyzx 12345", "diseases of horses", "zzyzx for horses and qwxyz"]
    log = opened(duckdb_engine, tmp_path, [(f"u{i}", "12:00:00", query, "", "") for i, query in enumerate(queries)])
    method = Semantic(epsilon=40, budget_per="query", domain="all", criterion="nsqc", variant="paper")
    found = sorted(row["query"] for row in released(method, log))
    # At this epsilon concepts stay nearly always: labels in place of what was said. Other words of a phrase stay as
    # typed; phrases without a concept (ashby, zzyzx, qwxyz) are discarded, as in the paper's section 4.1.
    assert found == ["cheap badminton rackets in", "diseases of horses", "for horses and"]
    assert method.proven().kind == "sampling-only"
    assert method.claimed() is not None
    assert any("as typed" in each for each in method.proven().unprotected)
    assert [plural(label) for label in ("pony", "bus", "box", "church", "car", "day")] == [
        "ponies", "buses", "boxes", "churches", "cars", "days",
    ]  # fmt: skip


def test_reuse_draws_once_for_each_concept_of_a_user(duckdb_engine: Engine, tmp_path: Path) -> None:
    asked = ["tennis", "tennis rules of tennis", "asthma", "tennis"]
    log = opened(duckdb_engine, tmp_path, [("u", f"12:0{i}:00", query, "", "") for i, query in enumerate(asked)])
    method = Semantic(epsilon=1, domain="all", criterion="nsqc", repeats="reuse")
    counts = sorted(Counter(row["query"] for row in released(method, log)).values())
    assert counts == [1, 3]
    assert "which queries of a user were about one concept" in method.proven().unprotected


def test_histograms_hold_noise_for_every_concept(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(duckdb_engine, tmp_path)
    method = Semantic(epsilon=40, domain="sport", criterion="hbdp", max_queries=5)
    found = released(method, log)
    assert all(row["count"] > 0 for row in found)
    assert [row["count"] for row in found] == sorted((row["count"] for row in found), reverse=True)
    kept = Counter()  # type: Counter[str]
    for row in found:
        kept[row["query"]] += row["count"]
    assert kept["tennis"] >= 1
    noisy = released(Semantic(epsilon=0.5, domain="sport", criterion="hbdp", max_queries=5), log)
    assert 350 < len(noisy) < 520  # of 5 users x 177 concepts a little less than half
    assert rounded_scale(10, 0.3) * 0.3 >= 10


def test_histograms_of_fewer_candidates_stay_with_their_users(duckdb_engine: Engine, tmp_path: Path) -> None:
    """With next to no noise: every user has that user's own searches, under concepts that may come out."""
    method = Semantic(epsilon=1000, domain="sport", criterion="hbdp", candidates="depth=1", max_queries=5)
    found = released(method, opened(duckdb_engine, tmp_path))
    searches = Counter()  # type: Counter[str]
    for row in found:
        searches[row["user"]] += row["count"]
    assert sorted(searches.values()) == [1, 2, 3, 4, 5]
    nouns = wordnet()
    sport = nouns.concept("sport")
    below = {nouns.shown(int(each)) for each in nouns.descendants(sport) if sport in nouns.parents_of[int(each)]}
    assert {row["query"] for row in found} <= below | {nouns.shown(sport)}
    assert len({row["query"] for row in found}) > 1


def test_cards_say_what_stands_in_rows_of_each_kind() -> None:
    drawn = Semantic(epsilon=8, max_queries=2).reach()["log"]
    paper = Semantic(epsilon=8, variant="paper").reach()["log"]
    noised = Semantic(epsilon=8, domain="sport", criterion="hbdp", max_queries=2).reach()["log"]
    assert drawn.counts.startswith("there is no count")
    assert "drawn at random: look at how often topics occur" in drawn.notes[0]
    assert "all other words are somebody's own" in paper.notes[0]
    assert noised.counts == (
        "searches of this user for the concept; of each user at most 2 count; plus integer Laplace noise of scale 0.5"
    )
    assert noised.margin95 is not None
    assert noised.margin95.high == 1  # q = e^-2: 2 q^2 / (1 + q) = 0.032


def test_histograms_too_large_to_be_of_use_are_refused(
    duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from querycloak.methods.semantic import hbdp as histograms

    monkeypatch.setattr(histograms, "_MOST_CELLS", 100)
    method = Semantic(epsilon=40, domain="sport", criterion="hbdp", max_queries=5)
    with pytest.raises(ParameterError, match="criterion='hbdp' draws noise for every concept and user"):
        released(method, opened(duckdb_engine, tmp_path))


GIVEN = Guarantee(kind="pure-dp", unit="user", neighbours="replace-query", epsilon=4, because="a proof")


# How many of a user's searches


def searches(lengths: list[int], concepts: list[int], allowed: list[int]) -> Searches:
    starts = np.concatenate([[0], np.cumsum(lengths)])
    names = pa.array([f"u{i}" for i in range(len(lengths))])
    return Searches(names, starts, np.array(allowed), np.array(concepts, np.int32), np.arange(sum(lengths)))


def test_the_earliest_are_drawn_those_marked_after_all_others() -> None:
    given = searches([3, 2, 4], [-1, 5, 6, -1, -1, 7, -1, 8, 9], [2, 1, 3])
    assert chosen_searches(given, given.concepts < 0).tolist() == [1, 2, 3, 5, 7, 8]
    assert chosen_searches(given, None).tolist() == [0, 1, 3, 5, 6, 7]
    assert chosen_searches(searches([2], [1, 2], [2]), None).tolist() == [0, 1]
    assert chosen_searches(searches([2], [1, 2], [0]), None).tolist() == []


def test_of_searches_at_one_time_texts_do_not_decide_which_domain_comes_out() -> None:
    """Two logs of one user whose queries have the same domains, in another order of their texts."""
    for domains in ([0, 1], [1, 0]):
        given = dataclasses.replace(searches([2], [3, 4], [1]), times=np.zeros(2, np.int64))
        (kept,) = chosen_searches(given, None, np.array(domains, np.int32))
        assert domains[kept] == 0


@pytest.mark.parametrize("first", ["zzyzx", "telephone", "weather"])
def test_with_several_domains_only_domains_decide_what_is_drawn(
    duckdb_engine: Engine, tmp_path: Path, first: str
) -> None:
    """Logs that differ in one search of the same domain, found in WordNet or not: the same domains come out."""
    nouns = wordnet()
    topics = topics_of(nouns, topic_concepts(nouns, "disease|sport"))
    sports = {nouns.shown(int(each)) for each in np.flatnonzero(topics == 2)}
    asked = [first, "tennis", "golf"]
    log = opened(duckdb_engine, tmp_path, [("u", f"12:0{i}:00", query, "", "") for i, query in enumerate(asked)])
    method = Semantic(epsilon=1, domain="disease|sport", criterion="nsqc", max_queries=1)
    (row,) = released(method, log, randomness=None)
    assert row["query"] in sports  # named topics before the rest, whether or not the first search is understood
    timed = Semantic(epsilon=1, domain="disease|sport", criterion="nsqc", max_queries=1, times="hour")
    (row,) = released(timed, log, randomness=None)
    assert row["time"].hour == 12


def test_with_one_domain_what_has_a_concept_goes_first_and_with_times_the_earliest(
    duckdb_engine: Engine, tmp_path: Path
) -> None:
    asked = ["zzyzx", "tennis"]
    log = opened(duckdb_engine, tmp_path, [("u", f"1{i}:00:00", query, "", "") for i, query in enumerate(asked)])
    method = Semantic(epsilon=40, domain="sport", criterion="nsqc", max_queries=1, times="drop")
    (row,) = released(method, log)
    assert row["query"] == "tennis"
    (row,) = released(Semantic(epsilon=40, domain="sport", criterion="nsqc", max_queries=1, times="hour"), log)
    assert (row["query"], row["time"].hour) == ("sport", 10)


@pytest.mark.parametrize(
    ("method", "lengths", "losses"),
    [
        (Semantic(epsilon=1.0, repeats="reuse"), [1, 4, 100], [1.0, 0.25, 0.01]),
        (Semantic(epsilon=1.0, max_queries=8), [1, 4, 100], [0.125] * 3),
        (Semantic(epsilon=1.0, budget_per="query"), [1, 4, 100], [1.0] * 3),
        (Semantic(epsilon=900.0, repeats="reuse"), [1, 100], [40.0, 9.0]),
    ],
)
def test_shares_of_the_budget_add_up_to_no_more_than_it(
    method: Semantic, lengths: list[int], losses: list[float]
) -> None:
    found = Replacement.of(method, wordnet()).losses(np.array(lengths))
    assert found.tolist() == pytest.approx(losses)
    if method.budget_per == "user":
        from fractions import Fraction

        for share, length in zip(found.tolist(), lengths, strict=True):
            drawn = min(length, method.max_queries or length)
            assert Fraction(share) * drawn <= Fraction(str(method.epsilon))


# A taxonomy of one's own


@pytest.mark.same_on_spark
def test_a_shops_categories_end_to_end(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "shop.csv", SHOP)
    asked = ["red shovel", "blades", "saucepans", "unknown thing"]
    log = opened(engine, tmp_path, [(f"u{i % 2}", f"12:0{i}:00", query, "", "") for i, query in enumerate(asked)])
    method = Semantic(epsilon=30, taxonomy=str(tmp_path / "shop.csv"), criterion="sqc2", budget_per="query")
    release = method.release(log, randomness=Randomness(seed=2))
    found = [row["query"] for row in release.table("log").to_pylist()]
    assert sorted(found) == ["goods", "knife", "pan", "spade"]
    release.save(tmp_path / "out")
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["parameters"]["taxonomy"] == "shop.csv"
    assert card["parameters"]["topics"] == "children"
    assert "every query was replaced by a concept" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(ParameterError, match="shop has no concept 'sport'"):
        Semantic(epsilon=1, taxonomy=str(tmp_path / "shop.csv"), domain="sport", max_queries=1).release(log)
    with pytest.raises(InputError, match="there is no taxonomy at"):
        Semantic(epsilon=1, taxonomy=str(tmp_path / "none.csv"), max_queries=1).release(log)


# Later releases about the same people


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.sqlite")
    made.set_limit("people", 4, 0)
    return made


DYNAMIC = Semantic(epsilon=4, domain="sport", max_queries=3)


def per_user(found: list[dict[str, Any]]) -> list[int]:
    return sorted(Counter(row["user"] for row in found).values())


def test_one_charge_pays_for_so_many_queries_of_each_user(engine: Engine, tmp_path: Path, ledger: Ledger) -> None:
    first = [("old", f"12:0{i}:00", "tennis", "", "") for i in range(2)]
    later = [(user, f"13:0{i}:00", "asthma", "", "") for user in ("old", "new") for i in range(5)]
    paid = {"ledger": ledger, "population": "people"}
    assert per_user(released(DYNAMIC, opened(engine, tmp_path, first), **paid)) == [2]
    assert per_user(released(DYNAMIC, opened(engine, tmp_path, later), **paid)) == [1, 3]  # 2 + 1, 3
    assert released(DYNAMIC, opened(engine, tmp_path, later), **paid) == []  # both have had theirs
    (charge,) = ledger.show("people")[0].charges
    assert charge.guarantee.epsilon == 4
    kept = tmp_path / "ledger.sqlite.users"
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    content = kept.read_bytes()
    assert not any(secret in content for secret in (b"old", b"new", b"tennis", b"asthma"))
    with pytest.raises(BudgetRefused):  # other numbers are another charge, and there is nothing left
        released(Semantic(epsilon=4, domain="sport", max_queries=2), opened(engine, tmp_path, first), **paid)


def test_a_dry_run_says_that_it_is_paid_for(
    duckdb_engine: Engine, tmp_path: Path, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    from querycloak.cli.release_command import show_dry_run

    log = opened(duckdb_engine, tmp_path)
    for said in ("charge: epsilon 4, delta 0 to people", "charge: nothing: an earlier release has paid"):
        show_dry_run(DYNAMIC, [str(tmp_path / "log.tsv")], ledger, "people", as_json=False)
        assert said in capsys.readouterr().out
        released(DYNAMIC, log, ledger=ledger, population="people")


def test_a_later_release_is_noted_with_the_charge_that_paid(
    duckdb_engine: Engine, tmp_path: Path, ledger: Ledger
) -> None:
    for name in ("june", "july"):
        log = opened(duckdb_engine, tmp_path, [(f"u-{name}", "12:00:00", "tennis", "", "")])
        release = DYNAMIC.release(log, ledger=ledger, population="people")
        release.save(tmp_path / name)
        assert json.loads((tmp_path / name / "card.json").read_text())["accounting"]["charge"] == 1
    (charge,) = ledger.show("people")[0].charges
    assert len(charge.releases) == 2


def test_what_is_spent_is_on_the_disk_before_the_first_draw(
    duckdb_engine: Engine, tmp_path: Path, ledger: Ledger
) -> None:
    class Dying(Randomness):
        def below_each(self, bounds: Any) -> Any:
            raise KeyboardInterrupt

    log = opened(
        duckdb_engine, tmp_path, [("u", "12:00:00", "tennis", "", "")] * 2 + [("u", "12:01:00", "golf", "", "")]
    )
    with pytest.raises(KeyboardInterrupt):
        DYNAMIC.release(log, ledger=ledger, population="people", randomness=Dying())
    found = released(DYNAMIC, log, ledger=ledger, population="people")
    assert len(found) == 1  # two were spent by the run that died


def test_a_spending_file_of_another_ledger_is_refused(duckdb_engine: Engine, tmp_path: Path, ledger: Ledger) -> None:
    log = opened(duckdb_engine, tmp_path)
    released(DYNAMIC, log, ledger=ledger, population="people")
    ledger.path.unlink()
    ledger.set_limit("people", 4, 0)
    with pytest.raises(InputError, match="goes with another ledger"):
        released(DYNAMIC, log, ledger=ledger, population="people")
    (tmp_path / "ledger.sqlite.users").write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(InputError, match="is not a spending record of querycloak"):
        released(DYNAMIC, log, ledger=ledger, population="people")


def test_another_charge_of_the_same_number_pays_for_nothing(
    duckdb_engine: Engine, tmp_path: Path, ledger: Ledger
) -> None:
    log = opened(duckdb_engine, tmp_path)
    released(DYNAMIC, log, ledger=ledger, population="people")
    ledger.path.unlink()
    ledger.set_limit("people", 40, 0)
    less = dataclasses.replace(GIVEN, epsilon=0.5)
    assert ledger.charge("people", less, method="other", parameters={}).id == 1
    with pytest.raises(InputError, match="goes with another ledger"):
        released(DYNAMIC, log, ledger=ledger, population="people")


def test_what_leaves_more_unprotected_is_charged_anew(duckdb_engine: Engine, tmp_path: Path, ledger: Ledger) -> None:
    ledger.set_limit("people", 40, 0, why="a second campaign")
    log = opened(duckdb_engine, tmp_path)
    for method in (DYNAMIC, dataclasses.replace(DYNAMIC, times="keep")):
        released(method, log, ledger=ledger, population="people")
    assert len(ledger.show("people")[0].charges) == 2


def test_a_campaign_goes_on_if_its_sentences_are_written_anew(
    duckdb_engine: Engine, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.set_limit("people", 40, 0, why="a second campaign")
    log = opened(duckdb_engine, tmp_path)
    released(DYNAMIC, log, ledger=ledger, population="people")
    monkeypatch.setattr(Semantic, "unprotected", lambda _: ("the same in other words",))
    monkeypatch.setattr(Semantic, "_because", lambda _: "the same proof in other words")
    released(DYNAMIC, log, ledger=ledger, population="people")
    assert len(ledger.show("people")[0].charges) == 1
    # What is revealed differs: charged anew, however it is written.
    released(dataclasses.replace(DYNAMIC, times="keep"), log, ledger=ledger, population="people")
    assert len(ledger.show("people")[0].charges) == 2


def spend_some(path: str, results: Any) -> None:
    spending = Spending(Ledger(path))
    campaign = spending.campaign("people", GIVEN, 10, lambda: 1)
    results.put(sum(int(spending.spend(campaign, ["a", "b"], np.array([1, 1])).sum()) for _ in range(8)))


def test_concurrent_runs_cannot_overdraw(tmp_path: Path, ledger: Ledger) -> None:
    ledger.charge("people", GIVEN, method="semantic", parameters={})
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=spend_some, args=(str(ledger.path), results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    drawn = sum(results.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    assert drawn == 20  # of 3 x 8 x 2 asked, 10 for each of the two users


def test_a_locked_spending_file_is_said(tmp_path: Path, ledger: Ledger) -> None:
    import sqlite3

    spending = Spending(ledger, wait_seconds=0.1)
    number = ledger.charge("people", GIVEN, method="semantic", parameters={}).id
    campaign = spending.campaign("people", GIVEN, 10, lambda: number)
    other = sqlite3.connect(spending.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ResourceError, match="the spending record is locked by another process"):
        spending.spend(campaign, ["a"], np.array([1]))
    other.execute("ROLLBACK")
    other.close()


# Parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "epsilon must be given, a finite number above 0"),
        ({"epsilon": 0}, "epsilon must be a finite number above 0, got 0"),
        ({"epsilon": 2000}, "epsilon must be at most 1,000"),
        ({"epsilon": 1, "criterion": "best"}, "criterion must be one of sqc1, sqc2, nsqc, hbdp, got 'best'"),
        ({"epsilon": 1, "budget_per": "day"}, "budget_per must be one of user, query"),
        ({"epsilon": 1, "times": "maybe"}, "times must be one of drop, month, day, hour, keep"),
        ({"epsilon": 1, "max_queries": 0}, "max_queries must be at least 1, got 0"),
        ({"epsilon": 1, "criterion": "hbdp"}, "criterion='hbdp' needs max_queries"),
        ({"epsilon": 1, "criterion": "hbdp", "max_queries": 3, "times": "day"}, "criterion='hbdp' releases counts"),
        ({"epsilon": 1, "criterion": "hbdp", "max_queries": 3, "domain": "topics"}, "'hbdp' needs one domain"),
        ({"epsilon": 1, "topics": "4"}, "topics goes with criterion='sqc2'"),
        ({"epsilon": 1, "max_queries": 3, "variant": "paper"}, "max_queries goes with variant='default'"),
        ({"epsilon": 1, "max_queries": 3, "repeats": "reuse"}, "max_queries goes with variant='default'"),
        ({"epsilon": 50, "budget_per": "query"}, "epsilon must be at most 40 for each query, got 50"),
        ({"epsilon": 1, "domain": "sport||disease"}, "domain must be names of concepts, separated by |, got"),
        ({"epsilon": 1}, "max_queries must be given, such as max_queries=1: epsilon is divided among"),
        ({"epsilon": 1, "budget_per": "query", "delta": 1e-6}, "delta goes with max_queries"),
        ({"epsilon": 1, "max_queries": 2, "delta": 0}, "delta must be"),
        ({"epsilon": 1, "max_queries": 2, "candidates": "some"}, "candidates must be depth=N, usual=N or totals=N"),
        ({"epsilon": 1, "max_queries": 2, "candidates": "depth=0"}, "candidates must be at least 1, got 0"),
        ({"epsilon": 1, "max_queries": 2, "candidates": "depth=3", "domain": "topics"}, "candidates goes with"),
        ({"epsilon": 1, "max_queries": 2, "candidates": "depth=3", "domain": "auto"}, "domain='auto' chooses"),
        ({"epsilon": 1, "taxonomy": "shop.json"}, "taxonomy must be wordnet, or a .csv, .tsv or .parquet file"),
    ],
)  # fmt: skip
def test_semantic_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as error:
        Semantic(**options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ("disease|genetic disease", "domain names 'genetic disease', which lies within 'disease'"),
        ("sport|entity", "domain names the root beside other concepts"),
        ("zzyzx", "WordNet 3.0 nouns has no concept 'zzyzx'"),
    ],
)
def test_domains_that_make_no_sense_are_refused_before_reading(
    duckdb_engine: Engine, tmp_path: Path, domain: str, message: str
) -> None:
    log = opened(duckdb_engine, tmp_path)
    (tmp_path / "log.tsv").unlink()
    with pytest.raises(ParameterError) as error:
        Semantic(epsilon=1, domain=domain, max_queries=1).release(log)
    assert message in str(error.value)
