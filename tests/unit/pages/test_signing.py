"""The page to sign: what goes along holds nothing of the log, what stays says everything, and nothing is mixed up."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
import yaml

import querycloak as qc
from querycloak.files.documents import yaml_text
from querycloak.logs.choices import Choices
from querycloak.methods.registry import METHODS
from querycloak.pages.hazards import GUARDED, OPEN, YOURS, hazards_of
from querycloak.pages.signing_report import headline
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.about_file import About
from tests.commands import in_process
from tests.evaluated import Asked, write_rows

FIXTURES = Path(__file__).parents[2] / "fixtures"
ABOUT = """owner = "Example Library"
purpose = "Research on query suggestion <script>"
region = "Italy"
approved_by = "the officer"
"""
# Queries that no page says by chance.
ROWS: list[Asked] = [
    (f"member{user:03}", minute, f"quxquery{minute} zorb", f"http://zorb{minute}.example/", 1)
    for user in range(120)
    for minute in range(user % 4 + 1)
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, its two sides, a charged release of one side, an evaluation and an attack of it, and of another one."""
    folder = tmp_path_factory.mktemp("signing")
    log = write_rows(folder / "log.parquet", ROWS)
    sides = qc.split(log, folder / "split", by="user", test=0.3)
    book = qc.Ledger(folder / "ledger.sqlite")
    book.set_limit("readers", 10, 1e-2)
    with qc.read(sides.train) as train:
        qc.Clicks(epsilon=1, delta=1e-4, selection="laplace").release(train, ledger=book, population="readers").save(
            folder / "earlier"
        )
        qc.Clicks(epsilon=3, delta=1e-3, selection="laplace").release(train, ledger=book, population="readers").save(
            folder / "mine"
        )
        qc.KAnonymity(min_users=5, keys="queries").release(train).save(folder / "rule")
    for name in ("mine", "earlier"):
        done = in_process(
            "evaluate", sides.train, sides.test, folder / name, "--task", "completion", "--quiet", "--out",
            folder / f"{name}.parquet",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        done = in_process(
            "audit", "release", sides.train, folder / name, "--control", sides.test, "--attack", "singling-out",
            "--attack", "leaks", "--quiet", "--out", folder / f"{name}-audit.json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    (folder / "about.toml").write_text(ABOUT)
    return folder


def report(place: Path, out: Path, *words: str | Path, release: str = "mine") -> Any:
    return in_process("report", place / release, "--out", out, *words)


@pytest.fixture(scope="module")
def pages(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "report"
    done = report(
        place, out, "--evaluation", place / "mine.parquet", "--audit", place / "mine-audit.json", "--ledger",
        place / "ledger.sqlite", "--about", place / "about.toml", "--to", "registry",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return out


def test_nothing_of_the_log_goes_along(place: Path, pages: Path, tmp_path: Path) -> None:
    """The leak search finds no user, query or url in what goes along, and finds one that is planted there."""
    with qc.read(place / "log.parquet") as log:
        for name in ("public.html", "registry.yaml"):
            shutil.copy(pages / name, tmp_path / name)
        assert qc.find_leaks(tmp_path, log) == []
        (tmp_path / "public.html").write_text((pages / "public.html").read_text().replace("What is", "member017 is", 1))
        assert {leak.kind for leak in qc.find_leaks(tmp_path, log)} == {"users"}


def test_true_figures_stay_in_the_private_page(place: Path, pages: Path) -> None:
    public, private = ((pages / name).read_text() for name in ("public.html", "private.html"))
    digest = qc.verify(place / "mine").digest
    for page in (public, private):
        assert digest in page
        assert not re.findall(r"<script|src=[\"']http|@import|<link[^>]+http", page)
        assert "Research on query suggestion &lt;script&gt;" in page
        assert page.count('<tr><td class="n">') == 24
    assert "PRIVATE" in private
    assert "PRIVATE" not in public
    for words in ("Success@10", "Spent before this release", "the officer", "epsilon 1, delta"):
        assert words in private
        assert words not in public
    assert "singling-out" in public
    assert "stay with the owner" in public
    assert re.search(r"Spent with this release</dt><dd>epsilon 4, delta 0.0\d+", private)
    assert oct((pages / "private.html").stat().st_mode)[-3:] == "600"


def test_what_is_empty_is_seen_to_be_empty(pages: Path, place: Path, tmp_path: Path) -> None:
    filled = (pages / "private.html").read_text()
    assert filled.count('class="empty"') == 9  # contact, licence, audience, period, review; and four to sign
    done = report(place, tmp_path / "bare")
    assert done.returncode == 0
    bare = (tmp_path / "bare" / "private.html").read_text()
    assert bare.count('class="empty"') == 13
    assert "not measured" in bare
    assert "give the file of querycloak audit release" in bare


def test_the_registry_takes_the_entry(pages: Path, place: Path) -> None:
    schema = json.loads((FIXTURES / "registry-schema.json").read_text())
    found = yaml.safe_load((pages / "registry.yaml").read_text())
    jsonschema.validate(found, schema)
    assert found["tier"] == 3
    # The card says the same facts under the same names.
    card = json.loads((place / "mine" / "card.json").read_text())["deployment"]
    for part, fields in card.items():
        assert set(fields) <= set(schema["properties"]["deployment"]["properties"][part]["properties"])
    assert found["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == 3
    assert found["deployment"]["basic"]["data_curators"] == ["Example Library"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**found, "tier": 4}, schema)
    odd = {"a": {"b": ["x: y", 'quote " and \\', "naïve – ü"], "c": 1e-07, "d": None, "e": True}}
    assert yaml.safe_load(yaml_text(odd)) == odd


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--evaluation", "earlier.parquet"), "in its place with --measured-on"),
        (("--audit", "earlier-audit.json"), "the audit is about another release"),
        (("--evaluation", "about.toml"), "cannot be read; give the file that evaluate or audit wrote"),
        (("--about", "mine.parquet"), "cannot be read; it must be UTF-8 text"),
        (("--about", "log-card.toml"), "the file given with --about is not TOML"),
        (("--about", "odd.toml"), "has an unknown field 'ownr'; it may have owner, contact"),
        (("--to", "registry"), "intended_use, which --about does not give; add owner, region, purpose to it"),
        (("--measured-on", "earlier"), "has another method or other options"),
    ],
)
def test_what_does_not_belong_is_refused_in_one_line(
    place: Path, tmp_path: Path, words: tuple[str, str], said: str
) -> None:
    (place / "log-card.toml").write_text("owner: me")
    (place / "odd.toml").write_text('ownr = "me"')
    given = place / words[1] if words[0] != "--to" else words[1]
    done = report(place, tmp_path / "out", words[0], given)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_places_that_are_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    for out, said in (
        (tmp_path, "is neither; name another"),
        (place / "mine" / "report", "not be written into a release folder"),
    ):
        done = report(place, out)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr
    done = report(place, tmp_path / "out", "--ledger", place / "ledger.sqlite", release="rule")
    assert "was not accounted" in done.stderr
    done = in_process("report", tmp_path, "--out", tmp_path / "out")
    assert "is not a release folder" in done.stderr


def test_an_audit_of_the_method_is_measured_beside_proven(place: Path, tmp_path: Path) -> None:
    proven = json.loads((place / "mine" / "card.json").read_text())["proven"]
    told = {"epsilon": 1.234, "delta": 1e-3, "runs": 20000, "confidence": 0.999999, "ceiling": 7.9}
    audit = {"method": "clicks", "claimed": None, "proven": proven, "measured": told, "pairs": [], "exact": []}
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    assert report(place, tmp_path / "out", "--audit", tmp_path / "audit.json").returncode == 0
    for name in ("private.html", "public.html"):  # it ran on logs of its own making, so that both may say it
        assert "at least 1.23" in (tmp_path / "out" / name).read_text()
    (tmp_path / "audit.json").write_text(json.dumps({**audit, "proven": {**proven, "epsilon": 9}}))
    done = report(place, tmp_path / "other", "--audit", tmp_path / "audit.json")
    assert "the audit is about another method, or about other options" in done.stderr


def test_a_release_that_was_measured_in_its_place(place: Path, tmp_path: Path) -> None:
    with qc.read(place / "log.parquet") as log:
        qc.Clicks(epsilon=3, delta=1e-3, selection="laplace").release(log).save(tmp_path / "whole")
    done = in_process(
        "report", tmp_path / "whole", "--out", tmp_path / "out", "--evaluation", place / "mine.parquet",
        "--measured-on", place / "mine",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "made from a part of the log (TRAIN" in (tmp_path / "out" / "private.html").read_text()


def test_every_hazard_is_answered_for_every_method(place: Path) -> None:
    with qc.read(place / "log.parquet") as log:
        releases = {
            "clicks": qc.Clicks(epsilon=0.5, delta=1e-3).release(log),
            "rule": qc.KAnonymity(min_users=5, keys="queries").release(log),
            "pool": qc.QueryPool(epsilon=1).release(log),
            "optimal": qc.Optimal(epsilon=8, delta=1e-3).release(log),
            "semantic": qc.Semantic(epsilon=1, max_queries=2, any_language=True).release(log),
            "seeded": qc.Clicks(epsilon=0.5, delta=1e-3).release(log, randomness=Randomness(seed=1)),
        }
    answers = {name: hazards_of(release) for name, release in releases.items()}
    for found in answers.values():
        assert [each.number for each in found] == list(range(1, 25))
        assert all(each.answer in (GUARDED, OPEN, YOURS) and each.reason.endswith((".", "…")) for each in found)
        assert all(each.answer != GUARDED for each in found if each.number in (8, 20, 22, 23, 24))
    assert answers["clicks"][0].answer == GUARDED
    assert answers["optimal"][0].answer == OPEN
    assert answers["pool"][1].reason == "Delta is 0: there is no exception."
    for number in (1, 2, 14, 18):
        assert answers["rule"][number - 1].answer == answers["seeded"][number - 1].answer == OPEN
    assert answers["semantic"][2].answer == OPEN
    assert set(METHODS) >= {"clicks", "optimal"}
    texts = {name: [each.reason for each in listed] for name, listed in answers.items()}
    drawn = {name: listed for name, listed in texts.items() if name not in ("seeded", "rule")}
    assert all("some of them OpenDP's and some our own" in listed[8] for listed in drawn.values())
    assert "The method's rule adds no noise" in texts["rule"][8]
    assert "Rows of fewer users come out less often each" in texts["clicks"][9]
    assert "that they are in the log and how often they searched (up to 2) comes out exactly" in texts["semantic"][2]
    assert texts["semantic"][10].startswith("Each row is a draw by whole weights")
    assert texts["semantic"][15].startswith("Rows are draws for real users")
    assert not any("made from them" in reason for each in texts.values() for reason in each)
    assert "The method&#39;s rule" not in texts["rule"][13]
    assert all(
        "nothing is rounded" not in reason and "at worst" not in reason for each in texts.values() for reason in each
    )


def test_people_exposed_are_an_expected_number(place: Path) -> None:
    with qc.read(place / "log.parquet") as log:
        release = qc.Clicks(epsilon=1, delta=1e-6).release(log, population_size=1000)
    assert hazards_of(release)[1].reason == (
        "Delta is 1e-06: of 1,000 people, the expected number of exposed ones is 0.001 at most."
    )


def test_weights_are_rounded_down_and_counts_clamped_on_the_page(place: Path) -> None:
    with qc.read(place / "log.parquet") as log:
        release = qc.Clicks(epsilon=1, delta=1e-3, selection="weighted").release(log)
    answer = hazards_of(release)[10]
    assert (answer.answer, answer.reason.startswith("Weights of rows are rounded down")) == (OPEN, True)


def test_the_headline_of_semantic_says_that_presence_comes_out() -> None:
    release: Any = SimpleNamespace(seeded=False, proven=qc.Semantic(epsilon=1, max_queries=2).proven())
    assert headline(release) == (
        "For every user, what this release tells about the content of their searches is limited by epsilon 1, without "
        "exception; that they are in the log and how often they searched (up to 2) comes out exactly."
    )


def test_the_headline_names_only_what_comes_out() -> None:
    histogram = qc.Semantic(epsilon=1, criterion="hbdp", domain="sport", max_queries=2)
    release: Any = SimpleNamespace(seeded=False, proven=histogram.proven())
    assert headline(release).endswith("without exception; that they are in the log comes out exactly.")
    each: Any = SimpleNamespace(seeded=False, proven=qc.Semantic(epsilon=1, budget_per="query").proven())
    assert headline(each) == (
        "For every single query, what this release tells about its content is limited by epsilon 1, without exception; "
        "that it was made, and whose rows stand together, comes out exactly."
    )


def test_every_task_that_is_passed_appears_and_invalid_attacks_say_what_stands_in_their_place(
    place: Path, tmp_path: Path
) -> None:
    digest = qc.verify(place / "mine").digest
    row = {"release": "mine", "digest": digest, "reading": "all", "value": 0.5, "low": None, "high": None, "why": None}
    evaluation = [
        {**row, "task": "counts", "measure": "volume_share", "slice": "table=clicks", "answered": None},
        {**row, "task": "pairs", "measure": "recall", "slice": "support=0.0005", "answered": None},
        {**row, "task": "loss", "measure": "ncp", "slice": None, "answered": None},
        {**row, "task": "loss", "measure": "ncp", "slice": "kind=x", "answered": None},
        {**row, "release": "original", "digest": None, "task": "loss", "measure": "ncp", "slice": None, "value": 0.123},
    ]
    attack = {"release": "mine", "digest": digest, "attack": "inference", "setting": "m=5", "main": 0.4, "control": 0.3}
    audit = [{**attack, "baseline": 0.42, "risk": 0.1429, "low": 0.1, "high": 0.2, "why": "invalid: no better"}]
    (tmp_path / "evaluation.json").write_text(json.dumps({"results": evaluation}))
    (tmp_path / "audit.json").write_text(json.dumps({"results": audit}))
    done = report(
        place, tmp_path / "out", "--evaluation", tmp_path / "evaluation.json", "--audit", tmp_path / "audit.json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "out" / "private.html").read_text()
    for task in ("counts", "pairs", "loss"):
        assert page.count(f'<tr><th scope="row">{task}</th>') == 1
    assert "volume_share (table=clicks)" in page
    assert "0.123" in page
    assert "without the release the attack succeeds as often (42\u00a0%)" in page
    assert "14\u00a0%" not in page


def test_the_page_to_sign_leads_with_all_cases_and_their_coverage(place: Path, tmp_path: Path) -> None:
    digest = qc.verify(place / "mine").digest
    case = {"task": "ranking", "measure": "tau-b", "slice": None, "low": None, "high": None, "why": None, "cases": 400}
    values = {"answered": 0.7516, "all": 0.0601, "common": 0.5279}
    evaluation = [
        *({**case, "release": "mine", "digest": digest, "reading": reading, "value": value, "answered": 32}
          for reading, value in values.items()),
        {**case, "release": "original", "digest": None, "reading": "all", "value": 0.2513, "answered": 180},
        {**case, "release": "no-data", "digest": None, "reading": "all", "value": 0.0426, "answered": 19},
    ]  # fmt: skip
    (tmp_path / "evaluation.json").write_text(json.dumps({"results": evaluation}))
    done = report(place, tmp_path / "out", "--evaluation", tmp_path / "evaluation.json")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "out" / "private.html").read_text()
    [line] = [each for each in page.splitlines() if each.startswith('<tr><th scope="row">ranking</th>')]
    order = ["0.0601", "32 (8.0\u00a0%)", "0.0426", "0.2513", "0.7516", "0.5279"]
    places = [line.find(text) for text in order]
    assert -1 not in places
    assert places == sorted(places)
    assert "0.7516" not in (tmp_path / "out" / "public.html").read_text()
    assert "the order agrees with the clicks of other people by 0.0601" in page
    assert "Without any data: 0.0426; with the log itself: 0.2513." in page
    assert "<strong>tau-b</strong>: pairs of urls in whose order" in page


def test_attacks_are_explained_and_a_bound_is_no_attack(place: Path, tmp_path: Path) -> None:
    digest = qc.verify(place / "mine").digest
    row = {"release": "mine", "digest": digest, "control": 0.0, "baseline": 0.0, "low": None, "high": None, "why": None}
    audit = [
        {**row, "attack": "membership", "setting": "FPR 0.01", "main": 0.1, "risk": 0.08},
        {
            **row,
            "attack": "membership",
            "setting": "most by what is proven",
            "main": 0.5,
            "risk": None,
            "why": "no try",
        },
        {**row, "attack": "forced-out", "setting": "11 accounts, 1 text", "main": 0.505, "risk": 0.505},
    ]
    (tmp_path / "audit.json").write_text(json.dumps({"results": audit}))
    assert report(place, tmp_path / "out", "--audit", tmp_path / "audit.json").returncode == 0
    page = (tmp_path / "out" / "private.html").read_text()
    assert "is a person in the log?" in page
    assert "nobody in the log is attacked here" in page
    assert "with 11 accounts, 1 text, it came out in 50\u00a0% of the tries" in page
    assert "Largest risk 8.0\u00a0% (membership)." in page
    assert "because no try" not in page


def test_about_says_what_it_was_told() -> None:
    assert About.of(None) == About()
    assert About.of({"owner": "me"}) == About(owner="me")


def test_the_ledger_of_the_environment_is_used_where_the_card_names_a_charge(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYCLOAK_LEDGER", str(place / "ledger.sqlite"))
    assert report(place, tmp_path / "out").returncode == 0
    assert "readers" in (tmp_path / "out" / "private.html").read_text()
    assert report(place, tmp_path / "rule", release="rule").returncode == 0


def test_the_page_draws_released_counts_by_week(tmp_path: Path) -> None:
    rows = [
        {"user": f"u{user}", "time": datetime(2024, 1, 3 + 7 * week), "query": f"zorb{week % 2}"}
        for user in range(60)
        for week in range(3)
    ]
    choices = Choices(since=datetime(2024, 1, 1), until=datetime(2024, 1, 29))
    with qc.read(pa.Table.from_pylist(rows), choices=choices) as log:
        released = {
            "by-week": qc.Queries(epsilon=30, delta=1e-3, by="week", max_keys_per_user=4),
            "cells": qc.Queries(epsilon=30, delta=1e-3, by="week", keyed="none"),
            "whole": qc.Queries(epsilon=30, delta=1e-3),
        }
        for name, method in released.items():
            method.release(log).save(tmp_path / name)
            qc.report(tmp_path / name, tmp_path / f"page-{name}")
    pages = {name: (tmp_path / f"page-{name}" / "public.html").read_text() for name in released}
    assert "Count by week, with their margins" in pages["by-week"]
    # Two weeks have searches; noise may add another.
    assert re.search(r"zorb0: [234] of 4, from", pages["by-week"]), "a week without any row is on the axis, too"
    assert "all: 4 of 4, from" in pages["cells"] or "all: 3 of 4, from" in pages["cells"]
    assert "with their margins" not in pages["whole"]
