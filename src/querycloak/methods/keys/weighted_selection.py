"""Weighted selection on an engine: users divide a weight among their keys, noise decides, what came out is counted.

Every round is one grouping in the engine, by keys or by their parts. A preselection round hands the total weights over
to this process, which draws noise for each and hands back those that passed: no texts, but digests (`Loads`). No more
than about 2^24 of them come at once, for any size of the log (privacy/calibration/selection.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines import Engine
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

DIGITS = 32
"""Digits of a digest: 128 bits, so that no two keys share one (selection.md, *Digests*)."""
_WRITTEN = {"\x1e": "\x1e0", "\t": "\x1e1"}
"""How keys of several texts are digested: a tab only stands between two of them."""
MOST_AT_ONCE = 1 << 24
"""Loads that come to this process at once."""
_DIGIT = np.array([int(chr(byte), 16) if chr(byte) in "0123456789abcdef" else 0 for byte in range(256)], np.uint8)


@dataclass(frozen=True)
class WeightedSelection:
    """Users' keys in the engine: user, key and its place in time.

    secret: what keys the digests of a release.
    """

    engine: Engine
    keys: ir.Table
    key: tuple[str, ...]
    plan: WeightedPlan
    secret: str = field(default="", repr=False)

    @classmethod
    def of(
        cls, engine: Engine, contributions: ir.Table, key: Sequence[str], plan: WeightedPlan, *, kept: bool = False
    ) -> WeightedSelection:
        """Read the contributions, once; kept: the engine keeps them already."""
        keys = first_of_kept(engine, contributions if kept else engine.stage(contributions), key, plan.per_user)
        return cls(engine, keys, tuple(key), plan)

    def release(self, randomness: Randomness) -> ReleasedKeys:
        """Preselect round by round, decide, count; digests are keyed by a fresh secret."""
        keyed = replace(self, secret=randomness.secret()) if self.plan.scouts else self
        return keyed.drawn(randomness)

    def drawn(self, randomness: Randomness) -> ReleasedKeys:
        """The same with the secret that the selection has."""
        left, weighed, draws = self, self.weighed(None), 0
        for scout in self.plan.scouts:
            loads, passed = left.loads(scout, weighed), []
            for part in loads.in_turn():
                passed.append(self.engine.upload(self._preselected(part, scout, randomness)))
                draws += part.num_rows
            left, weighed = left.after(scout, loads.known(passed))
        chosen = release_keys(self.votes(weighed), self.plan.noise, self.plan.threshold, randomness)
        draws += chosen.draws
        if self.plan.counting is None:
            return ReleasedKeys(by_key(chosen.table.drop_columns(["count"]), self.key), draws)
        table = self._counted(chosen, self.plan.counting, randomness)
        return ReleasedKeys(table, draws + chosen.table.num_rows)

    def weighed(self, known: ir.Table | None) -> ir.Table:
        """The keys with their weights, by the interest in each key (column `known`); None: all keys alike."""
        if known is None and "prior" not in self.keys.columns:
            return _equally_weighed(self.keys)
        if known is None:
            return _weighed(self.keys.mutate(known=_long(FULL_INTEREST)))
        return _weighed(self.keys.inner_join(known, list(self.key)))

    def looked_at(self, scout: PreselectionRound, weighed: ir.Table) -> ir.Table:
        """The rows of a round: keys with their weights by now, or their parts, all alike (selection.md, claim 5)."""
        if scout.parts is None:
            return weighed
        return _equally_weighed(self.parts(scout.parts).select("user", "part").distinct())

    def loads(self, scout: PreselectionRound, weighed: ir.Table) -> Loads:
        """The total weights that a round looks at."""
        names = self.key if scout.parts is None else ("part",)
        return Loads.of(self.engine, self.looked_at(scout, weighed), names, self.secret)

    def after(self, scout: PreselectionRound, known: ir.Table) -> tuple[WeightedSelection, ir.Table]:
        """The keys that are left after a round, and their weights then; known: what passed, with its interest."""
        if scout.parts is None:
            return self, self.weighed(known)
        left = replace(self, keys=self.engine.stage(self._whole_keys(scout.parts, known.drop("known"))))
        return left, left.weighed(None)

    def parts(self, parts: str) -> ir.Table:
        """A row for every part of users' keys: `part`, with the user and the key.

        Whether a part is shared is easier to see than whether the key is: as many users have it, or more, and each user
        has fewer parts than keys (selection.md, claim 5). parts: "query", a column of the key; or "queries", which the
        key's only column joins: `parts` is then their number.
        """
        if parts == "query":
            return self.keys.mutate(part=self.keys["query"])
        queries = queries_of(self.keys[self.key[0]])
        return self.keys.select("user", *self.key, parts=queries.length(), part=queries.unnest())

    def _whole_keys(self, parts: str, passed: ir.Table) -> ir.Table:
        """The users' keys all of whose parts passed."""
        columns = [name for name in ("user", *self.key, "prior") if name in self.keys.columns]
        left = self.parts(parts).semi_join(passed, "part")
        if parts == "query":
            return left.select(*columns)
        each = ["user", *self.key]
        counted = left.group_by(each).agg(left=left.count(), parts=left.parts.max())
        whole = counted.filter(counted.left == counted.parts).select(*each)
        return whole if columns == each else self.keys.select(*columns).semi_join(whole, each)

    def votes(self, weighed: ir.Table) -> KeyCounts:
        """The total weight of each key that somebody holds, 0 included."""
        weights = weighed.group_by(list(self.key)).agg(n=weighed.weight.sum().cast("int64"))
        return KeyCounts(self.engine, self.engine.stage(weights), self.key)

    def _preselected(self, loads: pa.Table, scout: PreselectionRound, randomness: Randomness) -> pa.Table:
        """The digests of what exceeds the round's floor with its noise, each once, with users' interest in it now."""
        noisy = loads["n"].to_numpy() + randomness.many(scout.noise, loads.num_rows)
        passed = np.flatnonzero(noisy > scout.floor)
        known = interest_of(loads["known"].to_numpy()[passed], noisy[passed], self.plan)
        left = pa.table({"digest": loads["digest"].take(pa.array(passed)), "known": known})
        return left.group_by("digest").aggregate([("known", "max")]).rename_columns({"known_max": "known"})

    def counted(self, chosen: pa.Table) -> pa.Table:
        """The chosen keys, sorted, with `n`: users who hold them, of each user the first keys; or clicks."""
        if self.plan.times is not None:
            return bounded_clicks(self.engine, self.keys, chosen, self.key, self.plan.times)
        names = chosen.select(self.key).sort_by([(name, "ascending") for name in self.key])
        # A key's place in this order stands for its texts.
        places = names.append_column("key_place", pa.array(np.arange(names.num_rows)))
        mine = self.keys.inner_join(self.engine.upload(places), list(self.key))
        mine = mine.drop(*self.key)
        first = first_keys(mine, ["key_place"], self.plan.counted_per_user)
        counts = self.engine.fetch(first.group_by("key_place").agg(n=first.count()))
        numbers = np.zeros(names.num_rows, np.int64)
        numbers[counts["key_place"].to_numpy()] = counts["n"].to_numpy()
        return names.append_column("n", pa.array(numbers))

    def _counted(self, chosen: ReleasedKeys, counting: Gaussian, randomness: Randomness) -> pa.Table:
        """The chosen keys with fresh noisy counts."""
        counts = self.counted(chosen.table)
        keys, true = counts.drop_columns(["n"]), counts["n"].fill_null(0).to_numpy()
        return by_noisy_count(keys, true + randomness.noise(counting, true.size), self.key)


@dataclass(frozen=True)
class Loads:
    """The total weight `n` of each key, or part, that somebody holds, 0 included, and `known`, the interest so far."""

    engine: Engine
    table: ir.Table
    names: tuple[str, ...]

    @classmethod
    def of(cls, engine: Engine, weighed: ir.Table, names: Sequence[str], secret: str) -> Loads:
        """Add up the weights by name, the texts of a key or part; the digest stands for these in this process.

        Only distinct texts are digested, not those of each user.
        """
        sums = weighed.group_by(list(names)).agg(
            n=weighed.weight.sum().cast("int64"),
            # The interest in a key is the same for all of its rows.
            **({"known": weighed.known.max()} if "known" in weighed.columns else {}),
        )
        if "known" not in weighed.columns:
            sums = sums.mutate(known=_long(FULL_INTEREST))
        return cls(engine, engine.stage(digested(sums, names, secret)), tuple(names))

    def in_turn(self) -> Iterator[pa.Table]:
        """`digest`, `n` and `known` in order of digest; in slices, if there are many."""
        staged = self.table.select("digest", "n", "known")
        number, digits = int(self.engine.fetch(staged.aggregate(n=staged.count()))["n"][0].as_py()), 0
        while number >> 4 * digits > MOST_AT_ONCE:
            digits += 1
        if not digits:
            yield _by_digest(self.engine.fetch(staged))
            return
        for place in range(16**digits):
            within = staged.digest.substr(0, digits) == f"{place:0{digits}x}"
            yield _by_digest(self.engine.fetch(staged.filter(within)))

    def known(self, passed: Sequence[ir.Table]) -> ir.Table:
        """What passed, by name, with the interest in it; passed: `digest` and `known`, slice by slice."""
        together = passed[0] if len(passed) == 1 else ibis.union(*passed)
        return self.table.select(*self.names, "digest").inner_join(together, "digest").drop("digest")


def digested(rows: ir.Table, names: Sequence[str], secret: str) -> ir.Table:
    """The rows with the `digest` of their texts of these names.

    Texts that were not normalised may hold tabs: all but the last are written without, so that no two keys are alike.
    """
    *texts, last = [rows[name] for name in names]
    for char, written in _WRITTEN.items():
        texts = [text.replace(char, written) for text in texts]
    joined = ibis.literal("\t").join([*texts, last]) if texts else last
    return rows.mutate(digest=keyed_digest(joined, secret, DIGITS))


def _by_digest(loads: pa.Table) -> pa.Table:
    """In order of digest: 16 digits are sorted as one number, which is many times faster than as texts."""
    loads = loads.combine_chunks()
    texts = Spans.of(loads["digest"].combine_chunks())
    first = int(texts.starts[0]) if len(texts) else 0
    digits = texts.data[first : first + DIGITS * len(texts)].reshape(-1, DIGITS)  # they stand one after another
    halves = _DIGIT[digits[:, :16]]
    numbers = (halves[:, ::2] << 4 | halves[:, 1::2]).view(">u8").ravel().astype(np.uint64)
    return loads.take(pa.array(np.argsort(numbers)))


def _weighed(rows: ir.Table) -> ir.Table:
    """Each row with its weight: GRID x interest / the length of the user's interests, rounded down, perhaps to 0.

    Rows of weight 0 stay: a key that somebody holds draws noise, or one more user would decide whether it does.
    """
    rows = rows.mutate(interest=_interest(rows))
    squares = (rows.interest * rows.interest).sum().over(ibis.window(group_by=rows.user)).cast("int64")
    return _divided(rows.mutate(length=squares)).drop("length", "interest")


def _equally_weighed(rows: ir.Table) -> ir.Table:
    """The same where all interests are full, without `known`: a weight is computed once for each user."""
    full = _long(FULL_INTEREST)
    users = rows.group_by("user").agg(length=(rows.count() * full * full).cast("int64"))
    users = _divided(users.mutate(interest=full)).select("user", "weight")
    return rows.inner_join(users, "user")


def _divided(rows: ir.Table) -> ir.Table:
    """With `weight`: GRID x interest / sqrt(length), rounded down."""
    near = (rows.interest * GRID / rows.length.cast("float64").sqrt()).floor().cast("int64")
    rows = rows.mutate(near=near)
    # Floats may land on the next whole number: integers say whether they did.
    above = rows.near * rows.near * rows.length > rows.interest * rows.interest * (GRID * GRID)
    return rows.mutate(weight=rows.near - above.cast("int64")).drop("near")


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
