"""The folder of a split log: TRAIN and TEST as Parquet in the log's own columns, which any command reads back.

Private: it holds the raw log. Only its owner may enter it, and it is there whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.errors import InputError
from querycloak.logs.choices import Choices
from querycloak.logs.reading.schema import CLICKED, ROWS
from querycloak.logs.searchlog import Log, OnStep, SearchLog, prepare, read
from querycloak.logs.split import TEST, TRAIN, Split, moment_before
from querycloak.releases.folder import Unfinished, check_target, outside_releases

SPLIT = "split.json"
_ROWS_IN_A_GROUP = 1 << 17


@dataclass(frozen=True)
class Side:
    """TRAIN or TEST of one place, by its file's name within the folder."""

    file: str
    rows: int
    users: int


@dataclass(frozen=True)
class WrittenSplit:
    """Files of a split; their numbers are true ones, hence private."""

    folder: Path
    how: Split
    moment: datetime | None
    sides: tuple[Side, ...]

    @property
    def train(self) -> Path:
        """TRAIN, of the first fold if there are several."""
        return self.folder / self.sides[0].file

    @property
    def test(self) -> Path:
        """TEST, of the first fold if there are several."""
        return self.folder / self.sides[1].file

    def to_json(self) -> dict[str, Any]:
        """Content of `split.json`."""
        return {
            "private": True,
            "by": self.how.by,
            "test": self.how.test_share,
            "seed": self.how.seed,
            "folds": self.how.folds,
            "moment": self.moment and self.moment.isoformat(),
            "files": {side.file: {"rows": side.rows, "users": side.users} for side in self.sides},
        }


def check_split_folder(out: str | os.PathLike[str]) -> Path:
    """The folder to write, if nothing is there and it lies in no release folder; call it before anything is read."""
    target = check_target(out)
    outside_releases(target)
    return target


def split(
    log: SearchLog | Log,
    out: str | os.PathLike[str],
    *,
    by: str,
    test: float | None = None,
    seed: int = 1,
    folds: int | None = None,
) -> WrittenSplit:
    """Write TRAIN and TEST of a log into a new private folder; by default a tenth of the users is TEST."""
    how = Split(by=by, test=test, seed=seed, folds=folds)
    target = check_split_folder(out)
    if isinstance(log, SearchLog):
        return write_split(log, target, how)
    with read(log, all_columns=True) as opened:
        return write_split(opened, target, how)


def write_split(log: SearchLog, target: Path, how: Split) -> WrittenSplit:
    """Write both sides, in one pass over the log after one that counts users; by time two more find the moment."""
    moment = None
    if how.by == "time":
        log.stage()  # it is read several times
        moment = moment_before(log, 1 - how.test_share)
    files = [(f"{place}/" if place else "") + f"{side}.parquet" for place in how.places for side in (TRAIN, TEST)]
    users = _users(log, how, moment)
    log.checked()
    if not all(users):
        raise InputError(
            f"{'TRAIN' if not users[0] else 'TEST'} would be empty: the log has too few users or too short a time for "
            "this split; choose another share, seed or number of folds"
        )
    written_rows, schema = _kept_columns(log)
    with Unfinished(target, what="split", private=True) as unfinished:
        with ExitStack() as stack:
            sides = [stack.enter_context(_side(unfinished, name, schema)) for name in files]
            for batch in log.engine.stream(how.dealt(written_rows, moment)):
                part, late = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("part", "late"))
                for side, kept in zip(sides, _masks(part, late, how), strict=True):
                    side.take(batch, pa.array(kept))
        written = [Side(name, side.rows, number) for name, side, number in zip(files, sides, users, strict=True)]
        made = WrittenSplit(target, how, moment, tuple(written))
        with unfinished.file(SPLIT) as file:
            file.write(json.dumps(made.to_json(), indent=2).encode() + b"\n")
        unfinished.finish()
    return made


def opened_side(log: SearchLog, folder: Path, side: str, on_step: OnStep) -> SearchLog:
    """TRAIN or TEST of a written split, on the engine of its log, with the log's choices that its rows do not show."""
    chosen = log.source.choices
    choices = Choices(
        since=chosen.since,
        until=chosen.until,
        keep_url=chosen.keep_url,
        normalise=chosen.normalise,
        attributes=chosen.attributes,
    )
    opened = prepare(folder / f"{side}.parquet", choices=choices).on(log.engine, on_step=on_step)
    opened.stage()
    return opened


def _kept_columns(log: SearchLog) -> tuple[ir.Table, pa.Schema]:
    """The rows to write and their columns: with the attributes, and a row for each result shown if there are any."""
    attributes = [pa.field(name, pa.string()) for name in log.attributes]
    if log.shows_views():
        return log.records, pa.schema([*ROWS, CLICKED, *attributes])
    return log.rows, pa.schema([*ROWS, *attributes])


def _users(log: SearchLog, how: Split, moment: datetime | None) -> list[int]:
    """Number of users of each side: parts share none, so their numbers add up."""
    dealt = how.dealt(log.rows, moment)
    fetched = log.engine.fetch(dealt.group_by(["part", "late"]).agg(users=dealt.user.nunique()))
    counts = fetched.to_pydict()
    part, late, users = (np.array(counts[name]) for name in ("part", "late", "users"))
    return [int(users[kept].sum()) for kept in _masks(part, late, how)] if users.size else [0] * (2 * len(how.places))


def _masks(part: Any, late: Any, how: Split) -> Iterator[Any]:
    """Masks of the rows of TRAIN and TEST at each place."""
    by_time = how.by == "time"
    for place in range(len(how.places)):
        tests = part == how.tests(place)
        yield ~tests & ~late if by_time else ~tests
        yield tests & late if by_time else tests


@contextmanager
def _side(unfinished: Unfinished, name: str, schema: pa.Schema) -> Iterator[_GrowingSide]:
    with (
        unfinished.file(name) as file,
        pq.ParquetWriter(pa.PythonFile(file, mode="w"), schema, compression="zstd") as writer,
    ):
        side = _GrowingSide(writer, schema)
        yield side
        side.write()


class _GrowingSide:
    """A side while it is written, in row groups of a decent size."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = self.rows = 0

    def take(self, batch: pa.RecordBatch, kept: pa.Array) -> None:
        """Add the rows that are kept."""
        columns = [batch.column(field.name).cast(field.type) for field in self._schema]
        chosen = pa.RecordBatch.from_arrays(columns, schema=self._schema).filter(kept)
        self._waiting.append(chosen)
        self.rows += chosen.num_rows
        self._rows_waiting += chosen.num_rows
        if self._rows_waiting >= _ROWS_IN_A_GROUP:
            self.write()

    def write(self) -> None:
        """Write the rows that wait, as one group."""
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._rows_waiting = [], 0
