"""Records as UTF-8 from any encoding, and those that cannot be decoded.

What a record becomes depends on its own bytes alone: never on the records around it, nor on the block it came in.
"""

from __future__ import annotations

import codecs

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.privacy.parameters import of_kind, refusal
from querycloak.text.compiled import kernel, part
from querycloak.text.spans import Bytes, Mask, Spans

UTF8_OR_GB18030 = "utf-8 or gb18030"
"""Chinese text, told apart record by record: see `_foreign`."""
_ASCII = bytes(range(128))


def checked_encoding(name: str) -> str:
    """The codec's own name; it must keep ASCII as it is, so that lines and fields can be found in bytes."""
    rule, way_out = "an encoding that Python knows", "try utf-8, gb18030, latin-1 or cp1252"
    of_kind("encoding", name, str, rule, way_out)
    try:
        codec = codecs.lookup(name)
        if codec.name == "utf-8-sig":
            return "utf-8"
        others = [character.encode(codec.name, "ignore") for character in "é中あ가"]
        if _keeps_ascii(codec.name) and all(other >= b"\x80" for other in others if other):
            return codec.name
        rule, way_out = "one in which ASCII bytes stand for ASCII alone", "save the log as UTF-8"
    except (LookupError, ValueError):
        pass
    raise refusal("encoding", rule, name, way_out)


def _keeps_ascii(encoding: str) -> bool:
    """True if all ASCII bytes stand for themselves, alone and in a row: records of ASCII are not decoded at all."""
    whole = _decoded(_ASCII, encoding) == _ASCII.decode()
    return whole and all(_decoded(bytes([byte]), encoding) == chr(byte) for byte in _ASCII)


def to_utf8(records: Spans, encoding: str) -> tuple[Spans, Mask]:
    """The records in UTF-8; those that cannot be decoded are emptied and marked."""
    good = np.zeros(len(records), np.bool_)
    if not len(records) or not _beyond_ascii(records):
        return records, good
    if encoding != "utf-8":
        return _transcode(records, encoding)
    if _decodes(records):
        return records, good
    undecodable = _widest(records) == 0
    return records.blank(undecodable), undecodable


def _beyond_ascii(records: Spans) -> bool:
    within = records.data[int(records.starts.min()) : int(records.ends.max())]
    return bool(within.max(initial=0) >= 128)


def _decodes(records: Spans) -> bool:
    """True if the whole buffer decodes: true for nearly every block, and far cheaper than a look at each record."""
    filled = records.where(records.lengths > 0)
    # Records that stand side by side could share a character between them: none may begin inside one.
    if (records.data[filled.starts] & 0xC0 == 0x80).any():
        return False
    inner = filled.ends[filled.ends < len(records.data)]
    if (records.data[inner] & 0xC0 == 0x80).any():
        return False
    return _is_utf8(records.data[int(records.starts.min()) : int(records.ends.max())])


def _is_utf8(data: Bytes) -> bool:
    offsets = np.array([0, len(data)], np.int64)
    whole = pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _transcode(records: Spans, encoding: str) -> tuple[Spans, Mask]:
    widest = _widest(records)
    foreign, codec = _foreign(widest, encoding)
    if not foreign.any():
        return records, np.zeros(len(records), np.bool_)
    texts = _decoded_each(records.where(foreign), codec)
    there = np.array([text is not None for text in texts], np.bool_)
    undecodable = foreign.copy()
    undecodable[foreign] = ~there
    if encoding == UTF8_OR_GB18030:
        undecodable &= widest == 0
    decoded = Spans.of(pa.array([text for text in texts if text is not None], pa.string()))
    changed = foreign.copy()
    changed[foreign] = there
    starts, ends = records.starts.copy(), np.where(undecodable, records.starts, records.ends)
    starts[changed], ends[changed] = decoded.starts + len(records.data), decoded.ends + len(records.data)
    return Spans(np.concatenate([records.data, decoded.data]), starts, ends), undecodable


def _foreign(widest: NDArray[np.int8], encoding: str) -> tuple[Mask, str]:
    """Records beyond ASCII, which are decoded, and their encoding.

    UTF-8 or GB18030: a record that is UTF-8 with a character of three bytes or more, as Chinese ones have, is UTF-8.
    Two characters of GB18030 often make UTF-8 of two-byte characters, so such records are GB18030 if they can be.
    """
    if encoding == UTF8_OR_GB18030:
        return (widest == 0) | (widest == 2), "gb18030"
    return widest != 1, encoding


def _decoded_each(records: Spans, encoding: str) -> list[str | None]:
    text = _decoded(b"\n".join(records.texts()), encoding)
    if text is not None and text.count("\n") == len(records) - 1:
        return list(text.split("\n"))
    return [_decoded(record, encoding) for record in records.texts()]


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
        text.encode("utf-8")  # some codecs let lone surrogates through
    except UnicodeError:
        return None
    return text


def _widest(records: Spans) -> NDArray[np.int8]:
    """The bytes of each record's widest character in UTF-8, 1 of an empty one, 0 of one that is no UTF-8."""
    widest = np.ones(len(records), np.int8)
    _measure(records.data, records.starts, records.ends, widest)
    return widest


@kernel
def _measure(data, starts, ends, widest):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        at = starts[row]
        while at < ends[row]:
            if data[at] < 0x80:
                at += 1
                continue
            width = _width(data, at, ends[row])
            if width == 0:
                widest[row] = 0
                break
            widest[row] = max(widest[row], width)
            at += width


@part
def _width(data, at, end):  # type: ignore[no-untyped-def]
    """The bytes of the character beyond ASCII that begins here, 0 if none does."""
    first = data[at]
    width = 2 if 0xC2 <= first <= 0xDF else 3 if 0xE0 <= first <= 0xEF else 4 if 0xF0 <= first <= 0xF4 else 0
    if width == 0 or at + width > end:
        return 0
    # Which second bytes a first one allows keeps out overlong forms, surrogates, and what lies beyond Unicode.
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if data[at + 1] < low or data[at + 1] > high:
        return 0
    for i in range(at + 2, at + width):
        if data[i] & 0xC0 != 0x80:
            return 0
    return width
