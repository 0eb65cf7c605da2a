"""A log's files and the reader of their format, as engines want them: in parts, blocks and batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from querycloak.logs.choices import Choices
from querycloak.logs.formats import Reader
from querycloak.logs.reading.blocks import Part, parts_of
from querycloak.logs.reading.files import LogFile
from querycloak.logs.reading.schema import MARKED_SEARCHES, ORIGIN, with_records


@dataclass(frozen=True)
class LogSource:
    """Rows of a log, read anew each time.

    With `origin`, also the place of each row and the content of rejected ones; without `clicks`, neither rank nor url;
    with `views`, also the results shown that nobody clicked.
    """

    files: list[LogFile]
    reader: Reader
    choices: Choices
    origin: bool = False
    clicks: bool = True
    views: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        base = self.reader.schema if self.clicks else MARKED_SEARCHES
        schema = with_records(base, self.choices.attributes, self.reader.views if self.views else None)
        return pa.schema([*schema, *ORIGIN]) if self.origin else schema

    @property
    def size(self) -> int:
        """Stored bytes in all."""
        return sum(file.size for file in self.files)

    def parts(self, size: int | None) -> list[Part]:
        """Whole files, or pieces of about `size` bytes."""
        return parts_of(self.files, size, divisible=self.reader.divisible)

    def blocks(self, part: Part) -> Iterator[Any]:
        """The raw blocks of a part."""
        return self.reader.blocks(self.files[part.file], part, numbered=self.origin)

    def parse(self, block: Any) -> pa.RecordBatch:
        """The rows of a block."""
        return self.reader.parse(block, self.choices, origin=self.origin, clicks=self.clicks, views=self.views)

    def with_origin(self) -> LogSource:
        """The same rows, with where they stood."""
        return replace(self, origin=True)

    def without_clicks(self) -> LogSource:
        """The same rows, each kept or rejected as before, without their clicks."""
        return replace(self, clicks=False)

    def with_views(self) -> LogSource:
        """The same rows, each kept or rejected as before, with what was shown."""
        return replace(self, views=True)
