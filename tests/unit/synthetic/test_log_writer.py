"""The synthetic log: the same bytes for the same seed, the same rows in every format, the truth true and apart."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import querycloak as qc
from querycloak.errors import InputError, ParameterError, ResourceError
from querycloak.files.locked_folder import UNFINISHED
from querycloak.files.private_file import put_new
from querycloak.releases import output_filter as patterns
from querycloak.synthetic import block
from querycloak.synthetic import log_writer as writing
from querycloak.synthetic.aol_figures import FIGURES, measure
from querycloak.synthetic.block import KINDS
from querycloak.synthetic.heavy_tails import WeightedChoice, falling
from querycloak.synthetic.made_up_records import WantedRecords
from querycloak.synthetic.queries import slipped
from querycloak.synthetic.world import TOPICS, world
from querycloak.text.wordnet import wordnet
from tests.commands import in_process

USERS = 2_600  # more than one block


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("synthetic") / "log.tsv"
    qc.synthesize(path, USERS, seed=3)
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rows_of(path: Path) -> pa.Table:
    with qc.read(path) as log:
        rows = log.engine.fetch(log.rows)
        assert log.checked().rejected == {}
    return rows.sort_by([(name, "ascending") for name in ("user", "time", "query", "rank", "url")])


def truth(path: Path, name: str) -> pa.Table:
    return pq.read_table(Path(f"{path}.truth") / f"{name}.parquet")


@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz"])
def test_same_seed_same_bytes_whatever_the_workers(tmp_path: Path, ending: str) -> None:
    written = [tmp_path / f"{workers}{ending}" for workers in (1, 3)]
    for path, workers in zip(written, (1, 3), strict=True):
        qc.synthesize(path, USERS, seed=5, workers=workers)
    assert digest(written[0]) == digest(written[1])
    for name in writing.TRUTH_TABLES:
        assert digest(Path(f"{written[0]}.truth/{name}.parquet")) == digest(Path(f"{written[1]}.truth/{name}.parquet"))


def test_another_seed_makes_others(made: Path, tmp_path: Path) -> None:
    qc.synthesize(tmp_path / "other.tsv", USERS, seed=4)
    assert digest(made) != digest(tmp_path / "other.tsv")


def test_a_larger_log_begins_with_the_smaller_one(made: Path, tmp_path: Path) -> None:
    qc.synthesize(tmp_path / "one-block.tsv", block.PEOPLE, seed=3)
    assert made.read_bytes().startswith((tmp_path / "one-block.tsv").read_bytes())


@pytest.mark.parametrize("ending", [".tsv.gz", ".tsv.zst", ".txt", ".parquet", ".jsonl", ".ndjson.gz", ".jsonl.zst"])
def test_every_format_holds_the_same_rows(made: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log{ending}"
    qc.synthesize(path, USERS, seed=3, truth=False)
    assert not Path(f"{path}.truth").exists()
    expected, found = rows_of(made), rows_of(path)
    if "json" in ending:  # UBI has a document for each search, with clicks or without
        expected, found = (pa.concat_tables([_searches(rows), _clicks(rows)]) for rows in (expected, found))
    assert found.equals(expected)


def _searches(rows: pa.Table) -> pa.Table:
    keys = ["user", "time", "query"]
    distinct = rows.group_by(keys).aggregate([]).sort_by([(name, "ascending") for name in keys])
    return distinct.append_column("rank", pa.nulls(len(distinct), pa.int32())).append_column(
        "url", pa.nulls(len(distinct), pa.string())
    )


def _clicks(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.is_valid(rows["url"]))


def test_rows_are_what_they_should_be(made: Path) -> None:
    rows = rows_of(made)
    assert len(set(rows["user"].to_pylist())) == USERS
    assert pc.min(rows["time"]).as_py() >= datetime(2006, 3, 1)
    assert pc.max(rows["time"]).as_py() < datetime(2006, 6, 1)
    clicked = pc.is_valid(rows["rank"])
    assert clicked.equals(pc.is_valid(rows["url"]))
    ranks = Counter(rows["rank"].drop_null().to_pylist())
    assert ranks[1] > 2 * ranks[2] > 2 * ranks[5]  # position bias


def test_what_json_would_escape_does_not_occur() -> None:
    joined = "".join(world().texts.to_pylist())
    assert not set(joined) & set('"\\\t\n\r')
    assert joined.isascii()
    assert joined == joined.lower()


def test_the_truth_is_true(made: Path) -> None:
    sensitive = truth(made, "sensitive")
    asked = {tuple(row.values()) for row in rows_of(made).select(["user", "time", "query"]).to_pylist()}
    for row in sensitive.to_pylist():
        assert (str(row["user"]), row["time"], row["query"]) in asked
    kinds = Counter(sensitive["kind"].to_pylist())
    assert set(kinds) == set(KINDS)
    for kind, share in KINDS.items():
        spread = (USERS * share) ** 0.5
        assert abs(kinds[kind] - USERS * share) < 5 * spread + 1
    of_kind = {kind: [r["query"] for r in sensitive.to_pylist() if r["kind"] == kind] for kind in KINDS}
    assert all(patterns.is_card_number(query) for query in of_kind["card number"])
    assert all(patterns.is_social_security_number(query) for query in of_kind["social security number"])
    diseases = {label for label, _, _ in wordnet().labels_under(wordnet().concept("disease"))}
    assert set(of_kind["rare disease"]) <= diseases


def test_interests_and_sessions_of_the_truth(made: Path) -> None:
    interests, sessions = truth(made, "interests"), truth(made, "sessions")
    assert set(interests["user"].to_pylist()) == set(range(1, USERS + 1))
    assert set(interests["topic"].to_pylist()) == {name for name, _, _ in TOPICS}
    asked = Counter(rows_of(made)["user"].to_pylist())
    assert set(sessions["user"].to_pylist()) == {int(user) for user in asked}
    held = {(row["user"], row["topic"]) for row in interests.to_pylist()}
    topical = [(row["user"], row["topic"]) for row in sessions.to_pylist() if row["topic"]]
    own = sum(pair in held for pair in topical) / len(topical)
    assert own > 0.5  # a random topic would be one of the user's about one time in ten
    with qc.read(made) as log:
        found = log.engine.fetch(log.sessions().select("user", "session").distinct().count().as_table())
    assert abs(found.column(0)[0].as_py() / sessions.num_rows - 1) < 0.02


def test_no_reader_takes_the_truth_for_a_log(made: Path) -> None:
    with qc.read(made.parent) as folder:
        assert [Path(file.location).name for file in folder.source.files] == [made.name]
    for path in (Path(f"{made}.truth"), Path(f"{made}.truth/sensitive.parquet")):
        with pytest.raises(InputError, match="is the truth about a synthetic log, not a log"):
            qc.read(path)


@given(st.lists(st.tuples(st.text("ab c", max_size=9), st.integers(0, 1 << 30)), min_size=1, max_size=20))
def test_slips_against_the_plain_way(cases: list[tuple[str, int]]) -> None:
    def plain(text: str, slip: int) -> str:
        if not slip or len(text) <= 4:
            return text
        place = 1 + slip % (len(text) - 2)
        if " " in text[place : place + 2]:
            return text
        if slip // 64 % 2 == 0:
            return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
        return text[:place] + text[place + 1 :]

    texts = pa.array([text for text, _ in cases], pa.string())
    slips = np.array([slip for _, slip in cases], np.int64)
    assert slipped(texts, slips).to_pylist() == [plain(text, slip) for text, slip in cases]


def test_a_choice_follows_its_weights() -> None:
    choice = WeightedChoice([falling(3, 1.0), falling(5, 0.0)])
    random = np.random.default_rng(1)
    drawn = np.bincount(choice.of(np.zeros(60_000, np.int64), random.random(60_000)), minlength=3)
    assert np.allclose(drawn / 60_000, np.array([6, 3, 2]) / 11, atol=0.01)
    assert choice.of(np.array([1, 1]), np.array([0.0, 1 - 2**-53])).tolist() == [3, 7]


@pytest.mark.slow
def test_calibration_at_50_000_users(tmp_path: Path) -> None:
    """AOL's figures, each with its source in figures.py; those of AOL's size are held by the bench."""
    written = qc.synthesize(tmp_path / "log.parquet", 50_000)
    with qc.read(written.log) as log:
        values = measure(log, written.truth)
    held = {figure.name: figure.holds(values[figure.name]) for figure in FIGURES if figure.held_at(written.users)}
    assert [name for name, holds in held.items() if holds is False] == []
    assert sum(holds is True for holds in held.values()) >= 18


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--users", "0", "--out", "{folder}/x.tsv"], "users must be a whole number from 1 to 100,000,000, got 0"),
        (["--users", "-5", "--out", "{folder}/x.tsv"], "got -5"),
        (["--out", "{folder}/x.tsv"], "--users must be given, the number of people who"),
        (["--users", "5"], "--out must be given"),
        (["--users", "5", "--out", "{folder}/x.doc"], "--out must be a name that ends in one of .tsv"),
        (["--users", "5", "--out", "{folder}/x.parquet.gz"], "--out must be a name that ends in one of .tsv"),
        (["--users", "5", "--out", "{folder}/x"], "--out must be a name that ends in one of .tsv"),
        (["--users", "5", "--out", "{folder}/no/x.tsv"], "--out must be in a folder that exists"),
        (["--users", "5", "--out", "{folder}/there.tsv"], "--out must be a name that is not taken yet"),
        (["--users", "5", "--seed", "-1", "--out", "{folder}/x.tsv"], "seed must be a whole number"),
        (["--preset", "large", "--out", "{folder}/x.tsv"], "--preset must be one of standard, shop, got 'large'"),
        (["--preset", "standard", "--users", "5", "--out", "{folder}/x.tsv"], "fixes users and seed: leave --users"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "there.tsv").write_text("")
    done = in_process("synth", *(argument.format(folder=tmp_path) for argument in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["there.tsv"]


def test_interrupted_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "querycloak", "synth", "--users", "400000", "--out", str(tmp_path / "x.tsv")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob(f"{UNFINISHED}*/log")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert told.startswith("querycloak: interrupted")
    assert os.listdir(tmp_path) == []


def test_a_killed_writer_leaves_what_the_next_removes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "querycloak", "synth", "--users", "400000", "--out", str(tmp_path / "x.tsv")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob(f"{UNFINISHED}*/log")) and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait(timeout=60)
    assert len(os.listdir(tmp_path)) == 1
    qc.synthesize(tmp_path / "y.tsv", 5)
    assert sorted(os.listdir(tmp_path)) == ["y.tsv", "y.tsv.truth"]


def test_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", buffering: int = -1) -> object:
        return open("/dev/full", "wb", buffering=0) if mode == "xb" else opened(path, mode, buffering)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ResourceError, match="no space is left there"):
        qc.synthesize(tmp_path / "x.tsv", 5)
    assert os.listdir(tmp_path) == []


def test_the_standard_log_stays_as_it_is(tmp_path: Path) -> None:
    """Figures measured on it are compared across versions: its first block is pinned."""
    from querycloak.synthetic.log_writer import PRESETS

    standard = PRESETS["standard"]
    assert tuple(standard) == (100_000, 2006, None, WantedRecords())
    first = block.make_block(world(), standard.seed, 0, 200).rows
    digest = hashlib.sha256("\n".join(map(str, first.to_pylist())).encode()).hexdigest()
    assert (first.num_rows, digest[:16]) == PINNED


PINNED = (9_586, "d410a3134f9df8d8")


def test_people_of_a_shop_come_once(tmp_path: Path) -> None:
    from querycloak.synthetic.log_writer import PRESETS

    assert tuple(PRESETS["shop"]) == (40_000, 2006, 1, WantedRecords())
    written = qc.synthesize(tmp_path / "shop.jsonl", 300, seed=2006, visits=1)
    sessions = pq.read_table(f"{written.log}.truth/sessions.parquet")["user"].to_pylist()
    assert sorted(sessions) == list(range(1, 301))
    assert written.rows < 300 * 5
    with pytest.raises(ParameterError, match="visits must be"):
        qc.synthesize(tmp_path / "x.tsv", 5, visits=0)


def test_bad_numbers_from_python(tmp_path: Path) -> None:
    for users in (1.5, True, "5"):
        with pytest.raises(ParameterError, match="users must be a whole number"):
            qc.synthesize(tmp_path / "x.tsv", users)  # type: ignore[arg-type]


def test_no_truth_stays_without_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(file: Path, place: Path) -> None:
        place.write_text("mine")
        put_new(file, place)

    monkeypatch.setattr(writing, "put_new", taken)
    with pytest.raises(ResourceError):
        qc.synthesize(tmp_path / "log.tsv", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["log.tsv"]
    assert (tmp_path / "log.tsv").read_text() == "mine"
