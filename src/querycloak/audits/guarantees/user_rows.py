"""Rows of a log in AOL's format by which a user holds a key, for each kind of method, with attributes if asked."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from querycloak.engines import Engine
from querycloak.logs.choices import PERIODS, Choices
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.keys.by_attributes import KeysByAttributes
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.public_lists import PublicList, queries_of, urls_of
from querycloak.methods.method import Method
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.sessions.method import Sessions
from querycloak.methods.synthetic.method import Synthetic
from querycloak.papers.hong2012 import PaperOptimal
from querycloak.privacy.calibration.table_plan import TablePlan

AOL_HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
_HOUR, _DAY = 3600, 86400
_MOST_DAYS = 28
_GUESSED_THRESHOLD = 5
_BOUNDS = ("per_user", "max_keys_per_user")


@dataclass(frozen=True)
class ClickRows:
    """A key is a query with a click.

    bound: number of keys of one user that count. enough: number of users who bring a key out, more likely than not.
    """

    bound: int
    enough: int

    def rows(self, user: str, keys: Iterable[str]) -> list[str]:
        """A row for each key, a minute apart."""
        return [self.row(user, key, 60 * place) for place, key in enumerate(keys)]

    def row(self, user: str, key: str, second: int) -> str:
        """One search with a click, this number of seconds after the log begins."""
        return _row(user, self.query(key), second, f"http://{key.replace(' ', '-')}.example/")

    def query(self, key: str) -> str:
        """The text that stands for a key."""
        return key

    def afresh(self) -> ClickRows:
        """These rows for another log."""
        return self

    def of_one_query(self, user: str, key: str, number: int) -> list[str]:
        """A row for each of several keys that have this key's query: clicks on different results."""
        return [_row(user, self.query(key), 60 * place, url) for place, url in enumerate(self._results(key, number))]

    def _results(self, key: str, number: int) -> Sequence[str]:
        return [f"http://{key.replace(' ', '-')}.example/{place}" for place in range(number)]


@dataclass(frozen=True)
class SessionRows(ClickRows):
    """A key is a session of several queries, hours apart from the next; every query has a click."""

    queries: int = 2
    gap_minutes: float = 30

    def rows(self, user: str, keys: Iterable[str]) -> list[str]:
        """The rows of a session for each key."""
        return self._sessions(user, [[f"{key} part {number}" for number in range(self.queries)] for key in keys])

    def of_one_query(self, user: str, key: str, number: int) -> list[str]:
        """The rows of several sessions that begin with one query and go on in different ways."""
        ways = [[f"{key} way {way} part {after}" for after in range(1, self.queries)] for way in range(number)]
        return self._sessions(user, [[f"{key} part 0", *way] for way in ways])

    def _sessions(self, user: str, sessions: Iterable[Sequence[str]]) -> list[str]:
        pause = int(60 * self.gap_minutes) + _HOUR
        return [
            self.row(user, query, place * pause + 10 * number)
            for place, session in enumerate(sessions)
            for number, query in enumerate(session)
        ]


@dataclass(frozen=True, eq=False)
class PoolRows(ClickRows):
    """A key is a query of a public pool: the first that is asked for gets the first entry, and so on."""

    pool: Sequence[str] = ()
    urls: Sequence[str] = ()
    _given: dict[str, str] = field(default_factory=dict, repr=False)

    def row(self, user: str, key: str, second: int) -> str:
        """One search, with a click on a public url if there are any."""
        query = self.query(key)
        place = list(self._given).index(key) if key in self._given else 0
        url = self.urls[place % len(self.urls)] if self.urls else f"http://{key.replace(' ', '-')}.example/"
        return _row(user, query, second, url)

    def query(self, key: str) -> str:
        """An entry of the pool; the key itself once the pool is used up, or where it says that it is none."""
        if key.startswith("other ") or (key not in self._given and len(self._given) >= len(self.pool)):
            return key
        return self._given.setdefault(key, self.pool[len(self._given)] if key not in self._given else "")

    def afresh(self) -> PoolRows:
        """These rows for another log, whose first key gets the first entry again."""
        return replace(self, _given={})

    def _results(self, key: str, number: int) -> Sequence[str]:
        return self.urls[:number] or super()._results(key, number)

    @cached_property
    def listed(self) -> frozenset[str]:
        """All entries."""
        return frozenset(self.pool)


def log_text(rows: Iterable[str]) -> str:
    """The content of a log's file."""
    return "\n".join([AOL_HEADER, *rows]) + "\n"


def user_rows(method: Method) -> ClickRows:
    """The rows that make users of a method's logs hold keys."""
    if isinstance(method, QueryPool):
        pool = queries_of(method.lists["pool"], Choices()).to_pylist()
        urls = urls_of(method.lists["urls"], Choices()).to_pylist() if "urls" in method.lists else []
        return PoolRows(method.bounds["queries"], method.thresholds["queries"] + 1, pool, urls)
    if isinstance(method, Optimal) and not isinstance(method, PaperOptimal):
        return ClickRows(method.plan.per_user, method.plan.pairs.enough_users)
    if isinstance(method, Synthetic):
        plans = list(method.plan.selected.values())
        return ClickRows(max(plan.per_user for plan in plans), max(plan.enough_users for plan in plans))
    if isinstance(method, KeysMethod):
        plans = plans_of(method)
        bound, enough = max(plan.per_user for plan in plans), max(plan.enough_users for plan in plans)
        if isinstance(method, Sessions):
            return SessionRows(method.bounds.sessions, enough, method.bounds.queries, method.gap_minutes)
        return ClickRows(bound, enough)
    return _rows_of_another_package(method)


def _rows_of_another_package(method: Method) -> ClickRows:
    """Rows by the method's parameters; keys are entries of its public lists, if it has any."""
    parameters = method.parameters()
    threshold, given = parameters.get("threshold"), (parameters.get(name) for name in _BOUNDS)
    enough = int(threshold) if isinstance(threshold, int | float) else _GUESSED_THRESHOLD
    bound = next((number for number in given if isinstance(number, int)), 1)
    lists = [each for each in vars(method).values() if isinstance(each, PublicList)]
    entries = [text for each in lists for text in queries_of(each, Choices()).to_pylist()]
    return PoolRows(bound, enough + 1, entries) if entries else ClickRows(bound, enough + 1)


def plans_of(method: KeysMethod) -> list[TablePlan]:
    """The plans of all tables; where one of several is chosen on the log, of all that may be chosen."""
    return [plan for plans in method.plan.alternatives for plan in plans.values()]


def _row(user: str, query: str, second: int, url: str) -> str:
    day, rest = divmod(second, _DAY)
    hour, rest = divmod(rest, _HOUR)
    at = f"2006-03-{1 + day % _MOST_DAYS:02} {hour:02}:{rest // 60:02}:{rest % 60:02}"
    return f"{user}\t{query}\t{at}\t1\t{url}"


SINCE, UNTIL = datetime(2006, 3, 1), datetime(2006, 4, 1)
"""All rows of tests are of this month."""
_PLAIN = ("user", "query", "time", "rank", "url")
_MADE_UP = ("one", "two")


def read_for(method: Method, path: Path, engine: Engine) -> SearchLog:
    """The log in AOL's form, with the attributes and the period that the method asks for."""
    choices = Choices(attributes=method.attributes)
    if isinstance(method, KeysByAttributes) and set(method.grouping.by) & set(PERIODS):
        choices = replace(choices, since=SINCE, until=UNTIL)
    if not method.attributes:
        return read(path, log_format="aol", engine=engine, choices=choices)
    attributed = path.with_suffix(".by.tsv")
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    attributed.write_text(with_values(text, values_of(method)), encoding="utf-8", errors="surrogateescape")
    return read(attributed, log_format="csv", engine=engine, choices=choices)


def values_of(method: Method) -> dict[str, Sequence[str]]:
    """Values of each attribute: those of its public domain, or two made-up ones."""
    domains: Mapping[str, Sequence[str]] = method.grouping.domains if isinstance(method, KeysByAttributes) else {}
    return {name: domains.get(name, _MADE_UP) for name in method.attributes}


def with_values(text: str, values: Mapping[str, Sequence[str]]) -> str:
    """The log with values behind each row: those of the number that stands there, or of one that its query decides."""
    rows = (_attributed(row, values) for row in text.splitlines()[1:])
    return "\n".join(["\t".join([*_PLAIN, *values]), *rows]) + "\n"


def _attributed(row: str, values: Mapping[str, Sequence[str]]) -> str:
    fields = row.split("\t")
    plain, behind = fields[: len(_PLAIN)], fields[len(_PLAIN) :]
    if len(plain) < len(_PLAIN):  # a row that no reader can use
        return row
    code = zlib.crc32(plain[1].encode(errors="surrogateescape"))
    numbers = [int(behind[0])] * len(values) if behind else [code >> 8 * shift for shift in range(len(values))]
    chosen = (domain[number % len(domain)] for domain, number in zip(values.values(), numbers, strict=True))
    return "\t".join([*plain, *chosen])
