"""Writer of a synthetic log and the truth about it: block after block, whole or not at all.

Logs by name (`PRESETS`) are fixed and not tuned later, so that figures measured on them can be compared.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.errors import ResourceError
from querycloak.files.locked_folder import UNFINISHED, make_locked, remove_locked, remove_stale
from querycloak.files.private_file import put_new, sync_folder
from querycloak.logs.log_layouts import Encoding
from querycloak.logs.reading.files import TRUTH_ENDING
from querycloak.privacy.parameters import natural, of_kind, path_of, refuse, texts_of
from querycloak.synthetic.block import PEOPLE, PeopleBlock, make_block
from querycloak.synthetic.made_up_records import WantedRecords
from querycloak.synthetic.world import world


class Preset(NamedTuple):
    """Number of users, seed, and visits of each user; None: as in a web log."""

    users: int
    seed: int
    visits: int | None = None
    records: WantedRecords = WantedRecords()


PRESETS = {"standard": Preset(100_000, 2006), "shop": Preset(40_000, 2006, visits=1)}
"""standard: people who search for three months. shop: people who come once, as in the log of a small shop."""


TRUTH_TABLES = ("sensitive", "interests", "sessions")
MOST_USERS = 100_000_000
# Blocks beyond those being written; each holds some tens of megabytes.
_AHEAD = 2

OnUsers = Callable[[int], None]


@dataclass(frozen=True)
class Written:
    """Paths of the log and its truth, with the numbers of users and rows."""

    log: Path
    truth: Path | None
    users: int
    rows: int


def synthesize(
    out: str | os.PathLike[str],
    users: int,
    *,
    seed: int = 1,
    visits: int | None = None,
    views: bool = False,
    attributes: Sequence[str] = (),
    truth: bool = True,
    workers: int | None = None,
    on_users: OnUsers | None = None,
) -> Written:
    """Write a log of this many users; the ending of its name says in which format.

    The same users and seed give the same bytes, however many workers there are.
    visits: how often each user comes at most; as in a web log, if not given.
    views: with all results that were shown. attributes: of country, device, language and category.
    """
    target = path_of("out", out, "name the file to write; its ending says the format")
    of_kind("views", views, bool, "True or False", "True writes all results that were shown")
    named = texts_of("attributes", attributes, "name some of country, device, language and category")
    encoding, records = Encoding.of(target), WantedRecords(views, named)
    if records and encoding.format == "aol":
        refuse("out", "a .parquet or .jsonl file with views or attributes", str(target), "AOL's columns have no room")
    _check_numbers(users, seed, workers)
    if visits is not None:
        natural("visits", visits, "say how often each user comes at most")
    folder = Path(f"{target}{TRUTH_ENDING}") if truth else None
    parent = _check_places(target, folder)
    with _disk_errors(parent):
        remove_stale(parent, UNFINISHED)
        growing, lock = make_locked(parent, UNFINISHED)
    try:
        with _disk_errors(parent):
            crowd = Preset(users, seed, visits, records)
            rows = _write_blocks(growing, encoding, crowd, workers, on_users, truth=truth)
            # The log comes last: where it is, all is there.
            if folder is not None:
                sync_folder(growing / "truth")
                os.rename(growing / "truth", folder)
            try:
                put_new(growing / "log", target)
            except OSError:
                if folder is not None:
                    os.rename(folder, growing / "truth")
                raise
            sync_folder(parent)
    finally:
        remove_locked(growing, lock)
    return Written(target, folder, users, rows)


def check_users(users: object) -> None:
    """Refuse a number of users that no synthetic log can have."""
    if not isinstance(users, int) or isinstance(users, bool) or not 1 <= users <= MOST_USERS:
        refuse("users", f"a whole number from 1 to {MOST_USERS:,}", users, "say how many people search")


def _check_numbers(users: object, seed: object, workers: object) -> None:
    check_users(users)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        refuse("seed", "a whole number, 0 or above", seed, "each seed makes other people")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        refuse("workers", "a whole number above 0", workers, "leave it out to use all cores")


def _check_places(target: Path, truth: Path | None) -> Path:
    parent = target.absolute().parent
    if not parent.is_dir():
        refuse("out", "in a folder that exists", str(target), "make the folder first, or name another")
    for path in filter(None, (target, truth)):
        if os.path.lexists(path):
            refuse("out", "a name that is not taken yet", str(path), "name another, or remove it first")
    return parent


@contextmanager
def _disk_errors(parent: Path) -> Iterator[None]:
    """Say what the disk lacks; whatever else an error says stays inside."""
    try:
        yield
        return
    except OSError as error:
        number = error.errno
    reason = {
        errno.ENOSPC: "no space is left there; free some, or name another place",
        errno.EDQUOT: "your quota there is used up; free some, or name another place",
        errno.EACCES: "you may not write there; name another place",
        errno.EROFS: "it is read-only; name another place",
    }.get(number or 0, os.strerror(number) if number else "the disk does not answer")
    raise ResourceError(f"the log cannot be written into {str(parent)!r}: {reason}")


def _write_blocks(
    growing: Path,
    encoding: Encoding,
    crowd: Preset,
    workers: int | None,
    on_users: OnUsers | None,
    *,
    truth: bool,
) -> int:
    rows = 0
    with ExitStack() as stack:
        log = stack.enter_context(_LogFile(growing / "log", encoding))
        tables = stack.enter_context(_TruthFiles(growing / "truth")) if truth else None
        for block, encoded in _in_order(encoding, crowd, workers or os.cpu_count() or 1):
            log.write(encoded)
            if tables is not None:
                tables.write(block)
            rows += block.rows.num_rows
            if on_users is not None:
                on_users(block.people)
    return rows


def _in_order(encoding: Encoding, crowd: Preset, workers: int) -> Iterator[tuple[PeopleBlock, bytes | pa.Table]]:
    """The blocks in order, some of them made at the same time; never more in memory than a few."""
    everything = world()

    def make(number: int) -> tuple[PeopleBlock, bytes | pa.Table]:
        people = min(PEOPLE, crowd.users - number * PEOPLE)
        block = make_block(everything, crowd.seed, number, people, crowd.visits, crowd.records)
        return block, encoding.encoded(block.rows)

    pending: deque[Future[tuple[PeopleBlock, bytes | pa.Table]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for number in range(-(-crowd.users // PEOPLE)):
                pending.append(pool.submit(make, number))
                if len(pending) > workers + _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


class _LogFile:
    """The log's file, growing."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self._path, self._encoding = path, encoding
        self._parquet: pq.ParquetWriter | None = None

    def __enter__(self) -> _LogFile:
        self._file = self._path.open("xb", buffering=1 << 20)
        self._file.write(self._encoding.header)
        return self

    def write(self, encoded: bytes | pa.Table) -> None:
        if isinstance(encoded, bytes):
            self._file.write(encoded)
            return
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(self._file, encoded.schema, compression="zstd")
        self._parquet.write_table(encoded)

    def __exit__(self, failure: Any, *_: Any) -> None:
        try:
            if failure is None:
                if self._parquet is not None:
                    self._parquet.close()
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()


class _TruthFiles:
    """The three tables of truth, growing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> _TruthFiles:
        self._folder.mkdir()
        return self

    def write(self, block: PeopleBlock) -> None:
        for name in TRUTH_TABLES:
            table: pa.Table = getattr(block, name)
            if name not in self._writers:
                path = self._folder / f"{name}.parquet"
                self._writers[name] = pq.ParquetWriter(path, table.schema, compression="zstd")
            self._writers[name].write_table(table)

    def __exit__(self, *_: Any) -> None:
        for name, writer in self._writers.items():
            writer.close()
            with (self._folder / f"{name}.parquet").open("rb") as file:
                os.fsync(file.fileno())
