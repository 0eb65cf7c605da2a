"""`split` and `evaluate` as a user runs them: what they print, write and refuse; the docs' examples run."""

from __future__ import annotations

import json
import re
import shlex
import stat
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.cli.evaluate_command import show_evaluation
from querycloak.evaluation.evaluation import Evaluation
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.task import TASKS
from querycloak.privacy.sampling.randomness import Randomness
from tests.commands import in_process
from tests.evaluated import Asked, some_rows, write_rows

DOCS = Path(__file__).parents[3] / "docs"
PRIVATE = "PRIVATE OUTPUT: true figures of the log. Not for publication."
SECRET = "hunter2 unmistakable"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[Asked] = [*some_rows(1, 80), ("u1", 9, SECRET, "http://secret/", 1)]
    return write_rows(tmp_path_factory.mktemp("log") / "log.parquet", rows)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Path:
    folder = tmp_path_factory.mktemp("split") / "out"
    done = in_process("split", log, "--by", "user", "--test", "0.3", "--out", folder, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["private"] is True
    return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, split: Path) -> Path:
    folder = tmp_path_factory.mktemp("release") / "mine"
    with qc.read(split / "train.parquet") as train:
        method = qc.Clicks(epsilon=3, delta=1e-2, selection="laplace")
        method.release(train, randomness=Randomness(seed=1)).save(folder)
    return folder


def sides(split: Path) -> tuple[Path, Path]:
    return split / "train.parquet", split / "test.parquet"


def test_split_says_that_it_is_private_and_what_it_wrote(log: Path, tmp_path: Path) -> None:
    done = in_process("split", log, "--by", "time", "--test", "0.4", "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == PRIVATE
    assert re.search(r"TRAIN ends and TEST begins at 2006-03-01 \d\d:\d\d:\d\d", done.stdout)
    assert re.search(r"train.parquet +\d+ users +\d+ rows", done.stdout)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["split.json", "test.parquet", "train.parquet"]
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()} == {0o600}


def test_folds(log: Path, tmp_path: Path) -> None:
    done = in_process("split", log, "--by", "user", "--folds", "3", "--seed", "7", "--out", tmp_path / "out", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fold-1", "fold-2", "fold-3", "split.json"]
    assert sorted(path.name for path in (tmp_path / "out" / "fold-2").iterdir()) == ["test.parquet", "train.parquet"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "user"), "--out must be given, the folder to write"),
        (("--out", "OUT"), "--by must be given, user or time"),
        (("--by", "user", "--test", "2", "--out", "OUT"), "--test must be a number above 0 and below 1, got 2.0"),
        (
            ("--by", "user", "--test", "0.1", "--folds", "2", "--out", "OUT"),
            "--test and --folds must not both be given",
        ),
        (("--by", "user", "--out", "."), "the output must not exist yet"),
    ],
)
def test_split_refuses_in_one_line(log: Path, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    given = [str(tmp_path / "out") if word == "OUT" else word for word in options]
    done = in_process("split", log, *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"querycloak: {said}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_evaluate_prints_tables_of_eighty_columns(split: Path, release: Path) -> None:
    done = in_process("evaluate", *sides(split), release)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == PRIVATE
    assert max(map(len, lines)) <= 80
    for task in TASKS:
        assert task in lines
    assert SECRET not in done.stdout
    assert re.search(r"\nmine +\d\.\d{4} +\[\d\.\d{4}, \d\.\d{4}\] ", done.stdout)
    assert "What is published is made of the whole log" in " ".join(lines).replace("; what", ". What")


def test_all_cases_and_their_coverage_stand_before_answered_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of a release that answers 8 % of the cases, and well: not above the original at first sight."""
    values = {"original": (0.2513, 180, 0.5585, None), "no-data": (0.0426, 19, 0.9, 0.2), "mine": (0.0601, 32, 0.7516, 0.2237)}  # noqa: E501  # fmt: skip
    rows = [
        Row(name, None, "ranking", "tau-b", None, reading, value, 0.05, 0.07, 400, answered, difference, 0.01)
        for name, (everything, answered, own, difference) in values.items()
        for reading, value in (("answered", own), ("all", everything), ("common", 0.5279))
    ]
    show_evaluation(Evaluation(tuple(rows)), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    head = next(line for line in lines if "answered" in line)
    assert head.split() == ["all", "cases", "answers", "no-data", "answered", "difference"]
    mine = next(line for line in lines if line.startswith("mine"))
    assert mine.split() == ["mine", "0.0601", "[0.0500,", "0.0700]", "8.0%", "+0.0175", "0.7516", "+0.2237*"]
    nothing = next(line for line in lines if line.startswith("no-data"))
    assert nothing.split()[4:] == ["4.8%", "-", "0.9000", "+0.2000*"]
    assert max(map(len, lines)) <= 80


def test_a_release_that_answers_nothing_says_so(split: Path, tmp_path: Path) -> None:
    train, test = sides(split)
    with qc.read(train) as log:
        qc.Clicks(noise=1, threshold=10**6).release(log).save(tmp_path / "nothing")
    done = in_process("evaluate", train, test, tmp_path / "nothing", "--task", "completion", "--task", "ranking")
    assert done.stdout.count("\n  nothing: none of the cases is answered\n") == 2


def test_a_log_without_clicks_is_evaluated(split: Path, tmp_path: Path) -> None:
    """What needs no clicks is measured; the rest says that the log has none."""
    sides = {name: tmp_path / f"{name}.parquet" for name in ("train", "test")}
    for name, path in sides.items():
        pq.write_table(pq.read_table(split / f"{name}.parquet").drop_columns(["rank", "url"]), path)
    with qc.read(sides["train"]) as log:
        qc.KAnonymity(min_users=2, keys="queries").release(log).save(tmp_path / "mine")
    done = in_process("evaluate", *sides.values(), tmp_path / "mine", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)["results"]
    assert all((row["value"] is None) == (row["why"] is not None) for row in rows)
    measured = {row["task"] for row in rows if row["value"] is not None}
    assert measured == {"suggestion", "completion", "counts", "profiles", "language", "loss"}


def test_evaluate_as_json_and_into_a_file(split: Path, release: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    given = ("--task", "ranking", "--task", "completion", "--json", "--out", out)
    done = in_process("evaluate", *sides(split), release, *given)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert list(told) == ["private", "results"]
    assert told["private"] is True
    assert {row["task"] for row in told["results"]} == {"ranking", "completion"}
    assert {row["release"] for row in told["results"]} == {"original", "k-anonymity", "no-data", "mine"}
    assert json.loads(out.read_text()) == told
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert SECRET not in done.stdout


def test_quiet_prints_nothing(split: Path, release: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.csv"
    done = in_process("evaluate", *sides(split), release, "--task", "ranking", "--quiet", "--out", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.read_text().startswith('"release","digest","task"')


def test_the_raw_log_never_goes_into_a_release(log: Path, release: Path) -> None:
    before = sorted(release.iterdir())
    for command in (("split", log, "--by", "user", "--out"), ("inspect", log, "--rejected")):
        done = in_process(*command, release / "mine")
        assert done.returncode == 2
        assert f"{command[-1]} must be outside of release folders" in done.stderr
    assert sorted(release.iterdir()) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("TRAIN TRAIN RELEASE", "TRAIN and TEST share users"),
        ("TRAIN EMPTY RELEASE", "TEST has no rows that count"),
        ("TRAIN TEST OTHER", "the release 'other' has no query of TRAIN"),
        ("TRAIN TEST RELEASE --task fortune", "--task must be one of suggestion, completion, "),
        ("TRAIN TEST RELEASE --out RELEASE/found.json", "--out must be outside of release folders"),
        ("TRAIN TEST RELEASE --out found.txt", "--out must be a file that ends with .json, .csv, .parquet"),
        ("TRAIN TEST FOLDER", "'FOLDER' is not a release folder"),
    ],
)
def test_evaluate_refuses_in_one_line(split: Path, release: Path, tmp_path: Path, given: str, said: str) -> None:
    empty = write_rows(tmp_path / "empty.parquet", [])
    elsewhere = write_rows(tmp_path / "else.parquet", [(f"x{n}", n, "elsewhere", None, None) for n in range(9)])
    with qc.read(elsewhere) as log:
        qc.KAnonymity(min_users=2, keys="queries").release(log).save(tmp_path / "other")
    train, test = sides(split)
    places = {
        "TRAIN": train,
        "TEST": test,
        "RELEASE": release,
        "EMPTY": empty,
        "OTHER": tmp_path / "other",
        "FOLDER": split,
    }
    before = sorted(path.name for path in release.iterdir())

    def placed(text: str) -> str:
        return re.sub("|".join(places), lambda found: str(places[found[0]]), text)

    done = in_process("evaluate", *map(placed, given.split()))
    assert (done.returncode, done.stdout) == (2, "")
    expected = said.replace("'FOLDER'", repr(str(split)))
    assert done.stderr.startswith(f"querycloak: {expected}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert SECRET not in done.stderr
    assert sorted(path.name for path in release.iterdir()) == before


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / "evaluation.md").read_text(), re.DOTALL)


def test_the_docs_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [commands], [code] = examples("sh"), examples("python")
    for line in commands.splitlines():
        program, *words = shlex.split(line)
        assert program == "querycloak"
        done = in_process(*words)
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "evaluation.json").read_text())["private"] is True
    exec(compile(code, "evaluation.md", "exec"), {})
    assert "'release': 'original'" in capsys.readouterr().out


def test_the_docs_name_every_task_and_measure() -> None:
    page = (DOCS / "evaluation.md").read_text()
    tables = re.findall(r"^\| `([\w-]+)` \| [^|]*\| ([^|]*) \|$", page, re.MULTILINE)
    told = {task: set(measures.split(", ")) for task, measures in tables}
    assert {task: told.get(task) for task in TASKS} == {task: set(each) for task, each in qc.measures().items()}
