"""Phrases by attributes, on both engines: cells and bounds against plain loops, counts by hand (phrases.md)."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.audits.guarantees.phrase_levels import HeldCells
from querycloak.audits.guarantees.runs import draw_runs
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.language.word_model import BEGIN, END
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.phrases.phrase_cells import TOKENS, CellsOfPhrases
from querycloak.privacy.calibration.gaussian import squared_loss
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness
from tests.engines.test_runs import UNLIKELY, alike, outputs, single_runs

SINCE, UNTIL = datetime(2024, 1, 1), datetime(2024, 1, 22)
DOMAIN = "device=desktop;mobile"
EXACT: dict[str, Any] = {"noise": 0.01, "threshold": 1, "max_keys_per_user": 1000}
NOISELESS: dict[str, Any] = {"epsilon": 1000, "delta": 0.9, "selection": "laplace", "max_keys_per_user": 40}


@dataclass(frozen=True)
class Asked:
    user: str
    time: datetime
    query: str
    country: str | None
    device: str | None


def some_rows(seed: int, users: int) -> list[Asked]:
    draw, rows = random.Random(seed), []
    for user in range(users):
        for _ in range(draw.randint(1, 6)):
            at = SINCE + timedelta(minutes=draw.randrange(21 * 24 * 60))
            words = " ".join(draw.choice("abc") for _ in range(draw.randint(1, 4)))
            country = draw.choice(["DE", "FR", None])
            rows.append(Asked(f"u{user}", at, words, country, draw.choice(["desktop", "MOBILE", "tablet", None])))
    return rows


def nearly_without_noise(log: SearchLog, **options: Any) -> Mapping[str, Any]:
    """Tables whose cells have so little noise that counts are those of the definition."""
    counted = qc.Phrases(**NOISELESS, **options).count(log)
    assert isinstance(counted, CellsOfPhrases)
    sharp = replace(counted, plan=replace(counted.plan, noise=Gaussian(0.01)))
    return sharp.draw(Randomness(seed=1)).tables


def opened(engine: Engine, path: Path, rows: Sequence[Asked]) -> SearchLog:
    pq.write_table(pa.Table.from_pylist([vars(row) for row in rows]), path)
    choices = Choices(since=SINCE, until=UNTIL, attributes=("country", "device"))
    return read(path, engine=engine, choices=choices)


def runs_of(query: str, longest: int) -> set[str]:
    """The keys of a query, marks included."""
    tokens = [BEGIN, *query.split(" "), END]
    runs = (tokens[start:end] for start, end in itertools.combinations(range(len(tokens) + 1), 2))
    return {" ".join(run) for run in runs if 1 <= len([each for each in run if each not in (BEGIN, END)]) <= longest}


def place_of(row: Asked) -> tuple[str, str]:
    """Week and device, as a public domain has them."""
    monday = row.time - timedelta(days=row.time.weekday())
    device = (row.device or "").lower()
    return monday.date().isoformat(), device if device in ("desktop", "mobile") else "other"


def counts_of(table: pa.Table, *by: str) -> dict[tuple[Any, ...], int]:
    names = [*(["phrase", "begins", "ends"] if "phrase" in table.column_names else ["query"]), *by]
    return {tuple(row[name] for name in names): row["count"] for row in table.to_pylist()}


def marked(key: str) -> tuple[str, bool, bool]:
    return key.strip(f"{BEGIN}{END} "), key.startswith(BEGIN), key.endswith(END)


def test_by_hand_every_cell_of_a_small_log(engine: Engine, tmp_path: Path) -> None:
    """Twenty users ask `red car`, eight of them on both devices; twelve others ask `car` on the desktop."""
    at = datetime(2024, 1, 10)
    rows = [Asked(f"r{user}", at, "red car", "DE", "desktop") for user in range(20)]
    rows += [Asked(f"r{user}", at + timedelta(days=1), "red car", "DE", "mobile") for user in range(8)]
    rows += [Asked(f"c{user}", at, "car", None, "desktop") for user in range(12)]
    log = opened(engine, tmp_path / "log.parquet", rows)
    release = nearly_without_noise(log, by="device", domain_of=DOMAIN, longest=2, queries=True)
    assert release["phrases"].column_names == ["phrase", "words", "begins", "ends", "device", "count"]
    assert release["queries"].column_names == ["query", "device", "count"]
    both = {"desktop": 20, "mobile": 8}
    cars = {"desktop": 32, "mobile": 8}
    expected = {("car", False, False, device): n for device, n in cars.items()}
    expected |= {("car", False, True, device): n for device, n in cars.items()}
    expected |= {("car", True, end, "desktop"): 12 for end in (False, True)}
    for begins, ends in itertools.product((False, True), repeat=2):
        expected |= {("red car", begins, ends, device): n for device, n in both.items()}
    expected |= {("red", begins, False, device): n for begins in (False, True) for device, n in both.items()}
    assert counts_of(release["phrases"], "device") == expected
    assert counts_of(release["queries"], "device") == {
        ("red car", "desktop"): 20,
        ("red car", "mobile"): 8,
        ("car", "desktop"): 12,
    }
    private = qc.Phrases(**EXACT, by="country", longest=1).release(
        opened(engine, tmp_path / "again.parquet", rows), randomness=Randomness(seed=1)
    )
    assert private["phrases"].column_names == ["phrase", "words", "begins", "ends", "country", "count"]
    assert counts_of(private["phrases"], "country") == {
        ("car", False, False, "DE"): 20,
        ("car", False, True, "DE"): 20,
        ("red", False, False, "DE"): 20,
        ("red", True, False, "DE"): 20,
        ("car", False, False, "other"): 12,
        ("car", False, True, "other"): 12,
        ("car", True, False, "other"): 12,
        ("car", True, True, "other"): 12,
    }


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_with_hardly_any_noise_private_values_are_columns_of_the_key(
    longest: int, duckdb_engine: Engine, tmp_path: Path
) -> None:
    """A pair comes out with a value only if its words came out with this value, whatever they did with others."""
    rows = some_rows(longest, 30)
    users: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in rows:
        for key in runs_of(row.query, longest):
            users[*marked(key), row.country or "other", row.device or "other"].add(row.user)
    log = opened(duckdb_engine, tmp_path / "log.parquet", rows)
    release = qc.Phrases(**EXACT, longest=longest, by="country,device").release(log, randomness=Randomness(seed=1))
    expected = {key: len(mine) for key, mine in users.items() if len(mine) > 1}
    assert counts_of(release["phrases"], "country", "device") == expected


def bounded_by_hand(
    rows: Sequence[Asked], selected: Mapping[str, Sequence[tuple[str, ...]]], most: int, longest: int
) -> Counter[tuple[Any, ...]]:
    """Users of each (table, key, cell): of each user the first pairs by time, number of tokens, key and cell."""
    weeks, devices = sorted({place_of(row)[0] for row in rows}), ["desktop", "mobile", "other"]
    numbers = {
        (table, *key): (list(selected).index(table), place)
        for table, keys in selected.items()
        for place, key in enumerate(keys)
    }
    firsts: dict[str, dict[tuple[Any, ...], datetime]] = defaultdict(dict)
    for row in rows:
        held = {("phrases", run) for run in runs_of(row.query, longest)} | {("queries", row.query)}
        for table, text in held:
            key = (table, text, row.country or "other")
            if key in numbers:
                pair = (key, place_of(row))
                firsts[row.user][pair] = min(firsts[row.user].get(pair, row.time), row.time)
    counted: Counter[tuple[Any, ...]] = Counter()
    for pairs in firsts.values():
        order = sorted(
            pairs, key=lambda each: (pairs[each], numbers[each[0]], weeks.index(each[1][0]), devices.index(each[1][1]))
        )
        counted.update(order[:most])
    return counted


def selection_of(counted: CellsOfPhrases, seed: int) -> dict[str, pa.Table]:
    """Some of all keys, as if they had come out."""
    draw = np.random.default_rng(seed)
    every = HeldCells.of(counted).keys
    return {name: keys.filter(pa.array(draw.random(keys.num_rows) < 0.6)) for name, keys in every.items()}


@pytest.mark.parametrize("most", [1, 3, 7, 1000])
def test_each_user_is_bounded_once_over_all_keys_tables_and_cells(engine: Engine, tmp_path: Path, most: int) -> None:
    rows = some_rows(5, 40)
    log = opened(engine, tmp_path / "log.parquet", rows)
    method = qc.Phrases(
        epsilon=8, delta=1e-3, by="week,country,device", domain_of=DOMAIN, cells_per_user=most, longest=2, queries=True,
        selection="laplace", max_keys_per_user=4,
    )  # fmt: skip
    counted = method.count(log)
    assert isinstance(counted, CellsOfPhrases)
    selected = selection_of(counted, most)
    keys = {
        name: [tuple(row.values()) for row in table.select([*table.column_names[:1], "country"]).to_pylist()]
        for name, table in selected.items()
    }
    numbered = [(name, key) for name, mine in keys.items() for key in mine]
    bounded = counted.bounded(selected)
    weeks = ["2024-01-01", "2024-01-08", "2024-01-15"]
    places = [(week, device) for week in weeks for device in ("desktop", "mobile", "other")]
    ours = {
        ((numbered[number // 9][0], *numbered[number // 9][1]), places[number % 9]): count
        for number, count in zip(bounded.ids.tolist(), bounded.counts.tolist(), strict=True)
    }
    expected = bounded_by_hand(rows, keys, most, 2)
    assert ours == expected
    # Law: one user adds to at most so many cells; whoever counts for a phrase counts for the released runs within it.
    assert sum(ours.values()) <= most * 40
    for ((table, text, country), cell), count in ours.items():
        tokens = text.split(" ")
        for run in (" ".join(tokens[1:]), " ".join(tokens[:-1])) if table == "phrases" and len(tokens) > 1 else ():
            if ("phrases", (run, country)) in numbered:
                assert count <= ours[("phrases", run, country), cell]


def crowd(tmp_path: Path, engine: Engine, users: int = 200) -> SearchLog:
    draw, rows = random.Random(3), []
    for user in range(users):
        for query in draw.sample(["red car", "car", "red house", "old red car", "house in the wood"], 3):
            at = SINCE + timedelta(minutes=draw.randrange(21 * 24 * 60))
            rows.append(
                Asked(f"u{user}", at, query, draw.choice(["DE", "DE", "FR"]), draw.choice(["desktop", "mobile"]))
            )
    return opened(engine, tmp_path / f"crowd-{users}.parquet", rows)


METHODS: dict[str, dict[str, Any]] = {
    "public": {"by": "device,week", "domain_of": DOMAIN, "queries": True},
    "private": {"by": "country", "queries": True},
    "both": {"by": "country,device", "domain_of": DOMAIN, "longest": 2},
    "gaussian": {"by": "month", "selection": "gaussian", "max_keys_per_user": 8},
    "explicit noise": {"by": "country", "noise": 1, "threshold": 9, "epsilon": None, "delta": None},
}


@pytest.mark.parametrize("name", METHODS)
def test_seeded_releases_are_equal_on_both_engines(
    name: str, duckdb_engine: Engine, spark_engine: Engine, tmp_path: Path
) -> None:
    method = qc.Phrases(**{"epsilon": 12, "delta": 1e-3, **METHODS[name]})
    releases = [
        method.release(crowd(tmp_path, engine), randomness=Randomness(seed=3))
        for engine in (duckdb_engine, spark_engine)
    ]
    assert releases[0]["phrases"].num_rows > 10
    releases[0].save(tmp_path / "out")
    assert qc.load(tmp_path / "out").table("phrases") == releases[0].table("phrases")  # also where auto chose
    assert dict(releases[0].tables) == dict(releases[1].tables)


def test_printed_cells_are_consistent_and_above_the_cut(duckdb_engine: Engine, tmp_path: Path) -> None:
    log, lowered = crowd(tmp_path, duckdb_engine), 0
    method = qc.Phrases(epsilon=12, delta=1e-3, by="device", domain_of=DOMAIN, selection="laplace", max_keys_per_user=8)
    for seed in range(5):
        table = method.release(log, randomness=Randomness(seed=seed))["phrases"]
        counts = counts_of(table, "device")
        for (phrase, begins, ends, device), count in counts.items():
            tokens = [*([BEGIN] * begins), *phrase.split(" "), *([END] * ends)]
            for run in (tokens[1:], tokens[:-1]):
                within = counts.get((*marked(" ".join(run)), device)) if set(run) - {BEGIN, END} else None
                assert within is None or count <= within
                lowered += count == within
        assert min(counts.values()) > 0
    assert lowered, "noise put no cell above the same cell of a run: nothing was tested"


def test_a_gaussian_ledger_is_charged_for_the_noise_of_cells(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Also where auto chooses: the draws of the chosen selection are not all of them."""
    log, losses = crowd(tmp_path, duckdb_engine), {}
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for kind in (qc.Phrases, qc.Queries):
        method = kind(epsilon=9, delta=1e-3, by="device", domain_of=DOMAIN)
        ledger.set_limit(kind.name, 100, 1e-1, accounting="gaussian")
        release = method.release(log, ledger=ledger, population=kind.name, randomness=Randomness(seed=1))
        assert method.cell_plan is not None
        cells = squared_loss(method.cell_plan.noise, method.cell_plan.per_user)
        losses[kind.name] = release.card["gaussian_dp"]["squared_loss"], cells
    for total, cells in losses.values():
        assert total > 1.5 * float(cells)


def test_sums_over_cells_make_the_model(duckdb_engine: Engine, tmp_path: Path) -> None:
    method = qc.Phrases(**NOISELESS, by="device", domain_of=DOMAIN, queries=True)
    release = method.release(crowd(tmp_path, duckdb_engine), randomness=Randomness(seed=3))
    release.save(tmp_path / "out")
    assert qc.verify(tmp_path / "out").problems == ()
    model = qc.load(tmp_path / "out").model()
    summed: Counter[tuple[str, ...]] = Counter()
    for row in release["phrases"].to_pylist():
        summed[(BEGIN,) * row["begins"] + tuple(row["phrase"].split(" ")) + (END,) * row["ends"]] += row["count"]
    assert {gram: n for gram, n in model.grams.items() if gram != (END,)} == dict(summed)
    assert model.complete("old")[0].query == "old red car"


@pytest.mark.parametrize("name", ["public", "both"])
def test_many_draws_at_once_have_the_law_of_single_ones(name: str, duckdb_engine: Engine, tmp_path: Path) -> None:
    options = {**METHODS[name], "selection": "laplace", "max_keys_per_user": 3, "longest": 1}
    method = qc.Phrases(epsilon=6, delta=0.1, cells_per_user=4, **options)
    log = opened(duckdb_engine, tmp_path / "log.parquet", some_rows(2, 12))
    one_by_one = single_runs(method, log, 40)
    assert len(set(one_by_one)) > 1
    many = outputs(draw_runs(method.count(log), Randomness(seed=3), 2_000))
    assert alike(_first_rows(one_by_one), _first_rows(many)) > UNLIKELY
    spoiled = [f"{text} and more" if run % 10 == 0 else text for run, text in enumerate(_first_rows(many))]
    assert alike(spoiled, _first_rows(many)) < UNLIKELY


def _first_rows(published: Sequence[str]) -> list[str]:
    """Numbers of rows, in steps of four: whole outputs of so many cells are hardly ever equal."""
    return [f"{text.count('phrases [') // 4} {text.count('True]')}" for text in published]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "country", "domain_of": "device=iso3166"}, "no attribute of by"),
        ({"by": "country", "domain_of": "country=/nowhere"}, "a file in UTF-8, or one of iso3166"),
        ({"by": "words"}, "by must be other names than those of columns"),
        ({"by": "weight"}, "by must be other names than those of columns"),
        ({"by": "device", "domain_of": DOMAIN, "counts": "none"}, "noisy counts of users"),
        ({"by": "week", "two_draws": True, "selection": "laplace"}, "noisy counts of users"),
        ({"by": "device", "domain_of": DOMAIN, "cells_per_user": 0}, "cells_per_user must be"),
        ({"by": "week", "epsilon": None, "delta": None, "noise": 1, "threshold": 9}, "public attributes are for a"),
    ],
)
def test_bad_options_have_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        qc.Phrases(**{"epsilon": 8, "delta": 1e-4, **options})


def test_logs_and_periods_that_do_not_fit_are_refused(duckdb_engine: Engine, tmp_path: Path) -> None:
    opened(duckdb_engine, tmp_path / "log.parquet", some_rows(1, 3))
    log = read(tmp_path / "log.parquet", engine=duckdb_engine)
    for method, message in (
        (qc.Phrases(epsilon=8, delta=1e-4, by="country"), "the log was read without: name them with attributes"),
        (qc.Phrases(epsilon=8, delta=1e-4, by="week"), "since and until must be given"),
    ):
        with pytest.raises(ParameterError, match=message):
            method.release(log)
    long = Choices(since=datetime(1900, 1, 1), until=UNTIL)
    with pytest.raises(ParameterError, match="at most 20,000 public cells"):
        qc.Phrases(epsilon=8, delta=1e-4, by="day").release(
            read(tmp_path / "log.parquet", engine=duckdb_engine, choices=long)
        )


def test_tokens_are_no_column_of_a_release() -> None:
    assert TOKENS in qc.Phrases.taken_names
