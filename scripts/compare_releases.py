"""Seeded releases of every method at two commits, side by side: `python scripts/compare_releases.py OLD NEW`.

Tables must be the same bytes; cards must have the same keys and numbers. Sentences, checksums of texts, dates and
versions may differ. Each commit runs its own code, in a process of its own, on the same small log. A method that one
of them does not have, or options that it refuses, are listed: there is nothing to compare.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SENTENCES = {"because", "unprotected", "meaning", "description", "warnings", "notes", "published", "versions"}
"""Keys of a card that hold sentences, dates or versions: they may differ."""
TEXTS = {"README.md", "croissant.json"}
"""Files that hold sentences: their checksums may differ."""


def record(log_file: Path, out: Path) -> None:
    """Release the log with each method, seeded; runs inside the commit's own code."""
    import querycloak as qc
    from querycloak.errors import QuerycloakError

    sys.path.insert(0, str(ROOT))
    from scripts.seeded_methods import METHODS

    try:
        from querycloak.privacy.sampling.randomness import Randomness
    except ImportError:  # before 0.2
        from querycloak.privacy.randomness import Randomness  # type: ignore[import-not-found, no-redef]

    with qc.read(log_file) as log:
        for name, (kind, options) in METHODS.items():
            target = out / name.replace(" ", "-")
            try:
                method = getattr(qc, kind)(**options)
            except (AttributeError, TypeError, QuerycloakError) as refused:  # not there yet, or not so
                target.with_suffix(".refused").write_text(str(refused))
                continue
            method.release(log, randomness=Randomness(seed=11)).save(target, format="tsv")


def compare(old: Path, new: Path) -> list[str]:
    """What differs between two recordings, a line for each."""
    names = sorted({path.name for path in (*old.iterdir(), *new.iterdir()) if path.is_dir()})
    found: list[str] = []
    for name in names:
        refused = [side.name for side in (old, new) if not (side / name).is_dir()]
        if refused:
            found.append(f"{name}: not made by {refused[0].removeprefix('out-')}")
            continue
        tables = {path.name for side in (old, new) for path in (side / name).glob("*.tsv")}
        for table in sorted(tables):
            sides = [side / name / table for side in (old, new)]
            if not all(side.exists() for side in sides) or sides[0].read_bytes() != sides[1].read_bytes():
                found.append(f"{name}: {table} differs")
        cards = [json.loads((side / name / "card.json").read_text()) for side in (old, new)]
        found += [f"{name}: card {line}" for line in differences(*cards)]
    return found


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Keys and numbers that differ; texts only where they are no sentences."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = [f"{where}.{key}: only in the {'old' if key in old else 'new'}" for key in sorted(set(old) ^ set(new))]
        said = {"counts"} if where.endswith(".reach") else set()  # there, a sentence about what is counted
        for key in sorted(set(old) & set(new) - SENTENCES - TEXTS - said):
            found += differences(old[key], new[key], f"{where}.{key}")
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line for at, pair in enumerate(zip(old, new, strict=True)) for line in differences(*pair, f"{where}[{at}]")
        ]
    return [] if old == new else [f"{where}: {old!r} became {new!r}"]


def recorded(commit: str, log_file: Path, folder: Path) -> Path:
    """The recording of one commit."""
    source, out = folder / f"source-{commit}", folder / f"out-{commit}"
    out.mkdir()
    subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(source), commit], check=True)
    try:
        code = f"import sys; sys.path.insert(0, {str(source / 'src')!r}); sys.path.insert(1, {str(ROOT)!r})\n"
        code += "from pathlib import Path; from scripts.compare_releases import record\n"
        code += f"record(Path({str(log_file)!r}), Path({str(out)!r}))"
        subprocess.run([sys.executable, "-c", code], check=True)
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(source)], check=True)
    return out


def _small_log() -> str:
    """The contract's log, as it is here: both commits read the same one."""
    sys.path.insert(0, str(ROOT / "src"))
    from querycloak.contract.small_log import small_log

    return small_log()


def main() -> int:
    """Compare two commits; 0 if nothing but sentences differs."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: python scripts/compare_releases.py OLD NEW (two commits)\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder) / "log.tsv"
        log_file.write_text(_small_log())
        old, new = (recorded(commit, log_file, Path(folder)) for commit in sys.argv[1:])
        found = compare(old, new)
        made = {path.name for path in new.iterdir() if path.is_dir()} | {
            path.name for path in old.iterdir() if path.is_dir()
        }
    sys.stdout.write(summary(found, len(made)))
    return 1 if found else 0


def summary(found: list[str], made: int) -> str:
    """Each difference once, with the releases that have it; then how many tables and cards are the same."""
    releases: dict[str, list[str]] = {}
    for line in found:
        name, _, text = line.partition(": ")
        releases.setdefault(text, []).append(name)
    lines = [f"{text} ({len(names)}): {', '.join(names)}" for text, names in releases.items()]
    cards = {name for text, names in releases.items() if text.startswith("card ") for name in names}
    tables = {name for text, names in releases.items() if not text.startswith("card ") for name in names}
    lines.append(f"tables are the same bytes in {made - len(tables)} of {made} releases")
    lines.append(f"cards have the same keys and numbers in {made - len(cards | tables)} of {made} releases")
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
