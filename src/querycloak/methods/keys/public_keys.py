"""Noisy counts of keys that are all public: those that nobody asked for get noise too, at no extra cost.

The keys are all combinations of public lists, up to 10^12 and more, so they are never written down: of those that do
not occur, how many pass the threshold is one exact binomial draw, and which ones a uniform choice (query_pool.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.methods.keys.thresholded import KeyCounts, by_count, release_keys
from querycloak.privacy.calibration.histogram import release_groups
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import IntArray, Randomness

# From this many occurring keys per free one, free ones are listed rather than found by trying.
_CROWDED = 1


@dataclass(frozen=True)
class PublicKeys:
    """All combinations of one or two public lists, each without repeats; `different` leaves out (a, a)."""

    columns: dict[str, pa.Array]
    different: bool = False

    @property
    def size(self) -> int:
        """Number of keys."""
        lengths = [len(values) for values in self.columns.values()]
        return lengths[0] * (lengths[1] - self.different) if len(lengths) > 1 else lengths[0]

    @property
    def none(self) -> pa.Table:
        """A table of no key, with a column of counts."""
        return pa.table(
            {**{name: values.slice(0, 0) for name, values in self.columns.items()}, "count": pa.array([], pa.int64())}
        )

    def at(self, codes: IntArray) -> pa.Table:
        """The keys of these numbers, from 0 to size - 1."""
        names = list(self.columns)
        if len(names) == 1:
            return pa.table({names[0]: self.columns[names[0]].take(pa.array(codes))})
        first, second = np.divmod(codes, len(self.columns[names[1]]) - self.different)
        if self.different:
            second = second + (second >= first)
        chosen = (first, second)
        return pa.table({name: self.columns[name].take(pa.array(places)) for name, places in zip(names, chosen, strict=True)})  # noqa: E501  # fmt: skip

    def codes(self, keys: pa.Table) -> IntArray:
        """The numbers of these keys."""
        places = [
            pc.index_in(keys[name], value_set=values).to_numpy().astype(np.int64)
            for name, values in self.columns.items()
        ]
        if len(places) == 1:
            return np.asarray(places[0], dtype=np.int64)
        first, second = places
        if self.different:
            second = second - (second > first)
        width = len(list(self.columns.values())[1]) - self.different
        return np.asarray(first * width + second, dtype=np.int64)


def release_public(
    counts: KeyCounts, public: PublicKeys, noise: Noise, threshold: int, randomness: Randomness
) -> pa.Table:
    """The public keys whose noisy count exceeds the threshold, sorted by count and key; counts may hold no others."""
    occurring = release_keys(counts, noise, threshold, randomness).table
    # An engine may mark a column as never null, which tables of other rows are not.
    occurring = pa.table({name: occurring[name] for name in occurring.column_names})
    used = counts.engine.fetch(counts.table.agg(keys=counts.table.count()))["keys"][0].as_py()
    free = public.size - used
    if free == 0:
        return occurring
    passed = release_groups([0], [free], noise, threshold, randomness)
    chosen = public.at(_free_keys(counts, public, used, passed.count.size, randomness))
    return by_count(
        pa.concat_tables([occurring, chosen.append_column("count", pa.array(passed.count))]), list(public.columns)
    )


def _free_keys(counts: KeyCounts, public: PublicKeys, used: int, wanted: int, randomness: Randomness) -> IntArray:
    """This number of different keys that do not occur, in the order drawn; every such set equally likely."""
    if wanted and used > _CROWDED * (public.size - used):
        taken = public.codes(counts.engine.fetch(counts.table.select(*counts.key)))
        free = np.setdiff1d(np.arange(public.size), taken)
        return np.asarray(free[randomness.choose(free.size, wanted)], dtype=np.int64)
    chosen = np.empty(0, dtype=np.int64)
    # As in Randomness.choose: each round draws what is missing; what occurs or was drawn before is drawn again.
    while chosen.size < wanted:
        drawn = np.setdiff1d(randomness.below(public.size, wanted - chosen.size), chosen)
        chosen = np.concatenate([chosen, _not_occurring(counts, public, drawn)])
    return chosen


def _not_occurring(counts: KeyCounts, public: PublicKeys, codes: IntArray) -> IntArray:
    asked = counts.engine.upload(public.at(codes).append_column("code", pa.array(codes)))
    occurring = counts.engine.fetch(asked.semi_join(counts.table, list(counts.key)).select("code"))
    return np.setdiff1d(codes, occurring["code"].to_numpy())
