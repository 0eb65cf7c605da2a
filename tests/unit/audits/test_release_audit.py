"""The whole audit, from logs and folders to rows and exit codes; the page that adds an attack, as it stands."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.audits.attack import ATTACKS, attacks_named
from querycloak.audits.release_audit import COLUMNS, ReleaseAudit, audit_release
from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError, ResourceError
from querycloak.evaluation.target import Target
from querycloak.releases.release import Release
from tests.commands import in_process, querycloak
from tests.pages import examples
from tests.unit.audits.toy_logs import FALSE_PROMISE, a_log, asked_at_random, counted, write_log

DOCS = Path(__file__).parents[3] / "docs"
TRAIN = {f"u{i}": ["weather", "asthma", f"thing {i}", "maps"[: 4 * (i % 2)] or "news"] for i in range(150)}
TEST = {f"v{i}": ["weather", f"other {i}", "maps"] for i in range(60)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TRAIN, TEST, a truth, and two releases."""
    folder = tmp_path_factory.mktemp("audited")
    write_log(folder / "train.parquet", TRAIN)
    write_log(folder / "test.parquet", TEST)
    with qc.read(folder / "train.parquet") as log:
        qc.KAnonymity(min_users=5, keys="log").release(log).save(folder / "release")
        qc.Clicks(epsilon=8, delta=1e-6, selection="multi-round").release(log).save(folder / "clicks")
    return folder


def audited(place: Path, engine: Engine, releases: list[Any], **more: Any) -> ReleaseAudit:
    train, test = (qc.read(place / f"{side}.parquet", engine=engine) for side in ("train", "test"))
    return audit_release(train, releases, control=test, **more)


def test_every_attack_on_every_release(place: Path, duckdb_engine: Engine) -> None:
    steps: list[tuple[str, float]] = []
    folders = [place / "release", place / "clicks"]
    found = audited(place, duckdb_engine, folders, on_step=lambda what, share: steps.append((what, share)))
    assert [row for row in found.rows if list(row) != list(COLUMNS)] == []
    seen = {(row["release"], row["attack"]) for row in found.rows}
    releases = ("original", "pseudonyms", "k-anonymity", "release", "clicks")
    assert seen == {(release, attack) for release in releases for attack in ATTACKS}
    assert len(steps) == len(seen)
    assert [share for _, share in steps] == sorted(share for _, share in steps)
    for row in found.rows:
        numbers = [row[name] for name in ("main", "control", "baseline", "risk", "low", "high")]
        assert row["why"] if row["main"] is None else numbers[0] >= 0
        if row["risk"] is not None:
            expected = (row["main"] - row["control"]) / (1 - row["control"]) if row["control"] < 1 else 0
            assert row["risk"] == pytest.approx(max(expected, 0))
            assert 0 <= row["low"] <= row["risk"] <= row["high"] <= 1
            assert (row["main"] <= row["baseline"]) == (row["why"] is not None) or row["attack"] == "leaks"
        assert (row["digest"] is None) == (row["release"] in releases[:3])
    assert found.alarms == ()
    assert found.table().schema.names == list(COLUMNS)
    assert found.to_json()["private"] is True
    # The log itself is as bad as can be; a name of its own singles everybody out.
    worst = {row["release"]: row["risk"] for row in found.rows if row["setting"] == "m=1 rare"}
    assert worst["original"] == worst["pseudonyms"] == 1


def test_attacks_are_independent_of_each_other(place: Path, duckdb_engine: Engine) -> None:
    together = audited(place, duckdb_engine, [place / "release"], attacks=["membership", "singling-out"])
    alone = audited(place, duckdb_engine, [place / "release"], attacks=["singling-out"])
    assert [row for row in together.rows if row["attack"] == "singling-out"] == list(alone.rows)
    other = audited(place, duckdb_engine, [place / "release"], attacks=["singling-out"], baselines=False, targets=20)
    assert {row["release"] for row in other.rows} == {"release"}
    assert {row["targets"] for row in other.rows if row["setting"] == "m=1 random"} == {20}


def test_a_release_in_memory(place: Path, duckdb_engine: Engine) -> None:
    with pytest.raises(InputError, match=r"1 of 2 queries of the release 'counts' are not in TRAIN"):
        audited(place, duckdb_engine, [counted({"weather": 150, "nobody asked": 3})])


def test_a_promise_that_is_not_kept_ends_with_4(tmp_path: Path) -> None:
    """Exact counts with a card that claims epsilon 1: everybody is found."""
    logs = {"train": asked_at_random(0, 500, 200), "test": asked_at_random(500, 400, 200)}
    for side, asked in logs.items():
        write_log(tmp_path / f"{side}.parquet", asked)
    everything = [query for queries in logs["train"].values() for query in queries]
    counts = sorted(
        {query: everything.count(query) for query in everything}.items(), key=lambda each: (-each[1], each[0])
    )
    table = pa.table({"query": [query for query, _ in counts], "count": pa.array([number for _, number in counts])})
    claimed: dict[str, Any] = {"variant": "default", "parameters": {}, "claimed": None, "proven": FALSE_PROMISE}
    Release(method="anybodys", tables={"queries": table}, **claimed).save(tmp_path / "release")
    sides = (tmp_path / "train.parquet", tmp_path / "release", "--control", tmp_path / "test.parquet")
    done = in_process("audit", "release", *sides, "--attack", "membership", "--json")
    assert done.returncode == 4
    assert done.stderr.startswith(
        "querycloak: membership: more members are found by release at FPR 0.001 than is proven"
    )
    rows = {row["setting"]: row for row in json.loads(done.stdout)["results"] if row["release"] == "release"}
    assert (rows["FPR 0.01"]["main"], rows["FPR 0.01, most by what is proven"]["main"]) == (
        1,
        pytest.approx(0.0272, abs=1e-4),
    )


def test_bad_input(place: Path, duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = qc.read(place / "train.parquet", engine=duckdb_engine)
    with pytest.raises(InputError, match="the control shares users with TRAIN"):
        audit_release(train, [], control=train)
    nobody = a_log(duckdb_engine, tmp_path, "nobody", {"x": []})
    with pytest.raises(InputError, match=r"the control has no row|LOG"):
        audit_release(train, [], control=nobody)
    test = qc.read(place / "test.parquet", engine=duckdb_engine)
    with pytest.raises(ParameterError, match="truth must be given, what the attack secrets needs"):
        audit_release(train, [], control=test, attacks=["secrets"])
    with pytest.raises(ParameterError, match="other_period must be given, what the attack linkage-periods needs"):
        audit_release(train, [], control=test, attacks=["linkage-periods"])
    with pytest.raises(ParameterError, match="there is no attack 'singling'; there are singling-out, "):
        attacks_named(["singling"])
    with pytest.raises(ParameterError, match="targets must be at least 2"):
        audit_release(train, [], control=test, targets=1)
    with pytest.raises(InputError, match="is not a release folder"):
        audit_release(train, [tmp_path], control=test)
    monkeypatch.setattr("querycloak.audits.release_audit.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"needs scikit-learn; install 'querycloak\[audit\]'"):
        audit_release(train, [], control=test, attacks=["linkage-records"])


def test_releases_of_one_name_and_of_one_kind(place: Path, duckdb_engine: Engine, tmp_path: Path) -> None:
    """A folder may be called as another, or as what stands beside it; what differs by noise alone is pooled."""
    (tmp_path / "again").mkdir()
    with qc.read(place / "train.parquet") as log:
        for folder in ("k-anonymity", "again/clicks"):
            qc.Clicks(epsilon=8, delta=1e-6, selection="multi-round").release(log).save(tmp_path / folder)
    folders = [place / "clicks", tmp_path / "again" / "clicks", tmp_path / "k-anonymity", place / "release"]
    found = audited(place, duckdb_engine, folders, attacks=["membership", "leaks"])
    names = list(dict.fromkeys(row["release"] for row in found.rows))
    together = "clicks, clicks-2, k-anonymity-2 (3 releases)"
    assert names == [
        "original", "pseudonyms", "k-anonymity", "clicks", "clicks-2", "k-anonymity-2", "release", together,
    ]  # fmt: skip
    pooled = [row for row in found.rows if row["release"] == together]
    assert {(row["attack"], row["digest"]) for row in pooled} == {("membership", None)}
    alone = [row for row in found.rows if (row["release"], row["attack"]) == ("clicks", "membership")]
    assert [row["setting"] for row in pooled] == [row["setting"] for row in alone]
    assert pooled[0]["targets"] == 3 * alone[0]["targets"]


def test_a_release_of_another_log(place: Path, duckdb_engine: Engine) -> None:
    train, test = (qc.read(place / f"{side}.parquet", engine=duckdb_engine) for side in ("train", "test"))
    with pytest.raises(InputError, match=r"are not in TRAIN: it was made from another log"):
        audit_release(test, [place / "clicks"], control=train)


def test_the_command(place: Path, tmp_path: Path) -> None:
    sides = (place / "train.parquet", place / "clicks", "--control", place / "test.parquet", "--attack", "leaks")
    more = ("--attack", "membership", "--json", "--out", tmp_path / "rows.parquet")
    done = querycloak("audit", "release", *sides, *more)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert list(told) == ["private", "results"]
    assert told["private"] is True
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == told["results"]
    assert os.stat(tmp_path / "rows.parquet").st_mode & 0o077 == 0
    shown = in_process("audit", "release", *sides, COLUMNS="80")
    assert shown.stdout.startswith("PRIVATE OUTPUT")
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_a_leak_ends_with_4(place: Path, tmp_path: Path) -> None:
    with qc.read(place / "train.parquet") as log:
        qc.Clicks(epsilon=8, delta=1e-6).release(log).save(tmp_path / "release")
    (tmp_path / "release" / "for-u17-thing 17.txt").write_text("")
    done = in_process(
        "audit", "release", place / "train.parquet", tmp_path / "release", "--control", place / "test.parquet",
        "--attack", "leaks", "--quiet",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1
    assert "release holds queries of the log in the name of a file" in done.stderr
    assert "thing 17" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--control must be given"),
        (["--control", "{train}"], "the control shares users with TRAIN"),
        (["--control", "{test}", "--attack", "secrets"], "--truth must be given"),
        (["--control", "{test}", "--attack", "linkage-periods"], "--other-period must be given"),
        (["--control", "{test}", "--truth", "{folder}"], "has no sensitive.parquet"),
        (["--control", "{test}", "--out", "rows.txt"], "--out must be a file that ends with .json, .csv, .parquet"),
        (["--control", "{test}", "--out", "{release}/rows.csv"], "--out must be outside of release folders"),
    ],
)
def test_bad_input_is_one_line(place: Path, arguments: list[str], said: str) -> None:
    sides = {side: place / f"{side}.parquet" for side in ("train", "test")}
    given = [argument.format(folder=place, release=place / "release", **sides) for argument in arguments]
    done = in_process("audit", "release", place / "train.parquet", place / "release", *given)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def test_the_page_that_adds_an_attack(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its code, and nothing else, run where its commands put the logs and the release."""
    commands, script = examples(DOCS / "own-attack.md")
    assert [words[1] for words in commands.commands()] == ["synth", "split", "release"]
    code = script.text
    shutil.copytree(place / "release", tmp_path / "release")
    (tmp_path / "split").symlink_to(place)
    monkeypatch.chdir(tmp_path)
    run: dict[str, Any] = {}
    exec(compile(code, "own-attack.md", "exec"), run)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["original", "pseudonyms", "k-anonymity", "release"]
    assert {row["attack"] for row in run["audit"].rows} == {"history-length", "singling-out"}
    assert len(code.splitlines()) < 40  # a page


def test_attacks_take_a_release_with_owners(place: Path, duckdb_engine: Engine) -> None:
    """What compare passes along: whose row is whose, in memory."""
    from querycloak.audits.release_audit import owners_under_seed
    from querycloak.privacy.sampling.randomness import Randomness

    train = qc.read(place / "train.parquet", engine=duckdb_engine)
    made = qc.Affinity(min_users=5).release(train, randomness=Randomness(3))
    release = Target.of(made, "affinity", owners=owners_under_seed(made, train, 3))
    found = audited(place, duckdb_engine, [release], attacks=["singling-out", "reconstruction"], baselines=False)
    assert all(row["main"] is not None for row in found.rows if row["setting"] == "m=1 first right")
    assert {row["setting"]: row["main"] for row in found.rows}["any row"] == 1
