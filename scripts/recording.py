"""What one commit says of the seeded values: releases, guarantees, descriptions, evaluation, audit, papers' figures.

`python -m scripts.recording INPUTS OUT [--reproduce]` runs with that commit's source first on the path
(`scripts/compare_releases.py` does so). Commands run as a user types them, because modules move between commits.

    OUT/releases/NAME/            the release, as tsv; NAME.refused instead, with the reason
    OUT/guarantee/NAME.json       {"exit": code, "output": what --json printed}, or NAME.refused; so are all others
    OUT/describe/NAME.json
    OUT/evaluate/all.json, OUT/audit/all.json, OUT/audit/forced-out.json
    OUT/reproduce/PAPER.json      with --reproduce: figures.json of each paper
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.renamed import RENAMED_OPTION_VALUES, RENAMED_OPTIONS
from scripts.seeded_methods import METHODS

SEED = 11
EXAMINED = (
    "queries", "clicks rounds", "clicks without counts", "clicks counted", "clicks paper", "sessions with queries",
    "pool threshold", "optimal", "optimal paper", "k queries", "k log", "affinity", "generalize", "semantic",
    "semantic topics",
)  # fmt: skip
"""Values that are evaluated and attacked: each method, and each kind of table and count."""
NOT_FORCED = ("affinity", "pool threshold")
"""Values that the attack forced-out cannot try on a log of a few invented accounts."""
REPEATABLE = (
    "singling-out", "linkage-records", "linkage-periods", "inference", "membership", "secrets", "reconstruction",
    "leaks",
)  # fmt: skip
"""Attacks with the same result in every run; forced-out draws anew."""
_RANDOMNESS = ("querycloak.privacy.sampling", "querycloak.privacy.chance", "querycloak.privacy")


def write_inputs(inputs: Path) -> None:
    """The logs that both commits read: the contract's small log, other people, other times, and one secret."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from querycloak.contract.trial import RARE_QUERY, USERS, small_log, user_name

    log = small_log()
    (inputs / "truth").mkdir(parents=True)
    (inputs / "log.tsv").write_text(log)
    (inputs / "control.tsv").write_text(log.replace("\naccount-", "\nother-"))
    (inputs / "period.tsv").write_text(log.replace("2006-03-01", "2006-05-01"))
    secret = {"user": [user_name(USERS - 1)], "query": [RARE_QUERY], "kind": ["name"]}
    pq.write_table(pa.table(secret), inputs / "truth" / "sensitive.parquet")


def seeded_randomness() -> Any:
    """The commit's own seeded source of random numbers."""
    for package in _RANDOMNESS:
        try:
            return import_module(f"{package}.randomness").Randomness(seed=SEED)
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"no randomness.py in {', '.join(_RANDOMNESS)}: name its new place in scripts/recording.py")


def spellings(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Options as they stand here, then under the names and values that earlier commits know."""
    yield dict(options)
    names = {new: old for old, new in RENAMED_OPTIONS.items()}
    values = {key: {new: old for old, new in pairs.items()} for key, pairs in RENAMED_OPTION_VALUES.items()}
    earlier = {names.get(name, name): values.get(name, {}).get(value, value) for name, value in options.items()}
    if earlier != options:
        yield earlier


def method_of(kind: str, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The method and the options that it takes; raises the first refusal if it takes none."""
    import querycloak as qc
    from querycloak.errors import QuerycloakError

    refusals: list[Exception] = []
    for spelled in spellings(options):
        try:
            return getattr(qc, kind)(**spelled), spelled
        except (AttributeError, TypeError, QuerycloakError) as refusal:  # not there yet, or not so
            refusals.append(refusal)
    raise refusals[0]


def record_releases(log_file: Path, out: Path) -> None:
    """Release the log with each seeded value; a value that is refused leaves its reason."""
    import querycloak as qc
    from querycloak.errors import QuerycloakError

    out.mkdir(parents=True)
    with qc.read(log_file) as log:
        for name, (kind, options) in METHODS.items():
            folder = out / folder_of(name)
            try:
                method, _ = method_of(kind, options)
                method.release(log, randomness=seeded_randomness()).save(folder, format="tsv")
            except (AttributeError, TypeError, QuerycloakError) as refusal:
                folder.with_suffix(".refused").write_text(f"{refusal}\n")


def folder_of(name: str) -> str:
    """A value's name as the name of its folder."""
    return name.replace(" ", "-")


def typed(kind: str, options: Mapping[str, Any]) -> list[str]:
    """A method and its options as a user types them."""
    words = [re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower()]
    for name, value in options.items():
        if value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def run_command(words: Sequence[str | Path]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run by the source that runs this."""
    command = [sys.executable, "-m", "querycloak", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def record_command(target: Path, words: Sequence[str | Path]) -> None:
    """What a command with --json says; its complaint if it prints nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    code, out, err = run_command([*words, "--json"])
    if out:
        target.write_text(json.dumps({"exit": code, "output": json.loads(out)}, indent=1) + "\n")
    else:
        target.with_suffix(".refused").write_text(err)


def record_guarantees(out: Path) -> None:
    """`guarantee` of each value."""
    from querycloak.errors import QuerycloakError

    out.mkdir(parents=True)
    for name, (kind, options) in METHODS.items():
        target = out / f"{folder_of(name)}.json"
        try:
            _, spelled = method_of(kind, options)
        except (AttributeError, TypeError, QuerycloakError) as refusal:
            target.with_suffix(".refused").write_text(f"{refusal}\n")
            continue
        record_command(target, ["guarantee", *typed(kind, spelled)])


def record_descriptions(releases: Path, out: Path) -> None:
    """`describe` of each release; by the function, because a process for each takes longer."""
    import querycloak as qc
    from querycloak.errors import QuerycloakError

    out.mkdir(parents=True)
    for folder in sorted(path for path in releases.iterdir() if path.is_dir()):
        target = out / f"{folder.name}.json"
        try:
            document = {"exit": 0, "output": qc.describe(folder).to_json()}
            target.write_text(json.dumps(document, indent=1) + "\n")
        except QuerycloakError as refusal:
            target.with_suffix(".refused").write_text(f"{refusal}\n")


def record_examinations(inputs: Path, out: Path) -> None:
    """`evaluate` and `audit release` of some releases."""
    releases = out / "releases"
    examined = {name: releases / folder_of(name) for name in EXAMINED if (releases / folder_of(name)).is_dir()}
    forced = [folder for name, folder in examined.items() if name not in NOT_FORCED]
    log, control = inputs / "log.tsv", inputs / "control.tsv"
    record_command(out / "evaluate" / "all.json", ["evaluate", log, control, *examined.values()])
    attacks = [word for attack in REPEATABLE for word in ("--attack", attack)]
    known: list[str | Path] = [
        "--control",
        control,
        "--truth",
        inputs / "truth",
        "--other-period",
        inputs / "period.tsv",
    ]
    record_command(out / "audit" / "all.json", ["audit", "release", log, *examined.values(), *known, *attacks])
    forcing: list[str | Path] = ["--control", control, "--attack", "forced-out"]
    record_command(out / "audit" / "forced-out.json", ["audit", "release", log, *forced, *forcing])


def record_papers(out: Path, work: Path) -> None:
    """figures.json of every paper, `--quick`."""
    out.mkdir(parents=True)
    code, _, err = run_command(["reproduce", "all", "--quick", "--quiet", "--out", work])
    for figures in sorted(work.glob("*/figures.json")):
        (out / f"{figures.parent.name}.json").write_text(
            json.dumps({"exit": 0, "output": json.loads(figures.read_text())}, indent=1) + "\n"
        )
    if code:
        (out / "all.refused").write_text(err)
    shutil.rmtree(work, ignore_errors=True)


def main() -> int:
    """Record everything."""
    parser = argparse.ArgumentParser(description="Record what the code on the path says of the seeded values.")
    parser.add_argument("inputs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reproduce", action="store_true")
    given = parser.parse_args()
    record_releases(given.inputs / "log.tsv", given.out / "releases")
    record_guarantees(given.out / "guarantee")
    record_descriptions(given.out / "releases", given.out / "describe")
    record_examinations(given.inputs, given.out)
    if given.reproduce:
        record_papers(given.out / "reproduce", given.out / "papers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
