"""Records as UTF-8, whatever they were written in, and which of them cannot be decoded."""

from __future__ import annotations

import codecs

import numpy as np
import pyarrow as pa

from querycloak.errors import ParameterError
from querycloak.words.spans import Mask, Spans


def checked_encoding(name: str) -> str:
    """The codec's own name; it must keep ASCII as it is, so that lines and fields can be found in bytes."""
    problem = f"encoding is {name!r}, which Python does not know; try utf-8, gb18030, latin-1 or cp1252"
    try:
        codec = codecs.lookup(name)
        if codec.name == "utf-8-sig":
            return "utf-8"
        others = [character.encode(codec.name, "ignore") for character in "é中あ가"]
        if "\t\n\r ,".encode(codec.name) == b"\t\n\r ," and all(other >= b"\x80" for other in others if other):
            return codec.name
        problem = f"encoding is {name!r}, in which ASCII bytes do not stand for ASCII alone: save the log as UTF-8"
    except (LookupError, ValueError):
        pass
    raise ParameterError(problem)


def to_utf8(records: Spans, encoding: str) -> tuple[Spans, Mask]:
    """The records in UTF-8; those that cannot be decoded are emptied and marked."""
    good = np.zeros(len(records), np.bool_)
    if not len(records) or not _beyond_ascii(records):
        return records, good
    if encoding == "utf-8":
        undecodable = _invalid_utf8(records)
        return records.blank(undecodable), undecodable
    return _transcode(records, encoding)


def _beyond_ascii(records: Spans) -> bool:
    within = records.data[int(records.starts.min()) : int(records.ends.max())]
    return bool(within.max(initial=0) >= 128)


def _invalid_utf8(records: Spans) -> Mask:
    if _decodes(records):
        return np.zeros(len(records), np.bool_)
    return np.array([_decoded(record, "utf-8") is None for record in records.texts()], np.bool_)


def _decodes(records: Spans) -> bool:
    """Whether the whole buffer decodes: true for nearly every block, and far cheaper than a look at each record."""
    filled = records.where(records.lengths > 0)
    # Records that stand side by side could share a character between them: none may begin inside one.
    if (records.data[filled.starts] & 0xC0 == 0x80).any():
        return False
    inner = filled.ends[filled.ends < len(records.data)]
    if (records.data[inner] & 0xC0 == 0x80).any():
        return False
    return _is_utf8(records.data[int(records.starts.min()) : int(records.ends.max())])


def _is_utf8(data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> bool:
    offsets = np.array([0, len(data)], np.int64)
    whole = pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _transcode(records: Spans, encoding: str) -> tuple[Spans, Mask]:
    joined = b"\n".join(records.texts())
    text = _decoded(joined, encoding)
    texts: list[str | None]
    if text is not None and text.count("\n") == len(records) - 1:
        texts = list(text.split("\n"))
    else:
        texts = [_decoded(record, encoding) for record in records.texts()]
    undecodable = np.array([text is None for text in texts], np.bool_)
    return Spans.of(pa.array(texts, pa.string())), undecodable


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
        text.encode("utf-8")  # some codecs let lone surrogates through
    except UnicodeError:
        return None
    return text
