"""Made-up logs: parameters, the budget of all parts, rows from noisy parts, audits that name a broken part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import querycloak as qc
from querycloak import contract
from querycloak.audits.guarantees import method_mechanism, synthetic_parts
from querycloak.audits.guarantees.exact_test import OWN_KEYS
from querycloak.audits.guarantees.method_runs import keys_of_runs
from querycloak.audits.guarantees.method_steps import queries_of
from querycloak.audits.guarantees.runs import draw_runs
from querycloak.audits.guarantees.steps import Past, steps_of
from querycloak.audits.guarantees.synthetic_parts import LOSS, CameOut, losses_of_parts
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.methods.forcing_accounts import forced_out_rule
from querycloak.methods.synthetic.laws import digest_of
from querycloak.methods.synthetic.made_up_log import made_up_log
from querycloak.methods.synthetic.made_up_queries import digest_of_words
from querycloak.methods.synthetic.parts import KEYS, NoisyParts, SyntheticParts
from querycloak.methods.synthetic.parts_plan import LEVEL_SHARES, SHARES, PartsPlan
from querycloak.methods.synthetic.shape import CELLS
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.calibration.gaussian import largest_loss, squared_loss
from querycloak.privacy.calibration.selection import together
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.saving import LAYOUTS
from tests.logs import write


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": 0}, "users must be"),
        ({"split": "words=0"}, "above 0 for words"),
        ({"split": "queries=0"}, "above 0 for queries"),
        ({"split": "users=0"}, "above 0 for users"),
        ({"split": "clicks=0,hosts=0"}, "0 for ranks"),
        ({"split": "verbs=1"}, "a whole number of parts"),
        ({"split": "words=1,words=2"}, "a whole number of parts"),
        ({"log_layout": "xml"}, "log_layout"),
        ({"delta": None}, "must be given"),
    ],
)
def test_bad_parameters_are_refused_before_any_log(options: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        qc.Synthetic(**{"epsilon": 3, "delta": 1e-6, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("split", [None, "words=60,hosts=0,transitions=0"])
def test_the_budget_of_all_parts_is_that_of_the_note(split: str | None) -> None:
    """synthetic.md, *The budget from this note alone*."""
    method = qc.Synthetic(epsilon=3, delta=1e-6, split=split)
    plan, shares = method.plan, method.plan.shares
    whole = largest_loss(3, 1e-6 / 2)
    draws = [GaussianRounds(0.0, 0.0)]
    for name, each in plan.selected.items():
        level = int(name[-1]) - 1 if name.startswith("level-") else None
        part = shares[name] if level is None else shares["words"] * LEVEL_SHARES[level] / sum(LEVEL_SHARES)
        draw = each.draw()
        assert isinstance(draw, GaussianRounds)
        assert draw.squared_loss <= whole * part / sum(shares.values())
        draws.append(draw)
    for name, public in plan.public.items():
        assert isinstance(public.noise, Gaussian)
        lost = squared_loss(public.noise, CELLS[name].squared if name in CELLS else 1)
        assert lost <= whole * shares[name] / sum(shares.values())
        draws.append(GaussianRounds(lost, 0.0))
    assert set(plan.public) | {"words", "queries", "clicks", "hosts"} == set(SHARES) - (
        {"transitions"} if split else set()
    )
    assert together(3, *draws) <= 1e-6
    delta = method.proven().delta
    assert delta is not None
    assert delta <= 1e-6


@pytest.mark.parametrize("part", ["queries", "clicks", "hosts"])
def test_the_card_counts_the_accounts_of_the_part_that_needs_fewest(part: str) -> None:
    """synthetic.md, *Unprotected*."""
    method = qc.Synthetic(epsilon=8, delta=1e-6, split=f"{part}=300")
    accounts = {name: plan.forced_out.accounts for name, plan in method.plan.selected.items()}
    assert min(accounts, key=lambda name: accounts[name]) == part
    assert f" {accounts[part]} bring out one text" in method.proven().unprotected[-1]
    rule = forced_out_rule(method.name, method.variant, method.parameters())
    assert rule is not None
    assert rule.accounts == accounts[part]


def noisy_parts() -> NoisyParts:
    """Parts of a small world: three queries, four words."""
    rows = [("red", False, False), ("blue", False, False), ("shoe", False, False), ("red", True, False)]
    rows += [("blue", True, False), ("shoe", False, True), ("red shoe", True, True), ("red", False, True)]
    phrases = pa.table({
        "phrase": [phrase for phrase, _, _ in rows],
        "words": pa.array([len(phrase.split()) for phrase, _, _ in rows], pa.int64()),
        "begins": [begins for _, begins, _ in rows],
        "ends": [ends for _, _, ends in rows],
        "count": pa.array([90, 80, 70, 50, 40, 60, 20, 15], pa.int64()),
    })  # fmt: skip
    cells = {name: np.full(each.number, 5, np.int64) for name, each in CELLS.items()}
    cells["users"] = np.array([40, 30, 20, 9, *([-3] * (CELLS["users"].number - 4))])
    queries = pa.table({"query": ["red shoe", "a.com"], "count": [20, 30]})
    clicks = pa.table({"query": ["a.com"], "url": ["http://a.com/"], "count": [12]})
    hosts = pa.table({"word": ["shoe"], "host": ["http://shoe.com"], "count": [8]})
    pairs = pa.table({"query": ["red shoe"], "next_query": ["a.com"], "count": [4]})
    return NoisyParts(phrases, queries, clicks, hosts, pairs, cells, dict.fromkeys(cells, 1.0))


def test_rows_are_marked_ordered_and_the_same_each_time() -> None:
    made = made_up_log(noisy_parts(), 300, (None, None), 7)
    table, again = (pa.Table.from_batches(made) for _ in range(2))
    assert table.equals(again)
    assert not table.equals(pa.Table.from_batches(made_up_log(noisy_parts(), 300, (None, None), 8)))
    rows = table.to_pylist()
    assert len({row["user"] for row in rows}) == 300
    assert all(row["user"].startswith("made-up-") for row in rows)
    keys = [(row["user"], row["time"]) for row in rows]
    assert keys == sorted(keys)
    assert {word for row in rows for word in row["query"].split()} == {"red", "blue", "shoe", "a.com"}
    for row in rows:
        assert (row["rank"] is None) or row["url"] is not None
        known = {"a.com": "http://a.com/"}.get(row["query"], "http://shoe.com")
        assert row["url"] is None or row["url"] == known or row["url"].endswith(".invalid")
    assert {row["url"] for row in rows} >= {"http://a.com/", "http://shoe.com", None}


def test_later_pages_are_clicked_like_the_first() -> None:
    """synthetic.md, *Everything else is post-processing*."""
    parts = noisy_parts()
    ranks = np.zeros((2, 13), np.int64)
    ranks[:, [0, 1, 3, 11, 12]] = [5, 60, 20, 50, 40]
    parts = replace(parts, cells={**parts.cells, "ranks": ranks.reshape(-1)})
    made = pa.Table.from_batches(made_up_log(parts, 3_000, (None, None), 7))
    clicked = made.filter(pc.is_valid(made["url"]))
    alone = clicked.group_by(["user", "time", "query"]).aggregate([("rank", "max"), ("rank", "count")])
    numbers = alone.filter(pc.equal(alone["rank_count"], 1))["rank_max"].drop_null().to_numpy()
    counts = np.bincount(numbers, minlength=51)
    assert set(np.flatnonzero(counts)) == {place + 10 * page for page in range(5) for place in (1, 3)}
    assert counts[11] / counts[13] == pytest.approx(3, rel=0.25)
    assert counts[[11, 13]].sum() / counts[21:].sum() == pytest.approx(5 / 4, rel=0.15)
    ranks[:, 1:11] = 0
    bare = replace(parts, cells={**parts.cells, "ranks": ranks.reshape(-1)})
    made = pa.Table.from_batches(made_up_log(bare, 300, (None, None), 7))
    assert set(made["rank"].drop_null().to_pylist()) == set(range(11, 51))


def test_the_number_of_users_is_noisy_and_nothing_comes_of_nothing() -> None:
    parts = noisy_parts()
    assert made_up_log(parts, None, (None, None), 1).users == 99
    nothing = replace(parts, phrases=parts.phrases.slice(0, 0), queries=parts.queries.slice(0, 0))
    assert list(made_up_log(replace(nothing, clicks=parts.clicks.slice(0, 0), hosts=parts.hosts.slice(0, 0),
                                    transitions=parts.transitions.slice(0, 0)), 9, (None, None), 1)) == []  # fmt: skip


def test_a_frequent_word_without_marks_neither_begins_nor_ends_a_query() -> None:
    """Of many users of "of" few ask it alone, or the mark would have come out."""
    rows = [("of", 0, 0, 300), *((f"word{at}", 0, 0, 100) for at in range(8))]
    rows += [(f"word{at}", begins, 1 - begins, 60) for at in range(8) for begins in (0, 1)]
    phrases = pa.table({
        "phrase": [phrase for phrase, *_ in rows],
        "words": pa.array([1] * len(rows), pa.int64()),
        "begins": [bool(begins) for _, begins, _, _ in rows],
        "ends": [bool(ends) for _, _, ends, _ in rows],
        "count": pa.array([count for *_, count in rows], pa.int64()),
    })  # fmt: skip
    made = made_up_log(replace(noisy_parts(), phrases=phrases), 400, (None, None), 7)
    queries = [row["query"].split() for row in pa.Table.from_batches(made).to_pylist()]
    assert sum("of" in query for query in queries) > 0.05 * len(queries)
    for edge in (0, -1):
        assert sum(query[edge] == "of" for query in queries) < 0.02 * len(queries)


@pytest.mark.parametrize("left_out", [[], ["sources"]])
def test_a_log_that_cannot_hold_clicks_gets_none(left_out: list[str]) -> None:
    """Noise in the numbers of clicks made up some, and the remark said that there are none."""
    parts = noisy_parts()
    cells = {name: counts for name, counts in parts.cells.items() if name not in left_out}
    made = made_up_log(replace(parts, cells=cells).without_clicks(), 100, (None, None), 7)
    table = pa.Table.from_batches(made)
    assert table.num_rows > 100
    assert table["url"].null_count == table["rank"].null_count == table.num_rows


def test_words_have_one_digest() -> None:
    words = np.array([4, 0, 17], np.int64)
    assert digest_of(words.tolist()) == int(digest_of_words(words, 0, 3))


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory, duckdb_engine: Engine) -> SyntheticParts:
    _ = method_mechanism  # registers what is counted
    path = write(tmp_path_factory.mktemp("made-up") / "log.tsv", contract.small_log())
    counted = qc.Synthetic(epsilon=60, delta=0.01).count(qc.read(path, engine=duckdb_engine))
    assert isinstance(counted, SyntheticParts)
    return counted


def over_their_share(counted: SyntheticParts, broken: PartsPlan) -> set[tuple[str, str]]:
    """Part and measure of every limit that a copy with this plan exceeds."""
    method = counted.method
    sound = method.plan
    try:
        method.__dict__["plan"] = broken
        steps = losses_of_parts(counted)
    finally:
        method.__dict__["plan"] = sound
    return {(step.name, each.what) for step in steps for each in step.limits if each.value > each.most}


@pytest.mark.parametrize("part", ["level-1", "level-3", "queries", "clicks", "hosts"])
def test_a_selected_part_with_little_noise_or_no_threshold_is_caught_by_name(
    counted: SyntheticParts, part: str
) -> None:
    sound = counted.method.plan
    part = next(name for name in sound.selected if name.startswith(part))  # (query, url) pairs are called clicked
    plan = sound.selected[part]
    third = replace(plan, noise=Gaussian(plan.noise.size / 3))  # type: ignore[type-var]
    without = replace(plan, threshold=1)  # type: ignore[type-var]
    assert over_their_share(counted, sound) == set()
    caught = over_their_share(counted, replace(sound, selected={**sound.selected, part: third}))
    assert (part, LOSS) in caught
    assert {name for name, _ in caught} == {part}
    assert over_their_share(counted, replace(sound, selected={**sound.selected, part: without})) == {(part, OWN_KEYS)}


@pytest.mark.parametrize("part", [*CELLS, "transitions"])
def test_a_public_part_with_a_third_of_its_noise_is_caught_by_name(counted: SyntheticParts, part: str) -> None:
    quiet = replace(counted, method=qc.Synthetic(epsilon=0.5, delta=0.01))
    sound = quiet.method.plan
    third = replace(sound.public[part], noise=Gaussian(sound.public[part].noise.size / 3))
    assert over_their_share(quiet, replace(sound, public={**sound.public, part: third})) == {(part, LOSS)}


def test_the_exact_instrument_sees_every_part(counted: SyntheticParts) -> None:
    steps = {step.name: step for step in steps_of(counted, Past())}
    assert {f"{part}: counts" for part in ("queries", "clicks", "hosts", "transitions", *CELLS)} <= set(steps)
    assert sum(int(n) for n in steps["users: counts"].centres.values()) == 60
    assert steps["hours: counts"].l2_squared == 16


def test_parts_are_counted_given_queries_of_both_neighbours(
    counted: SyntheticParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that only the other log holds may have come out: each log's own queries were taken."""
    queries, words = [], []

    def true_cells(_: SyntheticParts, part: str, released: pa.ChunkedArray) -> IntArray:
        queries.append(released.to_pylist())
        return np.zeros(CELLS[part].number, dtype=np.int64)

    def counted_keys(_: SyntheticParts, __: str, released: pa.ChunkedArray, single: pa.ChunkedArray) -> object:
        queries.append(released.to_pylist())
        words.append(single.to_pylist())
        return object()

    monkeypatch.setattr(SyntheticParts, "true_cells", true_cells)
    monkeypatch.setattr(SyntheticParts, "counted", counted_keys)
    monkeypatch.setattr(synthetic_parts, "steps_of_levels", lambda *_: [])  # they look at no released query
    steps_of(counted, Past(queries=frozenset({"elsewhere asked"})))
    assert all("elsewhere asked" in each for each in queries)
    assert all({"elsewhere", "asked"} <= set(each) for each in words)
    assert queries
    assert words


@pytest.mark.slow
def test_many_runs_publish_the_parts(counted: SyntheticParts) -> None:
    drawn = draw_runs(counted, Randomness(3), 20)
    assert set(drawn.tables) == {"phrases", "queries", "clicks", "hosts", "cells"}
    cells = drawn.tables["cells"]
    assert set(cells["part"].to_pylist()) == set(CELLS)
    mine = [row["count"] for row in cells.to_pylist() if row["part"] == "sessions"]
    true = counted.true_cells("sessions", pa.chunked_array([pa.array([], pa.string())]))
    assert abs(np.mean(mine) * CELLS["sessions"].number - true.sum()) < 60


@pytest.mark.parametrize("part", ["sources", "lengths", "ranks"])
def test_cells_of_many_runs_are_those_of_each_runs_queries(counted: SyntheticParts, part: str) -> None:
    texts = pa.array(sorted(queries_of(counted)), pa.string())
    by_run = np.random.default_rng(1).random((6, len(texts))) < 0.5
    by_run[0] = False
    cells = synthetic_parts._true_cells(counted, part, CameOut(texts, by_run))
    for mine, chosen in zip(cells, by_run, strict=True):
        released = pa.chunked_array([texts.filter(pa.array(chosen))])
        assert mine.tolist() == counted.true_cells(part, released).tolist()
    assert len({tuple(each) for each in cells.tolist()}) > 1


@pytest.mark.parametrize("part", ["clicks", "hosts"])
def test_keys_of_many_runs_come_out_as_those_of_a_release_do(counted: SyntheticParts, part: str) -> None:
    """Half of the runs have all texts, as a release may; in the others none came out, and nothing does."""
    runs, name = 600, KEYS[part][0]
    keys = counted.engine.fetch(counted.keys_of_users(part))
    texts = keys[name].combine_chunks().unique()
    came_out = CameOut(texts, np.repeat([[True], [False]], runs, axis=0).repeat(len(texts), axis=1))
    table = synthetic_parts._keys_of_runs(counted, part, came_out, Randomness(4))
    assert table["run"].to_numpy().max() < runs
    known = pa.chunked_array([texts])
    theirs = keys_of_runs(counted.counted(part, known, known), Randomness(5), runs)
    numbers = [np.bincount(each["run"].to_numpy(), minlength=runs)[:runs] for each in (table, theirs)]
    assert numbers[0].mean() > 0.5
    error = np.sqrt(sum(each.var() for each in numbers) / runs)
    assert abs(numbers[0].mean() - numbers[1].mean()) < 5 * error
    totals = [each["count"].to_numpy(zero_copy_only=False) for each in (table, theirs)]
    assert np.nanmean(totals[0]) == pytest.approx(np.nanmean(totals[1]), rel=0.1)


@pytest.mark.slow
def test_a_release_reads_back_as_a_log_in_every_layout(tmp_path: Path) -> None:
    log = qc.read(write(tmp_path / "log.tsv", contract.small_log()))
    for layout, name in LAYOUTS.items():
        out = tmp_path / layout
        method = qc.Synthetic(epsilon=60, delta=0.01, users=30, log_layout=layout)  # type: ignore[arg-type]
        method.release(log, randomness=Randomness(5)).save(out)
        assert qc.verify(out).ok
        assert name in json.loads((out / "card.json").read_text())["checksums"]
        with qc.read(out / name) as one, qc.read(out / "log.parquet") as other:
            counts = [each.engine.fetch(each.searches.count().as_table())[0][0].as_py() for each in (one, other)]
            assert counts[0] == counts[1] > 30
        assert qc.load(out).model().probability("query 1") > 0
