"""docs/own-method.md, file by file and command by command: a package, installed and used from a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from querycloak.releases.loading import load
from tests.commands import PATIENCE
from tests.logs import write
from tests.pages import ROOT, examples

PAGE = ROOT / "docs" / "own-method.md"
# Nothing is fetched, and nothing of this environment changes.
OFFLINE = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target")


class Reader:
    """Somebody who follows the page in a folder, with packages of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.packages = folder / "project", folder / "packages"
        self.folder.mkdir()
        search = [str(self.packages), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search), "QUERYCLOAK_TMP": str(folder)}

    def run(self, *words: str) -> str:
        programs = {
            "querycloak": ["-m", "querycloak"],
            "python": [],
            "pip": ["-m", "pip", "install", *OFFLINE, str(self.packages)],
        }
        rest = words[2:] if words[0] == "pip" else words[1:]
        command = [sys.executable, *programs[words[0]], *rest]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


@pytest.mark.slow
def test_the_page_makes_a_package_and_it_works_as_any_other(tmp_path: Path) -> None:
    """One test, so that the page is followed once."""
    reader = Reader(tmp_path)
    found = examples(PAGE)
    for example in found:
        if example.file is not None:
            write(reader.folder / example.file, example.text)
    for example in found:
        for words in example.commands() if example.language == "sh" else ():
            reader.run(*words)
    release = load(reader.folder / "watched")
    assert (release.method, release.proven.kind, release.proven.epsilon) == ("watch-list", "pure-dp", 1.0)
    assert set(release.table("queries")["query"].to_pylist()) == {"asthma", "measles", "arthritis", "golf elbow"}
    options = ("--queries", "illnesses.txt", "--epsilon")
    described = json.loads(reader.run("querycloak", "guarantee", "watch-list", *options, "0.3", "--json"))
    assert 1 / described["parameters"]["noise"] <= 0.3  # rounded up, so that this holds
    assert "How many people asked each query" in reader.run("querycloak", "release", "--help")
    with pytest.raises(AssertionError, match="--epsilon must be a finite number above 0, got 0"):
        reader.run("querycloak", "guarantee", "watch-list", *options, "0")


def test_it_is_short() -> None:
    (code,) = (each.text for each in examples(PAGE) if each.file == "watch_list.py")
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 70
