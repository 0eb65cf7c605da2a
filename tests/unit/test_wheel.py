"""The wheel, built from this checkout and used outside of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from scripts.make_sbom import bill_of

from tests.commands import PATIENCE
from tests.pages import ROOT

OFFLINE = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation")


def pip(*words: str | Path) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr


def run(folder: Path, *words: str | Path) -> str:
    """Run Python in another folder, from which only what was installed is found."""
    settings = {**os.environ, "PYTHONPATH": str(folder.parent / "installed"), "QUERYCLOAK_TMP": str(folder)}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_whole_and_works_outside_of_the_checkout(tmp_path: Path) -> None:
    """One test, so that it is built once."""
    pip("wheel", *OFFLINE, "--wheel-dir", tmp_path / "wheel", ROOT)
    (wheel,) = (tmp_path / "wheel").glob("querycloak-*.whl")
    check_contents(wheel)
    check_bill(wheel)
    installed = tmp_path / "installed"
    pip("install", *OFFLINE, "--target", installed, wheel)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    assert run(folder, installed / "bin" / "querycloak", "--version").startswith("querycloak 0")
    budget = ("--epsilon", "1", "--delta", "1e-6", "--json")
    assert '"approximate-dp"' in run(folder, installed / "bin" / "querycloak", "guarantee", "clicks", *budget)
    assert run(folder, "-c", LOOK).split() == [str(installed / "querycloak" / "__init__.py"), "117798", "325176"]


LOOK = """
import querycloak
from querycloak.text.english import public_phrases
from querycloak.text.wordnet import wordnet
print(querycloak.__file__, len(wordnet().labels), public_phrases().num_rows)
"""


def check_bill(wheel: Path) -> None:
    """The bill of materials lists every file of the wheel with its checksum, and what the lock installs."""
    bill = bill_of(wheel, ROOT / "requirements" / "demo.lock")
    subject = bill["metadata"]["component"]
    assert (bill["bomFormat"], bill["specVersion"], subject["name"]) == ("CycloneDX", "1.6", "querycloak")
    digests = {each["name"]: each["hashes"][0]["content"] for each in subject["components"]}
    with zipfile.ZipFile(wheel) as archive:
        assert digests == {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    packages = {each["name"]: each for each in bill["components"]}
    for name in ("duckdb", "opendp", "numpy"):
        assert packages[name]["bom-ref"] in bill["dependencies"][0]["dependsOn"]
        assert packages[name]["properties"]
    references = [each["bom-ref"] for each in (*bill["components"], *subject["components"], subject)]
    assert len(references) == len(set(references))


def check_contents(wheel: Path) -> None:
    """Everything that git knows of the package is in it."""
    known = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "src/querycloak"], capture_output=True, text=True, check=False
    )
    if known.returncode == 0:
        held = set(zipfile.ZipFile(wheel).namelist())
        files = [line.removeprefix("src/") for line in known.stdout.splitlines() if (ROOT / line).exists()]
        assert len(files) > 100
        assert [name for name in files if name not in held] == []
