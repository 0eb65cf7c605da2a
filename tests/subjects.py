"""Subjects of an evaluation, made of releases in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import KINDS


@dataclass(frozen=True)
class Released:
    """A release that was not saved; `tables` may be anything in their form."""

    name: str
    tables: Mapping[str, pa.Table]
    rows: RowKind = RowKind.ASKED
    method: str = "somebody's"
    variant: str = "default"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None

    @classmethod
    def of(cls, release: Release, name: str = "release") -> Released:
        tables = {kind: release.table(kind) for kind in release.tables}
        return cls(name, tables, release.rows, release.method, release.variant, release.parameters)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.tables)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        return {kind: tuple(table.column_names) for kind, table in self.tables.items()}

    def table(self, kind: str) -> pa.Table:
        return self.tables[kind]


ORIGINAL = Released(
    "original", {kind: pa.table({name: [] for name in KINDS[kind].columns}) for kind in KINDS}, method="original",
)  # fmt: skip
"""For tasks that take the original from TRAIN itself."""
