"""Two commits side by side on the same seeded values: `python scripts/compare_releases.py OLD NEW`.

Tables must be the same bytes. Cards, and what `guarantee`, `describe`, `evaluate`, `audit release` and (with
`--reproduce`) `reproduce --quick` print, must have the same keys and numbers. Sentences, checksums of texts, dates and
versions may differ, and so may the names listed in `scripts/renamed.py`. Every value that a commit refuses is listed.
Each commit runs its own code, in processes of its own, on the same small logs.

OLD and NEW are commits, or folders that an earlier run kept: `--keep DIR` leaves DIR/old and DIR/new.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.renamed import ADDED_KEYS, BACKSLASHED, CLAMPED_COUNTS, QUOTED, RENAMED_KEYS, RENAMED_VALUES  # noqa: E402  (a script has no package)

SENTENCES = {
    "because", "meaning", "description", "warnings", "notes", "published", "versions", "why", "cite", "digest",
    "title", "statement", "citation", "condition",
}  # fmt: skip
"""Keys that hold sentences, dates, versions or digests: all that matters is whether there is one."""
LISTS_OF_SENTENCES = {"unprotected", "checked", "problems"}
"""Keys whose number of sentences must be the same."""
TEXTS = {"README.md", "croissant.json"}
"""Files that hold sentences: their checksums may differ."""
IDENTITIES = {"evaluate": ("release", "task", "measure", "slice", "reading"), "audit": ("release", "attack", "setting")}
"""Columns that tell one row of results from another."""
DRAWN = {"forced-out": {"main", "risk", "low", "high"}}
"""Figures of an attack that are drawn anew in every run."""
OUTPUTS = ("guarantee", "describe", "evaluate", "audit", "reproduce")
PARTS = ("tables", "cards", *OUTPUTS)
LONGEST, MOST = 160, 40
"""Characters of a value and lines of a part that are shown."""


class Difference(NamedTuple):
    """One thing that is not the same: in which part, of which value, and what."""

    part: str
    name: str
    text: str


def compare(old: Path, new: Path) -> list[Difference]:
    """What differs between two recordings."""
    return [*compared_releases(old / "releases", new / "releases"), *compared_outputs(old, new)]


def compared_releases(old: Path, new: Path) -> Iterator[Difference]:
    """Tables row by row and in order, cards key by key."""
    for name in names_in(old, new):
        refusal = refused(old / name, new / name)
        if refusal is not None:
            yield Difference("tables", name, refusal)
            continue
        for table in sorted({path.name for side in (old, new) for path in (side / name).glob("*.tsv")}):
            sides = [side / name / table for side in (old, new)]
            if not all(side.exists() for side in sides) or not same_rows(*(table_rows(side) for side in sides)):
                yield Difference("tables", name, f"{table} differs")
        before, after = (without_dialects(json.loads((side / name / "card.json").read_text())) for side in (old, new))
        for line in differences(renamed(upgraded(before, after), RENAMED_KEYS, RENAMED_VALUES), after):
            yield Difference("cards", name, line)


def table_rows(path: Path) -> list[list[str]]:
    """The fields of a text table, in the order of its lines; \\e, an empty text, is empty as a missing value is."""
    dialect = json.loads((path.parent / "card.json").read_text())["tables"][path.stem].get("dialect")
    if dialect is not None:
        with path.open(newline="") as file:
            return [[original(field, QUOTED) for field in row] for row in csv.reader(file, dialect=dialect)]
    lines = path.read_text().removesuffix("\n").split("\n")
    return [[original(field, BACKSLASHED) for field in line.split("\t")] for line in lines]


def original(field: str, escapes: Mapping[str, str]) -> str:
    """A field without the escapes of its file."""
    for escape, meaning in escapes.items():
        field = re.sub(escape, meaning, field)
    return field


def same_rows(old: list[list[str]], new: list[list[str]]) -> bool:
    """Whether rows are the same; a count of 1 may have become null (`CLAMPED_COUNTS`)."""
    if old == new or len(old) != len(new) or old[0] != new[0]:
        return old == new
    allowed = [CLAMPED_COUNTS.get(name) for name in old[0]]
    return all(
        len(before) == len(after)
        and all(a == b or (a, b) == pair for a, b, pair in zip(before, after, allowed, strict=True))
        for before, after in zip(old, new, strict=True)
    )


def without_dialects(card: dict[str, Any]) -> dict[str, Any]:
    """A card whose tables do not say how their text is written, which earlier versions did not."""
    tables = {
        kind: {name: value for name, value in entry.items() if name != "dialect"}
        for kind, entry in card["tables"].items()
    }
    return {**card, "tables": tables}


def compared_outputs(old: Path, new: Path) -> Iterator[Difference]:
    """What commands printed; a part that only one side has was not asked for."""
    for part in OUTPUTS:
        if not (old / part).is_dir() or not (new / part).is_dir():
            continue
        for name in names_in(old / part, new / part):
            sides = [side / part / f"{name}.json" for side in (old, new)]
            refusal = refused(*sides)
            if refusal is not None:
                yield Difference(part, name, refusal)
                continue
            before, after = (json.loads(side.read_text()) for side in sides)
            before = renamed(before, {}, RENAMED_VALUES)
            if before["exit"] != after["exit"]:
                yield Difference(part, name, f"exit code {before['exit']} became {after['exit']}")
            yield from compared_output(part, name, before["output"], after["output"])


def compared_output(part: str, name: str, old: Any, new: Any) -> Iterator[Difference]:
    """One printed document; rows of results are compared by what they are about."""
    if part in IDENTITIES:
        yield from compared_rows(part, old.pop("results"), new.pop("results"))
    for line in differences(old, new):
        yield Difference(part, name, line)


def compared_rows(
    part: str, old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]
) -> Iterator[Difference]:
    """Rows about the same thing, however they are ordered."""
    before, after = _by_identity(part, old), _by_identity(part, new)
    for about in dict.fromkeys([*before, *after]):
        release, label = about[0], ", ".join(each for each in about[1:] if each)
        sides = before.get(about, []), after.get(about, [])
        if len(sides[0]) != len(sides[1]):
            yield Difference(part, release, f"{label}: {len(sides[0])} rows became {len(sides[1])}")
            continue
        for pair in zip(*sides, strict=True):
            for line in differences(*pair):
                yield Difference(part, release, f"{label} {line}")


def _by_identity(part: str, rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    named: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        drawn = DRAWN.get(row.get("attack", ""), set())
        about = tuple(row[column] or "" for column in IDENTITIES[part])
        named.setdefault(about, []).append({key: value for key, value in row.items() if key not in drawn})
    return named


def names_in(*folders: Path) -> list[str]:
    """Names of values that a folder has something of, refused ones too."""
    entries = (path for folder in folders for path in folder.iterdir())
    return sorted({path.name if path.is_dir() else path.stem for path in entries})


def refused(old: Path, new: Path) -> str | None:
    """Who refuses a value and why; None if nobody does."""
    reasons = {
        side: path.with_suffix(".refused").read_text().strip() if path.with_suffix(".refused").exists() else "not made"
        for side, path in (("old", old), ("new", new))
        if not path.exists()
    }
    if len(reasons) == 2:
        return f"refused by both, old: {reasons['old']}; new: {reasons['new']}"
    return next((f"refused by the {side}: {reason}" for side, reason in reasons.items()), None)


def upgraded(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """An old card with all keys of the new card's version."""
    if old["card_version"] == new["card_version"]:
        return dict(old)
    return {**ADDED_KEYS, **old, "card_version": new["card_version"]}


def renamed(document: Any, keys: Mapping[str, str], values: Mapping[str, Mapping[str, str]], of: str = "") -> Any:
    """An old document under new names; `of` is the key that it stands under."""
    if isinstance(document, dict):
        new = {keys.get(key, key): value for key, value in document.items()}
        return {key: renamed(value, keys, values, key) for key, value in new.items()}
    if isinstance(document, list):
        return [renamed(each, keys, values, of) for each in document]
    return values.get(of, {}).get(document, document) if isinstance(document, str) else document


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Keys and numbers that differ; of sentences, whether there are any."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = [f"{where}.{key}: only in the {'old' if key in old else 'new'}" for key in sorted(set(old) ^ set(new))]
        for key in sorted(set(old) & set(new) - TEXTS):
            place, sides = f"{where}.{key}", (old[key], new[key])
            if _is_sentence(key, where, old[key]):
                lines += [] if (sides[0] is None) == (sides[1] is None) else [_became(place, *sides)]
            elif key in LISTS_OF_SENTENCES and all(isinstance(side, list) for side in sides):
                numbers = [len(side) for side in sides]
                lines += [] if numbers[0] == numbers[1] else [f"{place}: {numbers[0]} items became {numbers[1]}"]
            else:
                lines += differences(*sides, place)
        return lines
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line for at, pair in enumerate(zip(old, new, strict=True)) for line in differences(*pair, f"{where}[{at}]")
        ]
    return [] if old == new else [_became(where, old, new)]


def _is_sentence(key: str, where: str, value: Any) -> bool:
    if key == "counts":  # of a table: a sentence about what is counted; elsewhere a kind
        return where.startswith(".tables.")
    if key == "log":  # of a paper: which log it is; on a card how it was read
        return isinstance(value, str)
    return key in SENTENCES or where == ".tasks"


def _became(where: str, old: Any, new: Any) -> str:
    before, after = (text if len(text) <= LONGEST else text[:LONGEST] + " ..." for text in (repr(old), repr(new)))
    return f"{where}: {before} became {after}"


def summary(found: Iterable[Difference], numbers: Mapping[str, int]) -> str:
    """Each difference once, with the values that have it; then how many are the same, part by part.

    A part that has no number was not compared.
    """
    lines, differing = [], list(found)
    for part in PARTS:
        names: dict[str, list[str]] = {}
        for each in differing:
            if each.part == part:
                names.setdefault(each.text, []).append(each.name)
        shown = [f"{part}: {text} ({len(those)}): {', '.join(those)}" for text, those in names.items()]
        lines += shown[:MOST]
        lines += [f"{part}: and {len(shown) - MOST:,} more differences"] if len(shown) > MOST else []
    for part, number in numbers.items():
        other = len({each.name for each in differing if each.part == part})
        what = "the same bytes" if part == "tables" else "the same keys and numbers"
        lines.append(f"{part}: {what} in {number - other} of {number}")
    lines += [f"{part}: not compared, because a recording lacks it" for part in PARTS if part not in numbers]
    return "".join(f"{line}\n" for line in lines)


def numbers_of(old: Path, new: Path) -> dict[str, int]:
    """How many values each part compares; rows of results count by release."""
    values = len(names_in(old / "releases", new / "releases"))
    numbers = {"tables": values, "cards": values}
    for part in OUTPUTS:
        if (old / part).is_dir() and (new / part).is_dir():
            names = _releases_in(old / part, new / part) if part in IDENTITIES else names_in(old / part, new / part)
            numbers[part] = len(names)
    return numbers


def _releases_in(*folders: Path) -> set[str]:
    documents = (json.loads(path.read_text()) for folder in folders for path in folder.glob("*.json"))
    return {row["release"] for document in documents for row in document["output"]["results"]}


@contextmanager
def source_of(commit: str) -> Iterator[Path]:
    """The source of a commit, in a folder for as long as this lasts; it knows its own version."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            version = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"]
            metadata = tree / "src" / f"querycloak-{version}.dist-info"
            metadata.mkdir()
            (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: querycloak\nVersion: {version}\n")
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def run_with(source: Path, module: str, *arguments: str | Path) -> None:
    """Run a module of these scripts with another source of querycloak."""
    path = os.pathsep.join(map(str, (source, ROOT)))
    command = [sys.executable, "-m", module, *map(str, arguments)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})


def is_recording(given: str) -> bool:
    """Whether this is a folder that an earlier run kept, and no commit."""
    return (Path(given) / "inputs").is_dir()


def places(folder: Path) -> tuple[Path, Path]:
    """Where the two recordings go."""
    return folder / "old", folder / "new"


def write_inputs(inputs: Path) -> None:
    """The logs that both commits read, made by the code that stands here."""
    sys.path.insert(0, str(ROOT / "src"))
    from scripts.recording import write_inputs as write

    write(inputs)


def recorded(commit: str, inputs: Path, out: Path, *, reproduce: bool) -> Path:
    """The recording of one commit, with the logs that it read."""
    out.mkdir(parents=True)
    shutil.copytree(inputs, out / "inputs")
    with source_of(commit) as source:
        run_with(source, "scripts.recording", out / "inputs", out, *(["--reproduce"] if reproduce else []))
    return out


def main() -> int:
    """Compare two commits; 0 if both make every value and nothing but sentences differs."""
    parser = argparse.ArgumentParser(description="Compare what two commits make of the seeded values.")
    parser.add_argument("old", metavar="OLD", help="A commit, or a folder that an earlier run kept.")
    parser.add_argument("new", metavar="NEW", help="A commit, or a folder that an earlier run kept.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep what is recorded, in DIR/old and DIR/new.")
    parser.add_argument("--reproduce", action="store_true", help="Also compare the papers' figures: minutes more.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = [Path(each) for each in (given.old, given.new) if is_recording(each)]
        inputs = kept[0] / "inputs" if kept else Path(folder) / "inputs"
        if not kept:
            write_inputs(inputs)
        old, new = (
            Path(each) if is_recording(each) else recorded(each, inputs, place, reproduce=given.reproduce)
            for each, place in zip((given.old, given.new), places(given.keep or Path(folder)), strict=True)
        )
        found = compare(old, new)
        sys.stdout.write(summary(found, numbers_of(old, new)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
