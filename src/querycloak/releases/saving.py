"""From a release to its folder: tables, datasheet, Croissant, and last the card, which vouches for the others."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.logs.log_layouts import Encoding
from querycloak.privacy.parameters import one_of
from querycloak.releases import parquet
from querycloak.releases.card import Contents, TableFile, card_of
from querycloak.releases.croissant import CROISSANT, croissant_of
from querycloak.releases.datasheet import datasheet_of
from querycloak.releases.folder import CARD, DATASHEET, Unfinished, WrittenFile, reserve
from querycloak.releases.output_filter import OutputFilter
from querycloak.releases.release import Release
from querycloak.releases.tables import KINDS, Table, batches_of, conformed, described, regrouped, schema_for
from querycloak.releases.text_tables import CSV, TSV, TextFormat

MOST_SHOWN = 10_000
"""Dropped rows of a table that are kept for the owner."""
FORMATS: Mapping[str, ModuleType | TextFormat] = {each.ending: each for each in (parquet, TSV, CSV)}

LAYOUTS: Mapping[str, str] = {"aol": "log-aol.tsv", "ubi": "log-ubi.jsonl"}
"""Files of a made-up log in the layouts of other software, by the parameter `log_layout`."""


@dataclass(frozen=True)
class Saved:
    """Folder and digest of a release; `dropped` (private) counts the rows that the filter dropped, by pattern."""

    folder: Path
    digest: str
    dropped: Mapping[str, int] = field(repr=False)
    dropped_rows: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    """The rows that the output filter dropped, by table (private); at most `MOST_SHOWN` of each."""


def save(
    release: Release, folder: str | os.PathLike[str] | Unfinished, format_name: str, output_filter: OutputFilter | None
) -> Saved:
    """Write everything beside the target, bring it to the disk, rename it, and tell the ledger."""
    one_of("format", format_name, FORMATS)
    dropped: Counter[str] = Counter()
    rows: dict[str, list[pa.RecordBatch]] = {}
    with release.accounting.staying(), folder if isinstance(folder, Unfinished) else reserve(folder) as unfinished:
        target = unfinished.target
        files = []
        for kind, table in release.tables.items():
            with unfinished.file(f"{kind}.{format_name}") as file:
                look = _Look(output_filter, dropped, rows.setdefault(kind, []))
                written = _write_table(kind, table, FORMATS[format_name], file, look)
                files.append(replace(written, described=described(kind, release.rows, written.schema.names)))
        contents = Contents(release, tuple(files), output_filter, datetime.now(UTC).date())
        checksums = {table.file: table.checksum for table in files}
        layout = str(release.parameters.get("log_layout"))
        if layout in LAYOUTS and "log" in release.tables:
            checksums |= _write_layout(release.tables["log"], layout, unfinished, _Look(output_filter, Counter(), []))
        texts = {DATASHEET: datasheet_of(contents), CROISSANT: _json(croissant_of(contents))}
        for name, text in texts.items():
            checksums[name] = _write_text(unfinished, name, text)
        digest = _write_text(unfinished, CARD, _json(card_of(contents, checksums)))
        if release.check is not None and not all(isinstance(table, pa.Table) for table in release.tables.values()):
            release.check()
        release.accounting.announce(digest, target.absolute())
        unfinished.finish()
    release.accounting.complete(digest)
    shown = {kind: pa.Table.from_batches(batches).slice(0, MOST_SHOWN) for kind, batches in rows.items() if batches}
    return Saved(target, digest, dict(dropped), shown)


@dataclass(frozen=True)
class _Look:
    """The output filter applied to one table; output_filter: None keeps all rows."""

    output_filter: OutputFilter | None
    dropped: Counter[str]
    rows: list[pa.RecordBatch]

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows to write; note the others."""
        if self.output_filter is None:
            return batch
        kept, dropped = self.output_filter.apply(batch, self._note)
        self.dropped.update(dropped)
        return kept

    def _note(self, batch: pa.RecordBatch) -> None:
        if sum(each.num_rows for each in self.rows) < MOST_SHOWN:
            self.rows.append(batch)


def unsaved_card(release: Release) -> dict[str, Any]:
    """The card of a release that is in no folder yet: without checksums, and before the output filter."""
    files = []
    for kind, table in release.tables.items():
        rows = sum(batch.num_rows for batch in batches_of(table))
        schema = schema_for(kind, table)
        files.append(TableFile(kind, described(kind, release.rows, schema.names), "", "", rows, schema, "", 0))
    card = card_of(Contents(release, tuple(files), None, datetime.now(UTC).date()), {})
    return {name: value for name, value in card.items() if name not in ("checksums", "published", "last_look")}


def _write_table(kind: str, table: Table, form: ModuleType | TextFormat, file: WrittenFile, look: _Look) -> TableFile:
    schema = schema_for(kind, table)
    rows = 0

    def looked_at() -> Generator[pa.RecordBatch, None, None]:
        nonlocal rows
        for batch in batches_of(table):
            kept = look.kept(conformed(batch, schema))
            rows += kept.num_rows
            yield kept

    # Closed at once when writing fails: the engine behind the batches must not wait for the garbage collector.
    with closing(looked_at()) as batches:
        form.write(regrouped(batches, schema), schema, file)
    dialect = form.dialect if isinstance(form, TextFormat) else None
    return TableFile(kind, KINDS[kind], file.name, form.media_type, rows, schema, file.checksum, file.size, dialect)


def _write_layout(table: Table, layout: str, unfinished: Unfinished, look: _Look) -> dict[str, str]:
    """Write the rows once more, in another layout; the file's name and its checksum."""
    encoding, schema = Encoding(layout, None), schema_for("log", table)
    with unfinished.file(LAYOUTS[layout]) as file:
        file.write(encoding.header)
        for batch in batches_of(table):
            rows = pa.Table.from_batches([look.kept(conformed(batch, schema))])
            rows = rows.set_column(1, "time", rows["time"].cast(pa.timestamp("s")))
            if layout == "ubi":
                rows = rows.set_column(2, "query", _escaped(rows["query"])).set_column(4, "url", _escaped(rows["url"]))
            if rows.num_rows:
                file.write(encoding.encoded(rows))
    return {file.name: file.checksum}


def _escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as JSON writes them between quotes; normalised ones hold no control characters."""
    return pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')


def _write_text(unfinished: Unfinished, name: str, text: str) -> str:
    with unfinished.file(name) as file:
        file.write(text.encode())
    return file.checksum


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
