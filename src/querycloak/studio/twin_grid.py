"""Rows that come out of synthetic twins at a grid of sizes and budgets: measured beforehand, interpolated in between.

`scripts/make_twin_grid.py` writes `twin_grid.json` anew. No real log is read, so a choice by these figures
tells nothing about the people in a log.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from querycloak.comparison.advice import MIN_USERS, synthetic_twin, usual_bound, usual_delta
from querycloak.errors import ParameterError
from querycloak.files.documents import parsed_json
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.registry import method_class
from querycloak.privacy.sampling.randomness import Randomness

GRID = Path(__file__).parent / "twin_grid.json"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
USERS = (1_000, 5_000, 20_000, 100_000)
SEARCHES = (1, 3, 10)
_SEED = 1


@dataclass(frozen=True)
class Need:
    """Something that people want of a log, and the method that serves it.

    keys_per_search: keys that one search of a user gives, about; the bound grows with it. k_anonymous: keys for which
    k-anonymity has such a table, None if it has none. by: counts go by attributes of the log. measured: twins were
    counted; False if rows say nothing about use, or if twins lack the columns. bounded: the method has such a bound.
    """

    name: str
    title: str
    method: str
    rows: str
    keys_per_search: int = 1
    k_anonymous: Literal["queries", "clicks"] | None = None
    by: bool = False
    measured: bool = True
    bounded: bool = True

    def bound(self, searches_per_user: float) -> int:
        """Keys per user that count if the owner names no other number."""
        return usual_bound(searches_per_user * self.keys_per_search)


NEEDS = (
    Need("completion", "Complete queries", "queries", "queries", k_anonymous="queries"),
    Need("ranking", "Rank results", "clicks", "pairs of query and result", k_anonymous="clicks"),
    Need("suggestion", "Suggest the next query", "sessions", "sequences and clicks"),
    Need("vocabulary", "Know words and spellings", "phrases", "words and phrases", keys_per_search=4),
    Need("counts", "Count by country, week ...", "queries", "queries by columns", by=True, measured=False),
    Need("look", "Have a log to look at", "synthetic", "a made-up log", measured=False, bounded=False),
)


def measured_rows(users: int, searches_per_user: int) -> dict[str, Any]:
    """Rows that come out of one twin: for each need at each epsilon, and under k-anonymity where it applies."""
    with synthetic_twin(users, searches_per_user) as twin:
        return {need.name: _rows_of(need, twin, users, searches_per_user) for need in NEEDS if need.measured}


def _rows_of(need: Need, twin: SearchLog, users: int, searches_per_user: int) -> dict[str, Any]:
    given = {"delta": usual_delta(users), "max_keys_per_user": need.bound(searches_per_user)}
    kept = None
    if need.k_anonymous is not None:
        kept = _released(KAnonymity(min_users=MIN_USERS, keys=need.k_anonymous), twin)
    return {"rows": [_rows_at(epsilon, need, given, twin) for epsilon in EPSILONS], "k_anonymity": kept}


def _rows_at(epsilon: float, need: Need, given: Mapping[str, Any], twin: SearchLog) -> int:
    """Rows at one epsilon; 0 if it is too small for the method."""
    try:
        kind: Any = method_class(need.method)
        method: Method = kind(epsilon=epsilon, **given)
    except ParameterError:
        return 0
    return _released(method, twin)


def _released(method: Method, twin: SearchLog) -> int:
    release = method.release(twin, randomness=Randomness(_SEED))
    return sum(int(release.table(table).num_rows) for table in release.tables)


@dataclass(frozen=True)
class Curve:
    """Rows expected at each epsilon of the grid, for a log of some size.

    users, searches_per_user: of the twin; the nearest that the grid has if the log is beyond it.
    k_anonymous: rows that k-anonymity would keep, without a guarantee; None if it has no such table.
    """

    users: int
    searches_per_user: float
    rows: tuple[float, ...]
    k_anonymous: float | None
    beyond: bool

    def at(self, epsilon: float) -> float:
        """Rows expected at this epsilon: a straight line between neighbours on the grid, on log scales."""
        low, high, share = _between(EPSILONS, epsilon)
        return _mixed(self.rows[low], self.rows[high], share)


def curve_of(need: str, users: int, searches_per_user: float) -> Curve:
    """The curve of a log with these numbers, interpolated between the twins that were measured."""
    grid = _grid()["twins"]
    few, many, of_users = _between(USERS, users)
    less, more, of_searches = _between(SEARCHES, searches_per_user)

    def mixed(value: Any) -> float:
        columns = [
            _mixed(
                value(grid[USERS[at]][SEARCHES[less]][need]), value(grid[USERS[at]][SEARCHES[more]][need]), of_searches
            )
            for at in (few, many)
        ]
        return _mixed(columns[0], columns[1], of_users)

    rows = tuple(mixed(lambda cell, place=place: cell["rows"][place]) for place in range(len(EPSILONS)))
    kept = grid[USERS[0]][SEARCHES[0]][need]["k_anonymity"]
    return Curve(
        users=min(max(users, USERS[0]), USERS[-1]),
        searches_per_user=min(max(searches_per_user, SEARCHES[0]), SEARCHES[-1]),
        rows=rows,
        k_anonymous=None if kept is None else mixed(lambda cell: cell["k_anonymity"]),
        beyond=not (USERS[0] <= users <= USERS[-1] and SEARCHES[0] <= searches_per_user <= SEARCHES[-1]),
    )


def _between(places: Sequence[float], value: float) -> tuple[int, int, float]:
    """Neighbours of a value on an axis, and its place between them on a log scale; beyond an end, that end."""
    at = bisect_right(places, value) - 1
    if at < 0:
        return 0, 0, 0.0
    if at >= len(places) - 1:
        return len(places) - 1, len(places) - 1, 0.0
    return at, at + 1, math.log(value / places[at]) / math.log(places[at + 1] / places[at])


def _mixed(one: float, other: float, share: float) -> float:
    """Between two numbers of rows on a log scale that begins at 0."""
    return math.expm1((1 - share) * math.log1p(one) + share * math.log1p(other))


@cache
def _grid() -> Mapping[str, Any]:
    document = parsed_json(GRID.read_bytes())
    twins = {
        int(users): {int(searches): cell for searches, cell in cells.items()}
        for users, cells in document["twins"].items()
    }
    return {"twins": twins}
