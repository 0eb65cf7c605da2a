"""Many runs of a weighted selection at once: users' keys are fetched once, and every round is drawn for all runs.

The law is that of `WeightedSelection.release` where no two keys share a digest.
Tests compare the two, number by number for given outcomes of rounds, and by their laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.audits.guarantees.runs import numbered
from querycloak.engines import Engine
from querycloak.logs.sequences import queries_of
from querycloak.methods.keys.public_priors import MOST_POINTS
from querycloak.methods.keys.weighted_selection import WeightedSelection
from querycloak.privacy.calibration.table_plan import Times
from querycloak.privacy.calibration.weighted import (
    FULL_INTEREST,
    GRID,
    LEAST_INTEREST,
    PreselectionRound,
    WeightedPlan,
    interest_of,
)
from querycloak.privacy.sampling.randomness import IntArray, Randomness

Mask = NDArray[np.bool_]
_CELLS_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class UserCells:
    """Pairs of a user and a cell (a key, or a part of keys), each once, sorted by user.

    Arrays by run have a row for each run and a column for each pair, or for each cell.
    """

    user: IntArray
    cell: IntArray
    cells: int
    copies: IntArray | None = None
    """By user, the number of users who hold the same; None if each stands for one."""

    @cached_property
    def _bounds(self) -> IntArray:
        """Start of the pairs of each user, and the end of the last."""
        return np.append(np.flatnonzero(np.diff(self.user, prepend=-1)), self.user.size)

    def sums(self, values: IntArray) -> IntArray:
        """Values of pairs, added up by cell."""
        users = np.ones(self.user.size, np.int64) if self.copies is None else self.copies[self.user]
        sums: IntArray = _sums(values, self.cell, users, self.cells)
        return sums

    def weights(self, interest: IntArray) -> IntArray:
        """GRID x interest / the length of the user's interests, rounded down; 0 for pairs without interest."""
        weights: IntArray = _weights(interest, self._bounds)
        return weights

    def bounded(self, wanted: IntArray, most: int) -> IntArray:
        """Of these numbers of pairs, in their order, so much that no user has more than `most` in all."""
        given: IntArray = _bounded(wanted, self._bounds, most)
        return given


@njit(cache=True, nogil=True)
def _sums(values, cell, users, cells):  # type: ignore[no-untyped-def]
    sums = np.zeros((len(values), cells), np.int64)
    for run in range(len(values)):
        for pair in range(cell.size):
            sums[run, cell[pair]] += values[run, pair] * users[pair]
    return sums


@njit(cache=True, nogil=True)
def _weights(interest, bounds):  # type: ignore[no-untyped-def]
    weights = np.zeros(interest.shape, np.int64)
    for run in range(len(interest)):
        for user in range(bounds.size - 1):
            length = np.int64(0)
            for pair in range(bounds[user], bounds[user + 1]):
                length += interest[run, pair] * interest[run, pair]
            for pair in range(bounds[user], bounds[user + 1]):
                mine = interest[run, pair]
                if mine > 0:
                    near = np.int64(np.floor(mine * GRID / np.sqrt(float(length))))
                    weights[run, pair] = near - (near * near * length > mine * mine * (GRID * GRID))
    return weights


@njit(cache=True, nogil=True)
def _bounded(wanted, bounds, most):  # type: ignore[no-untyped-def]
    given = np.zeros(wanted.shape, np.int64)
    for run in range(len(wanted)):
        for user in range(bounds.size - 1):
            left = most
            for pair in range(bounds[user], bounds[user + 1]):
                given[run, pair] = min(wanted[run, pair], left)
                left -= given[run, pair]
    return given


@dataclass(frozen=True, eq=False)
class UserKeys:
    """Users' keys in the order in which they count: by prior, then by time."""

    names: pa.Table
    """Every key, once, in order."""
    pairs: UserCells
    levels: IntArray
    """By pair, the interest that its prior leaves of FULL_INTEREST."""
    times: IntArray
    """By pair, the user's number of clicks; 1 if they are not counted."""

    @classmethod
    def of(cls, engine: Engine, rows: ir.Table, key: Sequence[str]) -> UserKeys:
        """Fetch a table of the columns user, key, earliest and perhaps prior and times."""
        table = engine.fetch(rows)
        prior = [name for name in ("prior",) if name in table.column_names]
        order = ["user", *prior, "earliest", *key]
        table = table.sort_by([(name, "ascending") for name in order]).combine_chunks()
        names = table.select(key).group_by(list(key)).aggregate([]).sort_by([(name, "ascending") for name in key])
        place = names.append_column("cell", pa.array(np.arange(names.num_rows)))
        numbers = table.append_column("row", pa.array(np.arange(table.num_rows))).join(place, list(key)).sort_by("row")
        user = table["user"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        levels = np.full(table.num_rows, FULL_INTEREST)
        if prior:
            levels = np.array([int(FULL_INTEREST / 2 ** (points / 2)) for points in range(MOST_POINTS + 1)])[
                table["prior"].to_numpy()
            ]
        times = table["times"].to_numpy() if "times" in table.column_names else np.ones(table.num_rows, np.int64)
        return cls(names, UserCells(user, numbers["cell"].to_numpy(), names.num_rows), levels, times)

    def grouped(self) -> UserKeys:
        """The keys, with one user in the place of all who hold equal keys in the same order: sums stay."""
        pairs = self.pairs
        starts = np.flatnonzero(np.diff(pairs.user, prepend=-1))
        rows = np.stack([pairs.cell, self.levels, self.times], axis=1)
        first: dict[bytes, int] = {}
        group = [first.setdefault(part.tobytes(), len(first)) for part in np.split(rows, starts[1:])]
        users, copies = np.unique(group, return_index=True)[1], np.bincount(group)
        kept = np.isin(pairs.user, users)
        cells = UserCells(np.searchsorted(users, pairs.user[kept]), pairs.cell[kept], pairs.cells, copies)
        return UserKeys(self.names, cells, self.levels[kept], self.times[kept])

    def interest(self, known: IntArray) -> IntArray:
        """The interest in each pair, by the interest `known` in each key; 0 for keys that were given up."""
        known = known[:, self.pairs.cell]
        return np.where(known > 0, np.maximum(known * self.levels // FULL_INTEREST, LEAST_INTEREST), 0)

    def counts(self, chosen: Mask, most: int, times: Times | None, counting_pairs: Mask | None = None) -> IntArray:
        """The users of the chosen keys, each counted for their first `most`; or their clicks, bounded by `times`.

        counting_pairs: the pairs that count in each run; all if None.
        """
        wanted = chosen[:, self.pairs.cell].astype(np.int64)
        if counting_pairs is not None:
            wanted = wanted * counting_pairs
        if times is not None:
            wanted, most = wanted * np.minimum(self.times, times.per_key), times.per_user
        return self.pairs.sums(self.pairs.bounded(wanted, most))


def weighted_runs(selection: WeightedSelection, randomness: Randomness, runs: int) -> pa.Table:
    """The keys that come out of each run, with their counts if these are published."""
    keys = UserKeys.of(selection.engine, selection.keys, selection.key)
    if not keys.names.num_rows:
        counts = {} if selection.plan.counting is None else {"count": pa.array([], pa.int64())}
        empty = pa.table({**{name: keys.names[name] for name in selection.key}, **counts})
        return numbered(empty, np.empty(0, np.int64))
    keys = keys.grouped()
    drawing = _Drawing(selection, WeightedRuns(selection.plan, keys, with_priors="prior" in selection.keys.columns))
    at_once = max(1, _CELLS_AT_ONCE // len(keys.pairs.user))
    lots = [min(at_once, runs - first) for first in range(0, runs, at_once)]
    parts = [drawing.drawn(randomness, lot, place * at_once) for place, lot in enumerate(lots)]
    return pa.concat_tables(parts)


@dataclass(frozen=True, eq=False)
class WeightedRuns:
    """The rounds of one plan for all runs.

    counting_pairs: the pairs of a user and a key that count in each run; all if None.
    """

    plan: WeightedPlan
    keys: UserKeys
    counting_pairs: Mask | None = None
    with_priors: bool = False

    def chosen(self, candidates: Mask, randomness: Randomness) -> tuple[Mask, IntArray | None]:
        """The keys that come out of each run, of these; and their counts in that order, None if not published."""
        known = np.where(candidates, FULL_INTEREST, 0)
        for scout in self.plan.scouts:
            known = self.after(known, scout, randomness)
        chosen = self._decided(known, randomness)
        return chosen, self._counts(chosen, randomness)

    def after(self, known: IntArray, scout: PreselectionRound, randomness: Randomness) -> IntArray:
        """The interest in each key after a round of keys."""
        noisy, left = self.weights(known), self._is_held(known)
        noisy[left] += randomness.many(scout.noise, int(left.sum()))
        return np.where(left & (noisy > scout.floor), interest_of(known, noisy, self.plan), 0)

    def weights(self, known: IntArray) -> IntArray:
        """The total weight of each key, by the interest in each."""
        interest = self.keys.interest(known) if self.with_priors else known[:, self.keys.pairs.cell]
        if self.counting_pairs is not None:
            interest = interest * self.counting_pairs
        return self.keys.pairs.sums(self.keys.pairs.weights(interest))

    def _is_held(self, known: IntArray) -> Mask:
        """Keys that are left and have a user."""
        left: Mask = known > 0
        if self.counting_pairs is None:
            return left
        return left & (self.keys.pairs.sums(self.counting_pairs.astype(np.int64)) > 0)

    def _decided(self, known: IntArray, randomness: Randomness) -> Mask:
        """Keys whose noisy weight exceeds the threshold.

        Noise is drawn for every key: the table that `release` inverts for each weight would be made anew for most of
        the weights that runs have.
        """
        votes, voted = self.weights(known), self._is_held(known)
        chosen = np.zeros(votes.shape, np.bool_)
        chosen[voted] = votes[voted] + randomness.many(self.plan.noise, int(voted.sum())) > self.plan.threshold
        return chosen

    def _counts(self, chosen: Mask, randomness: Randomness) -> IntArray | None:
        if self.plan.counting is None:
            return None
        counts = self.keys.counts(chosen, self.plan.counted_per_user, self.plan.times, self.counting_pairs)[chosen]
        noisy: IntArray = counts + randomness.many(self.plan.counting, counts.size)
        return noisy


@dataclass(frozen=True, eq=False)
class _Drawing:
    selection: WeightedSelection
    rounds: WeightedRuns

    def drawn(self, randomness: Randomness, runs: int, first: int) -> pa.Table:
        """The tables of these runs, numbered from `first`."""
        keys, plan = self.rounds.keys, self.rounds.plan
        candidates = np.ones((runs, keys.names.num_rows), np.bool_)
        of_keys = self.rounds
        if plan.scouts and plan.scouts[0].parts is not None:
            candidates = self._parts_after(candidates, plan.scouts[0], randomness)
            of_keys = replace(of_keys, plan=replace(plan, scouts=plan.scouts[1:]))
        chosen, noisy = of_keys.chosen(candidates, randomness)
        run, key = np.nonzero(chosen)
        table = keys.names.take(pa.array(key))
        if noisy is not None:
            table = table.append_column("count", pa.array(noisy, mask=noisy < 1))
        return numbered(table, run + first)

    def _parts_after(self, candidates: Mask, scout: PreselectionRound, randomness: Randomness) -> Mask:
        """All keys are left before a round of parts, and those that pass it are all alike again."""
        users, of_key, part = self.parts
        loads = users.sums(users.weights(np.full((1, len(users.user)), FULL_INTEREST)))[0]
        noisy = loads + randomness.many(scout.noise, loads.size * len(candidates)).reshape(len(candidates), loads.size)
        passed = noisy > scout.floor
        starts = np.searchsorted(of_key, np.arange(candidates.shape[1]))
        whole: Mask = np.logical_and.reduceat(passed[:, part], starts, axis=1)
        return whole

    @cached_property
    def parts(self) -> tuple[UserCells, IntArray, IntArray]:
        """Users with the parts of their keys, each once; and each key with each of its parts, sorted by key."""
        names, pairs = self.rounds.keys.names, self.rounds.keys.pairs
        (column,) = {scout.parts for scout in self.rounds.plan.scouts if scout.parts is not None}
        if column == "query":
            of_key, texts = np.arange(names.num_rows), names["query"]
        else:
            engine, joined = self.selection.engine, self.selection.key[0]
            table = engine.upload(names.append_column("cell", pa.array(np.arange(names.num_rows))))
            unnested = engine.fetch(table.select("cell", part=queries_of(table[joined]).unnest())).sort_by("cell")
            of_key, texts = unnested["cell"].to_numpy(), unnested["part"]
        part = texts.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        starts = np.searchsorted(of_key, np.arange(names.num_rows + 1))
        sizes = np.diff(starts)[pairs.cell]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = np.repeat(starts[pairs.cell], sizes) + within
        both = np.unique(np.stack([np.repeat(pairs.user, sizes), part[places]], axis=1), axis=0)
        return UserCells(both[:, 0], both[:, 1], int(part.max()) + 1, pairs.copies), of_key, part
