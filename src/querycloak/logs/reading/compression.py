"""Compression of a file: named by its owner, or recognised by its name and its first bytes, which should agree.

The first bytes of a log that is not compressed are somebody's row, and `BZh91AY&` is a possible user id. So where a
format or a compression is named, they are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from querycloak.errors import InputError
from querycloak.privacy.parameters import one_of

if TYPE_CHECKING:
    from querycloak.logs.reading.files import ByteStream

NONE = "none"
ENDINGS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
COMPRESSIONS = (NONE, *ENDINGS.values())
MAGIC_BYTES = 10
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # three letters and a digit alone could be a user's name
_FOREIGN_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"\x04\x22\x4d\x18": "compressed with lz4",
    b"7z\xbc\xaf": "a 7z archive",
}
_WORKBOOKS = (".xlsx", ".xls", ".ods")
_FOREIGN_ENDINGS = {".zip": "a zip archive", ".xz": "compressed with xz", ".lz4": "compressed with lz4", ".7z": "a 7z archive"}  # noqa: E501  # fmt: skip


class Compression(NamedTuple):
    """Compression of a file (None for none), and True if its name and its first bytes disagree."""

    name: str | None
    doubtful: bool = False


def checked_compression(name: str | None) -> str | None:
    """The name, if it is one that can be read."""
    if name is not None:
        one_of("compression", name, COMPRESSIONS, "leave it out if the files' names end in .gz, .bz2 or .zst")
    return name


def by_name(label: str, location: str) -> Compression:
    """Compression by the file's name; reads no byte of it."""
    lower = location.lower()
    _refuse_workbook(label, lower)
    for ending, what in _FOREIGN_ENDINGS.items():
        if lower.endswith(ending):
            raise InputError(_foreign(label, what))
    return Compression(_ending_of(lower))


def by_first_bytes(label: str, location: str, magic: bytes) -> Compression:
    """Compression by the first bytes; doubtful unless the file's name agrees."""
    _refuse_workbook(label, location.lower())
    for prefix, what in _FOREIGN_MAGIC.items():
        if magic.startswith(prefix):
            raise InputError(_foreign(label, what))
    name = next((name for prefix, name in _MAGIC.items() if magic.startswith(prefix)), None)
    if magic[:3] == b"BZh" and magic[3:4].isdigit() and magic[4:] in _BZIP2_BLOCKS:
        name = "bz2"
    return Compression(name, doubtful=name != _ending_of(location.lower()))


def _ending_of(location: str) -> str | None:
    return next((name for ending, name in ENDINGS.items() if location.endswith(ending)), None)


def _refuse_workbook(label: str, location: str) -> None:
    if location.endswith(_WORKBOOKS):
        raise InputError(
            f"{label} is a workbook of a spreadsheet program: open it there, save it as CSV (UTF-8) with one header "
            "line, and read that file"
        )


def _foreign(label: str, what: str) -> str:
    return f"{label} is {what}: unpack it, or compress it with gzip, bzip2 or zstd"


class Decompressed:
    """Content of a compressed file; errors on damage do not quote the codec."""

    def __init__(self, label: str, compression: str, raw: ByteStream) -> None:
        self._label, self._compression, self._raw = label, compression, raw
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), compression)

    def read(self, size: int) -> bytes:
        """At most this number of bytes of the content."""
        try:
            piece: bytes = self._stream.read(size)
            return piece
        except (OSError, pa.ArrowException) as error:
            too_long = "too much memory" in str(error)
        problem = "data is damaged or cut short; fetch the file again"
        if too_long:
            problem = "data has a window of more than 128 MB, of the long mode: compress it again without that mode"
        raise InputError(f"{self._label}: its {self._compression} {problem}")

    def tell(self) -> int:
        """Number of stored bytes read."""
        return self._raw.tell()

    def seek(self, place: int, /) -> object:
        """Compressed content has no places to go to."""
        raise OSError(f"a compressed file cannot be read from byte {place} on")

    def close(self) -> None:
        """Let go of the file."""
        self._stream.close()
        self._raw.close()
