"""Accounting of every row read, kept or rejected under a code, and the private file of rejected rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import orjson
import pyarrow as pa

from querycloak.errors import TooManyBadLines
from querycloak.files.private_file import private_file
from querycloak.logs.reading.checks import (
    CLICK_OF_ANOTHER,
    CLICK_WITHOUT_QUERY,
    KEPT,
    MEANINGS,
    OTHER_FORMAT,
    UNDECODABLE,
    UNREADABLE_TIME,
    code_name,
    is_bad,
)
from querycloak.privacy.parameters import refuse
from querycloak.sentence import Action, Sentence

DEFAULT_MAX_BAD = 0.05
_LOOK = Action("log.write_rejected(FILE)", ("querycloak", "inspect", "LOG", "--rejected", "FILE"))


def checked_share(max_bad: float) -> float:
    """The share of bad rows allowed, if it is one."""
    if isinstance(max_bad, bool) or not isinstance(max_bad, Real) or not 0 <= max_bad <= 1:
        refuse("max_bad", "a share between 0 and 1", max_bad, "say how many of all rows may be bad, such as 0.05")
    return max_bad


_WAYS_OUT = {
    UNDECODABLE: Sentence("say how the log is encoded with {encoding}, such as latin-1, cp1252 or gb18030"),
    CLICK_WITHOUT_QUERY: Sentence(
        "these clicks name searches that are not in the log: give the file of queries (ubi_queries) beside that of "
        "events (ubi_events)"
    ),
    CLICK_OF_ANOTHER: Sentence("check that client_id is the same in queries and events"),
    OTHER_FORMAT: Sentence("the log is of several formats: read each with its own {log_format}"),
}
"""Advice by the most frequent code; for others, the format and the columns may be wrong."""


@dataclass(frozen=True, repr=False)
class RowAccounting:
    """Rows by code; 0 is kept. Printed as a table, which is private."""

    by_code: Mapping[int, int]
    times: Sentence | None = None
    """Required form of this log's times; None if unknown."""

    def __repr__(self) -> str:
        return f"<RowAccounting: {self.rows_kept:,} of {self.rows_read:,} rows kept (private)>"

    def __str__(self) -> str:
        lines = [("rows read", self.rows_read, ""), ("rows kept", self.rows_kept, "")]
        lines += [(name, rows, MEANINGS[int(name[1:])]) for name, rows in self.rejected.items()]
        return "\n".join(f"{name:<9}  {rows:>14,}  {meaning}".rstrip() for name, rows, meaning in lines)

    @property
    def rows_read(self) -> int:
        """Number of rows that were read."""
        return sum(self.by_code.values())

    @property
    def rows_kept(self) -> int:
        """Number of rows that were kept."""
        return self.by_code.get(KEPT, 0)

    @property
    def rejected(self) -> dict[str, int]:
        """Number of rejected rows by code."""
        return {code_name(code): number for code, number in sorted(self.by_code.items()) if code != KEPT}

    @property
    def set_aside(self) -> dict[str, int]:
        """Former name of `rejected`."""
        return self.rejected

    @property
    def bad(self) -> int:
        """Number of rows rejected because something is wrong with them, not by choice."""
        return sum(number for code, number in self.by_code.items() if is_bad(code))

    def exceeds(self, max_bad: float) -> bool:
        """True if more than this share of the rows is bad."""
        return bool(self.rows_read) and self.bad / self.rows_read > max_bad

    def require(self, max_bad: float = DEFAULT_MAX_BAD) -> None:
        """Refuse a log of which more than this share is bad."""
        if self.exceeds(max_bad):
            raise TooManyBadLines.of(
                "private: {bad_rows}, and at most {most:.1%} may be: {ways_out}, or allow more with {max_bad}",
                bad_rows=self._bad_rows(),
                most=max_bad,
                ways_out=self._ways_out(),
            )

    def warning(self, max_bad: float = DEFAULT_MAX_BAD) -> Sentence | None:
        """Warning for the owner of such a log, if it is not refused."""
        if not self.exceeds(max_bad):
            return None
        return Sentence("{bad_rows}: {ways_out}", bad_rows=self._bad_rows(), ways_out=self._ways_out())

    def why_none_kept(self) -> Sentence:
        """The reason why no row was kept, and the way out."""
        if not self.rows_read:
            return Sentence("the log has no rows: only a header, or nothing that could be one")
        worst = max((code for code in self.by_code if code != KEPT), key=lambda code: self.by_code[code])
        ways_out = self._ways_out() if self.bad else Sentence("check the choices that leave rows out")
        return Sentence(
            "none of {read:,} rows was kept (most of them {code}, {meaning}): {ways_out}",
            read=self.rows_read,
            code=code_name(worst),
            meaning=MEANINGS[worst],
            ways_out=ways_out,
        )

    def _worst(self) -> int:
        return max((code for code in self.by_code if is_bad(code)), key=lambda code: self.by_code[code])

    def _bad_rows(self) -> Sentence:
        worst = self._worst()
        return Sentence(
            "{bad:,} of {read:,} rows are bad ({share:.1%}; most of them {code}, {meaning})",
            bad=self.bad,
            read=self.rows_read,
            share=self.bad / self.rows_read,
            code=code_name(worst),
            meaning=MEANINGS[worst],
        )

    def _ways_out(self) -> Sentence:
        if self._worst() == UNREADABLE_TIME and self.times is not None:
            return Sentence("{times}; look at them with {look}", times=self.times, look=_LOOK)
        advice = _WAYS_OUT.get(self._worst(), Sentence("check {log_format} and {columns}"))
        return Sentence("{advice}, look at them with {look}", advice=advice, look=_LOOK)


WHAT = "the file for rejected rows"


def write_rejected(path: Path, batches: Iterable[pa.RecordBatch], files: Sequence[str]) -> int:
    """One JSON object a row (file, line, code, fields, content), readable by its owner alone."""
    rows = 0
    with private_file(path, WHAT) as file:
        for batch in batches:
            for row in batch.to_pylist():
                file.write(_line(row, files))
            rows += len(batch)
    return rows


def _line(row: dict[str, object], files: Sequence[str]) -> bytes:
    content = row["content"]
    text = content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else None
    shown = {
        "file": files[int(str(row["file"]))],
        "line": row["line"] or None,
        "code": code_name(int(str(row["code"]))),
        "fields": row["fields"],
        "content": text,
    }
    return orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE)
