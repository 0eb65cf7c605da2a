"""Weighted selection on an engine: users divide a weight among their keys, noise decides, what came out is counted.

Every round is one grouping in the engine. Scouting rounds work on buckets of keys or of their parts (the first digits
of a digest), so that no more than 2^24 of them come to this process, for any size of the log
(privacy/calibration/selection.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.errors import EngineError
from querycloak.methods.keyed_digest import keyed_digest
from querycloak.methods.keys.contribution_bounding import first_keys, first_of_kept
from querycloak.methods.keys.counted_clicks import counted_clicks
from querycloak.methods.keys.parts_of_keys import pieces_of, whole_keys
from querycloak.methods.keys.public_priors import MOST_POINTS
from querycloak.methods.keys.thresholded import KeyCounts, ReleasedKeys, by_key, by_noisy_count, release_keys
from querycloak.methods.noiseless import Past, Step, each_is_drawn, named
from querycloak.methods.runs import numbered, run_of
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

BUCKET_DIGITS = 6
_TEST_SECRET = "the same for all logs"
"""Keys buckets where a guarantee is tested, and in no release."""


@dataclass(frozen=True)
class WeightedSelection:
    """What users hold, in the engine: user, key, its place in time and, where a scout looks at keys, its bucket.

    pieces: each part of what they hold with its bucket, where a scout looks at parts; what that leaves gets buckets of
    its own, by the same secret.
    """

    engine: Engine
    held: ir.Table
    key: tuple[str, ...]
    plan: WeightedPlan
    pieces: ir.Table | None = None
    secret: str = field(default="", repr=False)

    @classmethod
    def of(
        cls, engine: Engine, contributions: ir.Table, key: Sequence[str], plan: WeightedPlan, *, kept: bool = False
    ) -> WeightedSelection:
        """Read the contributions, once; kept: the engine keeps them already."""
        held = first_of_kept(engine, contributions if kept else engine.stage(contributions), key, plan.per_user)
        return cls(engine, held, tuple(key), plan)

    def bucketed(self, secret: str) -> WeightedSelection:
        """The same with buckets for the first scout, by a digest that this secret keys: nobody can aim texts at one."""
        if not self.plan.scouts:
            return self
        parts = self.plan.scouts[0].parts
        if parts is None:
            return replace(self, held=_once_per_bucket(self.engine, self.held, self.key, secret))
        pieces = pieces_of(self.engine, self.held, self.key, parts, lambda text: _bucket(text, secret))
        return replace(self, pieces=pieces, secret=secret)

    def release(self, randomness: Randomness, runs: int | None = None) -> ReleasedKeys:
        """PreselectionRound, decide, count.

        A release draws a secret of its own. Many runs share one, for both of two neighbours: what is proven holds for
        every secret, and runs that shared a drawn one would not be independent.
        """
        if not self.plan.scouts:
            return self._drawn(randomness, runs)
        return self.bucketed(randomness.secret() if runs is None else _TEST_SECRET)._drawn(randomness, runs)

    def _drawn(self, randomness: Randomness, runs: int | None) -> ReleasedKeys:
        left, draws = self, 0
        weighed = self.weighed(None)
        for scout in self.plan.scouts:
            known, drawn = self._scouted(left.looked_at(scout, weighed), scout, randomness, runs)
            # What is known by run gives every later row its run.
            left, weighed = left.after(scout, known)
            draws += drawn
        counts = self.votes(weighed)
        first_of_runs = None if run_of(weighed) else runs
        chosen = release_keys(counts, self.plan.noise, self.plan.threshold, randomness, runs=first_of_runs)
        if self.plan.counting is None:
            return ReleasedKeys(by_key(chosen.table.drop_columns(["count"]), self.key), draws + chosen.draws)
        table = self._counted(chosen, self.plan.counting, randomness)
        return ReleasedKeys(table, draws + chosen.draws + chosen.table.num_rows)

    def weighed(self, known: pa.Table | None) -> ir.Table:
        """What users hold, with its weight, given what is known of each bucket; nothing yet: all alike."""
        if known is None:
            return _weighed(self.held.mutate(known=_long(FULL_INTEREST)))
        return _weighed(self.held.inner_join(self.engine.upload(known), [*run_of(self.held), "bucket"]))

    def looked_at(self, scout: PreselectionRound, weighed: ir.Table) -> ir.Table:
        """What a scout weighs: keys, as they are weighed by now, or their parts, all alike (selection.md, claim 5)."""
        if scout.parts is None:
            return weighed
        parts = self._pieces.select("user", "bucket").distinct()
        return _weighed(parts.mutate(known=_long(FULL_INTEREST)))

    def after(self, scout: PreselectionRound, known: pa.Table) -> tuple[WeightedSelection, ir.Table]:
        """What is left after a scout, and how it is weighed then."""
        if scout.parts is None:
            return self, self.weighed(known)
        passed = self.engine.upload(known.drop_columns(["known"]))
        whole = whole_keys(self.held, self._pieces, self.key, scout.parts, passed)
        left = replace(self, held=_once_per_bucket(self.engine, whole, self.key, self.secret))
        return left, left.weighed(None)

    @property
    def _pieces(self) -> ir.Table:
        if self.pieces is None:
            raise EngineError("a scout of parts needs keys whose parts have buckets; this is a bug in querycloak")
        return self.pieces

    def votes(self, weighed: ir.Table) -> KeyCounts:
        """The weight that each key has, of those that have any."""
        key = (*run_of(weighed), *self.key)
        voted = weighed.filter(weighed.weight > 0)
        weights = voted.group_by(list(key)).agg(n=voted.weight.sum().cast("int64"))
        return KeyCounts(self.engine, self.engine.stage(weights), key)

    def loads(self, weighed: ir.Table) -> pa.Table:
        """The weight that each bucket has that anybody holds, be it 0, and what was known of it."""
        by = [*run_of(weighed), "bucket"]
        # What is known of a bucket is the same for all of its rows.
        sums = weighed.group_by(by).agg(n=weighed.weight.sum().cast("int64"), known=weighed.known.max())
        return _by_bucket(self.engine.fetch(sums))

    def _scouted(
        self, weighed: ir.Table, scout: PreselectionRound, randomness: Randomness, runs: int | None = None
    ) -> tuple[pa.Table, int]:
        """How much interest each bucket deserves that looks heavy enough, and how many draws told."""
        loads = self.loads(weighed)
        if runs is not None and not run_of(loads):
            places = pa.array(np.tile(np.arange(loads.num_rows), runs))
            loads = numbered(loads.take(places), np.repeat(np.arange(runs), loads.num_rows))
        noisy = loads["n"].to_numpy() + randomness.many(scout.noise, loads.num_rows)
        passed = noisy > scout.floor
        known = interest_of(loads["known"].to_numpy()[passed], noisy[passed], self.plan)
        buckets = loads.select([*run_of(loads), "bucket"]).filter(pa.array(passed))
        return buckets.append_column("known", pa.array(known)), loads.num_rows

    def counted(self, chosen: pa.Table) -> pa.Table:
        """The chosen keys, sorted, with the number of users who hold them, of each user the first keys; or clicks."""
        if self.plan.times is not None:
            return counted_clicks(self.engine, self.held, chosen, self.key, self.plan.times)
        key = [*run_of(chosen), *self.key]
        keys = chosen.select(key).sort_by([(name, "ascending") for name in key])
        asked = self.engine.upload(keys)
        join = self.held.inner_join if run_of(chosen) else self.held.semi_join
        held = first_keys(join(asked, list(self.key)), self.key, self.plan.counted_per_user)
        found = self.engine.fetch(held.group_by(key).agg(n=held.count()))
        counts = keys.join(found, key, join_type="left outer")
        return counts.sort_by([(name, "ascending") for name in key])

    def _counted(self, chosen: ReleasedKeys, counting: Gaussian, randomness: Randomness) -> pa.Table:
        """The chosen keys with fresh noisy counts."""
        counts = self.counted(chosen.table)
        keys, true = counts.drop_columns(["n"]), counts["n"].fill_null(0).to_numpy()
        return by_noisy_count(keys, true + randomness.noise(counting, true.size), self.key)

    def steps(self, past: Past) -> Sequence[Step]:
        """Loads of buckets for each scout, weights of keys, users of the keys that came out (selection.md).

        What is proven holds for every secret, so one that is fixed serves to compare neighbours.
        """
        return self.bucketed(_TEST_SECRET)._steps(past)

    def _steps(self, past: Past) -> Sequence[Step]:
        left, weighed = self, self.weighed(None)
        steps, first = [], True
        for number, scout in enumerate(self.plan.scouts, start=1):
            loads = self.loads(left.looked_at(scout, weighed))
            centres = dict(zip(loads["bucket"].to_pylist(), loads["n"].to_pylist(), strict=True))
            buckets = left._buckets(scout)
            drawn = (each_is_drawn([each for each in buckets if first or past.came_out(each)], centres),)
            steps.append(Step(f"scout {number}", centres, l2_squared=GRID**2, noise=scout.noise, limits=drawn))
            left, weighed = left.after(scout, self._known(buckets, past))
            first = scout.parts is not None  # of what a scout of parts leaves, all keys are looked at
        votes = self.votes(weighed).numbers()
        steps.append(Step("decision", votes, l2_squared=GRID**2, noise=self.plan.noise, threshold=self.plan.threshold))
        if self.plan.counting is None:
            return steps
        counts, times, most = self._users(past), self.plan.times, self.plan.counted_per_user
        if times is not None:
            bounds = (times.per_user, times.squared, times.per_key)
            return [*steps, Step("clicks", counts, *bounds, self.plan.counting)]
        return [*steps, Step("counts", counts, l1=most, l2_squared=most, most=1, noise=self.plan.counting)]

    def _buckets(self, scout: PreselectionRound) -> list[str]:
        """Every bucket that somebody holds, of keys or of parts."""
        rows = self.held if scout.parts is None else self._pieces
        buckets: list[str] = self.engine.fetch(rows.select("bucket").distinct())["bucket"].to_pylist()
        return buckets

    def _known(self, buckets: Sequence[str], past: Past) -> pa.Table:
        """What the scouts are supposed to have found out."""
        left = [bucket for bucket in buckets if past.came_out(bucket)]
        known = [LEAST_INTEREST if bucket in past.lightened else FULL_INTEREST for bucket in left]
        return pa.table({"bucket": pa.array(left, pa.string()), "known": pa.array(known, pa.int64())})

    def _users(self, past: Past) -> dict[str, int]:
        """How many users are counted for each key that is supposed to have come out."""
        keys = self.engine.fetch(self.held.select(*self.key).distinct())
        names = ["\t".join(key.values()) for key in keys.to_pylist()]
        counts = self.counted(keys.filter(pa.array([past.came_out(name) for name in names], pa.bool_())))
        return named(
            zip(*(counts[name].to_pylist() for name in self.key), strict=True), counts["n"].fill_null(0).to_pylist()
        )


def _once_per_bucket(engine: Engine, held: ir.Table, key: Sequence[str], secret: str) -> ir.Table:
    """Of a user's keys that share a bucket the first: else their weights would add up beyond the bound."""
    user = [*run_of(held), "user"]
    joined = ibis.literal("\t").join([held[name] for name in key])
    bucketed = engine.stage(held.mutate(bucket=_bucket(joined, secret)))
    # Hardly any do, so what is put in order, and then left out, are those few alone.
    keys = bucketed.group_by([*user, "bucket"]).agg(keys=bucketed.count())
    sharing = bucketed.semi_join(keys.filter(keys["keys"] > 1), [*user, "bucket"])
    window = ibis.window(
        group_by=[sharing[name] for name in (*user, "bucket")], order_by=[sharing[name] for name in ("earliest", *key)]
    )
    placed = sharing.mutate(place=ibis.row_number().over(window))
    later = engine.stage(placed.filter(placed.place > 0).select(*user, *key))
    return bucketed.anti_join(later, [*user, *key])


def _bucket(text: ir.StringValue, secret: str) -> ir.StringValue:
    return keyed_digest(text, secret, BUCKET_DIGITS)


def _by_bucket(loads: pa.Table) -> pa.Table:
    """In order of run and bucket: digits are sorted as a number, which is many times faster than as texts."""
    digits = Spans.of(loads["bucket"].combine_chunks())
    number = np.zeros(len(digits), np.int64)
    for place in range(BUCKET_DIGITS):
        number = number * 256 + digits.data[digits.starts + place]
    runs = (loads[name].to_numpy() for name in run_of(loads))
    return loads.take(pa.array(np.lexsort((number, *runs))))


def _weighed(rows: ir.Table) -> ir.Table:
    """Each row with its weight: GRID x interest / the length of the user's interests, rounded down, perhaps to 0.

    Rows of weight 0 stay: a bucket that somebody holds draws noise, or one more user would decide whether it does.
    """
    rows = rows.mutate(interest=_interest(rows))
    users = ibis.window(group_by=[rows[name] for name in (*run_of(rows), "user")])
    squares = (rows.interest * rows.interest).sum().over(users).cast("int64")
    rows = rows.mutate(length=squares)
    near = (rows.interest * GRID / rows.length.cast("float64").sqrt()).floor().cast("int64")
    rows = rows.mutate(near=near)
    # Floats may land on the next whole number: integers say whether they did.
    above = rows.near * rows.near * rows.length > rows.interest * rows.interest * (GRID * GRID)
    weighed = rows.mutate(weight=rows.near - above.cast("int64"))
    return weighed.drop("near", "length", "interest")


def _interest(rows: ir.Table) -> ir.Value:
    """What the scouts found, or half as much for every two points of a key's prior."""
    if "prior" not in rows.columns:
        return rows.known
    levels = [int(FULL_INTEREST / 2 ** (points / 2)) for points in range(MOST_POINTS + 1)]
    cases = [(points, _long(level)) for points, level in enumerate(levels)]
    level = rows.prior.cases(*cases, else_=_long(levels[-1]))
    return ibis.greatest((rows.known * level).floordiv(_long(FULL_INTEREST)), _long(LEAST_INTEREST))


def _long(number: int) -> ir.Value:
    """A number of 64 bits: a bare literal gets the narrowest type that holds it, and products overflow that."""
    return ibis.literal(number, "int32").cast("int64")
