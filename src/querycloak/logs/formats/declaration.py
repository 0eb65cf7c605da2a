"""Declaration of a delimited format: its name, its layout and the signs by which it is recognised, in one value.

A new format is a file of this folder that declares one (`aol.py` is an example), listed in `signs.DECLARED`.
"""

from __future__ import annotations

from dataclasses import dataclass

from querycloak.logs.reading.times import TimeParser, iso_or_epoch


@dataclass(frozen=True)
class Layout:
    """Position of each column in a record, and the number of fields that a record may have."""

    columns: dict[str, int]
    field_counts: tuple[int, ...]
    separator: bytes = b"\t"
    quotes: bool = False
    times: TimeParser = iso_or_epoch
    bracketed_query: bool = False
    rank_is_first_word: bool = False


@dataclass(frozen=True)
class DelimitedFormat:
    """A format of one record a line."""

    name: str
    accepted: str
    """Its columns, for messages."""
    line: str
    """Regular expression of a row, in the syntax that Python and Arrow share."""
    layout: Layout
    header: tuple[str, ...] = ()
    """Names in the first line; empty: a file begins with a row."""
    encoding: str = "utf-8"
    """Encoding if the owner names none."""
    time_form: str | None = None
    """An example of its times; None: times of any form that needs no option."""

    @property
    def header_line(self) -> bytes:
        """The header as a line; empty if there is none."""
        return self.layout.separator.join(name.encode() for name in self.header)
