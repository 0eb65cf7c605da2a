"""A log in two sides: TRAIN, of which releases are made, and TEST, by which they are judged; no user is in both.

Users are dealt out by a digest of a seed and their name: the same on every engine and machine, whatever the order of
the rows, and without a list of users. By time, TRAIN has its users' rows before a moment and TEST the others' rows
from then on; what is in neither is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import ibis
import ibis.expr.types as ir

from querycloak.errors import InputError, ParameterError
from querycloak.logs.reading.schema import microseconds_of
from querycloak.logs.searchlog import SearchLog
from querycloak.privacy.parameters import one_of, share, whole
from querycloak.sentence import Action

BY = ("user", "time")
DEFAULT_TEST = 0.1
MOST_FOLDS = 100
TRAIN, TEST = "train", "test"
_DIGITS = 16  # hexadecimal digits of a digest that decide: 64 bits
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


@dataclass(frozen=True, kw_only=True)
class Split:
    """Split of a log; test: the share of users in TEST and, by time, of rows from the moment on (None: 0.1)."""

    by: str
    test: float | None = None
    seed: int = 1
    folds: int | None = None

    def __post_init__(self) -> None:
        one_of("by", self.by, BY)
        if self.folds is not None:
            way_out = "give the number of parts that take turns as TEST, such as 5"
            whole("folds", self.folds, way_out, least=2, most=MOST_FOLDS)
            if self.test is not None:
                raise ParameterError.of("{test} and {folds} must not both be given: a fold has its own share of users")
        share("test", self.test_share, "give the share of users to test with, such as 0.1")
        whole("seed", self.seed, "give any whole number; another one deals out users differently", least=0)

    @property
    def test_share(self) -> float:
        """The share of users in TEST."""
        if self.folds is not None:
            return 1 / self.folds
        return DEFAULT_TEST if self.test is None else self.test

    @property
    def places(self) -> list[str]:
        """The folders that hold a TRAIN and a TEST each; one without a name if there are no folds."""
        return [""] if self.folds is None else [f"fold-{number}" for number in range(1, self.folds + 1)]

    def tests(self, place: int) -> int:
        """The part of users that is TEST in a place; all other parts are TRAIN."""
        return 1 if self.folds is None else place

    def dealt(self, rows: ir.Table, moment: datetime | None) -> ir.Table:
        """The rows, with the part of their user and whether they are from the moment on."""
        # The share is part of the key: a side can be split again, by another share or seed.
        digest = (ibis.literal(f"{self.seed}/{self.test_share}:") + rows.user).hexdigest("sha256")
        bounds = [1 - self.test_share] if self.folds is None else [n / self.folds for n in range(1, self.folds)]
        part = sum(((digest >= _threshold(bound)).cast("int32") for bound in bounds), start=ibis.literal(0, "int32"))
        late = rows.time >= ibis.literal(moment) if moment is not None else ibis.literal(False)
        return rows.mutate(part=part, late=late)


def _threshold(share: float) -> str:
    """The digest below which this share of all digests lie; as texts they compare like numbers."""
    return f"{int(share * 16**_DIGITS):0{_DIGITS}x}"


def moment_before(log: SearchLog, share: float) -> datetime:
    """The first whole second before which at least this share of the rows lies: exact, and the same on all engines.

    Two small results: how many rows each day has, then each second of the one day that matters.
    """
    at = microseconds_of(log.rows.time)
    days = _counted(log, at // _DAY, None)
    wanted = share * sum(days.values())
    day, before = _passed(days, wanted, 0)
    seconds = _counted(log, at // _SECOND, (at // _DAY) == day)
    second, _ = _passed(seconds, wanted, before)
    return datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None) + timedelta(seconds=second + 1)


def _counted(log: SearchLog, unit: ir.IntegerValue, where: ir.BooleanValue | None) -> dict[int, int]:
    rows = log.rows.select(unit=unit) if where is None else log.rows.filter(where).select(unit=unit)
    fetched = log.engine.fetch(rows.group_by("unit").agg(rows=rows.count()))
    return dict(sorted(zip(fetched["unit"].to_pylist(), fetched["rows"].to_pylist(), strict=True)))


def _passed(counts: dict[int, int], wanted: float, before: int) -> tuple[int, int]:
    """The first unit with which the wanted number of rows is reached, and the rows before it."""
    if not counts:
        look = Action("querycloak.profile(log)", ("querycloak", "inspect", "LOG"))
        raise InputError.of("the log has no rows to split; look at it with {look}", look=look)
    for unit, rows in counts.items():
        if before + rows >= wanted:
            return int(unit), before
        before += rows
    return int(unit), before
