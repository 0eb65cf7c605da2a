"""Measurements of a release: evaluations and audits from their files, if they are about this very release.

Figures of use become lines of a page: the release, the log itself, the rule without data; with a measure's meaning.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from querycloak.audits.guarantees.method_audit import MethodAudit
from querycloak.audits.release_audit import ReleaseAudit
from querycloak.errors import InputError
from querycloak.evaluation.evaluation import Evaluation
from querycloak.evaluation.task import NO_DATA, ORIGINAL, measures
from querycloak.files.documents import parsed_json
from querycloak.methods.evidence import digest_of
from querycloak.privacy.parameters import of_kind, path_of
from querycloak.releases.loading import load_card
from querycloak.sentence import Sentence

Rows = list[dict[str, Any]]
Given = Evaluation | ReleaseAudit | MethodAudit | str | os.PathLike[str]
"""An evaluation or audit, or the file that it was saved in."""


@dataclass(frozen=True)
class Measurements:
    """True figures, hence private: utility of the release, success of attacks, audit of the method.

    stand_in: the digest of a release of the same method and options that was measured in place of this one.
    """

    evaluation: Rows
    attacks: Rows
    method: Mapping[str, Any] | None
    stand_in: str | None

    @property
    def anything(self) -> bool:
        """True if there is something to show."""
        return bool(self.evaluation or self.attacks or self.method)


def measured(
    release: Path, evaluation: Given | None, audits: Sequence[Given], measured_on: Path | None = None
) -> Measurements:
    """Rows of this release and of baselines in the files; an InputError if a file has no row of this release."""
    of_kind("audits", audits, (list, tuple), "a list of audits or of their files", "leave it out if there are none")
    card = load_card(release)
    digest, stand_in = digest_of(release), None
    if measured_on is not None:
        digest = stand_in = _stand_in(measured_on, card)
    rows: Rows = []
    if evaluation is not None:
        rows = _beside(_results(_document(evaluation, "evaluation"), "evaluation"), digest, "evaluation")
    attacks: Rows = []
    method = None
    for path in audits:
        document = _document(path, "audit")
        if isinstance(document, Mapping) and "measured" in document:
            method = _of_method(document, card)
        else:
            attacks += _beside(_results(document, "audit"), digest, "audit")
    return Measurements(rows, attacks, method, stand_in)


def publishable_rows(given: str | os.PathLike[str], card: Mapping[str, Any]) -> tuple[str, Rows]:
    """Words for the public twin, and the rows that were measured on it; refused unless it is of this method."""
    document = _document(given, "publishable")
    if not isinstance(document, Mapping) or document.get("publishable") is not True:
        raise InputError("publishable must be an evaluation on a public twin; give the .json file that evaluate wrote")
    if any(document.get(name) != card.get(name) for name in ("method", "variant", "options")):
        raise InputError("the publishable evaluation is about another method, or about other options than this release")
    rows = _results(document, "publishable")
    return str(document["measured_on"]), [row for row in rows if not _is_of_group(row.get("slice") or "")]


def _is_of_group(part: str) -> bool:
    """True for slices by values of attributes, of which there may be hundreds."""
    return part.startswith("cells=") and "," in part and ",users" not in part


def _stand_in(folder: Path, card: Mapping[str, Any]) -> str:
    other = load_card(folder)
    same = all(other.get(part) == card.get(part) for part in ("method", "variant", "options"))
    if not same or _limit(other["proven"]) != _limit(card["proven"]):
        raise InputError(
            "the release that was measured has another method or other options than this one; make it from TRAIN with "
            "the same"
        )
    return digest_of(folder)


def _limit(proven: Mapping[str, Any]) -> dict[str, Any]:
    """A guarantee without what is left unprotected: that may depend on how a release was made."""
    return {name: value for name, value in proven.items() if name != "unprotected"}


def _document(given: Given, what: str) -> Any:
    if isinstance(given, (Evaluation, ReleaseAudit, MethodAudit)):
        return given.to_json()
    path = path_of(what, given, "give what evaluate or audit made, or its file")
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path).to_pylist()
        if path.suffix == ".csv":
            return pyarrow.csv.read_csv(path).to_pylist()
        return parsed_json(path.read_bytes())
    except (OSError, ValueError, pa.ArrowException):
        pass
    raise InputError(f"the {what} {str(path)!r} cannot be read; give the file that evaluate or audit wrote")


def _results(document: Any, what: str) -> Rows:
    rows = document.get("results") if isinstance(document, Mapping) else document
    if isinstance(rows, list) and all(isinstance(row, dict) and "release" in row for row in rows):
        return rows
    raise InputError(f"the {what} was not written by querycloak; give the file that evaluate or audit wrote")


def _beside(rows: Rows, digest: str, what: str) -> Rows:
    """Rows of this release, and of what stands beside every release and has no digest."""
    if not any(row.get("digest") == digest for row in rows):
        raise InputError(
            Sentence(
                "the {what} is about another release: no row has the digest {digest}...; measure this one, or name the "
                "folder that was measured in its place with {measured_on}",
                what=what, digest=digest[:16],
            )
        )  # fmt: skip
    return [row for row in rows if row.get("digest") in (digest, None, "")]


def _of_method(document: Mapping[str, Any], card: Mapping[str, Any]) -> Mapping[str, Any]:
    same = document.get("method") == card["method"]
    numbers = ("kind", "unit", "neighbours", "epsilon", "delta", "k")
    proven = document.get("proven")
    same = same and isinstance(proven, Mapping) and all(proven.get(name) == card["proven"][name] for name in numbers)
    if not same:
        raise InputError("the audit is about another method, or about other options; run it with those of this release")
    return document


def public_figures(evaluated: Sequence[Mapping[str, Any]], method: str) -> list[dict[str, Any]]:
    """A line for every measure, or for each slice of one that has slices alone, of the release of a public twin.

    The rule without data and the synthetic log itself stand beside it. method: of the release.
    """
    rows = [row for row in evaluated if row.get("reading") == "all"]
    baselines = _baselines(rows)
    own = [row for row in rows if row["release"] == method and row.get("value") is not None]
    return [{**row, **_meaning(row), **_beside_case(baselines, row)} for row in _shown(own)]


def private_figures(evaluated: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line for every measure of every task that was passed: all cases first, then those that the release answers.

    The original and the rule without data stand beside it. A measure with slices alone has a line for each slice.
    """
    rows = [row for row in evaluated if row.get("digest")]
    answered, common = (
        {_case(row): row for row in rows if row.get("reading") == name} for name in ("answered", "common")
    )
    baselines = _baselines(row for row in evaluated if row.get("reading") == "all")
    lines = []
    for row in (row for row in _shown(rows) if row.get("reading") == "all"):
        case = _case(row)
        has_cases = case in answered and row.get("cases") and row.get("answered") is not None
        lines.append({
            **row,
            **_meaning(row),
            **_beside_case(baselines, row),
            "coverage": row["answered"] / row["cases"] if has_cases else None,
            "answered_value": answered.get(case, {}).get("value"),
            "original_answered": common.get(case, {}).get("value"),
        })  # fmt: skip
    return lines


def _shown(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Rows without a slice, and all slices of measures that have slices alone."""
    whole = {(row["task"], row["measure"]) for row in rows if not row.get("slice")}
    return (row for row in rows if not row.get("slice") or (row["task"], row["measure"]) not in whole)


def _baselines(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], Any]:
    """Values of the original and of the rule without data, by name and case."""
    return {(row["release"], *_case(row)): row.get("value") for row in rows if row["release"] in (ORIGINAL, NO_DATA)}


def _beside_case(baselines: Mapping[tuple[Any, ...], Any], row: Mapping[str, Any]) -> dict[str, Any]:
    names = {"without_data": NO_DATA, "original": ORIGINAL}
    return {shown: baselines.get((name, *_case(row))) for shown, name in names.items()}


def _case(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["measure"], row.get("slice")


@cache
def _measures() -> dict[str, dict[str, tuple[str, str]]]:
    return {task: {name: (each.meaning, each.better) for name, each in of.items()} for task, of in measures().items()}


def _meaning(row: Mapping[str, Any]) -> dict[str, str]:
    """Meaning of a row's measure, and the direction that is better; empty for a task that is not installed."""
    name = str(row["measure"]).partition("(")[0]
    meaning, better = _measures().get(row["task"], {}).get(name, ("", ""))
    return {"meaning": meaning, "better": better}
