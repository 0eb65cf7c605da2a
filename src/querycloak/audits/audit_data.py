"""Data of an audit: the released log, people outside it, and the attackers' knowledge of both.

True figures of people: private, and in memory only. An inverted index leads from texts to the released names that hold
them, with compiled searches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from querycloak.errors import InputError
from querycloak.evaluation.target import Target, in_pieces
from querycloak.logs.searchlog import SearchLog
from querycloak.privacy.parameters import whole
from querycloak.text.lists import first_at_least


@dataclass(frozen=True, eq=False)
class NameIndex:
    """The names that hold text i: name[starts[i]:starts[i + 1]], ascending numbers into `names`, none twice."""

    names: pa.Array
    starts: Numbers
    name: NDArray[np.int32]

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], texts: pa.Array) -> NameIndex:
        """From batches of (name, text); only rows of the texts asked for are kept, so a log of any size will do."""
        owned, text_places = [], []
        for rows in in_pieces(batches):
            place = pc.index_in(rows.column(1), texts)
            known = pc.is_valid(place)
            owned += rows.column(0).filter(known).chunks
            text_places += place.filter(known).chunks
        coded = pa.chunked_array(owned, pa.string()).combine_chunks().dictionary_encode()
        names, name = coded.dictionary, coded.indices.to_numpy()
        text = pa.chunked_array(text_places, pa.int32()).to_numpy()
        # A pair as one number: sorted, without repeats.
        pairs = np.unique(text.astype(np.int64) * max(len(names), 1) + name)
        text, name = np.divmod(pairs, max(len(names), 1))
        starts = np.searchsorted(text, np.arange(len(texts) + 1)).astype(np.int64)
        return cls(names, starts, name.astype(np.int32))

    def fitting(self, known: Numbers, *, released_only: bool = False) -> Fitting:
        """By row of known texts: the number of names that hold all of them (2 stands for more), and one of these names.

        released_only: known texts without any name are ignored; if all are, no name fits.
        """
        number, one = np.zeros(len(known), np.int64), np.full(len(known), -1, np.int64)
        _fit(self.starts, self.name, known, released_only, number, one)
        return Fitting(number, one)

    def best(self, known: Numbers, mark: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """By row of known texts: of the names that hold the most of them, the number of marked ones and of all."""
        marked, all_best = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
        _best(self.starts, self.name, known, mark, np.zeros(len(self.names), np.int32), marked, all_best)
        return marked, all_best


class Fitting(NamedTuple):
    """Number of names that fit (2 stands for more), and one of them."""

    number: Numbers
    name: Numbers


@njit(cache=True, nogil=True)
def _shortest(starts, known, released_only):  # type: ignore[no-untyped-def]
    """The known text with the fewest names; -1 if no text has a name, or one has none and must be kept."""
    shortest, least = -1, 0
    for text in known:
        size = starts[text + 1] - starts[text]
        if size == 0:
            if not released_only:
                return -1
        elif shortest < 0 or size < least:
            shortest, least = text, size
    return shortest


@njit(cache=True, nogil=True)
def _holds_all(starts, name, known, candidate):  # type: ignore[no-untyped-def]
    for text in known:
        first, last = starts[text], starts[text + 1]
        if first == last:
            continue
        place = first_at_least(name, first, last, candidate)
        if place == last or name[place] != candidate:
            return False
    return True


@njit(cache=True, nogil=True)
def _fit(starts, name, known, released_only, number, one):  # type: ignore[no-untyped-def]
    for row in range(known.shape[0]):
        shortest = _shortest(starts, known[row], released_only)
        if shortest < 0:
            continue
        for i in range(starts[shortest], starts[shortest + 1]):
            if _holds_all(starts, name, known[row], name[i]):
                number[row] += 1
                one[row] = name[i]
                if number[row] == 2:
                    break


@njit(cache=True, nogil=True)
def _best(starts, name, known, mark, tally, marked, all_best):  # type: ignore[no-untyped-def]
    for row in range(known.shape[0]):
        most = 0
        for column in range(known.shape[1]):
            for i in range(starts[known[row, column]], starts[known[row, column] + 1]):
                tally[name[i]] += 1
                most = max(most, tally[name[i]])
        for column in range(known.shape[1]):
            for i in range(starts[known[row, column]], starts[known[row, column] + 1]):
                if tally[name[i]] == most and most > 0:
                    all_best[row] += 1
                    marked[row] += mark[name[i]]
                tally[name[i]] = 0  # so that a name counts once, and the next row begins with nothing


Numbers = NDArray[np.int64]
TARGETS = 10_000
WAYS = ("random", "first", "rare")


@dataclass(frozen=True, eq=False)
class UserHistories:
    """Different queries of each person, in the order in which they were first asked.

    Queries are numbers into the knowledge's `texts`: those of person i are query[starts[i]:starts[i + 1]].
    """

    users: pa.Array
    starts: Numbers
    query: Numbers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Numbers:
        """Number of different queries of each person."""
        return np.diff(self.starts)

    @property
    def person(self) -> Numbers:
        """Person of each entry of `query`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def ordered(self, *keys: NDArray[Any]) -> Numbers:
        """The queries, each person's sorted by these keys (the first decides)."""
        order = np.lexsort((*reversed(keys), self.person))
        return self.query[order]

    def first(self, most: int, query: Numbers) -> tuple[Numbers, Numbers]:
        """People with at least `most` queries, and the first `most` of each, where `query` holds all in some order."""
        who = np.flatnonzero(self.lengths >= most)
        return who, query[self.starts[who][:, None] + np.arange(most)]


@dataclass(eq=False)
class AuditData:
    """TRAIN, TEST, the truth and another period if they are given; data that several attacks need, computed once.

    targets: largest number of people of each side that are attacked. seed: which, and what is known of them.
    """

    train: SearchLog
    control: SearchLog
    truth: Path | None = None
    other_period: SearchLog | None = None
    seed: int = 1
    targets: int = TARGETS
    _holders: tuple[Target, NameIndex] | None = field(default=None, repr=False)
    _orders: dict[tuple[str, bool], Numbers] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        whole("targets", self.targets, "say how many people are attacked at most", least=2)
        if self.truth is not None and not (Path(self.truth) / "sensitive.parquet").is_file():
            raise InputError(
                f"the truth {str(self.truth)!r} has no sensitive.parquet; `synth` writes it into LOG.truth"
            )
        if not len(self.train_users) or not len(self.control_users):
            raise InputError(
                f"{'the control' if len(self.train_users) else 'TRAIN'} has no row; give the two sides of a split"
            )
        shared = pc.sum(pc.is_in(self.control_users, self.train_users)).as_py()
        if shared:
            raise InputError(
                "the control shares users with TRAIN, so it tells nothing about people who are not in the log; "
                "split the log by user first"
            )

    def random(self, purpose: str) -> np.random.Generator:
        """Random numbers for one purpose: the same for the same seed, independent of other attacks."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    @cached_property
    def train_users(self) -> pa.Array:
        """All users of TRAIN, sorted."""
        return _users(self.train)

    @cached_property
    def control_users(self) -> pa.Array:
        """All users of TEST, sorted."""
        return _users(self.control)

    @cached_property
    def member_sample(self) -> pa.Array:
        """The people in the log that are attacked."""
        return self._sample(self.train_users, "members")

    @cached_property
    def control_sample(self) -> pa.Array:
        """The people who are not in the log that are attacked."""
        return self._sample(self.control_users, "controls")

    def _sample(self, users: pa.Array, purpose: str) -> pa.Array:
        if len(users) <= self.targets:
            return users
        chosen = self.random(purpose).choice(len(users), self.targets, replace=False)
        return users.take(pa.array(np.sort(chosen)))

    @cached_property
    def _asked(self) -> tuple[pa.Array, UserHistories, UserHistories]:
        sides = [(self.train, self.member_sample), (self.control, self.control_sample)]
        tables = [_first_times(log, users) for log, users in sides]
        texts = pc.unique(pa.concat_arrays([table["query"].combine_chunks() for table in tables]))
        members, controls = (_histories(table, users, texts) for table, (_, users) in zip(tables, sides, strict=True))
        return texts, members, controls

    @property
    def texts(self) -> pa.Array:
        """All different queries of the people who are attacked."""
        return self._asked[0]

    @property
    def members(self) -> UserHistories:
        """Queries of people in the log."""
        return self._asked[1]

    @property
    def controls(self) -> UserHistories:
        """Queries of people outside the log."""
        return self._asked[2]

    @cached_property
    def text_users(self) -> Numbers:
        """Number of users of TRAIN who asked each text."""
        engine = self.train.engine
        wanted = engine.upload(pa.table({"query": self.texts}))
        rows = self.train.rows.semi_join(wanted, "query")
        counted = engine.fetch(rows.group_by("query").agg(users=rows.user.nunique()))
        users = np.zeros(len(self.texts), np.int64)
        users[pc.index_in(counted["query"], self.texts).to_numpy()] = counted["users"].to_numpy()
        return users

    def known(self, way: str, number: int, *, members: bool) -> tuple[Numbers, Numbers]:
        """People with at least this number of queries, and those that an attacker knows: at random, first or rarest."""
        people = self.members if members else self.controls
        if (way, members) not in self._orders:
            self._orders[way, members] = self._in_order(people, way, members=members)
        return people.first(number, self._orders[way, members])

    def _in_order(self, people: UserHistories, way: str, *, members: bool) -> Numbers:
        """Every person's queries in the order in which an attacker comes to know them."""
        if way == "first":
            return people.query
        chance = self.random(f"{way} {'members' if members else 'controls'}").random(len(people.query))
        if way == "random":
            return people.ordered(chance)
        # By how many others ask it, so that the person's own presence in the log makes no difference.
        return people.ordered(self.text_users[people.query] - int(members), chance)

    def holders_in(self, release: Target) -> NameIndex:
        """Index of the names of a release by the texts that they hold."""
        if self._holders is None or self._holders[0] is not release:  # releases are attacked one after another
            self._holders = release, NameIndex.of(release.batches("log", ["user", "query"]), self.texts)
        return self._holders[1]

    def owner_numbers(self, release: Target, users: pa.Array, names: pa.Array) -> Numbers | None:
        """Index into `users` of each name's owner; -1 for an owner outside `users`; None if owners are unknown."""
        if release.owners is None:
            return None
        row = pc.index_in(names, release.owners["name"].combine_chunks())
        owner = release.owners["user"].combine_chunks().take(row)
        return np.asarray(
            pc.fill_null(pc.index_in(owner, users, skip_nulls=True), -1).to_numpy(zero_copy_only=False), np.int64
        )


def _users(log: SearchLog) -> pa.Array:
    users = log.engine.fetch(log.rows.select("user").distinct())["user"].combine_chunks()
    return users.take(pc.sort_indices(users))


def rows_of_users(log: SearchLog, users: pa.Array) -> ir.Table:
    """The rows of some users, in the log's engine."""
    return log.rows.semi_join(log.engine.upload(pa.table({"user": users})), "user")


def _first_times(log: SearchLog, users: pa.Array) -> pa.Table:
    """Each of these users' queries, with the time at which it was first asked."""
    rows = rows_of_users(log, users)
    return log.engine.fetch(rows.group_by(["user", "query"]).agg(first=rows.time.min()))


def _histories(table: pa.Table, users: pa.Array, texts: pa.Array) -> UserHistories:
    ordered = table.sort_by([("user", "ascending"), ("first", "ascending"), ("query", "ascending")])
    person = pc.index_in(ordered["user"], users).to_numpy()
    starts = np.concatenate([[0], np.cumsum(np.bincount(person, minlength=len(users)))]).astype(np.int64)
    return UserHistories(users, starts, pc.index_in(ordered["query"], texts).to_numpy().astype(np.int64))
