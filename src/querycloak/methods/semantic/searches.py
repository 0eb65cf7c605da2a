"""The searches of a log, user by user, as arrays; and what of each user's budget pays for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.logs.instants import microseconds_of
from querycloak.privacy.books.payment import Accounting, charge

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.semantic.method import Semantic
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.privacy.chance.randomness import Randomness

Ints = NDArray[np.int32]
_SECRET_BYTES = 32
_NAME_DIGITS = 16


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
        """How many searches each user has."""
        return np.diff(self.starts)


def staged_searches(log: SearchLog) -> ir.Table:
    """One row for each search, however many clicks it has, kept in the engine."""
    return log.engine.stage(log.rows.select("user", "time", "query").distinct())


@dataclass(frozen=True)
class Histories:
    """Searches in an engine, paid for, that wait to be pulled under new names."""

    log: SearchLog
    searches: ir.Table
    secret: str = field(repr=False)
    most: int | None
    paid: Accounting | None
    _allowed: dict[str, int] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        method: Semantic,
        log: SearchLog,
        searches: ir.Table,
        ledger: Ledger | None,
        population: str | None,
        randomness: Randomness,
    ) -> Histories:
        """Pay, and where single users' spending is kept, spend; from here on it may be drawn."""
        # Chosen here, used only when rows are pulled, which is after paying.
        secret = bytes(randomness.below(256, _SECRET_BYTES).tolist()).hex()
        if ledger is None or population is None or not method.keeps_spending:
            return cls(log, searches, secret, method.max_queries, None)
        from querycloak.privacy.books.campaigns import Spending

        def pay() -> int:
            made = charge(
                ledger, population, method.proven(), method=method.name, parameters=method.parameters()
            ).charge
            return int(made or 0)

        spending = Spending(ledger)
        campaign = spending.campaign(population, method.proven(), int(method.max_queries or 0), pay)
        counted = searches.group_by("user").agg(n=searches.count())
        kept_under = _named(counted.user, campaign.key)
        people = log.engine.fetch(
            counted.select(kept=kept_under, name=_named(counted.user, secret, _NAME_DIGITS), n="n")
        )
        allowed = spending.spend(campaign, people["kept"].to_pylist(), people["n"].to_numpy())
        names = dict(zip(people["name"].to_pylist(), allowed.tolist(), strict=True))
        return cls(log, searches, secret, method.max_queries, Accounting(population, campaign.charge, ledger), names)

    def pulled(self, concepts_of: Callable[[pa.Array], Ints] | None) -> Searches:
        """All searches; with a function the concepts of their queries, without one the queries themselves."""
        table = self.searches
        named = table.select(
            user=_named(table.user, self.secret, _NAME_DIGITS), time=microseconds_of(table.time), query=table.query
        )
        ordered = named.order_by(["user", "time", "query"])
        users, lengths, concepts, times, queries = [], [], [], [], []
        for batch in self.log.engine.stream(ordered):
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
            self._allowances(names, np.diff(starts)),
            np.concatenate([np.empty(0, np.int32), *concepts]),
            np.concatenate([np.empty(0, np.int64), *times]),
            pa.chunked_array(queries, pa.string()) if concepts_of is None else None,
        )

    def _allowances(self, names: pa.Array, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._allowed is not None:
            return np.array([self._allowed[name] for name in names.to_pylist()], np.int64)
        return lengths if self.most is None else np.minimum(lengths, self.most)


def _named(user: ir.StringValue, secret: str, digits: int | None = None) -> ir.StringValue:
    """A name that says nothing to whoever lacks the secret; the engine makes it, users' own names stay there."""
    digest = (ibis.literal(secret) + user).hexdigest("sha256")
    return digest if digits is None else digest.substr(0, digits)


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
