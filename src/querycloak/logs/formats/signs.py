"""Signs of formats: lines, headers and keys that one format has and others lack.

No single user may decide the format of a log. If the owner has not named it, a release is made only if all first
lines fit one format, and no row of the whole log is written in another (L111).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.logs.formats.declared_formats import DECLARED, DelimitedFormat
from querycloak.logs.formats.json_objects import JsonObject, member_in_any_case, parse_object
from querycloak.logs.reading.checks import NOT_AN_OBJECT, OTHER_FORMAT, UNREADABLE_TIME, WRONG_FIELDS, Codes
from querycloak.logs.reading.schema import REQUIRED
from querycloak.text.spans import Mask, Spans

SEPARATORS = (b"\t", b",", b";", b"|")
FITTING_SHARE = 0.8
_NAME = re.compile(r"[^\W\d][\w.\-]{0,63}")
_NO_NAME = re.compile(r"\d{3}|\d[.:/\-]\d|@|://|\bwww\.")
_LINES = {form.name: form.line for form in DECLARED} | {"json": r"\s*\{.*\}\s*"}
_PATTERNS = {name: re.compile(pattern.encode(), re.DOTALL) for name, pattern in _LINES.items()}
_UNREAD = (WRONG_FIELDS, UNREADABLE_TIME, NOT_AN_OBJECT)


@dataclass(frozen=True)
class Head:
    """The first bytes and lines of a file."""

    label: str
    data: bytes
    lines: list[bytes]
    encoding: str
    is_parquet: bool = False

    @property
    def filled(self) -> list[bytes]:
        """The lines that are not blank."""
        return [line for line in self.lines if line.strip()]

    def has_header_of(self, form: DelimitedFormat) -> bool:
        """True if the first line is this format's header; False for a format without a header."""
        return bool(form.header) and _is_header(self.lines[0], form)


def looks_like_names(names: Sequence[str]) -> bool:
    """True if these can be column names; other texts may be somebody's data."""
    return len(names) > 1 and len(set(names)) == len(names) and all(_NAME.fullmatch(name) for name in names)


def could_be_names(names: Sequence[str]) -> bool:
    """True if none of these is a number, a time, an address or a long text, which only rows hold."""
    return len(set(names)) == len(names) and all(0 < len(name) <= 64 and not _NO_NAME.search(name) for name in names)


def separator_of(head: Head) -> bytes:
    """The separator that occurs most often in the first line."""
    return max(SEPARATORS, key=head.lines[0].count)


def fields_of(line: bytes, separator: bytes, encoding: str) -> list[str]:
    """The fields of a line, such as the column names of a header; none if it is no line of a table."""
    text = line.decode(encoding, "replace")
    try:
        return [name.strip() for name in next(csv.reader([text], delimiter=separator.decode()), [])]
    except csv.Error:
        return []


def has_our_columns(value: JsonObject | None) -> bool:
    """True if an object has every required column under its own name; a null counts, too."""
    absent = object()
    return all(member_in_any_case(value, name, absent) is not absent for name in REQUIRED)


def share_of(lines: list[bytes], fits: Callable[[bytes], object]) -> float:
    """Share of the lines that fit; 0 if there are none."""
    return sum(bool(fits(line)) for line in lines) / len(lines) if lines else 0.0


def declared_share(head: Head, form: DelimitedFormat) -> float:
    """Share of the first lines that are written in this format; a header counts as a fitting share."""
    rows = [line for line in head.filled if not (form.header and _is_header(line, form))]
    share = share_of(rows, _PATTERNS[form.name].fullmatch)
    if not head.has_header_of(form):
        return share
    return max(share, FITTING_SHARE) if rows else 1.0


def _is_header(line: bytes, form: DelimitedFormat) -> bool:
    return line.strip().lower() == form.header_line.lower()


def header_share(head: Head) -> float:
    """Share of the first lines that fit a header with the column names of querycloak; 0 without such a header."""
    separator = separator_of(head)
    names = fields_of(head.lines[0], separator, head.encoding)
    if not looks_like_names(names) or not set(REQUIRED) <= {name.lower() for name in names}:
        return 0.0
    rows = head.filled[1:]
    fitting = share_of(rows, lambda line: len(fields_of(line, separator, head.encoding)) == len(names))
    return max(fitting, FITTING_SHARE) if rows else 1.0


def our_json_share(head: Head) -> float:
    """Share of the first lines that are JSON objects with the column names of querycloak."""
    return share_of(head.filled, lambda line: has_our_columns(parse_object(line)))


def braces_share(head: Head) -> float:
    """Share of the first lines that begin with a brace."""
    return share_of(head.filled, lambda line: line.startswith(b"{"))


def mark_other_formats(codes: Codes, records: Spans, own: str, *, all_rows: bool = False) -> Codes:
    """The codes, with L111 for unreadable rows that are written in another format than `own`.

    all_rows: look at readable rows, too.
    """
    suspects = np.ones(len(codes), np.bool_) if all_rows else np.isin(codes, _UNREAD)
    if not suspects.any():
        return codes
    marked = codes.copy()
    marked[np.flatnonzero(suspects)[_of_other_formats(records.where(suspects), own)]] = OTHER_FORMAT
    return marked


def mark_other_objects(
    codes: Codes, records: Spans, unread: int, is_other: Callable[[JsonObject | None], bool]
) -> Codes:
    """The codes, with L111 for objects of the code `unread` that another format may hold."""
    suspects = np.flatnonzero(codes == unread).tolist()
    others = [index for index in suspects if is_other(parse_object(records.bytes_at(index)))]
    if not others:
        return codes
    marked = codes.copy()
    marked[others] = OTHER_FORMAT
    return marked


def _of_other_formats(records: Spans, own: str) -> Mask:
    texts = records.strings()
    lines = pa.Array.from_buffers(pa.binary(), len(texts), texts.buffers())
    signs = np.zeros(len(records), np.bool_)
    for name, pattern in _LINES.items():
        if name != own:
            fits = pc.match_substring_regex(lines, rf"(?s)\A(?:{pattern})\z")
            signs |= fits.to_numpy(zero_copy_only=False)
    return signs
