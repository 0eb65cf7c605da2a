"""A release as an attacker sees it, and what only the audit knows about it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.holders import in_pieces
from querycloak.methods.evidence import load
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import path_of
from querycloak.releases.folder import CARD
from querycloak.releases.release import Release
from querycloak.releases.tables import Table, batches_of

# What rows of a log must be for its names to stand for people of the log.
PEOPLES_ROWS = ("asked", "alike", "generalised", "replaced", "rebuilt", "noised", "drawn")
NO_NAMES = "its tables hold counts, and no rows under names"
MADE_UP = "its users are made up: none of them is a real person"
NO_OWNERS = "a folder does not tell whose row is whose; `compare` makes the releases itself and knows"


@dataclass(frozen=True, eq=False)
class Target:
    """What is attacked: a release, or the log itself in a release's form.

    `owners` (columns name, user) says whose rows stand under a name; only the process that made the release knows it.
    """

    name: str
    tables: Mapping[str, Table] = field(repr=False)
    rows: str = "asked"
    counts: str = "exact"
    method: str | None = None
    variant: str = "default"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    claimed: Guarantee | None = None
    proven: Guarantee | None = None
    digest: str | None = None
    folder: Path | None = None
    owners: pa.Table | None = field(default=None, repr=False)

    @classmethod
    def of(cls, release: Release, name: str, *, owners: pa.Table | None = None) -> Target:
        """A release in memory."""
        return cls(
            name=name,
            tables=release.tables,
            rows=release.rows,
            counts=release.counts,
            method=release.method,
            variant=release.variant,
            parameters=release.parameters,
            claimed=release.claimed,
            proven=release.proven,
            owners=owners,
        )

    @classmethod
    def in_folder(cls, folder: str | os.PathLike[str]) -> Target:
        """A release folder, compared with its card first."""
        place = path_of("release", folder, "name the folder of a release")
        release = load(place)
        digest = hashlib.sha256((place / CARD).read_bytes()).hexdigest()
        made = cls.of(release, place.resolve().name)
        return replace(made, digest=digest, folder=place)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""
        return {kind: tuple(table.schema.names) for kind, table in self.tables.items()}

    def batches(self, kind: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a table, a batch at a time."""
        for batch in batches_of(self.tables[kind]):
            yield batch.select(list(columns))

    def texts(self) -> Iterator[pa.ChunkedArray]:
        """All queries in its tables, a piece at a time, repeats included."""
        for kind, names in self.columns.items():
            for column in ("query", "next_query", "queries"):
                for rows in in_pieces(self.batches(kind, [column])) if column in names else ():
                    values = rows.column(0)
                    yield pc.list_flatten(values) if pa.types.is_list(values.type) else values

    def without_names(self) -> str | None:
        """Why nobody can be singled out by name; nothing if its rows are people's rows."""
        if "log" not in self.tables:
            return NO_NAMES
        return None if self.rows in PEOPLES_ROWS else MADE_UP
