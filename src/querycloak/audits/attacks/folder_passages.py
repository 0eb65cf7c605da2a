"""Text of a release folder outside its released rows: names of files, metadata, dictionaries, documents.

Cells of a release's own tables are what a mechanism released. Whatever else is there must not hold anything of a log.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import querycloak
from querycloak.files.documents import parsed_json

SHORTEST, SHORTEST_IN_BINARY = 3, 6
"""Texts of fewer characters are found everywhere by chance."""
_APART = "\x00"  # no text goes across it
_DIGEST = re.compile(r"\b[0-9a-f]{16,}\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?)?\b")
_VERSION = re.compile(r"\b\d+(?:\.\d+)+(?:[a-z.]+\d*)*\b")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
_FIGURE_DIGITS = 6
_BLANKS = re.compile(r"[ \t\r\n]+")
_NO_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class FolderPassage:
    """A piece of text, in lower case, and where it stands; `whole` if it is one value rather than running text."""

    place: str
    text: str
    least: int = SHORTEST
    whole: bool = False


def passages(folder: Path) -> Iterator[FolderPassage]:
    """Everything below a folder."""
    tables = released_files(folder)
    numbers = _json_numbers(folder)
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        yield from _in_words("the name of a file", name)
        if path.is_file():
            yield from _in_file(path, path.name in tables and path.parent == folder, numbers)


def released_files(folder: Path) -> dict[str, str]:
    """The files of a release's tables, with their kinds; none if the folder is no release."""
    try:
        listed = parsed_json((folder / "card.json").read_bytes())["tables"]
        return {str(entry["file"]): str(kind) for kind, entry in listed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _in_words(place: str, text: str) -> Iterator[FolderPassage]:
    """A text as it is, and with a blank for whatever stands between its words."""
    lowered = text.lower()
    yield FolderPassage(place, lowered)
    yield FolderPassage(place, _NO_WORD.sub(" ", lowered).strip())


def _in_file(path: Path, released: bool, numbers: frozenset[str]) -> Iterator[FolderPassage]:
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        with contextlib.suppress(OSError, EOFError):
            data = gzip.decompress(data)
    if data.startswith(b"PAR1"):
        yield from _in_parquet(path, data, released)
    elif released:
        header, _, _ = data.partition(b"\n")
        yield from _in_words(path.name, header.decode("utf-8", "replace"))
    elif path.suffix == ".json":
        yield from _in_json(path.name, data, numbers)
    else:
        yield from _in_text(path.name, data, numbers)


def _in_text(place: str, data: bytes, numbers: frozenset[str]) -> Iterator[FolderPassage]:
    text = data.decode("utf-8", "replace").lower()
    binary = "\x00" in text or "\ufffd" in text
    if binary:
        yield FolderPassage(place, text, SHORTEST_IN_BINARY)
    else:
        yield FolderPassage(place, _BLANKS.sub(" ", _without_numbers(text, numbers)))


def _in_json(place: str, data: bytes, numbers: frozenset[str]) -> Iterator[FolderPassage]:
    try:
        document = parsed_json(data)
    except ValueError:
        yield from _in_text(place, data, numbers)
        return
    for text in _strings(document):
        if text.isdigit() and text not in numbers:
            yield FolderPassage(place, text, whole=True)
        yield FolderPassage(place, _BLANKS.sub(" ", _without_numbers(text.lower(), numbers)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _json_numbers(folder: Path) -> frozenset[str]:
    """The numbers that a card states (rows, parameters) and sizes of files: they are no user's data."""
    own_numbers: set[str] = set()
    own_numbers |= {str(path.stat().st_size) for path in folder.rglob("*") if path.is_file()}
    for path in folder.glob("*.json"):
        try:
            document = parsed_json(path.read_bytes(), parse_int=str, parse_float=str)
        except (OSError, ValueError):
            continue
        # As texts, numbers and strings look alike: a number is what is no string without that.
        own_numbers |= set(_strings(document)) - set(_strings(parsed_json(path.read_bytes())))
    return frozenset(own_numbers)


def _without_numbers(text: str, numbers: frozenset[str]) -> str:
    for pattern in (_DIGEST, _MOMENT, _VERSION):
        text = pattern.sub(_APART, text)
    return _NUMBER.sub(lambda match: _APART if _is_figure(match[0], numbers) else match[0], text)


def _is_figure(number: str, numbers: frozenset[str]) -> bool:
    """True if a number is one that texts about releases state: a small one, a grouped one, or one of the card's."""
    return not number.isdigit() or len(number) < _FIGURE_DIGITS or number in numbers


def _in_parquet(path: Path, data: bytes, released: bool) -> Iterator[FolderPassage]:
    """Schema, metadata, statistics, dictionary entries without a row, and bytes that belong to no column."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        described = file.metadata
    except (pa.ArrowException, OSError):
        yield FolderPassage(path.name, data.decode("utf-8", "replace").lower(), SHORTEST_IN_BINARY)
        return
    place = f"{path.name}, metadata"
    for name in described.schema.to_arrow_schema().names:
        yield from _in_words(f"{path.name}, a column's name", name)
    for pair in (described.metadata or {}).items():
        for piece in pair:
            yield from _in_words(place, piece.decode("utf-8", "replace"))
    ranges = []
    for group in range(described.num_row_groups):
        for column in range(described.num_columns):
            chunk = described.row_group(group).column(column)
            first = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            ranges.append((first, first + chunk.total_compressed_size))
            if chunk.statistics is not None and chunk.statistics.has_min_max:
                for value in (chunk.statistics.min, chunk.statistics.max):
                    yield FolderPassage(f"{path.name}, statistics", str(value).lower(), whole=True)
    yield FolderPassage(place, _between(data, ranges), SHORTEST_IN_BINARY)
    for value in _values(data, unused_only=released):
        yield FolderPassage(f"{path.name}, {'a dictionary' if released else 'a value'}", value.lower(), whole=True)


def _between(data: bytes, ranges: list[tuple[int, int]]) -> str:
    pieces, end = [], 0
    for first, last in sorted(ranges):
        pieces.append(data[end:first])
        end = max(end, last)
    pieces.append(data[end:])
    return _APART.join(piece.decode("utf-8", "replace").lower() for piece in pieces)


def _values(data: bytes, *, unused_only: bool) -> Iterator[str]:
    """The texts in dictionaries that no row uses; or all texts, where nobody released the rows."""
    names = _text_columns(pq.read_schema(pa.BufferReader(data)))
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=names)
    for group in range(file.metadata.num_row_groups):
        for column in file.read_row_group(group).columns:
            values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
            if not pa.types.is_dictionary(values.type):
                continue
            listed = pa.chunked_array([chunk.dictionary for chunk in values.chunks], values.type.value_type).unique()
            used = pa.chunked_array(
                [chunk.dictionary.take(chunk.indices.unique()) for chunk in values.chunks], values.type.value_type
            )
            yield from _strings(_as_text(listed.filter(pc.invert(pc.is_in(listed, used))) if unused_only else listed))


def _as_text(values: pa.Array) -> list[str]:
    return [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values.to_pylist() if each]


def _text_columns(schema: pa.Schema) -> list[str]:
    plain = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
    lists = [f"{field.name}.list.element" for field in schema if pa.types.is_list(field.type)]
    return plain + lists


@lru_cache(maxsize=1)
def public_text() -> str:
    """Strings of querycloak's Python source and its .jinja templates, which any release may hold, whatever the log."""
    texts: list[str] = []
    root = Path(querycloak.__file__).parent
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts += [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    texts += [path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.jinja"))]
    return _APART.join(_BLANKS.sub(" ", text.lower()) for text in texts)
