"""`guarantee`, `release` and `ledger` as a user runs them: exit codes, messages, nothing private or half-written."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from querycloak import Clicks, KAnonymity, Ledger, Optimal, QueryPool
from querycloak.audits.attacks.folder_leaks import leaks_in, leaks_in_folder
from querycloak.methods.method import Method
from querycloak.releases.loading import load
from tests.commands import in_process, querycloak
from tests.logs import AOL_HEADER, Row, aol, write

BUDGET = ("--epsilon", "4", "--delta", "1e-3", "--max-keys-per-user", "1")
SPLIT = ("--epsilon", "4", "--delta", "1e-3", "--split", "clicks=1,sessions=2")
LONG = ("--epsilon", "4", "--delta", "1e-3", "--queries-per-session", "12", "--force")
SECRETS = ["SECRETUSER", "secret query", "secret-site", "4111 1111 1111 1111", "rosebud"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shared: list[Row] = [
        (f"SECRETUSER{i}", "12:00:00", f"shared {i % 2}", "1", "http://x.example/") for i in range(400)
    ]
    private: list[Row] = [("SECRETUSER1", "12:30:00", "secret query", "1", "http://secret-site.example/")]
    known: list[Row] = [
        (f"SECRETUSER{i}", "11:00:00", query, "1", "http://y.example/")
        for i, query in enumerate(["pay 4111 1111 1111 1111", "rosebud sled"] * 100, start=1000)
    ]
    folder = tmp_path_factory.mktemp("release")
    return write(folder / "log.tsv", aol(shared + private + known))


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def test_guarantee_as_json_without_data() -> None:
    done = in_process("guarantee", "clicks", "--variant", "paper", "--max-keys-per-user", "4", "--noise", "1", "--threshold", "20", "--json")  # noqa: E501  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert list(told) == ["method", "variant", "parameters", "claimed", "proven", "tables"]
    assert (told["claimed"]["epsilon"], round(told["claimed"]["delta"], 9)) == (8.0, 2.25e-7)
    assert told["proven"]["epsilon"] == 8.0
    assert told["proven"]["delta"] <= 5.7e-8
    assert set(told["proven"]) == {"kind", "unit", "neighbours", "epsilon", "delta", "k", "unprotected", "because"}


def test_a_guarantee_or_dry_run_loads_no_engine(log: Path) -> None:
    code = (
        "import sys\nfrom querycloak.cli.cli import app\nfrom querycloak.cli.running import run\n"
        "run(lambda: app(standalone_mode=False))\n"
        "heavy = {'duckdb', 'ibis', 'numba', 'pyarrow', 'pyspark', 'opendp', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    for arguments in (
        ["guarantee", "clicks", "--epsilon", "8", "--delta", "1e-7", "--explain"],
        ["guarantee", "sessions", "--epsilon", "8", "--delta", "1e-7"],
        ["guarantee", "query-pool", "--epsilon", "8"],
        ["guarantee", "phrases", "--epsilon", "8", "--delta", "1e-7"],
        ["guarantee", "synthetic", "--epsilon", "8", "--delta", "1e-7"],
        ["guarantee", "optimal", "--epsilon", "8", "--delta", "1e-7"],
        ["guarantee", "semantic", "--epsilon", "8", "--max-queries", "4", "--domain", "disease"],
        ["guarantee", "k-anonymity", "--preset", "dma"],
        ["release", "clicks", str(log), *BUDGET, "--dry-run"],
    ):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == "[]\n"


def test_guarantee_for_people_fits_a_terminal_and_warns() -> None:
    done = in_process("guarantee", "clicks", *BUDGET, "--explain", "--population-size", "5000")
    assert done.returncode == 0
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "50 %" in done.stdout
    assert "above 1/5,000" in done.stderr


def test_affinity_warns_of_words_that_few_users_know() -> None:
    paper = in_process("guarantee", "affinity", "--min-users", "10", "--variant", "paper")
    assert "--min-word-users 10 holds them back" in paper.stderr
    assert not in_process("guarantee", "affinity", "--min-users", "10").stderr
    for words in ("10", "12"):
        assert not in_process("guarantee", "affinity", "--min-users", "10", "--min-word-users", words).stderr


@pytest.mark.parametrize(
    ("arguments", "heading"),
    [
        (
            ["clicks", "--noise", "1", "--threshold", "0", "--two-draws"],
            "clicks, default variant: selection laplace, noise 1, threshold 0, max-keys-per-user 1, two-draws, fresh",
        ),
        (
            ["sessions", "--epsilon", "8", "--delta", "1e-6", "--selection", "weighted", "--no-clicks"],
            "sessions, default variant: selection weighted, noise",
        ),
        (
            ["sessions", "--epsilon", "8", "--delta", "1e-6", "--selection", "multi-round"],
            "sessions (threshold 8.51172, scout-of (queries, keys, keys), counting-noise 4.567, counted-per-user 4), ",
        ),
        (
            ["clicks", "--epsilon", "8", "--delta", "1e-6"],
            "auto, max-keys-per-user auto, auto-choices (laplace 1, multi-round",
        ),
        (
            ["clicks", "--epsilon", "8", "--delta", "1e-6", "--max-keys-per-user", "auto", "--selection", "gaussian"],
            "auto-choices (1, 2, 4, 8, 16, 32, 64",
        ),
        (["semantic", "--epsilon", "8", "--max-queries", "5"], "queries each user has, up to 5"),
    ],
)
def test_guarantee_for_people_shows_parameters_as_options(arguments: list[str], heading: str) -> None:
    shown = in_process("guarantee", *arguments).stdout
    assert heading in " ".join(shown.split())
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert not any(sign in shown for sign in ("True", "False", "None", "{", "[", "_per_"))


def test_what_semantic_names_is_looked_at_before_the_log(tmp_path: Path) -> None:
    own = write(tmp_path / "own.csv", "id,labels,parents\n1,thing,\n2,shoe|boot,1\n3,hat,1\n")
    for named, message in (
        (["--domain", "foo"], "WordNet 3.0 nouns has no concept 'foo'; give one of its labels, or all"),
        (["--domain", "disease|malignancy"], "domain names 'malignancy', which lies within 'disease'"),
        (["--domain", "sock", "--taxonomy", str(own)], "own has no concept 'sock'"),
        (["--criterion", "sqc2", "--topics", "4|foo"], "has no concept"),
        (["--taxonomy", str(tmp_path / "none.csv")], "give a .csv, .tsv or .parquet file with the columns id, labels"),
    ):
        for command in (["guarantee", "semantic"], ["release", "semantic", str(own), "--dry-run"]):
            done = in_process(*command, "--epsilon", "8", "--max-queries", "4", *named)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert message in done.stderr
    for named in (["--domain", "disease|sport"], ["--domain", "Shoe", "--taxonomy", str(own)]):
        assert in_process("guarantee", "semantic", "--epsilon", "8", "--max-queries", "4", *named).returncode == 0


def test_release_writes_what_the_mechanism_let_through_and_nothing_else(log: Path, tmp_path: Path, tmp: Path) -> None:
    never = write(tmp_path / "never.txt", "# film\nrosebud\n")
    out = tmp_path / "out"
    done = querycloak("release", "clicks", log, *BUDGET, "--out", out, "--never-release", never, tmp=tmp)
    assert done.returncode == 0
    assert "private, not for publication: the output filter dropped rows" in done.stderr
    assert [row["query"] for row in sorted(load(out).table("clicks").to_pylist(), key=str)] == ["shared 0", "shared 1"]
    assert leaks_in_folder(out, SECRETS) == []
    assert leaks_in(done.stdout + done.stderr, SECRETS, "output") == []
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "card.json", "clicks.parquet", "croissant.json"]
    assert list(tmp.iterdir()) == []


def test_release_as_tsv_and_card_as_json(log: Path, tmp_path: Path) -> None:
    done = in_process("release", "k-anonymity", log, "--min-users", "101", "--format", "tsv", "--out", tmp_path / "out", "--json")  # noqa: E501  # fmt: skip
    assert done.returncode == 0
    card = json.loads(done.stdout)
    assert card["proven"]["kind"] == "syntactic"
    lines = (tmp_path / "out" / "clicks.tsv").read_text().splitlines()
    assert lines == ["query\turl\tcount", "shared 0\thttp://x.example/\t200", "shared 1\thttp://x.example/\t200"]


def test_the_ledger_pays_refuses_and_shows(log: Path, tmp_path: Path, tmp: Path) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    paid = (*ledger, "--population", "people")
    unknown = in_process("release", "clicks", log, *BUDGET, "--out", tmp_path / "a", *paid, tmp=tmp)
    assert unknown.returncode == 2
    assert "querycloak ledger set people" in unknown.stderr
    assert in_process("ledger", "set", "people", "--epsilon", "6", "--delta", "0.01", *ledger).returncode == 0
    assert in_process("release", "clicks", "no-such-log", *BUDGET, *paid, "--dry-run").returncode == 2
    dry = in_process("release", "clicks", log, *BUDGET, *paid, "--dry-run", "--json")
    assert dry.returncode == 0
    assert json.loads(dry.stdout)["charge"]["account"]["spent"]["epsilon"] == 0
    assert querycloak("release", "clicks", log, *BUDGET, "--out", tmp_path / "a", *paid, tmp=tmp).returncode == 0
    refused = in_process("release", "clicks", "no-such-log", *BUDGET, "--out", tmp_path / "b", *paid, tmp=tmp)
    assert refused.returncode == 3
    assert "the ledger refuses" in refused.stderr
    assert not (tmp_path / "b").exists()
    (account,) = json.loads(in_process("ledger", "show", "--json", *ledger).stdout)
    assert account["spent"]["epsilon"] == 4
    assert [charge["status"] for charge in account["charges"]] == ["released"]
    assert "2 left" in in_process("ledger", "show", "people", *ledger).stdout
    assert json.loads((tmp_path / "a" / "card.json").read_text())["accounting"]["population"] == "people"


@pytest.mark.parametrize("place", ["before charge", "after charge", "before rename", "after rename", "before complete"])
def test_a_killed_release_is_whole_or_none_and_never_uncharged(
    log: Path, tmp_path: Path, tmp: Path, place: str
) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    in_process("ledger", "set", "people", "--epsilon", "10", "--delta", "0.1", *ledger)
    out = tmp_path / "out"
    command = ("release", "clicks", log, *BUDGET, "--out", out, *ledger, "--population", "people")
    assert querycloak(*command, tmp=tmp, QUERYCLOAK_FAULT=place).returncode == -9
    (account,) = json.loads(in_process("ledger", "show", "--json", *ledger).stdout)
    assert len(account["charges"]) == (place != "before charge")
    if out.exists():
        assert load(out).table("clicks").num_rows
        assert account["charges"]
    else:
        assert querycloak(*command, tmp=tmp).returncode == 0
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
        assert list(tmp.iterdir()) == []  # what the killed run spilled is gone too


def test_a_release_that_outlived_its_process_is_found_by_ledger_show(log: Path, tmp_path: Path, tmp: Path) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    in_process("ledger", "set", "people", "--epsilon", "10", "--delta", "0.1", *ledger)
    command = ("release", "clicks", log, *BUDGET, "--out", tmp_path / "out", *ledger, "--population", "people")
    assert querycloak(*command, tmp=tmp, QUERYCLOAK_FAULT="after rename").returncode == -9
    shown = in_process("ledger", "show", *ledger).stdout
    assert "released" in shown
    assert f"    in {tmp_path / 'out'}\n" in shown
    (account,) = json.loads(in_process("ledger", "show", "--json", *ledger).stdout)
    digest = hashlib.sha256((tmp_path / "out" / "card.json").read_bytes()).hexdigest()
    assert account["charges"][0]["releases"] == [digest]


def test_several_releases_by_sums_and_by_privacy_loss_distributions() -> None:
    yearly = (
        "guarantee",
        "clicks",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--max-keys-per-user",
        "32",
        "--selection",
        "gaussian",
    )
    told = json.loads(in_process(*yearly, "--releases", "12", "--composition", "pld", "--json").stdout)
    assert list(told)[-1] == "composition"
    both = told["composition"]
    assert (both["releases"], both["sum"]["epsilon"]) == (12, 12.0)
    assert both["privacy_loss_distribution"]["epsilon"] == 3.441  # as test_composition.py has it
    shown = in_process(*yearly, "--releases", "12", "--composition", "pld", "--at-delta", "1e-4").stdout
    assert "12 such releases: epsilon 12, delta 1.199e-05 by the sum." in shown
    assert "at delta 0.0001" in shown
    assert "fixed beforehand" in " ".join(shown.split())
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "privacy-loss" not in in_process(*yearly, "--releases", "12").stdout


def test_composition_in_the_ledger_and_on_the_card(log: Path, tmp_path: Path, tmp: Path) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    in_process("ledger", "set", "people", "--epsilon", "40", "--delta", "0.1", *ledger)
    assert "By" not in in_process("ledger", "show", *ledger, "--composition", "pld").stdout  # nothing charged yet
    budget = ("--epsilon", "4", "--delta", "1e-3", "--max-keys-per-user", "8", "--selection", "gaussian")
    for number in range(2):
        paid = (*ledger, "--population", "people", "--composition", "pld", "--quiet")
        done = in_process("release", "clicks", log, *budget, "--out", tmp_path / str(number), *paid, tmp=tmp)
        assert (done.returncode, done.stderr) == (0, "")
    card = json.loads((tmp_path / "0" / "card.json").read_text())
    assert card["composition"]["sum"]["epsilon"] == 4
    assert card["composition"]["privacy_loss_distribution"]["condition"].startswith("holds: everything in one release")
    assert load(tmp_path / "0").composition == card["composition"]
    assert "privacy-loss distributions" in (tmp_path / "0" / "README.md").read_text()
    (account,) = json.loads(in_process("ledger", "show", "--json", "--composition", "pld", *ledger).stdout)
    tighter = account["composition"]["privacy_loss_distribution"]
    assert tighter["epsilon"] < 6.5 < account["spent"]["epsilon"] == account["composition"]["sum"]["epsilon"] == 8
    text = in_process("ledger", "show", "people", "--composition", "pld", *ledger).stdout
    assert f"epsilon {tighter['epsilon']:g}" in " ".join(text.split())
    assert text.rstrip().endswith("The limit counts sums.")


def charge(book: Ledger, *methods: Method) -> None:
    for method in methods:
        book.charge("people", method.proven(), method=method.name, parameters=method.parameters())


def test_the_ledger_marks_what_bounds_nothing(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    book = Ledger(place)
    book.set_limit("people", 1, 1e-6)
    charge(book, KAnonymity(min_users=2, keys="log"), QueryPool(epsilon=1000.0, variant="paper"))
    first, *lines = in_process("ledger", "show", "--ledger", place).stdout.splitlines()
    assert first == f"ledger {place}"
    assert lines[0] == "people: epsilon 0 spent, 1 left; delta 0 spent, 1e-06 left"
    assert lines[1] == "  left: about 1 of (1, 1e-6)"
    assert lines[2] == "  the sum covers 0 of 2 releases; the others bound nothing, or one step only"
    assert lines[3].startswith("  limit epsilon 1.0, delta 1e-06 since ")
    charges = [line.split()[2:] for line in lines if "syntactic" in line]
    assert charges == [
        ["k-anonymity", "syntactic", "-", "-", "no", "release"],
        ["query-pool", "syntactic", "-", "-", "no", "release"],
    ]
    book.set_limit("people", 1000, 0.9, why="a test")
    charge(book, Clicks(epsilon=123.4, delta=2.25e-7), Optimal(epsilon=1.0, delta=0.5, variant="paper"))
    shown = in_process("ledger", "show", "--ledger", place, "--composition", "pld").stdout
    assert "the sum covers 1 of 4 releases" in shown
    assert max(map(len, shown.splitlines()[1:])) <= 80  # the first names the ledger's file, whatever its length
    assert "sampling-only" in shown
    (account,) = json.loads(in_process("ledger", "show", "--ledger", place, "--composition", "pld", "--json").stdout)
    assert account["condition"] == "covers 1 of 4 releases; the others bound nothing, or one step only"
    assert account["composition"]["privacy_loss_distribution"]["condition"].startswith(account["condition"])


def test_what_covers_one_step_says_so_wherever_it_is_added_up(log: Path, tmp_path: Path) -> None:
    sampled = ("optimal", "--epsilon", "1", "--delta", "0.001", "--variant", "paper")
    once = json.loads(in_process("guarantee", *sampled, "--composition", "pld", "--json").stdout)["composition"]
    assert once["privacy_loss_distribution"]["condition"] == (
        "covers one step of the method only: nothing limits what the other steps reveal"
    )
    thrice = json.loads(in_process("guarantee", *sampled, "--releases", "3", "--json").stdout)["composition"]
    said = thrice["privacy_loss_distribution"]["condition"]
    assert said.startswith("covers one step of the method only: nothing limits what the other steps reveal; it holds")
    text = " ".join(in_process("guarantee", *sampled, "--releases", "3").stdout.split())
    assert "by the sum. This covers one step of the method only" in text
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    in_process("ledger", "set", "people", "--epsilon", "1", "--delta", "0.01", *ledger)
    paid = (*ledger, "--population", "people", "--dry-run")
    dry = in_process("release", *sampled[:1], log, *sampled[1:], *paid).stdout
    assert "that is for one step only" in " ".join(dry.split())
    rule = ("k-anonymity", log, "--min-users", "5")
    assert "charge: nothing, but recorded for people" in in_process("release", *rule, *paid).stdout
    done = in_process("release", *rule, "--out", tmp_path / "out", *paid[:-1])
    assert "accounting: recorded for people" in done.stdout


def test_auto_says_what_it_chose(log: Path, tmp_path: Path) -> None:
    auto = ("--epsilon", "8", "--delta", "1e-3", "--max-keys-per-user", "auto")
    done = in_process("release", "clicks", log, *auto, "--out", tmp_path / "out")
    assert done.returncode == 0
    chosen = json.loads((tmp_path / "out" / "card.json").read_text())["parameters"]["per_user"]
    assert f"chosen for this log: --max-keys-per-user {chosen}, " in done.stdout
    text = " ".join(done.stdout.split())
    assert re.search(r"Auto chose \S+ with (one key|up to \d+) per user: by a noisy score", text)
    plan = write(tmp_path / "plan.toml", "epsilon = 8\ndelta = 1e-3\nper-user = 4\n")
    assert json.loads(in_process("guarantee", "clicks", "--plan", plan, "--json").stdout)["parameters"]["per_user"] == 4


def test_tune_shows_yields_and_warns_unless_the_log_is_public(log: Path) -> None:
    tune = ("tune", "clicks", str(log), "--epsilon", "8", "--delta", "1e-3", "--two-draws")
    private = in_process(*tune)
    assert private.returncode == 0
    assert private.stdout.startswith("PRIVATE OUTPUT: yields on this log.")
    assert "no budget covers: use --max-keys-per-user auto instead" in private.stdout
    assert all(len(line) <= 80 for line in private.stdout.splitlines())
    assert "█" in private.stdout
    assert in_process(*tune, "--public").stdout.startswith("per user  selection")
    told = json.loads(in_process(*tune, "--json").stdout)
    assert (told["private"], told["method"]) == (True, "clicks")
    assert [each["per_user"] for each in told["yields"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert told["yields"][0]["keys"] >= 2
    assert all(0 < each["covered"] <= 1 for each in told["yields"] if each["keys"])
    assert "covered: share of the log's pairs of user and key whose key came out" in private.stdout


def test_sessions_alone_may_choose_their_bound(log: Path, tmp_path: Path) -> None:
    auto = ("--epsilon", "20", "--delta", "1e-2", "--max-keys-per-user", "auto", "--no-clicks")
    done = in_process("release", "sessions", log, *auto, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    chosen = json.loads((tmp_path / "out" / "card.json").read_text())["parameters"]
    assert chosen["per_user"] is None
    assert f"chosen for this log: --sessions-per-user {chosen['sessions_per_user']}, " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["release", "affinity"], "k: how many users must have asked a query, or queries like it that also come out."),
        (
            ["release", "affinity"],
            "--theta <float> Two queries are alike if their cosine is at least this; at most six decimals. "
            "Default: 0.9.",
        ),
        (["release", "k-anonymity"], "There is only one: default. Default: default."),
        (["guarantee", "clicks"], "--variant <default|paper> paper: as published, to compare with. Default: default."),
        (["guarantee", "clicks"], "--selection <laplace|gaussian|weighted|multi-round> How keys are selected"),
        (
            ["guarantee", "clicks"],
            "--max-keys-per-user N|auto How many keys of one user count. auto chooses this number",
        ),
        (
            ["guarantee", "optimal"],
            "--max-keys-per-user <int> Default variant: how many pairs of one user count; 256 if not given.",
        ),
        (["release", "semantic"], "Release a log: a folder with tables, card and datasheet."),
    ],
)
def test_help_of_a_method_tells_what_is_true_of_it(arguments: list[str], told: str) -> None:
    shown = in_process(*arguments, "--help", COLUMNS="80").stdout
    assert told in " ".join(shown.split())
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("option", ["--since", "--until", "--leave-out", "--never-release"])
def test_help_of_what_leaves_rows_out_says_when_that_tells_of_the_log(option: str) -> None:
    shown = " ".join(in_process("release", "clicks", "--help", COLUMNS="80").stdout.split())
    said = shown.split(f"{option} <")[1].split(" --")[0]
    assert "without looking at the log: no guarantee covers a choice that depends on the log" in said


def test_no_text_calls_delta_the_chance_that_epsilon_fails() -> None:
    """With Gaussian noise the loss exceeds epsilon far more often than delta says."""
    root = Path(__file__).parents[3]
    texts = [path for ending in ("*.py", "*.md") for place in ("src", "docs") for path in (root / place).rglob(ending)]
    assert len(texts) > 100
    wrong = re.compile(r"(chance|probability)\s+that\s+(the\s+)?(bound|guarantee|limit)[^.]{0,40}\bfails", re.I)
    assert wrong.search("delta: the probability that the bound of epsilon fails")
    assert [path.name for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_lists_are_given_with_commas_or_one_by_one(tmp_path: Path) -> None:
    budget = ("--epsilon", "4", "--delta", "1e-4", "--json")
    once = in_process(
        "guarantee", "clicks", *budget, "--by", "country,device", "--domain-of", "country=de;fr,device=phone;tv"
    )
    twice = in_process(
        "guarantee", "clicks", *budget, "--by", "country", "--by", "device",
        "--domain-of", "country=de;fr", "--domain-of", "device=phone;tv",
    )  # fmt: skip
    plan = write(tmp_path / "plan.toml", 'by = "country,device"\ndomain-of = ["country=de;fr", "device=phone;tv"]\n')
    planned = in_process("guarantee", "clicks", *budget, "--plan", plan)
    assert once.stdout == twice.stdout == planned.stdout
    assert json.loads(once.stdout)["parameters"]["by"] == "country,device"


def test_options_from_a_plan(log: Path, tmp_path: Path) -> None:
    plan = write(tmp_path / "plan.toml", 'epsilon = 4\ndelta = 1e-3\nper-user = 1\nformat = "tsv"\n')
    done = in_process("release", "clicks", log, "--plan", plan, "--epsilon", "5", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["proven"]["epsilon"] == 5
    assert (tmp_path / "out" / "clicks.tsv").exists()
    bad = in_process("guarantee", "clicks", "--plan", write(tmp_path / "bad.toml", "epsilom = 4\n"))
    assert bad.returncode == 2
    assert "the plan has 'epsilom', which is no option here" in bad.stderr
    missing = in_process("guarantee", "clicks", "--plan", tmp_path / "none.toml")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["guarantee", "session"], "there is no method 'session'; there are queries, clicks, sessions"),
        (["guarantee", "clicks"], "give the budget (--epsilon, --delta) or explicit noise (--noise, --threshold)"),
        (["guarantee", "clicks", "--epsilon", "nan", "--delta", "1e-6"], "epsilon must be a finite number above 0"),
        (["guarantee", "clicks", "--min-users", "5"], "--min-users does not go with clicks"),
        (["guarantee", "k-anonymity", "--epsilon", "1"], "--epsilon does not go with k-anonymity"),
        (["release", "clicks", "{log}", *BUDGET], "--out must be given"),
        (["release", "clicks", "{log}", *BUDGET, "--out", "{log}"], "the output must not exist yet"),
        (["release", "clicks", "{log}", *BUDGET, "--out", "{folder}/no/such"], "must lie in a folder that exists"),
        (["release", "clicks", "{log}", *BUDGET, "--out", "{folder}/x", "--ledger", "{folder}/l"], "go together"),
        (["release", "clicks", "{folder}/no.tsv", *BUDGET, "--out", "{folder}/x"], "no such file or folder"),
        (["release", "clicks", "{log}", *BUDGET, "--out", "{folder}/x", "--never-release", "{folder}/n"], "be read"),
        (["release", "clicks", "{bad}", *BUDGET, "--out", "{folder}/x"], "say --log-format aol"),
        (["release", "clicks", "{bad}", *BUDGET, "--out", "{folder}/x", "--log-format=aol", "--max-bad=0"], "bad"),
        (["ledger", "show", "--ledger", "{log}"], "ledger"),
        (["ledger", "show", "--at-delta", "1e-6"], "--at-delta goes with --composition pld"),
        (["guarantee", "clicks", *BUDGET, "--releases", "0"], "--releases must be at least 1, got 0"),
        (["guarantee", "clicks", *BUDGET, "--composition", "pld", "--at-delta", "2"], "--at-delta must be a number"),
        (["guarantee", "k-anonymity", "--min-users", "5", "--composition", "pld"], "there is nothing to add up"),
        (["guarantee", "clicks", "--epsilon", "1", "--delta", "1e-6", "--max-keys-per-user", "x"], "a whole number or"),
        (["tune", "clicks", "--epsilon", "1", "--delta", "1e-6"], "Missing argument 'LOG'"),
        (["tune", "clicks", *BUDGET, "{log}"], "tune tries every bound: leave --max-keys-per-user out"),
        (["tune", "k-anonymity", "--min-users", "5", "{log}"], "has no bound to tune"),
        (["guarantee", "semantic"], "--epsilon must be given, a finite number above 0; give the most"),
        (["guarantee", "affinity"], "--min-users must be given, a whole number; say how many users must"),
        (["guarantee", "generalize"], "--min-users must be given, a whole number; say how many users must"),
        (["guarantee", "query-pool", "--epsilon", "1", "--off-pool"], "--delta must be given, a number above 0"),
        (["release", "query-pool", "{log}", "--per-user", "3"], "querycloak release query-pool --help shows what does"),
        (["guarantee", "clicks", "--noise", "1", "--threshold", "9", "--per-user", "0"], "--max-keys-per-user must be"),
        (["guarantee", "sessions", *SPLIT, "--no-clicks"], "--split must be left out with --no-clicks: it divides"),
        (["guarantee", "sessions", *BUDGET, "--no-clicks"], "--max-keys-per-user must be left out with --no-clicks"),
        (["guarantee", "sessions", *LONG], "--queries-per-session must be at most 10, got 12; give 2 to 10: each"),
        (["guarantee", "k-anonymity", "--min-users", "3", "--preset", "dma"], "dma sets --min-users and --keys"),
        (["synth", "--users", "10", "--out", "{folder}/x.tsv", "--threads", "0"], "--threads must be at least 1, got"),
        (["ledger", "set", "people", "--epsilon", "0", "--delta", "0"], "epsilon must be a finite number above 0"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_line_and_leaves_nothing(
    log: Path, tmp_path: Path, tmp: Path, arguments: list[str], message: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    bad = write(tmp_path / "bad.tsv", AOL_HEADER + "\n" + "SECRETUSER secret query\n" * 30)
    places = {"log": str(log), "folder": str(folder), "bad": str(bad)}
    ledger = str(tmp_path / "ledger.sqlite")
    done = in_process(*(a.format(**places) for a in arguments), tmp=tmp, QUERYCLOAK_LEDGER=ledger)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert leaks_in(done.stderr, SECRETS, "stderr") == []
    assert list(folder.iterdir()) == []
    assert list(tmp.iterdir()) == []


def test_the_papers_tables_from_the_command_line() -> None:
    """Zhang & Yang, ICTIR 2017, Table 4, row 2, as claimed; with clicks, budgets add up (sessions.md)."""
    knobs = ["--variant", "paper", "--noise", "1", "--threshold", "20", "--sessions-per-user", "1", "--json"]
    alone = json.loads(in_process("guarantee", "sessions", *knobs, "--queries-per-session", "3", "--no-clicks").stdout)
    assert (alone["claimed"]["epsilon"], f"{alone['claimed']['delta']:.2e}") == (8.0, "2.25e-07")
    both = json.loads(in_process("guarantee", "sessions", *knobs, "--max-keys-per-user", "4").stdout)
    assert (both["claimed"]["epsilon"], both["proven"]["epsilon"]) == (8.0, 16.0)
    assert both["proven"]["delta"] <= 1.13e-7
    assert both["parameters"]["consecutive_repeats"] == "one query"


def test_sessions_and_pool_are_released_by_commands(tmp_path: Path) -> None:
    rows = [(f"u{u}", f"12:0{i}:00", query, "", "") for u in range(60) for i, query in enumerate(("weather", "maps"))]
    log = write(tmp_path / "log.tsv", aol(rows))
    told = in_process("release", "sessions", log, "--noise", "0.5", "--threshold", "20", "--out", tmp_path / "sessions")
    assert told.returncode == 0, told.stderr
    assert load(tmp_path / "sessions").table("sessions").to_pylist()[0]["queries"] == ["weather", "maps"]
    told = in_process("release", "query-pool", log, "--epsilon", "20", "--out", tmp_path / "pool", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["proven"]["kind"] == "pure-dp"
    transition = load(tmp_path / "pool").table("transitions").to_pylist()[0]
    assert (transition["query"], transition["next_query"]) == ("weather", "maps")
    refused = in_process("release", "query-pool", log, "--epsilon", "1", "--pool", tmp_path / "none", "--out", "x")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1


def phone_log(folder: Path) -> Path:
    """Twenty ask for phone cases, one for a rare one whose last word another knows; one for something else."""
    asked = [(f"u{i}", "cell phone case") for i in range(20)]
    asked += [("friend", "cell phone case e815"), ("other", "e815"), ("alone", "zzqx 17 cell phone")]
    rows: list[Row] = [(user, f"12:{i:02}:00", query, "", "") for i, (user, query) in enumerate(asked)]
    return write(folder / "phones.tsv", aol(rows))


def test_affinity_releases_and_explains(tmp_path: Path) -> None:
    log = phone_log(tmp_path)
    options = ("release", "affinity", log, "--min-users", "10", "--concept-users", "5", "--variant", "paper")
    done = in_process(*options, "--out", tmp_path / "out", "--format", "tsv", "--json")
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    assert (card["proven"]["kind"], card["proven"]["unit"], card["proven"]["k"]) == ("syntactic", "query", 10)
    assert "concepts" not in card["parameters"]  # how many there are is nobody's business
    released = (tmp_path / "out" / "log.tsv").read_text()
    assert released.count("cell phone case") == 21
    assert "zzqx" not in released
    datasheet = (tmp_path / "out" / "README.md").read_text()
    assert "a single query may still be one person's alone" in datasheet
    assert "users share it" not in datasheet
    shown = in_process(*options, "--explain", "Cell phone  case E815")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("PRIVATE OUTPUT")
    assert lines[1:5] == [
        "cell phone case e815",
        "degree 21: comes out for --min-users 10",
        "1 user asked exactly this",
        "users of its words: e815 2, case 21, cell 22, phone 22",
    ]
    assert max(map(len, lines)) <= 80
    assert in_process(*options, "--explain", "zzqx 17 cell phone").stdout.splitlines()[2:] == [
        "degree 0: does not come out for --min-users 10",
        "1 user asked exactly this",
        "users of its words: 17 1, zzqx 1, cell 22, phone 22",
        "one of its words has fewer users than --min-word-users: dropped",
    ]
    as_json = json.loads(in_process(*options, "--explain", "cell phone case", "--json").stdout)
    assert (as_json["private"], as_json["released"], as_json["degree"]) == (True, True, 21)


def test_only_affinity_explains_a_query(tmp_path: Path) -> None:
    log = phone_log(tmp_path)
    for arguments, message in (
        (["affinity", "--min-users", "5", "--concept-users", "5", "--explain", "no such"], "nobody asked the query"),
        (["k-anonymity", "--min-users", "5", "--explain", "cell phone case"], "--explain does not go with k-anonymity"),
        (["affinity", "--min-users", "5", "--out", "x"], "this log has no concepts"),
    ):
        given: list[str | Path] = [arguments[0], log, *arguments[1:]]
        if arguments[-1] == "x":
            given += ["--concept-users", "100"]
        done = in_process("release", *given)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_log_without_clicks_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    """Excite's logs hold no clicks: what counts them says what would work, and charges nothing."""
    log = tmp_path / "excite.log"
    log.write_text("".join(f"u{i}\t970916105432\tweather\n" for i in range(30)))
    ledger = str(tmp_path / "ledger.sqlite")
    assert (
        in_process("ledger", "set", "people", "--epsilon", "9", "--delta", "1e-3", "--ledger", ledger).returncode == 0
    )
    paying = ["--ledger", ledger, "--population", "people", "--log-format", "excite", "--out", str(tmp_path / "out")]
    budget = ["--epsilon", "1", "--delta", "1e-6"]
    for method in (
        ["clicks", *budget],
        ["sessions", *budget],
        ["optimal", *budget],
        ["query-pool", *budget],
        ["k-anonymity", "--min-users", "3"],
    ):
        ended = in_process("release", method[0], str(log), *method[1:], *paying)
        assert ended.returncode == 2, method
        assert "no column of clicked urls" in ended.stderr
        assert "querycloak release queries" in ended.stderr
        assert "querycloak release sessions --no-clicks" in ended.stderr
    account = json.loads(in_process("ledger", "show", "people", "--ledger", ledger, "--json").stdout)
    assert '"charges": []' in json.dumps(account)
    for method in (
        ["queries", *budget],
        ["sessions", *budget, "--tables", "queries,sessions"],
        ["k-anonymity", "--min-users", "3", "--keys", "queries"],
    ):
        out = str(tmp_path / method[0])
        ended = in_process("release", method[0], str(log), *method[1:], "--log-format", "excite", "--out", out)
        assert ended.returncode == 0, ended.stderr


def test_warnings_and_the_size_of_the_population_stand_on_the_card(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", aol([("u", "12:00:00", "weather", "1", "http://w.example/")]))
    options = ["--epsilon", "100", "--delta", "1e-3", "--population-size", "20000", "--out", str(tmp_path / "out")]
    ended = in_process("release", "clicks", str(log), *options)
    assert ended.returncode == 0
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["population_size"] == 20000
    assert [text.partition(" is ")[0] for text in card["warnings"]] == ["epsilon", "delta"]
    assert "above 1/20,000" in card["warnings"][1]
    datasheet = (tmp_path / "out" / "README.md").read_text()
    assert all(text in datasheet for text in card["warnings"])
    assert all(text in " ".join(ended.stderr.split()) for text in card["warnings"])
    assert load(tmp_path / "out").population_size == 20000


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions", *BUDGET],
        ["sessions", "--noise", "1", "--threshold", "20", "--variant", "paper"],
        ["query-pool", "--epsilon", "2", "--variant", "paper"],
        ["k-anonymity", "--preset", "dma"],
    ],
)
def test_no_sentence_is_shown_twice(arguments: list[str]) -> None:
    shown = re.sub(r"\n {4}", " ", in_process("guarantee", *arguments, "--explain").stdout)
    notes = re.findall(r"^  (\S.*\.)$", shown, re.MULTILINE)
    listed = re.findall(r"^(?:because|unprotected): .*", shown, re.MULTILINE)
    said = [*notes, *listed, *shown.split("\n\n")]
    assert sorted({*said}) == sorted(said)
    assert len(listed) > 3


def test_what_bounds_nothing_shows_no_number_that_looks_like_a_bound() -> None:
    for arguments in (
        ["optimal", "--epsilon", "0.7", "--delta", "0.5", "--variant", "paper"],
        ["semantic", "--epsilon", "4", "--variant", "paper"],
        ["query-pool", "--epsilon", "29.99", "--variant", "paper"],
    ):
        shown = in_process("guarantee", *arguments, "--explain").stdout
        proven = [line[12:40].strip() for line in shown.splitlines() if line.startswith(("epsilon", "delta"))]
        assert set(proven) <= {"none for the whole release", "-"}
        explained = " ".join(shown.split("\n\n")[-1].split())
        assert explained.startswith("Nothing limits what this release tells about one person.")
        assert "%" not in explained


# Opens a log as commands do, in a new process, and asks for a data frame afterwards.
OPENED = """
import sys
from querycloak.cli import running
from querycloak.cli.options import Reading
from querycloak.text.compiled import ENOUGH, Loop
Loop.bytes_so_far = ENOUGH + 1  # as after a large log, which needs numba
if sys.argv[2] == "command":
    running._own_process.set()
with Reading().open([sys.argv[1]], quiet=True) as log:
    rows = log.engine.fetch(log.searches)
print("pandas" in sys.modules, "scipy.linalg" in sys.modules)
print(len(rows.to_pandas()) == rows.num_rows)
if sys.argv[2] != "command":
    import pandas
    import pyarrow
    missing = pandas.DataFrame({"a": pandas.Series(["x", pandas.NA], dtype=object)})
    print(pyarrow.Table.from_pandas(missing)["a"].null_count)
"""


@pytest.mark.parametrize(("process", "printed"), [("command", "False False True"), ("notebook", "True True True 1")])
def test_commands_load_neither_pandas_nor_linear_algebra(process: str, printed: str, log: Path) -> None:
    """Another program that opens a log by the same functions keeps all that Arrow knows of pandas."""
    command = [sys.executable, "-c", OPENED, str(log), process]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == printed.split()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--users", "0"), "--users must be at least 1, got 0"),
        (("--split", "words=0"), "--split must be above 0 for words"),
        (("--split", "queries=0"), "--split must be above 0 for queries"),
        (("--split", "clicks=0,hosts=0"), "--split must be 0 for ranks where clicks and hosts are 0"),
    ],
)
def test_a_made_up_log_of_bad_parameters_costs_nothing(
    log: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    ledger, out = ("--ledger", str(tmp_path / "ledger.sqlite")), tmp_path / "out"
    in_process("ledger", "set", "people", "--epsilon", "6", "--delta", "0.01", *ledger)
    before = in_process("ledger", "show", "--json", *ledger).stdout
    budget = ("--epsilon", "3", "--delta", "1e-6", *ledger, "--population", "people")
    done = in_process("release", "synthetic", log, *budget, *options, "--out", out)
    assert done.returncode == 2
    assert message in done.stderr
    assert not out.exists()
    assert in_process("ledger", "show", "--json", *ledger).stdout == before


def test_a_made_up_log_of_a_log_without_times_costs_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "user,query\n" + "".join(f"u{user},weather\n" for user in range(60)))
    columns = ("--columns", "user=user,query=query")
    done = in_process(
        "release", "synthetic", path, "--epsilon", "60", "--delta", ".01", *columns, "--out", tmp_path / "out"
    )
    assert done.returncode == 2
    assert "lacks time" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_made_up_log_of_a_log_without_clicks_has_none_and_its_owner_is_told(tmp_path: Path) -> None:
    rows = "".join(f"u{user},2006-03-01 10:00:00,weather\n" for user in range(60))
    path, out = write(tmp_path / "log.csv", "user,time,query\n" + rows), tmp_path / "out"
    done = in_process("release", "synthetic", path, "--epsilon", "60", "--delta", ".01", "--users", "20", "--out", out)
    assert done.returncode == 0
    assert "no kept row has a click" in done.stderr
    table = load(out).table("log")
    assert table.num_rows >= 20
    assert table["rank"].null_count == table.num_rows
