"""Weighted selection on an engine: users divide a weight among their keys, noise decides, what came out is counted.

Every round is one grouping in the engine. Preselection rounds work on buckets of keys or of their parts (the first
digits of a digest). No more than about 2^24 of them come to this process at once, for any size of the log
(privacy/calibration/selection.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.errors import EngineError
from querycloak.logs.sequences import queries_of
from querycloak.methods.keyed_digest import keyed_digest
from querycloak.methods.keys.contribution_bounding import bounded_clicks, first_keys, first_of_kept
from querycloak.methods.keys.public_priors import MOST_POINTS
from querycloak.methods.keys.thresholded import KeyCounts, ReleasedKeys, by_key, by_noisy_count, release_keys
from querycloak.privacy.calibration.weighted import (
    FULL_INTEREST,
    GRID,
    LEAST_INTEREST,
    PreselectionRound,
    WeightedPlan,
    interest_of,
)
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.text.spans import Spans

BUCKET_DIGITS = 16
"""Digits of a key's bucket: 64 bits, so that a key hardly ever shares one with another (selection.md, claim 6)."""
PART_DIGITS = 6
"""Digits of a part's bucket: parts may share one."""
MOST_AT_ONCE = 1 << 24
"""Loads that come to this process at once."""


@dataclass(frozen=True)
class WeightedSelection:
    """Users' keys in the engine: user, key, its place in time and, if a preselection round looks at keys, its bucket.

    pieces: each part of these keys with its bucket, if the first round looks at parts; the keys that pass it get
    buckets of their own, by the same secret.
    """

    engine: Engine
    keys: ir.Table
    key: tuple[str, ...]
    plan: WeightedPlan
    pieces: ir.Table | None = None
    secret: str = field(default="", repr=False)

    @classmethod
    def of(
        cls, engine: Engine, contributions: ir.Table, key: Sequence[str], plan: WeightedPlan, *, kept: bool = False
    ) -> WeightedSelection:
        """Read the contributions, once; kept: the engine keeps them already."""
        keys = first_of_kept(engine, contributions if kept else engine.stage(contributions), key, plan.per_user)
        return cls(engine, keys, tuple(key), plan)

    def bucketed(self, secret: str) -> WeightedSelection:
        """The same with buckets for the first round, by a digest that this secret keys: nobody can aim texts at one."""
        if not self.plan.scouts:
            return self
        parts = self.plan.scouts[0].parts
        if parts is None:
            return replace(self, keys=_once_per_bucket(self.engine, self.keys, self.key, secret))
        pieces = _pieces_of(self.engine, self.keys, self.key, parts, lambda text: _bucket(text, secret, PART_DIGITS))
        return replace(self, pieces=pieces, secret=secret)

    def release(self, randomness: Randomness) -> ReleasedKeys:
        """Preselect round by round, decide, count; buckets are keyed by a fresh secret."""
        return (self.bucketed(randomness.secret()) if self.plan.scouts else self)._drawn(randomness)

    def _drawn(self, randomness: Randomness) -> ReleasedKeys:
        left, weighed, draws = self, self.weighed(None), 0
        for scout in self.plan.scouts:
            passed: list[ir.Table] = []
            for loads in left.loads_in_turn(left.looked_at(scout, weighed)):
                passed.append(self.engine.upload(self._preselected(loads, scout, randomness)))
                draws += loads.num_rows
            left, weighed = left.after(scout, passed[0] if len(passed) == 1 else ibis.union(*passed))
        chosen = release_keys(self.votes(weighed), self.plan.noise, self.plan.threshold, randomness)
        draws += chosen.draws
        if self.plan.counting is None:
            return ReleasedKeys(by_key(chosen.table.drop_columns(["count"]), self.key), draws)
        table = self._counted(chosen, self.plan.counting, randomness)
        return ReleasedKeys(table, draws + chosen.table.num_rows)

    def weighed(self, known: ir.Table | None) -> ir.Table:
        """The keys with their weights, by the interest in each bucket (column `known`); None: all keys alike."""
        if known is None:
            return _weighed(self.keys.mutate(known=_long(FULL_INTEREST)))
        return _weighed(self.keys.inner_join(known, "bucket"))

    def looked_at(self, scout: PreselectionRound, weighed: ir.Table) -> ir.Table:
        """The rows of a round: keys with their weights by now, or their parts, all alike (selection.md, claim 5)."""
        if scout.parts is None:
            return weighed
        parts = self._pieces.select("user", "bucket").distinct()
        return _weighed(parts.mutate(known=_long(FULL_INTEREST)))

    def after(self, scout: PreselectionRound, known: ir.Table) -> tuple[WeightedSelection, ir.Table]:
        """The keys that are left after a round, and their weights then."""
        if scout.parts is None:
            return self, self.weighed(known)
        whole = _whole_keys(self.keys, self._pieces, self.key, scout.parts, known.drop("known"))
        left = replace(self, keys=_once_per_bucket(self.engine, whole, self.key, self.secret))
        return left, left.weighed(None)

    @property
    def _pieces(self) -> ir.Table:
        if self.pieces is None:
            raise EngineError("a scout of parts needs keys whose parts have buckets; this is a bug in querycloak")
        return self.pieces

    def votes(self, weighed: ir.Table) -> KeyCounts:
        """The total weight of each key that somebody holds, 0 included."""
        weights = weighed.group_by(list(self.key)).agg(n=weighed.weight.sum().cast("int64"))
        return KeyCounts(self.engine, self.engine.stage(weights), self.key)

    def loads(self, weighed: ir.Table) -> pa.Table:
        """The total weight `n` of each bucket that somebody holds, 0 included, and the interest in it so far."""
        return pa.concat_tables(list(self.loads_in_turn(weighed)))

    def loads_in_turn(self, weighed: ir.Table) -> Iterator[pa.Table]:
        """The same in order of bucket; in slices, if there are many."""
        # The interest in a bucket is the same for all of its rows.
        sums = weighed.group_by("bucket").agg(n=weighed.weight.sum().cast("int64"), known=weighed.known.max())
        staged = self.engine.stage(sums)
        number, digits = int(self.engine.fetch(staged.aggregate(n=staged.count()))["n"][0].as_py()), 0
        while number >> 4 * digits > MOST_AT_ONCE:
            digits += 1
        if not digits:
            yield _by_bucket(self.engine.fetch(staged))
            return
        for place in range(16**digits):
            within = staged.bucket.substr(0, digits) == f"{place:0{digits}x}"
            yield _by_bucket(self.engine.fetch(staged.filter(within)))

    def _preselected(self, loads: pa.Table, scout: PreselectionRound, randomness: Randomness) -> pa.Table:
        """The buckets whose noisy weight exceeds the round's floor, with the interest that users have in them now."""
        noisy = loads["n"].to_numpy() + randomness.many(scout.noise, loads.num_rows)
        passed = noisy > scout.floor
        known = interest_of(loads["known"].to_numpy()[passed], noisy[passed], self.plan)
        return loads.select(["bucket"]).filter(pa.array(passed)).append_column("known", pa.array(known))

    def counted(self, chosen: pa.Table) -> pa.Table:
        """The chosen keys, sorted, with `n`: users who hold them, of each user the first keys; or clicks."""
        if self.plan.times is not None:
            return bounded_clicks(self.engine, self.keys, chosen, self.key, self.plan.times)
        order = [(name, "ascending") for name in self.key]
        names = chosen.select(self.key).sort_by(order)
        mine = self.keys.semi_join(self.engine.upload(names), list(self.key))
        first = first_keys(mine, self.key, self.plan.counted_per_user)
        counts = self.engine.fetch(first.group_by(list(self.key)).agg(n=first.count()))
        return names.join(counts, list(self.key), join_type="left outer").sort_by(order)

    def _counted(self, chosen: ReleasedKeys, counting: Gaussian, randomness: Randomness) -> pa.Table:
        """The chosen keys with fresh noisy counts."""
        counts = self.counted(chosen.table)
        keys, true = counts.drop_columns(["n"]), counts["n"].fill_null(0).to_numpy()
        return by_noisy_count(keys, true + randomness.noise(counting, true.size), self.key)


def _pieces_of(
    engine: Engine, keys: ir.Table, key: Sequence[str], parts: str, bucket: Callable[[ir.StringValue], ir.StringValue]
) -> ir.Table:
    """A row for every part of users' keys, with its `bucket`.

    Whether a part is shared is easier to see than whether the key is: as many users have it, or more, and each user
    has fewer parts than keys (selection.md, claim 5). parts: "query", a column of the key, whose rows are computed when
    they are read, so that texts are not kept twice; or "queries", which the key's only column joins: these are kept.
    """
    if parts == "query":
        return keys.mutate(bucket=bucket(keys["query"]))
    queries = queries_of(keys[key[0]])
    rows = keys.select("user", *key, parts=queries.length(), part=queries.unnest())
    return engine.stage(rows.select("user", *key, "parts", bucket=bucket(rows.part)))


def _whole_keys(keys: ir.Table, pieces: ir.Table, key: Sequence[str], parts: str, passed: ir.Table) -> ir.Table:
    """The users' keys all of whose parts passed."""
    left = pieces.inner_join(passed, "bucket")
    if parts == "query":
        return left.drop("bucket")
    each = ["user", *key]
    counted = left.group_by(each).agg(left=left.count(), parts=left.parts.max())
    whole = counted.filter(counted.left == counted.parts).select(*each)
    return keys.inner_join(whole, each)


def _once_per_bucket(engine: Engine, keys: ir.Table, key: Sequence[str], secret: str) -> ir.Table:
    """The first of a user's keys that share a bucket: else their weights would add up beyond the bound."""
    joined = ibis.literal("\t").join([keys[name] for name in key])
    bucketed = engine.stage(keys.mutate(bucket=_bucket(joined, secret)))
    # Hardly any do, so only those few are put in order, and the later ones left out.
    numbers = bucketed.group_by(["user", "bucket"]).agg(number=bucketed.count())
    sharing = bucketed.semi_join(numbers.filter(numbers.number > 1), ["user", "bucket"])
    window = ibis.window(
        group_by=[sharing.user, sharing.bucket], order_by=[sharing[name] for name in ("earliest", *key)]
    )
    placed = sharing.mutate(place=ibis.row_number().over(window))
    later = engine.stage(placed.filter(placed.place > 0).select("user", *key))
    return bucketed.anti_join(later, ["user", *key])


def _bucket(text: ir.StringValue, secret: str, digits: int | None = None) -> ir.StringValue:
    return keyed_digest(text, secret, BUCKET_DIGITS if digits is None else digits)


def _by_bucket(loads: pa.Table) -> pa.Table:
    """In order of bucket: digits are sorted as two numbers, which is many times faster than as texts."""
    digits = Spans.of(loads["bucket"].combine_chunks())
    padded = np.zeros((len(digits), 16), np.uint8)
    for place in range(int(digits.lengths.max(initial=0))):
        padded[:, place] = digits.data[digits.starts + place]
    numbers = padded.view(">u8").astype(np.uint64)
    return loads.take(pa.array(np.lexsort((numbers[:, 1], numbers[:, 0]))))


def _weighed(rows: ir.Table) -> ir.Table:
    """Each row with its weight: GRID x interest / the length of the user's interests, rounded down, perhaps to 0.

    Rows of weight 0 stay: a bucket that somebody holds draws noise, or one more user would decide whether it does.
    """
    rows = rows.mutate(interest=_interest(rows))
    squares = (rows.interest * rows.interest).sum().over(ibis.window(group_by=rows.user)).cast("int64")
    rows = rows.mutate(length=squares)
    near = (rows.interest * GRID / rows.length.cast("float64").sqrt()).floor().cast("int64")
    rows = rows.mutate(near=near)
    # Floats may land on the next whole number: integers say whether they did.
    above = rows.near * rows.near * rows.length > rows.interest * rows.interest * (GRID * GRID)
    weighed = rows.mutate(weight=rows.near - above.cast("int64"))
    return weighed.drop("near", "length", "interest")


def _interest(rows: ir.Table) -> ir.Value:
    """The interest that the rounds left, or half as much for every two points of a key's prior."""
    if "prior" not in rows.columns:
        return rows.known
    levels = [int(FULL_INTEREST / 2 ** (points / 2)) for points in range(MOST_POINTS + 1)]
    cases = [(points, _long(level)) for points, level in enumerate(levels)]
    level = rows.prior.cases(*cases, else_=_long(levels[-1]))
    return ibis.greatest((rows.known * level).floordiv(_long(FULL_INTEREST)), _long(LEAST_INTEREST))


def _long(number: int) -> ir.Value:
    """A number of 64 bits: a bare literal gets the narrowest type that holds it, and products overflow that."""
    return ibis.literal(number, "int32").cast("int64")
