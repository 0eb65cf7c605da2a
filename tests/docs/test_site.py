"""The site: every page stands in its navigation, nothing comes from elsewhere, and it builds."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from scripts.check_site import problems

import querycloak
from querycloak import extend
from tests.logs import write
from tests.pages import ROOT

DOCS = ROOT / "docs"
SETTINGS = [DOCS / "conf.py", *sorted(DOCS.glob("*.rst")), *sorted((DOCS / "site").iterdir())]
GENERATOR = ROOT / ".venv-docs" / "bin" / "sphinx-build"


def navigation() -> list[str]:
    """The entries of all toctrees of the first page, without titles."""
    entries = re.findall(
        r"^   (?!:)(\S.*)$", (DOCS / "index.rst").read_text().split(".. toctree::", 1)[1], re.MULTILINE
    )
    return [re.sub(r".*<(.*)>", r"\1", entry) for entry in entries]


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [path for ending in ("md", "rst", "ipynb") for path in DOCS.glob(f"*.{ending}") if path.stem != "index"]
    outside = ["../CHANGELOG", "../CONTRIBUTING"]
    assert sorted(navigation()) == sorted([*(path.stem for path in pages), *outside]), "see docs/index.rst"


def test_every_proof_note_is_on_the_page_of_notes() -> None:
    folders = re.findall(r"^   \.\./(src/\S+)$", (DOCS / "notes.rst").read_text(), re.MULTILINE)
    listed = {path for folder in folders for path in ROOT.glob(f"{folder}.md")}
    assert listed == set((ROOT / "src").rglob("*.md"))


def documented(page: str) -> list[str]:
    """The names that a page of the reference documents."""
    entry = r"^\.\. (?:auto(?:class|function)|py:data):: (\w+)(?:\(\))?$"
    return sorted(re.findall(entry, (DOCS / page).read_text(), re.MULTILINE))


def test_the_reference_has_every_public_name() -> None:
    assert documented("api.rst") == querycloak.__all__


def test_the_reference_for_packages_has_every_name_that_they_import() -> None:
    assert documented("extend.rst") == sorted(set(extend.__all__) - set(querycloak.__all__))


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.name)
def test_settings_name_no_other_host(path: Path) -> None:
    assert "//" not in path.read_text()


def test_paths_lead_from_reader_to_reader() -> None:
    for page, following in (
        ("own-a-log", "sign-a-release"),
        ("sign-a-release", "receive-a-release"),
        ("receive-a-release", "build-on-it"),
    ):
        text = (DOCS / f"{page}.md").read_text()
        assert f"({following}.md)" in text.split("\n## Next\n")[1]
        assert text.split("\n\n")[1].startswith("**At the end of this page you have** ")


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (DOCS / "pictures").glob("*")}
    assert {name: size for name, size in sizes.items() if size > 200_000} == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "page.html loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', "page.html loads //fonts.example/a.css"),
        ('<style>@import "https://fonts.example/a.css";</style>', "page.html loads https://fonts.example/a.css"),
        ('<a href="gone.html">there</a>', "page.html links to gone.html"),
        ('<a href="#gone">there</a>', "page.html links to #gone"),
    ],
)
def test_the_check_finds(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / "page.html", text)
    assert list(problems(tmp_path)) == [problem]


def test_the_check_passes_what_is_right(tmp_path: Path) -> None:
    write(tmp_path / "own.css", "body { background: url(own.svg) }")
    (tmp_path / "more").mkdir()
    write(tmp_path / "page.html", '<p id="here"><a href="#here">x</a><a href="https://example.org/">y</a></p>')
    write(
        tmp_path / "more" / "other.html", '<link rel="stylesheet" href="../own.css"><a href="../page.html#here">x</a>'
    )
    assert list(problems(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.skipif(not GENERATOR.exists(), reason="`make docs` installs the generator")
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    command = [
        str(GENERATOR),
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "-c",
        "docs",
        ".",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(problems(tmp_path / "site")) == []
