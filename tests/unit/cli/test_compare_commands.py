"""`compare` and `demo` as they are typed: what they print, write and refuse; the page beside the tables."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from querycloak.cli.demo_command import program_as_typed
from querycloak.comparison.comparison_views import TASK_VIEWS
from querycloak.pages.shown_text import shown_share
from tests.commands import in_process, querycloak
from tests.compared import make_log

RELEASES = """\
[[release]]
name = "clicks-e1"
method = "clicks"
options = { epsilon = 1.0, delta = 1e-3 }
[[release]]
name = "clicks-e8"
method = "clicks"
options = { epsilon = 8.0, delta = 1e-3 }
[[release]]
name = "rows"
method = "k-anonymity"
options = { min_users = 3, keys = "log" }
[[release]]
name = "broken"
method = "semantic"
options = { epsilon = 1.0, max_queries = 1, taxonomy = "there-is-none.csv" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, its file of releases, and a comparison."""
    place = tmp_path_factory.mktemp("typed")
    make_log(place)
    (place / "releases.toml").write_text(RELEASES)
    return place


@pytest.fixture(scope="module")
def done(folder: Path) -> tuple[int, str, str]:
    words = ("compare", folder / "log.parquet", "--releases", folder / "releases.toml", "--out", folder / "out")
    found = querycloak(*words, tmp=folder)
    return found.returncode, found.stdout, found.stderr


class Page(HTMLParser):
    """The figures of a page with where they come from; its links, identities and headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.figures: list[tuple[dict[str, str | None], str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if "data-row" in dict(attrs):
            self._open = dict(attrs)

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.figures.append((self._open, data))
            self._open = None


@pytest.fixture(scope="module")
def page(folder: Path, done: tuple[int, str, str]) -> str:
    return (folder / "out" / "index.html").read_text()


def test_it_ends_with_4_and_the_reason_if_a_release_failed(done: tuple[int, str, str], folder: Path) -> None:
    code, out, err = done
    assert code == 4
    assert err.count("\n") == 1
    assert err.startswith("querycloak: broken could not be made; the page and the tables say why")
    assert out.startswith("PRIVATE OUTPUT")
    assert f"The page: {folder / 'out' / 'index.html'}" in out
    assert re.search(r"^broken .*not made", out, re.MULTILINE)
    assert all(len(line) <= 80 for line in out.splitlines() if "The page" not in line)


def test_figures_on_the_page_are_those_of_the_tables(page: str, folder: Path) -> None:
    tables = {name: pq.read_table(folder / "out" / f"{name}.parquet").to_pylist() for name in ("evaluation", "audit")}
    evaluation = tables["evaluation"]
    figures = Page(page).figures
    assert len(figures) > 60
    for about, text in figures:
        row = tables[str(about["data-table"])][int(str(about["data-row"]))]
        value = row[str(about["data-column"])]
        assert float(str(about["data-value"])) == value
        if about["data-table"] == "audit":
            idle = about["data-column"] == "risk" and row["why"] is not None
            assert text == shown_share(0.0 if idle else value), row
            continue
        view = TASK_VIEWS[str(about["data-task"])]
        original = next(
            (each["value"] for each in evaluation if each["release"] == "original" and each["reading"] == "all"
             and (each["task"], each["measure"], each["slice"]) == (row["task"], view.measure, row["slice"])), None,
        )  # fmt: skip
        share = value if view.share == "itself" else 1 - value if view.share == "loss" else max(value, 0) / original
        assert text == shown_share(share), row


def test_the_page_says_what_it_must(page: str) -> None:
    for words in (
        "PRIVATE", "experiments", "not for release", "is itself a disclosure", "querycloak synth",
        "--max-keys-per-user auto",
        "What this means for one person", "What to choose", "What is not protected", "could not be made",
    ):  # fmt: skip
        assert words in page, words
    assert re.search(r"<h1>[^<]+</h1>", page)
    assert "there-is-none" not in page or "broken" in page


def test_the_page_needs_nothing_else(page: str) -> None:
    tags = Page(page).tags
    assert not [tag for tag, _ in tags if tag in ("script", "iframe", "object", "embed", "img")]
    linked = [value for _, attributes in tags for name, value in attributes.items() if name in ("href", "src")]
    assert all(str(each).startswith(("#", "data:")) for each in linked)
    identities = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    assert {str(each)[1:] for each in linked if str(each).startswith("#")} <= set(identities)
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]


def test_headings_and_landmarks_are_in_order(page: str) -> None:
    tags = [tag for tag, _ in Page(page).tags]
    assert tags.count("h1") == tags.count("main") == tags.count("header") - tags.count("article") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 or after == 3 for before, after in pairwise(levels))
    pictures = [attributes for tag, attributes in Page(page).tags if tag == "svg" and "aria-hidden" not in attributes]
    assert pictures
    assert all(each["role"] == "img" and each["aria-labelledby"] for each in pictures)


def test_several_budgets_are_curves(page: str) -> None:
    assert 'id="budgets"' in page
    assert "Kept volume against risk" in page


def test_started_again_it_says_the_same(folder: Path, done: tuple[int, str, str]) -> None:
    """The same options from a plan are the same comparison."""
    plan = folder / "plan.toml"
    plan.write_text(f"releases = '{folder / 'releases.toml'}'\nout = '{folder / 'out'}'\n")
    again = in_process("compare", folder / "log.parquet", "--plan", plan, "--json", tmp=folder)
    assert again.returncode == 4
    document = json.loads(again.stdout)
    assert document["private"] is True
    assert [each["name"] for each in document["releases"]] == ["clicks-e1", "clicks-e8", "rows", "broken"]
    assert document["releases"][3]["failed"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--out must be given, the folder to write"),
        (["--out", "{folder}"], "is neither; name another"),
        (["--out", "{out}", "--epsilon", "1"], "another log or with other options"),
        (["--out", "new", "--epsilon", "much"], "--epsilon must be one number or several"),
        (["--out", "new", "--epsilon", "-1"], "--epsilon must be"),
        (["--out", "new", "--delta", "2"], "--delta must be"),
        (["--out", "new", "--releases", "none.toml"], "the file of releases 'none.toml' cannot be read"),
        (["--out", "new", "--releases", "{toml}", "--epsilon", "1"], "leave --epsilon and --delta out"),
        (["--out", "new", "--plan", "{toml}"], "the plan has 'release', which is no option here"),
        (["--out", "{folder}/new", "--truth", "{folder}"], "--truth must be a folder with sensitive.parquet"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, folder: Path, done: tuple[int, str, str]) -> None:
    known = {"folder": folder, "out": folder / "out", "toml": folder / "releases.toml"}
    found = in_process("compare", folder / "log.parquet", *(word.format(**known) for word in words), tmp=folder)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert message in found.stderr


def test_the_demo_ends_with_a_page_and_what_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = in_process("demo", "--users", "100", tmp=tmp_path, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo-out" / "index.html").is_file()
    assert "The page: demo-out/index.html" in done.stdout
    assert "affinity as in its paper (w = 2)" in done.stdout
    assert all(len(line) <= 80 or line.startswith("  ") for line in done.stdout.splitlines())
    listed = [line.strip() for line in done.stdout.partition("\nNext:\n")[2].splitlines()]
    assert len(listed) == 5
    for line in listed[:3]:  # the others take long; the options of all are checked by their own tests
        words = shlex.split(line)
        assert in_process(*words[1:], tmp=tmp_path).returncode == 0, line
    assert in_process("demo", "--out", tmp_path, tmp=tmp_path).returncode == 2  # not ours


@pytest.mark.parametrize(
    ("started", "known", "typed"),
    [
        ("/usr/lib/querycloak/__main__.py", {}, f"{sys.executable} -m querycloak"),
        ("/usr/lib/querycloak/__main__.py", {"python": sys.executable}, "python -m querycloak"),
        ("/usr/lib/querycloak/__main__.py", {"querycloak": "/usr/bin/querycloak"}, "querycloak"),
        ("/opt/own bin/querycloak", {}, "'/opt/own bin/querycloak'"),
    ],
)
def test_what_can_be_typed_next_starts_the_program_as_it_was_started(
    monkeypatch: pytest.MonkeyPatch, started: str, known: dict[str, str], typed: str
) -> None:
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setattr(shutil, "which", known.get)
    assert program_as_typed() == typed
