"""The searches of a log, user by user, as arrays; how many of each may be drawn; the check of the log's language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.logs.reading.schema import microseconds_of
from querycloak.methods.keyed_digest import NAME_DIGITS, keyed_digest
from querycloak.methods.method import Drawn
from querycloak.methods.semantic.totals import accuracy_of
from querycloak.privacy.ledger.payment import CountedByUser

if TYPE_CHECKING:
    from querycloak.engines import Engine
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.semantic.replacement import Replacement
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.releases.tables import Table

ONE_USER_IN = 3
"""English web searches have a noun of WordNet in seven or eight of ten cases, those of `synth` in four, German ones in
two or three."""
LEAST_USERS = 100
"""Number of first searches from which on the check is made; a share of fewer says little."""


def check_language(engine: Engine, searches: ir.Table, concepts_of: Callable[[pa.Array], NDArray[np.int32]]) -> None:
    """Refuse a log if too few users began with a word of the taxonomy."""
    window = ibis.window(group_by=searches.user, order_by=[searches.time, searches.query])
    numbered = searches.mutate(place=ibis.row_number().over(window))
    users = known = 0
    for batch in engine.stream(numbered.filter(numbered.place == 0).select("query")):
        known_mask = concepts_of(batch.column("query")) >= 0
        users += len(known_mask)
        known += int(known_mask.sum())
    if users >= LEAST_USERS and ONE_USER_IN * known < users:
        raise InputError.of(
            "WordNet has hardly any word of this log, which seems to be in another language than English; give "
            "a {taxonomy} of that language, or insist: {any_language:True}"
        )


Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Searches:
    """Searches in order of their users' new names, then of time; `concepts` are -1 where none was found."""

    users: pa.Array  # new names, ascending
    starts: NDArray[np.int64]  # of each user's searches
    allowed: NDArray[np.int64]  # how many of them may be drawn
    concepts: Ints
    times: NDArray[np.int64]
    queries: pa.ChunkedArray | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of searches of each user."""
        return np.diff(self.starts)


class Allowed(NamedTuple):
    """Number of searches of each user that may be drawn, by the user's name under a campaign's key."""

    key: str
    searches: dict[str, int]


def staged_searches(log: SearchLog) -> ir.Table:
    """The distinct searches, staged in the engine; several clicks of a search are one row."""
    return log.engine.stage(log.asked.distinct())


@dataclass(frozen=True)
class Histories(CountedByUser):
    """Searches in an engine that wait to be pulled under new names."""

    engine: Engine
    searches: ir.Table
    most: int | None
    replacement: Replacement
    allowed: Allowed | None = field(default=None, repr=False)

    def asked(self, key: str) -> tuple[list[str], NDArray[np.int64]]:
        """The users, under a hash with this key, and how many searches each has."""
        counted = self.searches.group_by("user").agg(n=self.searches.count())
        people = self.engine.fetch(counted.select(kept=keyed_digest(counted.user, key), n="n"))
        return people["kept"].to_pylist(), people["n"].to_numpy()

    def allowing(self, key: str, names: list[str], allowed: NDArray[np.int64]) -> Histories:
        """The histories with at most this number of searches of each user."""
        return replace(self, allowed=Allowed(key, dict(zip(names, allowed.tolist(), strict=True))))

    def draw(self, randomness: Randomness) -> Drawn:
        """New names first, then a replacement for each search."""
        secret = randomness.secret()
        pulled = self.pulled(secret, self.replacement.concepts_of)
        method = self.replacement.method
        counts = "one-draw" if method.criterion == "hbdp" else "none"
        remarks = [] if pulled.queries is not None else [unmatched_note(pulled.concepts)]
        drawn = self.replacement.tables(pulled, randomness)
        tables: dict[str, Table] = {"log": drawn.log}
        if drawn.totals is None or drawn.channel is None:
            return Drawn(tables, counts=counts, rows=method.rows, remarks=remarks)
        tables["totals"] = drawn.totals.table()
        if drawn.listed is not None:
            tables["channel"] = drawn.listed
        reach = {"totals": accuracy_of(drawn.totals, drawn.channel)}
        return Drawn(tables, counts=counts, rows=method.rows, remarks=remarks, reach=reach)

    def pulled(self, secret: str, concepts_of: Callable[[pa.Array], Ints] | None) -> Searches:
        """All searches; with a function the concepts of their queries, without one the queries themselves."""
        table = self.searches
        named = table.select(
            user=keyed_digest(table.user, secret, NAME_DIGITS), time=microseconds_of(table.time), query=table.query
        )
        ordered = named.order_by(["user", "time", "query"])
        users, lengths, concepts, times, queries = [], [], [], [], []
        for batch in self.engine.stream(ordered):
            runs = pc.run_end_encode(batch.column("user"), run_end_type=pa.int64())
            users.append(runs.values)
            lengths.append(np.diff(runs.run_ends.to_numpy(), prepend=0))
            times.append(batch.column("time").to_numpy(zero_copy_only=False))
            if concepts_of is None:
                queries.append(batch.column("query"))
            else:
                concepts.append(concepts_of(batch.column("query")))
        names, starts = _joined(users, lengths)
        return Searches(
            names,
            starts,
            self._allowances(names, np.diff(starts), secret),
            np.concatenate([np.empty(0, np.int32), *concepts]),
            np.concatenate([np.empty(0, np.int64), *times]),
            pa.chunked_array(queries, pa.string()) if concepts_of is None else None,
        )

    def _allowances(self, names: pa.Array, lengths: NDArray[np.int64], secret: str) -> NDArray[np.int64]:
        if self.allowed is None:
            return lengths if self.most is None else np.minimum(lengths, self.most)
        user = self.searches.select("user").distinct().user
        people = self.engine.fetch(
            self.searches.select("user")
            .distinct()
            .select(kept=keyed_digest(user, self.allowed.key), name=keyed_digest(user, secret, NAME_DIGITS))
        )
        by_name = dict(zip(people["name"].to_pylist(), people["kept"].to_pylist(), strict=True))
        return np.array([self.allowed.searches[by_name[name]] for name in names.to_pylist()], np.int64)


def unmatched_note(concepts: Ints) -> str:
    """Number of searches without a known concept. Private. Reported for every log, so its presence reveals nothing."""
    missing = int((concepts < 0).sum())
    message = (
        f"no concept was found in {missing:,} of {concepts.size:,} searches: these became the root of their domain"
    )
    if 2 * missing <= concepts.size:
        return message
    return f"{message}; if the log is in another language, give a taxonomy of that language"


def _joined(users: list[Any], lengths: list[NDArray[np.int64]]) -> tuple[pa.Array, NDArray[np.int64]]:
    """The runs of all batches; one that goes on in the next batch is one run."""
    names = pa.concat_arrays(users).cast(pa.string()) if users else pa.array([], pa.string())
    counts = np.concatenate([np.empty(0, np.int64), *lengths])
    if len(names):
        new = np.ones(len(names), np.bool_)
        new[1:] = pc.not_equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False)
        counts = np.bincount(np.cumsum(new) - 1, weights=counts).astype(np.int64)
        names = names.filter(pa.array(new))
    return names, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
