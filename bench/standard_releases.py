"""A release of every method at one budget, from the standard synthetic log: what the tables of the docs are made of."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

import querycloak as qc
from querycloak.audits.release_audit import owners_under_seed
from querycloak.engines import Engine
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release
from querycloak.synthetic.log_writer import PRESETS

STANDARD = PRESETS["standard"]
EPSILON, DELTA, FEW, SEED = 8.0, 1e-6, 5, 1
MIDDLE = datetime(2006, 4, 15, tzinfo=UTC)
"""Where the log is cut in two periods: it covers March to May 2006."""
METHODS: dict[str, Method] = {
    "queries": qc.Queries(epsilon=EPSILON, delta=DELTA),
    "clicks": qc.Clicks(epsilon=EPSILON, delta=DELTA),
    "clicks, epsilon 1": qc.Clicks(epsilon=1.0, delta=DELTA),
    "clicks, laplace 1": qc.Clicks(epsilon=1.0, delta=DELTA, selection="laplace", max_keys_per_user=1),
    "sessions": qc.Sessions(epsilon=EPSILON, delta=DELTA),
    "sessions, epsilon 3": qc.Sessions(epsilon=3.0, delta=DELTA),
    "query-pool": qc.QueryPool(epsilon=EPSILON, delta=DELTA),
    "optimal": qc.Optimal(epsilon=EPSILON, delta=DELTA),
    "semantic": qc.Semantic(epsilon=EPSILON, max_queries=4),
    "affinity, w 2": qc.Affinity(min_users=FEW, min_word_users=2),
    "affinity, w k": qc.Affinity(min_users=FEW, min_word_users=FEW),
    "generalize": qc.Generalize(min_users=FEW),
}
SMALL_BUDGETS = ("clicks, epsilon 1", "clicks, laplace 1", "sessions, epsilon 3")
"""Where what membership may find is limited by less than everything: judged by several releases together."""
UNDER_NAMES = ("semantic", "affinity, w 2", "affinity, w k", "generalize")
"""Those with rows of people, who might be found again in another period."""


@dataclass(frozen=True, eq=False)
class StandardSplit:
    """Both sides of the log, their folder, where the truth is, and TRAIN's rows of either half of its time."""

    folder: Path
    train: SearchLog
    test: SearchLog
    truth: Path
    before: SearchLog
    after: SearchLog


@contextmanager
def standard_split(users: int) -> Iterator[StandardSplit]:
    """The standard log, or one of fewer users, split by user."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        qc.synthesize(place / "log.parquet", users, seed=STANDARD.seed)
        with qc.read(place / "log.parquet") as whole:
            sides = qc.split(whole, place / "split", by="user")
        engine = qc.connect("duckdb")
        train, test = (qc.read(side, engine=engine) for side in (sides.train, sides.test))
        yield StandardSplit(place / "split", train, test, place / "log.parquet.truth", *_periods(sides.train, engine))
        engine.close()


def _periods(train: Path, engine: Engine) -> tuple[SearchLog, SearchLog]:
    choices = Choices(until=MIDDLE), Choices(since=MIDDLE)
    return qc.read(train, choices=choices[0], engine=engine), qc.read(train, choices=choices[1], engine=engine)


@dataclass(frozen=True, eq=False)
class Made:
    """A release, and whose rows are whose, which only its maker knows."""

    name: str
    release: Release
    owners: pa.Table | None


def releases(log: SearchLog, names: Sequence[str] = (), seed: int = SEED) -> Iterator[Made]:
    """A release of each method, or of those named, from a known seed; nothing is published."""
    for name, method in METHODS.items():
        if not names or name in names:
            release = method.release(log, randomness=Randomness(seed))
            yield Made(name, release, owners_under_seed(release, log, seed))
