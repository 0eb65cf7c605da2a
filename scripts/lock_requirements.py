"""Lock what `make demo` and `make test` install: versions and checksums, from what pip finds for pyproject.toml now.

Run it with the Python that the locks are for: `python scripts/lock_requirements.py`. It writes requirements/demo.lock,
requirements/test.lock and docs/licences.md. Versions come from pip's main index alone, whatever other places this
machine's pip knows, and each is locked with the checksums of all its files there: pip may then take any of them.
Where packages are fetched from is pip's affair and stands in none of the files.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections import defaultdict
from email.message import Message
from email.parser import HeaderParser
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
EXTRAS = ("dev", "spark", "audit", "compare", "studio")
BUILD = ("hatchling", "editables")
HEAD = """# What `make {target}` installs, with checksums: made by scripts/lock_requirements.py, for
# {place}. Elsewhere `make` goes by the bounds of pyproject.toml.
"""
LICENCES = """# Licences

querycloak is under the Apache License 2.0. Its wheel holds, beside its own code, data of other people's: nouns of
WordNet (`text/data/WORDNET-LICENSE`) and public phrases (`text/data/public_phrases.LICENSE`), and nothing else.
What it needs is installed beside it, not copied into it. Each licence is given as the package's metadata state it, at
the version that is locked. `make lock` writes this page.

"""
TABLE = """## {title}

| package | version | licence |
|---|---|---|
{rows}

"""


def main_index() -> str:
    """The index that pip goes by first."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    named = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    from pip._internal.models.index import PyPI

    return (os.environ.get("PIP_INDEX_URL") or named or PyPI.simple_url).rstrip("/")


def report(index: str) -> list[dict[str, Any]]:
    """What pip would install if it knew this index and nothing else."""
    apart = {"PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"}
    settings = {name: value for name, value in os.environ.items() if name not in apart}
    settings["PIP_CONFIG_FILE"] = os.devnull
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        wanted = [f"{ROOT}[{','.join(EXTRAS)}]", *BUILD]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*pip, "--index-url", index, "--report", str(path), *wanted], check=True, env=settings)
        found: list[dict[str, Any]] = json.loads(path.read_bytes())["install"]
    return [each for each in found if each["metadata"]["name"] != "querycloak"]


class Links(HTMLParser):
    """The files of a project, as an index lists them: name and checksum."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """A link to a file has its checksum behind it."""
        held = dict(attributes).get("href") if tag == "a" else None
        found = re.search(r"sha256=([0-9a-f]{64})", held or "")
        if held and found:
            self.files.append((unquote(urlsplit(held).path.rpartition("/")[2]), found[1]))


def version_of(file: str) -> Version | None:
    """The version of a wheel or a source package, nothing for other files."""
    try:
        if file.endswith(".whl"):
            return parse_wheel_filename(file)[1]
        return parse_sdist_filename(file)[1] if file.endswith((".tar.gz", ".zip")) else None
    except (ValueError, InvalidVersion):
        return None


def checksums(index: str, name: str) -> dict[Version, list[str]]:
    """The checksums of all files of a project, by version."""
    asked = urllib.request.Request(f"{index}/{name}/", headers={"Accept": "text/html"})
    links = Links()
    with urllib.request.urlopen(asked) as answer:
        links.feed(answer.read().decode())
    found: dict[Version, list[str]] = defaultdict(list)
    for file, checksum in links.files:
        version = version_of(file)
        if version is not None:
            found[version].append(checksum)
    return found


def needed(packages: dict[str, dict[str, Any]], wanted: list[str]) -> dict[str, set[str]]:
    """The packages that requirements lead to, one by another, and which extras of each."""
    found: dict[str, set[str]] = defaultdict(set)
    waiting = [Requirement(each) for each in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[name] |= extras
        for text in packages[name]["metadata"].get("requires_dist", ()):
            other = Requirement(text)
            if any(other.marker is None or other.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                waiting.append(other)
    return found


def joined(*parts: dict[str, set[str]]) -> dict[str, set[str]]:
    """All packages of all parts, with all extras."""
    return {name: set().union(*(part.get(name, set()) for part in parts)) for name in set().union(*parts)}


def locked(target: str, packages: dict[str, dict[str, Any]], wanted: dict[str, set[str]]) -> str:
    """The text of a lock. Extras stand in it: else pip looks for them in the newest version, which has no checksum."""
    place = f"{platform.system()} {platform.machine()}, Python {sys.version_info.major}.{sys.version_info.minor}"
    lines = []
    for name, extras in sorted(wanted.items()):
        named = f"{name}[{','.join(sorted(extras))}]" if extras else name
        listed = " \\\n".join(f"    --hash=sha256:{checksum}" for checksum in packages[name]["checksums"])
        lines.append(f"{named}=={packages[name]['metadata']['version']} \\\n{listed}")
    return HEAD.format(target=target, place=place) + "\n".join(lines) + "\n"


def metadata(package: dict[str, Any]) -> Message:
    """What a package's file says of itself, read at the index or, where it has no such page, from what is installed."""
    try:
        with urllib.request.urlopen(package["download_info"]["url"] + ".metadata") as answer:
            return HeaderParser().parsestr(answer.read().decode())
    except urllib.error.HTTPError:
        name, version = (package["metadata"][key] for key in ("name", "version"))
        if importlib.metadata.version(name) != version:
            raise
        return HeaderParser().parsestr(importlib.metadata.distribution(name).read_text("METADATA") or "")


def licence(said: Message) -> str:
    """The licence that a package states, in a few words."""
    classified = [
        each.rpartition(" :: ")[2] for each in said.get_all("Classifier", []) if each.startswith("License ::")
    ]
    named = said["License-Expression"] or ", ".join(classified) or (said["License"] or "").split("\n")[0]
    return str(named).strip() or "not stated"


def table(title: str, packages: dict[str, dict[str, Any]], names: set[str]) -> str:
    """A part of the page."""
    rows = [
        f"| {name} | {packages[name]['metadata']['version']} | {licence(metadata(packages[name]))} |"
        for name in sorted(names)
    ]
    return TABLE.format(title=title, rows="\n".join(rows))


def licences(packages: dict[str, dict[str, Any]], run: set[str], extras: dict[str, set[str]]) -> str:
    """The page: what everybody installs, what each extra adds, what tests add to all of these."""
    page = LICENCES + table("Installed with querycloak", packages, run)
    for extra in (each for each in EXTRAS if each != "dev"):
        page += table(f"Added by `querycloak[{extra}]`", packages, extras[extra] - run)
    others = run.union(*(names for extra, names in extras.items() if extra != "dev"))
    page += table("For tests and development alone", packages, set(packages) - others)
    return page.rstrip("\n") + "\n"


def main() -> None:
    """Write the locks and the page."""
    index = main_index()
    packages: dict[str, dict[str, Any]] = {canonicalize_name(each["metadata"]["name"]): each for each in report(index)}
    for name, held in packages.items():
        chosen = held["download_info"]["archive_info"]["hashes"]["sha256"]
        known = checksums(index, name)[Version(held["metadata"]["version"])]
        held["checksums"] = sorted({chosen, *known})
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = needed(packages, project["dependencies"])
    build = needed(packages, list(BUILD))
    extras = {extra: needed(packages, project["optional-dependencies"][extra]) for extra in EXTRAS}
    (ROOT / "requirements").mkdir(exist_ok=True)
    (ROOT / "requirements" / "demo.lock").write_text(locked("demo", packages, joined(run, extras["compare"], build)))
    (ROOT / "requirements" / "test.lock").write_text(locked("test", packages, joined(run, build, *extras.values())))
    page = licences(packages, set(run), {extra: set(names) for extra, names in extras.items()})
    (ROOT / "docs" / "licences.md").write_text(page)


if __name__ == "__main__":
    main()
