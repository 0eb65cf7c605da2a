"""Which keys of a table come out, and with what counts: one interface for every selection, on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.methods.keys.contribution_bounding import first_keys
from querycloak.methods.keys.counted_clicks import counted_clicks
from querycloak.methods.keys.thresholded import (
    KeyCounts,
    ReleasedKeys,
    by_noisy_count,
    release_by_chance,
    release_keys,
)
from querycloak.methods.keys.weighted_selection import WeightedSelection
from querycloak.methods.noiseless import Past, Step, named
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.sampling.randomness import Randomness


class CountedKeys(Protocol):
    """A table's contributions, read and waiting in the engine for the first draw."""

    def release(self, randomness: Randomness, runs: int | None = None) -> ReleasedKeys:
        """Draw, after the ledger was charged; `runs` only where nothing is released."""
        ...

    def steps(self, past: Past) -> Sequence[Step]:
        """What it adds noise to (private)."""
        ...


def count(
    engine: Engine, contributions: ir.Table, key: Sequence[str], plan: TablePlan, *, kept: bool = False
) -> CountedKeys:
    """Read the contributions: `user`, the key's columns (texts) and `earliest`, one row for each user and key.

    They come whole, as `bounding.once_per_key` makes them without a bound: the plan says what of them counts.
    kept: the engine keeps them already, so they can be looked at several times.
    """
    if isinstance(plan, WeightedPlan):
        return WeightedSelection.of(engine, contributions, key, plan, kept=kept)
    bounded = first_keys(contributions, key, plan.per_user)
    if isinstance(plan, KeysOnlyPlan):
        return _KeysOnly(KeyCounts.of(engine, bounded, key), plan)
    histogram = _histogram(plan)
    if histogram.times is not None:
        held = engine.stage(bounded)
        return _ClicksOfKeys(KeyCounts.of(engine, held, key), held, histogram, histogram.times)
    return _OneDraw(KeyCounts.of(engine, bounded, key), histogram, once_per_key=True)


def count_records(engine: Engine, records: ir.Table, key: Sequence[str], plan: TablePlan) -> CountedKeys:
    """Read records that are bounded already and count 1 each, as the papers' variants have them."""
    return _OneDraw(KeyCounts.of(engine, records, key), _histogram(plan), once_per_key=False)


def _histogram(plan: TablePlan) -> HistogramPlan:
    if not isinstance(plan, HistogramPlan):
        raise ParameterError("records that count 1 each need a plan of one draw per key")
    return plan


def counts_of(plan: TablePlan) -> str:
    """How a release's counts were made, in the words of `releases.release.COUNTS`."""
    return plan.counts


class _OneDraw:
    """Every row counts 1; a threshold decides."""

    def __init__(self, counts: KeyCounts, plan: HistogramPlan, *, once_per_key: bool) -> None:
        self._counts, self._plan, self._once_per_key = counts, plan, once_per_key

    def release(self, randomness: Randomness, runs: int | None = None) -> ReleasedKeys:
        """Draw."""
        plan = self._plan
        return release_keys(
            self._counts,
            plan.noise,
            plan.threshold,
            randomness,
            published_noise=plan.published_noise,
            tie_probability=plan.tie_probability,
            runs=runs,
        )

    def steps(self, past: Past) -> Sequence[Step]:  # noqa: ARG002 (nothing is released before)
        """The counts (histogram.md: each user once per key; claim 5: all on one key perhaps)."""
        plan = self._plan
        bound, most = plan.per_user, 1 if self._once_per_key else plan.per_user
        counts = self._counts.numbers()
        return [
            Step(
                "counts",
                counts,
                bound,
                bound * most,
                most,
                plan.noise,
                plan.threshold,
                tie_probability=plan.tie_probability,
            )
        ]


class _ClicksOfKeys:
    """Users decide by a threshold; the clicks of what came out are counted anew."""

    def __init__(self, counts: KeyCounts, held: ir.Table, plan: HistogramPlan, times: Times) -> None:
        self._counts, self._held, self._plan, self._times = counts, held, plan, times

    def release(self, randomness: Randomness, runs: int | None = None) -> ReleasedKeys:
        """Decide, then count."""
        plan, key = self._plan, self._counts.key
        chosen = release_keys(
            self._counts, plan.noise, plan.threshold, randomness, tie_probability=plan.tie_probability, runs=runs
        )
        counts = counted_clicks(self._counts.engine, self._held, chosen.table, key, self._times)
        keys, true = counts.drop_columns(["n"]), counts["n"].fill_null(0).to_numpy()
        noisy = true + randomness.noise(plan.published_noise or plan.noise, true.size)
        return ReleasedKeys(by_noisy_count(keys, noisy, key), chosen.draws + true.size)

    def steps(self, past: Past) -> Sequence[Step]:
        """The users of keys, and the clicks of those that came out (histogram.md, claim 9)."""
        plan, key, times = self._plan, self._counts.key, self._times
        users = self._counts.numbers()
        bound = plan.per_user
        decision = Step(
            "users", users, bound, bound, 1, plan.noise, plan.threshold, tie_probability=plan.tie_probability
        )
        out = [tuple(name.split("\t")) for name in users if past.came_out(name)]
        chosen = pa.table({name: pa.array([each[at] for each in out], pa.string()) for at, name in enumerate(key)})
        found = counted_clicks(self._counts.engine, self._held, chosen, key, times)
        clicks = named(
            zip(*(found[name].to_pylist() for name in key), strict=True), found["n"].fill_null(0).to_pylist()
        )
        return [decision, Step("clicks", clicks, times.per_user, times.squared, times.per_key, plan.published_noise)]


class _KeysOnly:
    """Every row counts 1; a chance for each count decides, and no count comes out."""

    def __init__(self, counts: KeyCounts, plan: KeysOnlyPlan) -> None:
        self._counts, self._plan = counts, plan

    def release(self, randomness: Randomness, runs: int | None = None) -> ReleasedKeys:
        """Draw."""
        return release_by_chance(self._counts, self._plan.chances, randomness, runs=runs)

    def steps(self, past: Past) -> Sequence[Step]:  # noqa: ARG002 (nothing is released before)
        """The counts (histogram.md, claim 8: each user once per key)."""
        bound, chances = self._plan.per_user, self._plan.chances
        return [Step("keys", self._counts.numbers(), bound, bound, 1, passes=lambda users: chances.of(users).up())]
