"""JSON documents as JSON lines: an array of objects, or a `_search` reply of Elasticsearch or OpenSearch.

A document is parsed as a whole and copied, one object a line, into a private folder; then it is read like any log of
JSON lines. No row decides that: a file of several lines is never one document, and where the owner has named a format
or columns, only a file whose name ends in .json is looked at.
"""

from __future__ import annotations

from typing import Any

import orjson

from querycloak.errors import InputError
from querycloak.files.locked_folder import PrivateFolder
from querycloak.logs.reading.files import LogFile, local_file

MOST_BYTES = 1 << 29
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SOURCE = "_source"


def as_lines(file: LogFile, *, named: bool) -> LogFile:
    """The file, or a copy of it as JSON lines if it is one JSON document; `named` if its owner named a format."""
    if (named and not file.name.endswith(".json")) or not _may_be_document(file.head()):
        return file
    rows = _rows(_content(file))
    if rows is None:
        if file.name.endswith(".json") and file.head(1 << 10).lstrip(_BYTE_ORDER_MARK + b" \t\r\n").startswith(b"["):
            raise InputError(f"{file.label} begins as a JSON array does, but is none: is it cut short? Write it again")
        return file
    return _written(file.label, rows)


def _may_be_document(head: bytes) -> bool:
    """True if these first bytes can begin an array of objects or a reply: not those of JSON lines."""
    start = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"["):
        return start[1:].lstrip()[:1] in (b"{", b"]", b"")
    first, _, rest = start.partition(b"\n")
    return start.startswith(b"{") and b'"hits"' in start and (not rest.strip() or not _is_json(first))


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _content(file: LogFile) -> bytes:
    data = file.head(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError(
            f"{file.label} is one JSON document of more than {MOST_BYTES >> 20} MiB: write one object a line, such as "
            "with jq -c '.[]'"
        )
    return data.removeprefix(_BYTE_ORDER_MARK)


def _rows(data: bytes) -> list[Any] | None:
    """The rows of a document; None if it is no array and no reply."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if isinstance(value, dict):
        hits = value.get("hits")
        value = hits.get("hits") if isinstance(hits, dict) else None
    return value if isinstance(value, list) else None


def _written(label: str, rows: list[Any]) -> LogFile:
    folder = PrivateFolder()
    path = folder.path / "document.jsonl"
    with folder.removed_on_failure():
        with path.open("xb") as lines:
            for row in rows:
                source = row.get(_SOURCE) if isinstance(row, dict) else None
                lines.write(orjson.dumps(source if isinstance(source, dict) else row) + b"\n")
        if not rows:
            raise InputError(f"{label} is a JSON document without rows")
    return local_file(label, str(path))
