"""A thresholded histogram of keys that an engine counts: only what can come out is fetched.

Keys that are likely to pass are fetched with their counts. Of the others only the number of keys of each count
comes to this process; those few that are drawn to pass are then fetched by their rank in a fixed order, bucket by
bucket, so that no engine has to number all keys (clicks.md, step 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.histogram import GroupRelease, release, release_groups
from querycloak.privacy.calibration.key_chances import KeyChances
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import IntArray, Randomness

# Keys of a count that passes with at least this chance are fetched: a public rule, it does not change the law.
_LIKELY = 2.0**-10
_CLAMPED = "clamped"
_BUCKET_DIGITS = 3


@dataclass(frozen=True)
class KeyCounts:
    """Keys with their counts, in an engine."""

    engine: Engine
    table: ir.Table
    key: tuple[str, ...]

    @classmethod
    def of(cls, engine: Engine, contributions: ir.Table, key: Sequence[str]) -> KeyCounts:
        """Count the contributions by key, once."""
        counts = contributions.group_by(list(key)).agg(n=contributions.count())
        return cls(engine, engine.stage(counts), tuple(key))

    def numbers(self) -> dict[str, int]:
        """The count of each key, whose columns are joined by tabs (private)."""
        counts = self.engine.fetch(self.table)
        names = zip(*(counts[name].to_pylist() for name in self.key), strict=True)
        return dict(zip(map("\t".join, names), counts["n"].to_pylist(), strict=True))


@dataclass(frozen=True)
class ReleasedKeys:
    """Keys that came out with their noisy counts; `draws` is private output."""

    table: pa.Table
    draws: int


def release_keys(
    counts: KeyCounts,
    noise: Noise,
    threshold: int,
    randomness: Randomness,
    *,
    published_noise: Noise | None = None,
    tie_probability: float = 0.0,
) -> ReleasedKeys:
    """The keys whose noisy count exceeds the threshold, or equals it and passes by chance; by count and key.

    published_noise: of a second draw that is published instead. tie_probability: the chance of a key at the threshold.
    """
    likely = least_likely_count(noise, threshold - 1 if tie_probability else threshold)
    candidates = counts.engine.fetch(counts.table.filter(counts.table.n >= likely))
    candidates = candidates.sort_by([(name, "ascending") for name in counts.key])
    high = release(
        candidates["n"].to_numpy(),
        noise,
        threshold,
        randomness,
        published_noise=published_noise,
        tie_probability=tie_probability,
    )
    keys = candidates.select(counts.key).take(pa.array(high.key)).append_column("count", pa.array(high.count))
    tables, draws = [keys], high.draws
    sizes = counts.engine.fetch(_sizes(counts.table.filter(counts.table.n < likely)))
    if sizes.num_rows:
        sizes = sizes.sort_by("n")
        values, numbers = sizes["n"].to_numpy(), sizes["keys"].to_numpy()
        low = release_groups(
            values,
            numbers,
            noise,
            threshold,
            randomness,
            published_noise=published_noise,
            tie_probability=tie_probability,
        )
        tables += _fetch_by_rank(counts, values, low)
        draws += low.draws
    return ReleasedKeys(by_count(pa.concat_tables(tables), counts.key), draws)


def release_by_chance(counts: KeyCounts, chances: KeyChances, randomness: Randomness) -> ReleasedKeys:
    """The keys that come out without counts, each with the chance of its number of users; sorted by key."""
    likely = max(1, chances.first(Fraction(_LIKELY)))
    candidates = counts.engine.fetch(counts.table.filter(counts.table.n >= likely))
    candidates = candidates.sort_by([(name, "ascending") for name in counts.key])
    users = candidates["n"].to_numpy()
    values, sizes = np.unique(users, return_counts=True)
    high = by_chance(values, sizes, chances, randomness)
    # Equal counts side by side: a rank within a group is then a place in this order.
    order, first = np.argsort(users, kind="stable"), np.cumsum(sizes) - sizes
    keys = candidates.select(counts.key).take(pa.array(order[first[high.group] + high.rank]))
    tables = [keys]
    unlikely = counts.engine.fetch(_sizes(counts.table.filter(counts.table.n < likely)))
    if unlikely.num_rows:
        unlikely = unlikely.sort_by("n")
        values = unlikely["n"].to_numpy()
        low = by_chance(values, unlikely["keys"].to_numpy(), chances, randomness)
        fetched = _fetch_by_rank(counts, values, low)
        tables += [each.drop_columns(["count"]) for each in fetched]
    together = pa.concat_tables(tables)
    return ReleasedKeys(by_key(together, counts.key), together.num_rows)


def by_chance(
    values: NDArray[np.int64], sizes: NDArray[np.int64], chances: KeyChances, randomness: Randomness
) -> GroupRelease:
    """For each number of users: one binomial draw says how many of its keys come out, a uniform choice which ones.

    values: numbers of users. sizes: number of keys with each of them.
    """
    ranks: list[NDArray[np.int64]] = []
    for users, size in zip(values.tolist(), sizes.tolist(), strict=True):
        ranks.append(randomness.choose(size, randomness.binomial(size, chances.of(users))))
    group = np.repeat(np.arange(len(ranks)), [each.size for each in ranks])
    rank = np.concatenate([np.empty(0, np.int64), *ranks])
    return GroupRelease(np.zeros_like(rank), group, rank, values[group] if group.size else rank, rank.size)


def by_key(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """In order of the key alone."""
    return table.sort_by([(name, "ascending") for name in key])


def by_count(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Largest count first, then by key: the order says nothing about the input."""
    return table.sort_by([("count", "descending"), *((name, "ascending") for name in key)])


def by_noisy_count(keys: pa.Table, noisy: IntArray, key: Sequence[str]) -> pa.Table:
    """The keys with their noisy counts, in the order of `by_count`; a count below 1 is clamped noise, so it is null.

    It stands among the counts of 1: somebody holds a key that came out.
    """
    clamped = by_count(
        keys.append_column("count", pa.array(np.maximum(noisy, 1))).append_column(_CLAMPED, pa.array(noisy < 1)), key
    )
    counts = pc.if_else(clamped[_CLAMPED], pa.scalar(None, pa.int64()), clamped["count"])
    return clamped.drop_columns(["count", _CLAMPED]).append_column("count", counts)


def least_likely_count(noise: Noise, threshold: int) -> int:
    """The smallest count that passes the threshold with a chance of at least 2^-10."""
    # A count above the threshold passes with a chance of more than one half.
    return smallest_integer(
        lambda count: noise.tail(threshold + 1 - count).up() >= _LIKELY, above=0, first=threshold + 1
    )


def _sizes(table: ir.Table) -> ir.Table:
    return table.group_by("n").agg(keys=table.count())


def _fetch_by_rank(counts: KeyCounts, values: NDArray[np.int64], low: GroupRelease) -> list[pa.Table]:
    """The keys that stand at the ranks drawn, among those of their count in order of bucket and key."""
    fetched = []
    for group in np.unique(low.group):
        inside = low.group == group
        fetched.append(_keys_at(counts, int(values[group]), low.rank[inside], low.count[inside]))
    return fetched


def _keys_at(
    counts: KeyCounts,
    value: int,
    ranks: NDArray[np.int64],
    noisy: NDArray[np.int64],
) -> pa.Table:
    equal = counts.table.filter(counts.table.n == value)
    # A digest spreads keys alike on every engine, so a seeded test sees one order on all of them.
    joined = ibis.literal("\t").join([equal[name] for name in counts.key])
    equal = equal.mutate(bucket=joined.hexdigest("md5").substr(0, _BUCKET_DIGITS))
    buckets = counts.engine.fetch(equal.group_by("bucket").agg(keys=equal.count())).sort_by("bucket")
    sizes = buckets["keys"].to_numpy()
    ends = np.cumsum(sizes)
    places = np.searchsorted(ends, ranks, side="right")
    wanted = np.unique(places)
    names = buckets["bucket"].take(pa.array(wanted)).to_pylist()
    members = counts.engine.fetch(equal.filter(equal.bucket.isin(names)).select("bucket", *counts.key))
    members = members.sort_by([("bucket", "ascending"), *((name, "ascending") for name in counts.key)])
    # Where each wanted bucket begins among the members fetched, and how far the rank lies within its bucket.
    begins = np.cumsum(sizes[wanted]) - sizes[wanted]
    at = begins[np.searchsorted(wanted, places)] + ranks - (ends - sizes)[places]
    return members.take(pa.array(at)).select(counts.key).append_column("count", pa.array(noisy))
