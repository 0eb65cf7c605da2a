"""Tables and figures of papers beside ours, and a plain statement of what agrees, what does not, and why."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import ParameterError

if TYPE_CHECKING:
    from querycloak.reproduction.workbench import Workbench

Cell = str | int | float | None
Verdict = Literal[
    "agrees", "agrees in part", "differs", "cannot tell", "cannot hold", "not comparable", "not reproduced"
]
SIGNIFICANT = 0.01
"""The level of zhang2016's own tests."""
EQUAL_WITHIN = 0.02
"""The largest difference in nDCG@10 that counts as none: ten times the one that zhang2016 prints."""
LEAST_HITS = 50
"""Fewer hits decide nothing: their number alone varies by nearly a third (95 %)."""


@dataclass(frozen=True)
class Grid:
    """Rows of plain values under named columns, and where they come from."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    source: str

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], source: str) -> Grid:
        """The grid of rows that all have the same keys."""
        columns = tuple(rows[0]) if rows else ()
        return cls(columns, tuple(tuple(row[name] for name in columns) for row in rows), source)


@dataclass(frozen=True)
class Series:
    """One line of a chart, or one group of its bars; `printed` if its numbers are the paper's."""

    name: str
    points: tuple[tuple[Cell, float], ...]
    printed: bool = False

    @classmethod
    def over(cls, name: str, xs: Sequence[Cell], ys: Sequence[float | None], *, printed: bool = False) -> Series:
        """The series of those points that have a value."""
        points = tuple((x, float(y)) for x, y in zip(xs, ys, strict=True) if y is not None)
        return cls(name, points, printed)


@dataclass(frozen=True)
class Chart:
    """Drawing: lines over numbers, or bars over names."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    kind: Literal["lines", "bars"] = "lines"
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: printed values beside ours, a verdict, a statement and its reasons."""

    name: str
    title: str
    verdict: Verdict
    statement: str
    why: str = ""
    ours: Grid | None = None
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class Reproduced:
    """One paper, made again."""

    key: str
    citation: str
    method: str
    log: str
    private: bool
    quick: bool
    exhibits: tuple[Exhibit, ...]

    def to_json(self) -> dict[str, Any]:
        """Content of figures.json."""
        return asdict(self)


@dataclass(frozen=True)
class Measured:
    """A mean with its interval, and the number of hits that it rests on."""

    value: float | None
    low: float | None
    high: float | None
    hits: float

    def below(self, other: Measured) -> bool | None:
        """True if it is below the other; None if either has too few hits, or an interval contains the other value."""
        if self.value is None or other.value is None or min(self.hits, other.hits) < LEAST_HITS:
            return None
        if self._contains(other.value) or other._contains(self.value):
            return None
        return self.value < other.value

    def _contains(self, value: float) -> bool:
        return self.low is None or self.high is None or self.low <= value <= self.high


def all_of(findings: Sequence[bool | None]) -> bool | None:
    """True if all hold: False if one does not, None if none is known not to hold and one cannot be told."""
    if False in findings:
        return False
    return None if None in findings else True


def insignificant(difference: Mapping[str, Any]) -> bool | None:
    """True if the paper's own test, two-tailed, finds no difference; None with fewer than 50 answered cases."""
    if difference.get("p_value") is None or difference["answers"] < LEAST_HITS:
        return None
    return bool(difference["p_value"] >= SIGNIFICANT)


def equivalent(difference: Mapping[str, Any]) -> bool | None:
    """Two one-sided tests (TOST): True if the 95 % interval lies within the margin; None if it covers its edge.

    Fewer than 50 answered cases tell nothing.
    """
    if difference.get("low") is None or difference["answers"] < LEAST_HITS:
        return None
    if difference["low"] > -EQUAL_WITHIN and difference["high"] < EQUAL_WITHIN:
        return True
    return False if difference["low"] > EQUAL_WITHIN or difference["high"] < -EQUAL_WITHIN else None


def verdict_of(findings: Sequence[bool | None]) -> Verdict:
    """The verdict on findings of a paper that hold, do not hold, or cannot be told (None)."""
    if False in findings:
        return "agrees in part" if True in findings else "differs"
    return "cannot tell" if None in findings else "agrees"


def order_words(values: Mapping[str, float | None]) -> str:
    """Names from the least to the greatest value, such as "Original < KA"; equal values by =, missing ones left out."""
    known = sorted(((value, name) for name, value in values.items() if value is not None), key=lambda each: each[0])
    words = [known[0][1]] if known else []
    for (before, _), (value, name) in itertools.pairwise(known):
        words += ["=" if value == before else "<", name]
    return " ".join(words)


def rises(values: Sequence[float | None]) -> bool:
    """True if each value is above the one before; a missing value breaks the order."""
    return all(a is not None and b is not None and a < b for a, b in itertools.pairwise(values))


def four(value: float | None) -> float | None:
    """Four decimals; None stays None."""
    return None if value is None else round(value, 4)


def number(value: float | int | None, digits: int = 4) -> str:
    """A number for people; a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}f}" if abs(value) >= 10**-digits or value == 0 else f"{value:.2e}"


ALL = "all"


@dataclass(frozen=True)
class Paper:
    """A paper by its key: its module of exhibits is `KEY_exhibits`, with `CITATION` and a function named after the key.

    few_users, users: synthetic users that stand for AOL's, in a quick and in a full run.
    """

    key: str
    method: str
    few_users: int = 20_000
    users: int = 100_000

    def reproduced(self, bench: Workbench) -> Reproduced:
        """All its tables and figures."""
        module = import_module(f"querycloak.reproduction.{self.key}_exhibits")
        exhibits = tuple(getattr(module, self.key)(bench))
        return Reproduced(
            self.key, module.CITATION, self.method, bench.words, not bench.synthetic, bench.quick, exhibits
        )


PAPERS = {
    each.key: each
    for each in (
        Paper("zhang2017", "sessions"),
        Paper("zhang2016", "query-pool"),
        Paper("hong2012", "optimal", few_users=5_000),
        Paper("sanchez2018", "semantic"),
        Paper("carpineto2015", "affinity"),
    )
}


def papers_named(name: str) -> list[Paper]:
    """One paper, or all of them by the name `all`."""
    if name == ALL:
        return list(PAPERS.values())
    if name not in PAPERS:
        raise ParameterError(f"there is no paper {name!r}; choose one of {', '.join(PAPERS)}, or {ALL}")
    return [PAPERS[name]]
