"""From bytes to blocks of whole records, in bounded memory for any file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from querycloak.logs.reading.files import ByteStream, LogFile
from querycloak.logs.reading.places import line_feeds
from querycloak.text.spans import Spans

BLOCK = 4 << 20
LONGEST_RECORD = 4 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CARRIAGE_RETURN = 13
_MARKS = re.compile(b"^(?:" + _BYTE_ORDER_MARK + b")+", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A piece of a file that one worker reads: the records that begin in [start, stop)."""

    file: int
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class Block:
    """Whole records of one file; the code that parses the block finds them, in parallel to the reading.

    `line` is the first record's number, 0 where nobody counted. `size` is what was read of the stored file
    for it: progress is shown in those bytes. `overlong` stands for one record too long to be held.
    """

    file: int
    data: bytes | memoryview
    line: int = 0
    size: int = 0
    overlong: bool = False

    def records(self) -> Spans:
        """The records, without their line ends."""
        if self.overlong:
            return Spans.empty(1)
        buffer = np.frombuffer(self.data, np.uint8)
        ends = line_feeds(buffer)
        if not len(ends) or ends[-1] != len(buffer) - 1:
            ends = np.append(ends, np.int32(len(buffer)))
        starts = np.empty_like(ends)
        starts[0], starts[1:] = 0, ends[:-1] + 1
        returns = (ends > starts) & (buffer[np.maximum(ends, 1) - 1] == _CARRIAGE_RETURN)
        return Spans(buffer, starts, ends - returns)


def parts_of(files: list[LogFile], size: int | None, *, divisible: bool) -> list[Part]:
    """The parts of a log: whole files, or pieces of about `size` bytes where files can be cut."""
    parts: list[Part] = []
    for number, file in enumerate(files):
        if size is None or not divisible or file.compression is not None:
            parts.append(Part(number))
            continue
        starts = range(0, max(file.size, 1), size)
        parts.extend(Part(number, start, start + size) for start in starts[:-1])
        parts.append(Part(number, starts[-1]))
    return parts


def read_blocks(file: LogFile, part: Part, *, numbered: bool = True) -> Iterator[Block]:
    """The blocks of a part."""
    stream: ByteStream = file.open()
    try:
        if not numbered and part == Part(part.file) and file.compression is None:
            yield from _plain_blocks(stream, part.file)  # as far as its records are short; the rest is left
        if part.start or part.stop is not None:
            stream = _Window(stream, part.start, part.stop)
        line = 1 if numbered and part.start == 0 else 0
        position = stream.tell()
        for data, overlong in _record_buffers(stream):
            before, position = position, stream.tell()
            records = _without_marks(data)
            if records or overlong:  # a mark alone at the end is no record
                yield Block(part.file, records, line, position - before, overlong)
            if line:
                line += 1 if overlong else data.count(b"\n")
    finally:
        stream.close()


def _plain_blocks(stream: ByteStream, file: int) -> Iterator[Block]:
    """The blocks of a whole file that is stored as it is, up to the first piece that is not so simple.

    What begins behind the last line feed of a piece is read again with the next one: cheaper than joining the two.
    """
    position = stream.tell()
    while piece := stream.read(BLOCK):
        cut = piece.rfind(b"\n") + 1
        if not cut or _BYTE_ORDER_MARK[:1] in piece:  # a record that may be too long, or marks
            stream.seek(position)
            return
        if cut < len(piece):
            stream.seek(position + cut)
        position += cut
        yield Block(file, memoryview(piece)[:cut], size=cut)


def _without_marks(data: bytes) -> bytes:
    """Records without byte order marks at their beginning.

    Files that were glued together have marks within; and were only the first record's taken away, how a record is
    read would depend on who comes before.
    """
    if _BYTE_ORDER_MARK[:1] not in data:  # one byte is found far faster than three
        return data
    if data.startswith(_BYTE_ORDER_MARK) or b"\n" + _BYTE_ORDER_MARK in data:
        return _MARKS.sub(b"", data)
    return data


def _record_buffers(stream: ByteStream) -> Iterator[tuple[bytes, bool]]:
    """Buffers that end with a record; (b"", True) stands for one record beyond the largest length."""
    rest, after = b"", b""
    while piece := after or stream.read(BLOCK):
        after = b""
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join((rest, memoryview(piece)[:cut])), False
            rest = piece[cut:]
            continue
        rest += piece
        # A record that is skipped must be too long without its marks and the carriage return that may follow: the
        # same record may be held, and then judged, where what is read at once begins at another place.
        if len(rest) > LONGEST_RECORD + 1 and len(rest := _without_marks(rest)) > LONGEST_RECORD + 1:
            after, rest = _after_line_feed(stream, rest), b""
            yield b"", True
    if rest:
        yield rest, False


def _after_line_feed(stream: ByteStream, data: bytes) -> bytes:
    """Skip to the next line feed, one piece in memory at a time; returns the bytes after it."""
    while data:
        _, line_feed, rest = data.partition(b"\n")
        if line_feed:
            return rest
        data = stream.read(BLOCK)
    return b""


class _Window:
    """The part of a stream whose records begin in [start, stop), the last one whole."""

    def __init__(self, stream: ByteStream, start: int, stop: int | None) -> None:
        self._stream, self._left, self._done = stream, None if stop is None else stop - start, False
        self._ahead = b""
        if start:
            stream.seek(start - 1)
            self._skip_to_record()

    def _skip_to_record(self) -> None:
        """The record that is under way at `start` belongs to the part before."""
        consumed = -1
        while piece := self._stream.read(1 << 16):
            head, line_feed, rest = piece.partition(b"\n")
            consumed += len(head) + len(line_feed)
            if line_feed:
                self._ahead = rest
                break
        if self._left is not None:
            self._left -= consumed
            self._done = self._left <= 0

    def read(self, size: int) -> bytes:
        if self._done:
            return b""
        piece = self._ahead or self._stream.read(size)
        self._ahead = b""
        if self._left is None:
            return piece
        if len(piece) < self._left:
            self._left -= len(piece)
            self._done = not piece
            return piece
        # The last record that begins before `stop` ends at the first line feed from stop - 1 on.
        end = piece.find(b"\n", self._left - 1)
        self._left = 1
        if end < 0:
            return piece
        self._done = True
        return piece[: end + 1]

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, place: int, /) -> object:
        raise OSError(f"a part of a file cannot be read from byte {place} on")

    def close(self) -> None:
        self._stream.close()
