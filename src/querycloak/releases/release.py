"""A release: tables made from a log by a method, and their guarantee."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from querycloak.errors import ParameterError
from querycloak.extras import versions
from querycloak.logs.choices import Choices
from querycloak.privacy.calibration.accuracy import TableAccuracy
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.payment import NOT_ACCOUNTED, Accounting
from querycloak.privacy.parameters import one_of, refuse
from querycloak.releases.output_filter import OutputFilter
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import Table, schema_of, whole_table
from querycloak.sentence import Parameter, Sentence
from querycloak.shown_in_notebooks import ShownInNotebooks

if TYPE_CHECKING:
    from querycloak.language.query_model import QueryModel
    from querycloak.releases.folder import Unfinished
    from querycloak.releases.saving import Saved


def plain_mapping(name: str, values: object) -> Mapping[str, Any]:
    """An unchangeable copy of a mapping of plain values."""
    if isinstance(values, Mapping) and all(isinstance(key, str) for key in values):
        try:
            written = json.dumps(dict(values), allow_nan=False, ensure_ascii=False).encode()
            copied: dict[str, Any] = json.loads(written)
        except (TypeError, ValueError):
            pass  # the value itself stays out of the message: nobody knows what it is
        else:
            return MappingProxyType(copied)
    raise ParameterError.of(
        "{name} must be a mapping of plain values (texts, finite numbers, lists, mappings)", name=Parameter(name)
    )


_STANDARD = OutputFilter()
COUNTS: Mapping[str, str] = MappingProxyType(
    {
        "one-draw": "one draw of noise decides whether a row is released and is its count",
        "fresh-draw": "one draw of noise decides whether a row is released, a fresh one makes its count",
        "weighed": "noisy weights decide whether a row is released, a fresh draw of noise makes its count",
        "public-keys": "one draw of noise for every row of public lists, asked for or not, decides and is its count",
        "cells": "rows are selected first; then one draw of noise for every cell of them, held or not, is its count",
        "exact": "counts as they are in the log, without noise",
        "sampled": "how often a user was drawn for a row, as many times as was computed from the log",
        "synthetic": "counts of rows that were made up to resemble the log",
        "none": "there are no counts",
    }
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release(ShownInNotebooks):
    """Tables, and everything that must be said about them.

    A table is an Arrow table, or `Batches` for one that memory cannot hold. Its rows come sorted by count and then
    by key, so that their order says nothing about the log; nobody checks that here.
    """

    method: str
    variant: str
    parameters: Mapping[str, Any]
    claimed: Guarantee | None
    proven: Guarantee
    tables: Mapping[str, Table] = field(repr=False)
    counts: str = "one-draw"
    rows: RowKind = RowKind.ASKED
    seeded: bool = False
    accounting: Accounting = NOT_ACCOUNTED
    log: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    """Public statements of the owner (licence, owner, contact, doi, keywords, citation ...); empty if none."""
    composition: Mapping[str, Any] = field(default_factory=dict)
    gaussian_dp: Mapping[str, float] = field(default_factory=dict)
    """mu^2 and additive delta (accounting/filter.md); empty without differential privacy, and on earlier cards."""
    warnings: tuple[str, ...] = ()
    population_size: int | None = None
    options: Mapping[str, Any] | None = None
    reach: Mapping[str, TableAccuracy] = field(default_factory=dict)
    """Accuracy by table, for tables whose method states it."""
    versions: Mapping[str, str] = field(default_factory=versions)
    # Private output for the person who runs it; never written.
    remarks: tuple[str | Sentence, ...] = field(default=(), repr=False)
    check: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Raises if rows that are still to come cannot be trusted; asked before the folder gets its name."""

    def __post_init__(self) -> None:
        for name in ("method", "variant"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                refuse(name, "a text", getattr(self, name), "say what made the release")
        one_of("counts", self.counts, COUNTS)
        one_of("rows", self.rows, tuple(RowKind))
        object.__setattr__(self, "rows", RowKind(self.rows))
        if not self.tables:
            raise ParameterError("tables must hold at least one table; an empty one says that nothing was released")
        for kind, table in self.tables.items():
            schema_of(kind, table.schema.names)
            if isinstance(table, Iterator):  # read a second time it would be empty, and nobody would notice
                raise ParameterError(f"table {kind} must be readable again and again; wrap it in a Stream")
        if not set(self.reach) <= set(self.tables):
            raise ParameterError(f"reach must be about the tables of the release: {', '.join(self.tables)}")
        for name in ("tables", "reach"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for name in ("parameters", "log", "about", "composition", "gaussian_dp", "versions"):
            object.__setattr__(self, name, plain_mapping(name, getattr(self, name)))

    @property
    def title(self) -> str:
        """A name for the release."""
        return f"search log release, method {self.method}, variant {self.variant}"

    def __repr__(self) -> str:
        variant = "" if self.variant == "default" else f", {self.variant} variant"
        return f"<Release {self.method}{variant}: {', '.join(self.tables)}; {self.proven.line}>"

    def __getitem__(self, kind: str) -> pa.Table:
        return self.table(kind)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    @property
    def card(self) -> Mapping[str, Any]:
        """The card: that of its folder if it was loaded from one, else as it would be written, without checksums."""
        from querycloak.releases.loading import StoredTable, load_card
        from querycloak.releases.saving import unsaved_card

        stored = [table for table in self.tables.values() if isinstance(table, StoredTable)]
        return load_card(stored[0].path.parent) if stored else unsaved_card(self)

    def table(self, kind: str) -> pa.Table:
        """A whole table in memory."""
        if kind not in self.tables:
            raise ParameterError(f"this release has no table {kind!r}; it has {', '.join(self.tables)}")
        return whole_table(kind, self.tables[kind])

    def save(
        self,
        folder: str | os.PathLike[str] | Unfinished,
        format: str = "parquet",  # noqa: A002 (the name of the option)
        *,
        output_filter: OutputFilter | None = _STANDARD,
        last_look: OutputFilter | None = _STANDARD,
        about: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> Saved:
        """Write the release folder, whole or not at all; then the ledger, if any, notes that it was made.

        None filters nothing. `last_look` is the former name of `output_filter`. about: statements of the owner, or a
        TOML file with them; None keeps those that the release has.
        """
        from querycloak.releases.about_file import About
        from querycloak.releases.saving import save

        if last_look is not _STANDARD and output_filter is not _STANDARD:
            raise ParameterError("give output_filter or its former name last_look, not both")
        stated = self if about is None else replace(self, about=About.of(about).public)
        saved = save(stated, folder, format, output_filter if last_look is _STANDARD else last_look)
        if saved.dropped:
            rows = ", ".join(f"{name} {number:,}" for name, number in saved.dropped.items())
            warnings.warn(f"private: the output filter dropped rows ({rows}); `dropped_rows` has them", stacklevel=2)
        return saved

    def model(self) -> QueryModel:
        """Return a model of what people ask, from the release's phrases, queries, clicks or log."""
        from querycloak.releases.release_model import model_of

        return model_of(self)

    def export(self, as_: str, out: str | os.PathLike[str], *, grades: str = "users", levels: int = 5) -> list[Path]:
        """Write the release in the format of another tool (qrels, quepid, workbench, ir-datasets, clax, csv)."""
        from importlib import import_module

        written: list[Path] = import_module("querycloak.exports.export").export(
            self, as_, out, grades=grades, levels=levels
        )
        return written


def describe_log(choices: Choices) -> dict[str, object]:
    """Card entry on the log: its owner's decisions, and the form in which texts were compared."""
    # Imported here: it loads a compiler, and a guarantee alone must not wait for that.
    from querycloak.text.normalisation import DESCRIPTION

    return choices.describe() | {"normalisation": DESCRIPTION if choices.normalise else "none"}
