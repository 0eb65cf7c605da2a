"""Many short texts as spans of one byte buffer, converted to Arrow columns without Python loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.errors import ResourceError
from querycloak.text import array_forms
from querycloak.text.compiled import copy_bytes, kernel_or

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Spans:
    """Texts `data[starts[i]:ends[i]]`; they may overlap, and stand in any order. A buffer has less than 2 GiB."""

    data: Bytes
    starts: Positions
    ends: Positions

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, array: pa.Array) -> Spans:
        """The texts of an Arrow string or binary column; a null is an empty text."""
        if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
            width: type[np.signedinteger] = np.int64
        elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            width = np.int32
        else:
            return cls.of(array.cast(pa.large_string()))
        _, offsets_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(offsets_buffer, width)[array.offset : array.offset + len(array) + 1]
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
        if offsets.max(initial=0) > np.iinfo(np.int32).max:  # cut short, they would show one text's bytes in another
            raise ResourceError(
                "more than 2 GiB of text came in one piece: is that a search log? If so, write it with shorter fields"
            )
        starts, ends = offsets[:-1].astype(np.int32), offsets[1:].astype(np.int32)
        if array.null_count:
            missing = array.is_null().to_numpy(zero_copy_only=False)
            ends = np.where(missing, starts, ends)
        return cls(data, starts, ends)

    @classmethod
    def empty(cls, count: int) -> Spans:
        """A number of empty texts."""
        nowhere = np.zeros(count, np.int32)
        return cls(np.empty(0, np.uint8), nowhere, nowhere)

    @property
    def lengths(self) -> Positions:
        """Bytes of each text."""
        return self.ends - self.starts

    def where(self, mask: Mask) -> Spans:
        """The texts under a mask."""
        return Spans(self.data, self.starts[mask], self.ends[mask])

    def blank(self, mask: Mask) -> Spans:
        """The texts, those under the mask emptied."""
        return Spans(self.data, self.starts, np.where(mask, self.starts, self.ends)) if mask.any() else self

    def trimmed(self) -> Spans:
        """Without blanks and control characters at both ends."""
        starts, ends = self.starts.copy(), self.ends.copy()
        _trim(self.data, starts, ends)
        return Spans(self.data, starts, ends)

    def strings(self, present: Mask | None = None) -> pa.StringArray:
        """An Arrow string column of its own bytes (which must be UTF-8); null where not present."""
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(self.lengths, out=offsets[1:])
        data = np.empty(offsets[-1], np.uint8)
        _gather(self.data, self.starts, self.ends, data)
        return string_array(offsets, data, present)

    def equal_to(self, text: bytes) -> Mask:
        """True for texts equal to this one."""
        same = np.empty(len(self), np.bool_)
        _compare(self.data, self.starts, self.ends, np.frombuffer(text, np.uint8), same)
        return same

    def noticed(self, table: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bits that the bytes of each text have in a table of all bytes, taken together."""
        bits = np.empty(len(self), np.uint8)
        _notice(self.data, self.starts, self.ends, table, bits)
        return bits

    def texts(self) -> Iterator[bytes]:
        """The texts in order, faster than `bytes_at` for each."""
        data = self.data.tobytes()
        return (data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def bytes_at(self, index: int) -> bytes:
        """One text."""
        return self.data[self.starts[index] : self.ends[index]].tobytes()


def with_others(columns: list[Spans], rows: Mask, others: list[Spans]) -> list[Spans]:
    """Columns over one buffer, with other texts in some rows; all of them then share one buffer again."""
    if not rows.any():
        return columns
    data = np.concatenate([columns[0].data, *(other.data for other in others)])
    changed, base = [], len(columns[0].data)
    for column, other in zip(columns, others, strict=True):
        starts, ends = column.starts.copy(), column.ends.copy()
        starts[rows], ends[rows] = other.starts + np.int32(base), other.ends + np.int32(base)
        changed.append(Spans(data, starts, ends))
        base += len(other.data)
    return changed


def string_array(offsets: NDArray[np.int32], data: Bytes, present: Mask | None = None) -> pa.StringArray:
    """An Arrow string column over finished buffers."""
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data), validity(present))


def number_array(values: NDArray[np.generic], arrow_type: pa.DataType, present: Mask | None = None) -> pa.Array:
    """An Arrow column over a numpy array, null where not present."""
    return pa.Array.from_buffers(arrow_type, len(values), [validity(present), pa.py_buffer(values)])


def validity(present: Mask | None) -> pa.Buffer | None:
    """Arrow's validity bitmap; None if all values are present."""
    if present is None or present.all():
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))


@kernel_or(array_forms.gather)
def _gather(data, starts, ends, out):  # type: ignore[no-untyped-def]
    position = 0
    for row in range(starts.size):
        length = ends[row] - starts[row]
        copy_bytes(out, position, data, starts[row], length)
        position += length


@kernel_or(array_forms.compare)
def _compare(data, starts, ends, text, same):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        start = np.int64(starts[row])
        equal, i = ends[row] - starts[row] == text.size, 0
        while equal and i < text.size:
            equal = data[start + i] == text[i]
            i += 1
        same[row] = equal


@kernel_or(array_forms.notice)
def _notice(data, starts, ends, table, bits):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        seen = np.uint8(0)
        for i in range(starts[row], ends[row]):
            seen |= table[data[i]]
        bits[row] = seen


@kernel_or(array_forms.trim)
def _trim(data, starts, ends):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        first, last = starts[row], ends[row]
        while first < last and (data[first] <= 32 or data[first] == 127):
            first += 1
        while first < last and (data[last - 1] <= 32 or data[last - 1] == 127):
            last -= 1
        starts[row], ends[row] = first, last
