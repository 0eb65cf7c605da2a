"""The files of a log: which there are, how they are compressed, and a stream of bytes from each.

A file is named in messages by its place among those given (`LOG`, `LOG 2`, `LOG, file 3 of 12 by name`),
never by its name: a log parted by user has names that are user ids.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from querycloak.errors import InputError
from querycloak.interruption import interruptibly
from querycloak.logs.reading import compression
from querycloak.logs.reading.compression import Decompressed, checked_compression
from querycloak.logs.reading.spooled import STANDARD_INPUT, spooled
from querycloak.sentence import Action, Sentence

LOG_ENDINGS = (".tsv", ".txt", ".csv", ".log", ".json", ".jsonl", ".ndjson", ".parquet", ".sample", ".dat")
TRUTH_ENDING = ".truth"
"""The folder with the truth about a synthetic log: never a log itself."""
MANY_FILES = 10_000
"""Number of files from which on progress is shown, because opening them takes seconds."""
OnStep = Callable[[str, float], None]
_PATIENCE = 60.0
"""Seconds for the answer of a server."""
Result = TypeVar("Result")
_NEVER_LOGS = ("readme", "license", "licence", "copying")


class ByteStream(Protocol):
    """Interface of a file's bytes."""

    def read(self, size: int) -> bytes:
        """At most this many bytes; none at the end."""
        ...

    def tell(self) -> int:
        """Number of stored bytes read."""
        ...

    def seek(self, place: int, /) -> object:
        """Move to a position; compressed files cannot."""
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
    stamp: tuple[int, ...] = ()
    """Time of the last change (0 if a server does not state it) and, on a disk, device and inode."""
    doubtful: bool = False
    """True if its name and its first bytes disagree about its compression."""

    @property
    def name(self) -> str:
        """Its path or address in lower case, without the ending of a compression."""
        name = self.location.lower()
        for ending in compression.ENDINGS:
            name = name.removesuffix(ending)
        return name

    @property
    def remote(self) -> bool:
        """True if it is an address (s3://, hdfs://) rather than a path."""
        return "://" in self.location

    def has_changed(self) -> bool:
        """True if the file changed since it was found: another size or time, or another file of the same name."""
        now = _remote_state(self.label, self.location) if self.remote else _local_state(self.label, self.location)
        return now != (self.size, self.stamp)

    def open(self) -> ByteStream:
        """The file's bytes, decompressed."""
        raw = _Answering(self, self.open_raw())
        if self.compression is None:
            return raw
        return Decompressed(self.label, self.compression, raw)

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

    def tail(self, size: int) -> bytes:
        """The last bytes as they are stored."""
        stream = self.open_raw()
        try:
            stream.seek(max(self.size - size, 0))
            return stream.read(size)
        finally:
            stream.close()


class _Answering:
    """Bytes of a file; errors of the disk or server amid the file are not quoted."""

    def __init__(self, file: LogFile, raw: ByteStream) -> None:
        self._file, self._raw, self.closed = file, raw, False  # Arrow asks whether it is closed

    def read(self, size: int) -> bytes:
        """At most this many bytes; an InputError if they cannot be read."""
        try:
            if self._file.remote:
                return _answered(self._file.label, lambda: self._raw.read(size))
            return self._raw.read(size)
        except OSError as error:
            reason = "its server no longer answers" if self._file.remote else _reason(error)
        raise InputError(f"{self._file.label} can no longer be read: {reason}")

    def tell(self) -> int:
        """Number of bytes read."""
        return self._raw.tell()

    def seek(self, place: int, /) -> object:
        """Go to a place."""
        return self._raw.seek(place)

    def close(self) -> None:
        """Let go of the file."""
        self.closed = True
        self._raw.close()


@dataclass(frozen=True)
class FileOptions:
    """Owner's statements on the files of a log."""

    compression: str | None = None
    follow_links: bool = False
    show_names: bool = False
    """Messages name files by their names, which may be user ids, instead of their places."""
    format_named: bool = False
    """Whether the owner named the format; then a file's name alone decides how it is compressed."""

    def __post_init__(self) -> None:
        checked_compression(self.compression)


@dataclass(frozen=True)
class LogFiles:
    """The files of a log, and the numbers of links and of other files in its folders that were passed over."""

    files: list[LogFile]
    links: int = 0
    skipped: int = 0


def tell_of_many(on_step: OnStep, doing: str, number: int, files: int) -> None:
    """Call `on_step` at every thousandth file, if there are many."""
    if files >= MANY_FILES and number % 1_000 == 0:
        on_step(f"{doing} {files:,} files", number / files)


def find_files(
    logs: Sequence[str | os.PathLike[str]],
    options: FileOptions = FileOptions(),
    on_step: OnStep = lambda _what, _share: None,
) -> LogFiles:
    """The log files that paths, folders and addresses stand for, in order of name within a folder.

    on_step: called with the progress in folders with many files.
    """
    if not logs:
        raise InputError("no log was given: name a file, a folder or an address")
    given = [os.fspath(log) for log in logs]
    if given.count(STANDARD_INPUT) > 1:
        raise InputError("standard input was given twice: it can be read once")
    files: list[LogFile] = []
    links = skipped = 0
    for number, log in enumerate(given, start=1):
        label = "LOG" if len(given) == 1 else f"LOG {number}"
        if any(part.lower().endswith(TRUTH_ENDING) for part in Path(log).parts):
            raise InputError(f"{label} is the truth about a synthetic log, not a log; name the log beside it")
        if options.show_names and log != STANDARD_INPUT:
            label = f"{label} ({log})"
        if log == STANDARD_INPUT:
            files.append(_identify(local_file(label, spooled()), options))
        elif "://" in log:
            files.append(_identify(_remote_file(label, log), options))
        elif os.path.isdir(log):
            folder = _files_of_folder(label, Path(log), options, on_step)
            files.extend(folder.files)
            links, skipped = links + folder.links, skipped + folder.skipped
        else:
            files.append(_identify(local_file(label, log), options))
    return LogFiles(files, links, skipped)


def _files_of_folder(label: str, folder: Path, options: FileOptions, on_step: OnStep) -> LogFiles:
    closed: list[OSError] = []
    paths, links, skipped = [], 0, 0
    for path in _walk(folder, closed, options):
        if not options.follow_links and path.is_symlink():
            links += path.is_dir() or _is_log(path.relative_to(folder))
        elif path.is_file():
            if _is_log(path.relative_to(folder)):
                paths.append(path)
            else:
                skipped += 1
    if closed:
        raise InputError(f"a folder within {label} cannot be opened: {_reason(closed[0])}")
    if not paths:
        raise InputError(_no_logs(label, links, skipped))
    files = []
    for number, path in enumerate(sorted(paths), start=1):
        shown = f" ({path.relative_to(folder)})" if options.show_names else ""
        files.append(local_file(f"{label}, file {number} of {len(paths)} by name{shown}", str(path)))
    filled = [file for file in files if file.size] or files[:1]
    identified = []
    for number, file in enumerate(filled):
        tell_of_many(on_step, "opening", number, len(filled))
        identified.append(_identify(file, options))
    return LogFiles(identified, links, skipped + len(files) - len(filled))


def _walk(folder: Path, closed: list[OSError], options: FileOptions) -> Iterator[Path]:
    """Everything below a folder that is no folder, and links to folders unless they are followed."""
    seen: set[tuple[int, int]] = set()
    for where, folders, names in os.walk(folder, onerror=closed.append, followlinks=options.follow_links):
        status = os.stat(where)
        if (status.st_dev, status.st_ino) in seen:  # links can go round in circles
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        links = [] if options.follow_links else [name for name in folders if (Path(where) / name).is_symlink()]
        yield from (Path(where) / name for name in (*names, *links))


def _no_logs(label: str, links: int, skipped: int) -> Sentence:
    if links:
        return Sentence("{label} is a folder of links: {follow_links:True} reads what they lead to", label=label)
    return Sentence(
        "{label} is a folder without log files: their names end in {endings} (or .gz .bz2 .zst); of the {skipped:,} "
        "files in it, name one by one those that are logs",
        label=label,
        skipped=skipped,
        endings=" ".join(LOG_ENDINGS),
    )


def _is_log(path: Path) -> bool:
    if any(part.startswith((".", "_")) or part.lower().endswith(TRUTH_ENDING) for part in path.parts):
        return False
    name = path.name.lower()
    for ending in compression.ENDINGS:
        name = name.removesuffix(ending)
    return name.endswith(LOG_ENDINGS) and not any(word in name for word in _NEVER_LOGS)


_TABLES = Action("; a table of pandas, Polars, Arrow or DuckDB is given as it is, not by a name", ())
"""Only for callers in Python: a command takes no tables."""


def local_file(label: str, path: str) -> LogFile:
    """The file at a path, as it is stored."""
    size, stamp = _local_state(label, path)
    return LogFile(label, path, size, stamp=stamp)


def _remote_file(label: str, address: str) -> LogFile:
    size, stamp = _remote_state(label, address)
    return LogFile(label, address, size, stamp=stamp)


def _local_state(label: str, path: str) -> tuple[int, tuple[int, ...]]:
    message: str | Sentence
    try:
        status = os.stat(path)
    except FileNotFoundError:
        # The one place that repeats a name: there is no such file, so it names nobody's data.
        message = Sentence("{label}: no such file or folder: {path!r}{tables}", label=label, path=path, tables=_TABLES)
    except (OSError, ValueError) as error:
        message = f"{label} cannot be opened: {_reason(error)}"
    else:
        if stat.S_ISREG(status.st_mode):
            return status.st_size, (status.st_mtime_ns, status.st_dev, status.st_ino)
        message = f"{label} is not a file that can be read more than once (a pipe or a device): save it first"
    raise InputError(message)


def _remote_state(label: str, address: str) -> tuple[int, tuple[int, ...]]:
    filesystem, path = _remote(label, address)
    try:
        info = _answered(label, lambda: filesystem.get_file_info(path))
    except OSError:
        info = None
    if info is None or not info.is_file:
        raise InputError(f"{label}: nothing can be opened at the address given; it must be one file")
    return int(info.size), (int(info.mtime_ns or 0),)


def _identify(file: LogFile, options: FileOptions) -> LogFile:
    """The file with its compression."""
    if file.size == 0:
        raise InputError(f"{file.label} is empty (0 bytes)")
    magic = _first_bytes(file)  # also tells whether it can be read at all
    if options.compression is not None:
        return replace(file, compression=None if options.compression == compression.NONE else options.compression)
    if options.format_named:
        guess = compression.by_name(file.label, file.location)
    else:
        guess = compression.by_first_bytes(file.label, file.location, magic)
    return replace(file, compression=guess.name, doubtful=guess.doubtful)


def _first_bytes(file: LogFile) -> bytes:
    stream, problem = file.open_raw(), "is empty"
    try:
        magic = stream.read(compression.MAGIC_BYTES)
    except OSError as error:
        magic, problem = b"", f"cannot be read: {_reason(error)}"
    finally:
        stream.close()
    if not magic:
        raise InputError(f"{file.label} {problem}")
    return magic


def _remote(label: str, address: str) -> tuple[pa.fs.FileSystem, str]:
    import pyarrow.fs

    try:
        located = address.replace("s3a://", "s3://", 1)
        filesystem, path = _answered(label, lambda: pyarrow.fs.FileSystem.from_uri(located))
    except (OSError, ValueError):
        filesystem = None
    if filesystem is None:
        raise InputError(f"{label}: the address cannot be opened; file, s3, gs and hdfs addresses can, once set up")
    return filesystem, path


def _answered(label: str, ask: Callable[[], Result]) -> Result:
    """The answer of a server; libraries would ask again for many minutes, and are deaf to signals meanwhile."""
    try:
        return interruptibly(ask, _PATIENCE)
    except TimeoutError:
        pass
    raise InputError(
        f"{label}: nobody answers at the address given, for {_PATIENCE:g} seconds: check it, the network and what was "
        "set up for it"
    )


def _open_remote(label: str, address: str) -> ByteStream:
    filesystem, path = _remote(label, address)
    try:
        stream: ByteStream = _answered(label, lambda: filesystem.open_input_file(path))
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
