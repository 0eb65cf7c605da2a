"""Lock what `make demo` and `make test` install: versions and checksums, from what pip finds for pyproject.toml now.

Run it with the Python that the locks are for: `python scripts/lock_requirements.py`. It writes requirements/demo.lock,
requirements/test.lock and docs/licences.md. Where packages are fetched from is pip's affair and stands nowhere in them.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = ("dev", "spark", "audit")
BUILD = ("hatchling", "editables")
HEAD = """# What `make {target}` installs, with checksums: made by scripts/lock_requirements.py, for
# {place}. Elsewhere `make` goes by the bounds of pyproject.toml.
"""
LICENCES = """# Licences

querycloak is under the Apache License 2.0. Its wheel holds, beside its own code, data of other people's: nouns of
WordNet (`words/data/WORDNET-LICENSE`) and public phrases (`words/data/public_phrases.LICENSE`), and nothing else.

What it installs beside itself, as each package states it (made by `scripts/lock_requirements.py`):

| package | version | licence |
|---|---|---|
{rows}
"""


def report() -> list[dict[str, Any]]:
    """What pip would install, with checksums."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        wanted = [f"{ROOT}[{','.join(EXTRAS)}]", *BUILD]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*pip, "--report", str(path), *wanted], check=True)
        found: list[dict[str, Any]] = json.loads(path.read_bytes())["install"]
    return [each for each in found if each["metadata"]["name"] != "querycloak"]


def needed(packages: dict[str, dict[str, Any]], wanted: list[str]) -> set[str]:
    """The packages that requirements lead to, one by another."""
    found: set[str] = set()
    waiting = [Requirement(each) for each in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        for text in packages[name]["metadata"].get("requires_dist", ()):
            other = Requirement(text)
            if any(other.marker is None or other.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                waiting.append(other)
    return found


def locked(target: str, packages: dict[str, dict[str, Any]], names: set[str]) -> str:
    """The text of a lock."""
    place = f"{platform.system()} {platform.machine()}, Python {sys.version_info.major}.{sys.version_info.minor}"
    lines = []
    for name in sorted(names):
        held = packages[name]
        checksum = held["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={held['metadata']['version']} \\\n    --hash=sha256:{checksum}")
    return HEAD.format(target=target, place=place) + "\n".join(lines) + "\n"


def licence(metadata: dict[str, Any]) -> str:
    """What a package says of its licence, in a few words."""
    classified = [
        each.rpartition(" :: ")[2] for each in metadata.get("classifier", ()) if each.startswith("License ::")
    ]
    said = metadata.get("license_expression") or ", ".join(classified) or (metadata.get("license") or "").split("\n")[0]
    return said.strip() or "see its metadata"


def main() -> None:
    """Write the locks and the page."""
    packages = {canonicalize_name(each["metadata"]["name"]): each for each in report()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = needed(packages, project["dependencies"])
    build = needed(packages, list(BUILD))
    (ROOT / "requirements").mkdir(exist_ok=True)
    (ROOT / "requirements" / "demo.lock").write_text(locked("demo", packages, run | build))
    (ROOT / "requirements" / "test.lock").write_text(locked("test", packages, set(packages)))
    rows = [(packages[name]["metadata"]["version"], licence(packages[name]["metadata"])) for name in sorted(run)]
    listed = "\n".join(
        f"| {name} | {version} | {said} |" for name, (version, said) in zip(sorted(run), rows, strict=True)
    )
    (ROOT / "docs" / "licences.md").write_text(LICENCES.format(rows=listed))


if __name__ == "__main__":
    main()
