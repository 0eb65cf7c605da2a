"""Advice from numbers that an owner types: yields of methods on a synthetic twin with these numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from querycloak.files.locked_folder import PrivateFolder
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.queries.method import Queries
from querycloak.privacy.parameters import natural, number_above_zero
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.synthetic.log_writer import synthesize

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.methods.method import Method
    from querycloak.synthetic.log_writer import OnUsers

EPSILONS = (1.0, 8.0)
MIN_USERS = 5
MOST_TWINS = 100_000
"""Users of a twin; a larger log releases more than its twin."""
ENOUGH_ROWS = 100
_MOST_BOUND = 256
_SEED = 1


@dataclass(frozen=True)
class ExpectedRows:
    """Rows of the twin that a method releases at each epsilon, and that k-anonymity keeps."""

    method: str
    by_epsilon: Mapping[float, int]
    k_anonymous: int


@dataclass(frozen=True)
class Advice:
    """Typed numbers, the twin made from them, and what came out of it."""

    users: int
    searches_per_user: float
    twin_users: int
    twin_searches_per_user: float
    delta: float
    max_keys_per_user: int
    expected: tuple[ExpectedRows, ...]

    @property
    def epsilon(self) -> float:
        """The smallest of the epsilons with which enough queries come out; the largest if none does."""
        rows = self.expected[0].by_epsilon
        return next((epsilon for epsilon, number in rows.items() if number >= ENOUGH_ROWS), max(rows))

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `advise --json` prints them."""
        return {
            "users": self.users,
            "searches_per_user": self.searches_per_user,
            "twin": {"users": self.twin_users, "searches_per_user": self.twin_searches_per_user},
            "delta": self.delta,
            "max_keys_per_user": self.max_keys_per_user,
            "min_users": MIN_USERS,
            "rows": {
                each.method: {
                    "by_epsilon": {f"{epsilon:g}": rows for epsilon, rows in each.by_epsilon.items()},
                    "k_anonymity": each.k_anonymous,
                }
                for each in self.expected
            },
        }


def advise(users: int, searches_per_user: float, *, on_users: OnUsers | None = None) -> Advice:
    """Release a synthetic log with these numbers at several budgets, and count rows; no log is read."""
    natural("users", users, "say how many people search, such as 40000")
    number_above_zero("searches_per_user", searches_per_user, "say how often each searches, such as 1 or 2.5")
    twin_users = min(users, MOST_TWINS)
    delta, bound = usual_delta(users), usual_bound(searches_per_user)
    with synthetic_twin(twin_users, searches_per_user, on_users=on_users) as twin:
        searches = int(twin.engine.fetch(twin.searches.agg(number=twin.searches.count()))["number"].to_pylist()[0])
        expected = (
            _expected(Queries, KAnonymity(min_users=MIN_USERS, keys="queries"), twin, delta, bound),
            _expected(Clicks, KAnonymity(min_users=MIN_USERS, keys="clicks"), twin, delta, bound),
        )
    return Advice(users, searches_per_user, twin_users, searches / twin_users, delta, bound, expected)


def usual_delta(users: int) -> float:
    """The largest power of ten that is at most a tenth of 1/users."""
    return float(10.0 ** math.floor(math.log10(0.1 / users)))


def usual_bound(searches_per_user: float) -> int:
    """Keys per user for people with this many searches each."""
    return min(max(1, round(searches_per_user)), _MOST_BOUND)


@contextmanager
def synthetic_twin(users: int, searches_per_user: float, *, on_users: OnUsers | None = None) -> Iterator[SearchLog]:
    """An invented log with these numbers, the same at every call; it is gone afterwards."""
    most = max(1, math.ceil(searches_per_user))
    with PrivateFolder() as folder:
        path = folder.path / "twin.parquet"
        synthesize(path, users, seed=_SEED, visits=most, truth=False, on_users=on_users)
        with read(path) as log:
            rows = _first_searches(log, most)
    with read(rows) as twin:
        twin.stage()
        yield twin


def _first_searches(log: SearchLog, most: int) -> pa.Table:
    """The rows of each user's first searches."""
    searches = log.searches
    first = searches.filter(searches.number <= most).select("user", "time", "query")
    rows = log.rows
    return log.engine.fetch(rows.semi_join(first, ["user", "time", "query"]).select(*rows.columns))


def _expected(
    kind: type[Queries | Clicks], k_anonymity: KAnonymity, twin: SearchLog, delta: float, bound: int
) -> ExpectedRows:
    table = next(iter(kind.keys))
    methods = {each: kind(epsilon=each, delta=delta, max_keys_per_user=bound) for each in EPSILONS}
    by_epsilon = {each: _rows(method, table, twin) for each, method in methods.items()}
    return ExpectedRows(kind.name, by_epsilon, _rows(k_anonymity, table, twin))


def _rows(method: Method, table: str, twin: SearchLog) -> int:
    return int(method.release(twin, randomness=Randomness(_SEED)).table(table).num_rows)
