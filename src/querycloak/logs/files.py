"""The files of a log: which there are, how they are compressed, and a stream of bytes from each.

A file is named in messages by its place among those given (`LOG`, `LOG 2`, `LOG, file 3 of 12 by name`),
never by its name: a log parted by user has names that are user ids.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from querycloak.errors import InputError

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_FOREIGN_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"\x04\x22\x4d\x18": "compressed with lz4",
    b"7z\xbc\xaf": "a 7z archive",
}
LOG_ENDINGS = (".tsv", ".txt", ".csv", ".log", ".json", ".jsonl", ".ndjson", ".parquet", ".sample", ".dat")
COMPRESSED_ENDINGS = (".gz", ".bz2", ".zst")
TRUTH_ENDING = ".truth"
"""The folder with the truth about a synthetic log: never a log itself."""
_NEVER_LOGS = ("readme", "license", "licence", "copying")


class ByteStream(Protocol):
    """What a file is read through."""

    def read(self, size: int) -> bytes:
        """At most this many bytes; none at the end."""
        ...

    def tell(self) -> int:
        """How many stored bytes have been read."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


@dataclass(frozen=True)
class LogFile:
    """One file of a log."""

    label: str
    location: str
    size: int
    compression: str | None = None

    @property
    def remote(self) -> bool:
        """Whether it is an address (s3://, hdfs://) rather than a path."""
        return "://" in self.location

    def open(self) -> ByteStream:
        """The file's bytes, decompressed."""
        raw = self.open_raw()
        if self.compression is None:
            return raw
        return _Decompressed(self.label, self.compression, raw)

    def open_raw(self) -> ByteStream:
        """The file's bytes as they are stored."""
        if self.remote:
            return _open_remote(self.label, self.location)
        try:
            return open(self.location, "rb", buffering=0)
        except OSError as error:
            reason = _reason(error)
        raise InputError(f"{self.label} cannot be opened: {reason}")

    def head(self, size: int = 1 << 16) -> bytes:
        """The first bytes, decompressed."""
        stream = self.open()
        try:
            pieces: list[bytes] = []
            while size > 0 and (piece := stream.read(size)):
                pieces.append(piece)
                size -= len(piece)
            return b"".join(pieces)
        finally:
            stream.close()


def find_files(logs: Sequence[str | os.PathLike[str]]) -> list[LogFile]:
    """The log files that paths, folders and addresses stand for, in order of name within a folder."""
    if not logs:
        raise InputError("no log was given: name a file, a folder or an address")
    found: list[LogFile] = []
    for number, log in enumerate([os.fspath(log) for log in logs], start=1):
        label = "LOG" if len(logs) == 1 else f"LOG {number}"
        if any(part.lower().endswith(TRUTH_ENDING) for part in Path(log).parts):
            raise InputError(f"{label} is the truth about a synthetic log, not a log; name the log beside it")
        if "://" in log:
            found.append(_identify(LogFile(label, log, _remote_size(label, log))))
        elif os.path.isdir(log):
            found.extend(_files_of_folder(label, Path(log)))
        else:
            found.append(_identify(LogFile(label, log, _local_size(label, log))))
    return found


def _files_of_folder(label: str, folder: Path) -> list[LogFile]:
    closed: list[OSError] = []
    below = [Path(where) / name for where, _, names in os.walk(folder, onerror=closed.append) for name in names]
    if closed:
        raise InputError(f"a folder within {label} cannot be opened: {_reason(closed[0])}")
    paths = sorted(path for path in below if path.is_file() and _is_log(path.relative_to(folder)))
    if not paths:
        endings = " ".join(LOG_ENDINGS)
        raise InputError(f"{label} is a folder without log files: their names end in {endings} (or .gz .bz2 .zst)")
    named = (f"{label}, file {i} of {len(paths)} by name" for i in range(1, len(paths) + 1))
    files = [LogFile(name, str(path), _local_size(name, str(path))) for name, path in zip(named, paths, strict=True)]
    return [_identify(file) for file in files if file.size] or [_identify(files[0])]


def _is_log(path: Path) -> bool:
    if any(part.startswith((".", "_")) or part.lower().endswith(TRUTH_ENDING) for part in path.parts):
        return False
    name = path.name.lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return name.endswith(LOG_ENDINGS) and not any(word in name for word in _NEVER_LOGS)


def _local_size(label: str, path: str) -> int:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        # The one place that repeats a name: there is no such file, so it names nobody's data.
        message = f"{label}: no such file or folder: {path!r}"
    except (OSError, ValueError) as error:
        message = f"{label} cannot be opened: {_reason(error)}"
    else:
        if stat.S_ISREG(status.st_mode):
            return status.st_size
        message = f"{label} is not a file that can be read more than once (a pipe or a device): save it first"
    raise InputError(message)


def _remote_size(label: str, address: str) -> int:
    filesystem, path = _remote(label, address)
    try:
        info = filesystem.get_file_info(path)
    except OSError:
        info = None
    if info is None or not info.is_file:
        raise InputError(f"{label}: nothing can be opened at the address given; it must be one file")
    return int(info.size)


def _identify(file: LogFile) -> LogFile:
    """The file with its compression, told by its first bytes."""
    if file.size == 0:
        raise InputError(f"{file.label} is empty (0 bytes)")
    stream, problem = file.open_raw(), "is empty"
    try:
        magic = stream.read(8)
    except OSError as error:
        magic, problem = b"", f"cannot be read: {_reason(error)}"
    finally:
        stream.close()
    if not magic:
        raise InputError(f"{file.label} {problem}")
    for prefix, what in _FOREIGN_MAGIC.items():
        if magic.startswith(prefix):
            raise InputError(f"{file.label} is {what}: unpack it, or compress it with gzip, bzip2 or zstd")
    if magic[:3] == b"BZh" and magic[4:] in (b"1AY&", b"\x17rE8"):  # three letters alone could be a user's name
        return LogFile(file.label, file.location, file.size, "bz2")
    for prefix, compression in _MAGIC.items():
        if magic.startswith(prefix):
            return LogFile(file.label, file.location, file.size, compression)
    return file


class _Decompressed:
    """A compressed file's content; damage is told without the codec's own words."""

    def __init__(self, label: str, compression: str, raw: ByteStream) -> None:
        self._label, self._compression, self._raw = label, compression, raw
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), compression)

    def read(self, size: int) -> bytes:
        try:
            piece: bytes = self._stream.read(size)
            return piece
        except (OSError, pa.ArrowException):
            pass
        raise InputError(f"{self._label}: its {self._compression} data is damaged or cut short; fetch the file again")

    def tell(self) -> int:
        return self._raw.tell()

    def close(self) -> None:
        self._stream.close()
        self._raw.close()


def _remote(label: str, address: str) -> tuple[pa.fs.FileSystem, str]:
    import pyarrow.fs

    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
    except (OSError, ValueError):
        filesystem = None
    if filesystem is None:
        raise InputError(f"{label}: the address cannot be opened; file, s3, gs and hdfs addresses can, once set up")
    return filesystem, path


def _open_remote(label: str, address: str) -> ByteStream:
    filesystem, path = _remote(label, address)
    try:
        stream: ByteStream = filesystem.open_input_file(path)
        return stream
    except OSError:
        pass
    raise InputError(f"{label}: the address can no longer be opened")


def _reason(error: Exception) -> str:
    """The system's reason without the name of the file."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower() + (
            " (check its permissions)" if error.errno in (errno.EACCES, errno.EPERM) else ""
        )
    return "the name is not one the system accepts"
