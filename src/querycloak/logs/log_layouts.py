"""Rows of a log as files that others write: AOL's text, UBI's documents, Parquet; compressed if the name says so."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.privacy.parameters import refuse

AOL_HEADER = b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
ENDINGS = {".tsv": "aol", ".txt": "aol", ".parquet": "parquet", ".jsonl": "ubi", ".ndjson": "ubi"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_APPLICATION = "synthetic"
_BASE = 5
"""Columns of a log without views and attributes."""


@dataclass(frozen=True)
class Encoding:
    """Format and compression of a log file, as its name's ending says."""

    format: str
    compression: str | None

    @classmethod
    def of(cls, path: Path) -> Encoding:
        """Encoding by the ending of a name."""
        *_, last = ["", *path.suffixes]
        compression = COMPRESSIONS.get(last.lower())
        inner = path.with_suffix("").suffix if compression else path.suffix
        encoding = ENDINGS.get(inner.lower())
        if encoding is None or (encoding == "parquet" and compression):
            rule = f"a name that ends in one of {', '.join(ENDINGS)}"
            refuse("out", rule, str(path), ".gz or .zst may follow, but for .parquet")
        return cls(encoding, compression)

    @property
    def header(self) -> bytes:
        """First line of the file."""
        return self._compressed(AOL_HEADER) if self.format == "aol" else b""

    def encoded(self, rows: pa.Table) -> bytes | pa.Table:
        """The rows as the file holds them; Parquet is written from the table itself."""
        if self.format == "parquet":
            return rows.set_column(0, "user", rows["user"].cast(pa.string()))
        return self._compressed(_aol(rows) if self.format == "aol" else _ubi(rows))

    def _compressed(self, data: bytes) -> bytes:
        # Members and frames one after the other are one stream, so blocks need not wait for each other.
        if self.compression == "gzip":
            return gzip.compress(data, compresslevel=6, mtime=0)
        if self.compression == "zstd":
            return bytes(pa.Codec("zstd", 3).compress(data, asbytes=True))
        return data


def _aol(rows: pa.Table) -> bytes:
    return _lines(
        pc.binary_join_element_wise(
            rows["user"].cast(pa.string()),
            rows["query"],
            pc.strftime(rows["time"], "%Y-%m-%d %H:%M:%S"),
            _or_empty(rows["rank"].cast(pa.string())),
            _or_empty(rows["url"]),
            "\t",
        )
    )


def _or_empty(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(texts, "")


def _lines(texts: pa.ChunkedArray) -> bytes:
    whole = texts.combine_chunks()
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(whole)], pa.int32()), whole), "\n")
    return bytes(joined[0].as_buffer().to_pybytes() + b"\n")


def _ubi(rows: pa.Table) -> bytes:
    """One document for each search, then one for each of its clicks. The texts hold nothing that JSON would escape."""
    user, query, time = (rows[name].combine_chunks() for name in ("user", "query", "time"))
    begins = _begins(user, time, query)
    user = user.cast(pa.string())
    moment = pc.strftime(time, "%Y-%m-%dT%H:%M:%SZ")
    search = pa.array(np.cumsum(begins)).cast(pa.string())
    shared = (
        '{"application":"',
        _APPLICATION,
        '","query_id":"',
        user,
        "-",
        search,
        '","client_id":"',
        user,
        '","timestamp":"',
        moment,
    )
    searches = pc.binary_join_element_wise(*shared, '","user_query":"', query, *_ubi_records(rows, begins), "}", "")
    clicks = pc.binary_join_element_wise(
        *shared,
        '","action_name":"click","event_attributes":{"object":{"object_id":"',
        rows["url"].combine_chunks(),
        '"},"position":{"ordinal":',
        rows["rank"].combine_chunks().cast(pa.string()),
        "}}}",
        "",
    )
    if "clicked" in rows.column_names:
        clicks = pc.if_else(rows["clicked"].combine_chunks(), clicks, pa.scalar(None, clicks.type))
    # Searches and clicks take turns: an even place for the search of a row, the odd one after it for its click.
    both = pa.concat_arrays([searches, clicks])
    number = len(searches)
    order = np.arange(2 * number).reshape(2, number).T.ravel()
    kept = np.stack([begins, pc.is_valid(clicks).to_numpy(zero_copy_only=False)], axis=1).ravel()
    return _lines(pa.chunked_array([both.take(pa.array(order[kept]))]))


def _ubi_records(rows: pa.Table, begins: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[str | pa.Array]:
    """Fields of a search's document for its attributes and for the results shown."""
    pieces: list[str | pa.Array] = ['","query_attributes":{']
    for name in rows.column_names[_BASE:]:
        if name != "clicked":
            pieces += [f'{"," if len(pieces) > 1 else ""}"{name}":"', rows[name].combine_chunks(), '"']
    pieces.append("}")
    if "clicked" not in rows.column_names:
        return pieces
    urls = pc.binary_join_element_wise('"', rows["url"].combine_chunks(), '"', "")
    first = np.append(np.flatnonzero(begins), len(begins)).astype(np.int32)
    lists = pc.binary_join(pa.ListArray.from_arrays(pa.array(first), urls), ",")
    return [*pieces, ',"query_response_hit_ids":[', lists.take(pa.array(np.cumsum(begins) - 1)), "]"]


def _begins(*columns: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """True if a row differs from the one before it in any of the columns."""
    differs = np.ones(len(columns[0]), np.bool_)
    differs[1:] = False
    for column in columns:
        differs[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return differs
