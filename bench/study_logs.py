"""Logs of a study: a synthetic one or one's own, split by user; a sample of TEST's users by whom use is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import querycloak as qc
from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog

SEED = 1
ATTRIBUTES = ("country", "device")


@dataclass(frozen=True, eq=False)
class Sides:
    """The released log, other people (TEST), and those of them by whom use is measured; the truth, if known.

    Where the whole log is released, all three are the log, and neither use nor harm can be measured.
    """

    train: SearchLog
    test: SearchLog
    judges: SearchLog
    truth: Path | None = None

    @cached_property
    def query_counts(self) -> ir.Table:
        """Number of searches of each query of TRAIN."""
        log = self.train
        return log.engine.stage(log.searches.group_by("query").agg(n=log.searches.count()))

    def sizes(self) -> Iterator[dict[str, Any]]:
        """Numbers of users and of searches of each side, and of distinct queries of TRAIN."""
        logs = {"train": self.train, "test": self.test, "judges": self.judges}
        for name, log in logs.items() if self.test is not self.train else [("train", self.train)]:
            counted = log.searches.agg(users=log.searches.user.nunique(), searches=log.searches.count())
            for figure, number in log.engine.fetch(counted).to_pylist()[0].items():
                yield {"part": "log", "release": name, "figure": figure, "value": number}
        number = self.train.engine.fetch(self.query_counts.count().name("n").as_table())["n"][0].as_py()
        yield {"part": "log", "release": "train", "figure": "distinct queries", "value": number}

    def missing(self) -> Iterator[str]:
        """What the log lacks, and the figures that it costs."""
        if not self.train.attributes:
            yield (
                "The log is read without attributes: dma-2024 is released without country, device and quarter (preset "
                "dma), and the only group of eu-records is everybody."
            )
        if not self.train.holds_views:
            yield "The log lacks results that nobody clicked: the click model does not apply."
        if self.truth is None:
            yield "No truth of a synthetic log is known: secrets and regurgitated do not apply."


def split_of(folder: Path, log: Path | None, users: int, *, views: bool) -> tuple[Path, Path | None]:
    """A folder with both sides of a split, of a log or of a synthetic one, and the truth."""
    source, truth = log, None
    if source is None:
        source, truth = folder / "log.parquet", folder / "log.parquet.truth"
        qc.synthesize(source, users, seed=SEED, views=views, attributes=ATTRIBUTES)
    with qc.read(source, all_columns=True) as whole:
        qc.split(whole, folder / "split", by="user")
    return folder / "split", truth


def judging_part(test: Path, judges: int, folder: Path) -> Path:
    """TEST's rows of at most this many users, drawn with a known seed."""
    rows = pq.read_table(test)
    users = pc.unique(rows["user"]).sort()
    if len(users) <= judges:
        return test
    chosen = users.take(np.random.default_rng(SEED).choice(len(users), judges, replace=False))
    pq.write_table(rows.filter(pc.is_in(rows["user"], chosen)), folder / "judges.parquet")
    return folder / "judges.parquet"


def sides_of(
    split: Path, truth: Path | None, judges: int, folder: Path, attributes: Sequence[str], engine: Engine
) -> Sides:
    """The sides of a split, both on one engine."""
    train, test = (split / f"{side}.parquet" for side in ("train", "test"))
    files = (train, test, judging_part(test, judges, folder))
    logs = [qc.read(file, attributes=list(attributes), engine=engine) for file in files]
    return Sides(logs[0], logs[1], logs[2], truth)


def whole_log(log: Path, attributes: Sequence[str], engine: Engine) -> Sides:
    """A log that is released as a whole."""
    whole = qc.read(log, attributes=list(attributes), engine=engine)
    return Sides(whole, whole, whole)
