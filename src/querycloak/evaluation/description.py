"""Description of a release and its uses from its folder alone, for its receivers (public)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from querycloak.errors import ParameterError
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import TASKS, tasks_named
from querycloak.methods.evidence import load
from querycloak.privacy.calibration.accuracy import TableAccuracy
from querycloak.releases.card import NOT_PRIVATE
from querycloak.releases.folder import CARD, card_digest
from querycloak.releases.loading import load_card
from querycloak.releases.release import COUNTS, Release
from querycloak.releases.statements import citation
from querycloak.releases.tables import batches_of, described

_NOT_SAID = "its method does not say how exact its counts are"


@dataclass(frozen=True)
class TableDescription:
    """A table of a release: what it is, how long, and how exact its counts are."""

    meaning: str
    rows: int
    reach: TableAccuracy

    def to_json(self) -> dict[str, Any]:
        """The values that `describe --json` prints."""
        return {"rows": self.rows, **self.reach.to_json()}


@dataclass(frozen=True)
class Description:
    """Contents of a release, the tasks that it can serve (or the reason against each), and its citation."""

    title: str
    tables: Mapping[str, TableDescription]
    tasks: Mapping[str, str | None]
    cite: str
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The values that `describe --json` prints."""
        tables = {kind: table.to_json() for kind, table in self.tables.items()}
        return {"tables": tables, "tasks": dict(self.tasks), "cite": self.cite}


def describe(release: Release | str | os.PathLike[str]) -> Description:
    """Describe a release or a release folder; the files of a folder are compared with its card first."""
    if isinstance(release, Release):
        return _described(release, {kind: _length(release, kind) for kind in release.tables}, None, None)
    if not isinstance(release, (str, os.PathLike)):
        raise ParameterError("release must be a release, or the name of its folder; querycloak.load reads one")
    folder = Path(release)
    loaded, card = load(folder), load_card(folder)
    rows = {kind: int(entry["rows"]) for kind, entry in card["tables"].items()}
    first = card["checksums"][next(iter(card["tables"].values()))["file"]]
    return _described(loaded, rows, (card_digest(folder), first), card.get("published"))


def _described(
    release: Release, rows: Mapping[str, int], digests: tuple[str, str] | None, published: str | None
) -> Description:
    unsaid = TableAccuracy(COUNTS[release.counts], notes=(_NOT_SAID,))
    tables = {
        kind: TableDescription(
            described(kind, release.rows, table.schema.names).meaning, rows[kind], release.reach.get(kind, unsaid)
        )
        for kind, table in release.tables.items()
    }
    card, first_table = digests or (None, None)
    cited = citation(release, published, None if card is None else (CARD, card), first_table)
    warnings = (NOT_PRIVATE,) if release.seeded else ()
    return Description(release.title, tables, _tasks(release, rows), cited, warnings)


def _length(release: Release, kind: str) -> int:
    return sum(batch.num_rows for batch in batches_of(release.tables[kind]))


def _tasks(release: Release, rows: Mapping[str, int]) -> dict[str, str | None]:
    filled = {kind: table for kind, table in release.tables.items() if rows[kind]}
    if not filled:
        return dict.fromkeys(TASKS, "no row came out")
    target = replace(Target.of(release, release.method), tables=filled)
    return {task.name: task.unsupported_reason(target) for task in tasks_named()}
