"""Partition selection: which keys of a table come out, and with what counts; one interface for every plan and engine.

The weighted selections stand in `weighted_selection.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import ibis.expr.types as ir

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.methods.keys.contribution_bounding import bounded_clicks, first_keys
from querycloak.methods.keys.thresholded import (
    KeyCounts,
    ReleasedKeys,
    by_noisy_count,
    release_by_chance,
    release_keys,
)
from querycloak.methods.keys.weighted_selection import WeightedSelection
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.sampling.randomness import Randomness


class CountedKeys(Protocol):
    """A table's contributions, read and waiting in the engine for the first draw."""

    def release(self, randomness: Randomness) -> ReleasedKeys:
        """Draw, after the ledger was charged."""
        ...


def count_keys(
    engine: Engine, contributions: ir.Table, key: Sequence[str], plan: TablePlan, *, kept: bool = False
) -> CountedKeys:
    """Read the contributions: `user`, the key's columns (texts) and `earliest`, one row for each user and key.

    They come whole, as `contribution_bounding.once_per_key` makes them without a bound; the plan bounds them.
    kept: the engine keeps them already, so they can be read several times.
    """
    if isinstance(plan, WeightedPlan):
        return WeightedSelection.of(engine, contributions, key, plan, kept=kept)
    bounded = first_keys(contributions, key, plan.per_user)
    if isinstance(plan, KeysOnlyPlan):
        return KeysWithoutCounts(KeyCounts.of(engine, bounded, key), plan)
    histogram = _histogram(plan)
    if histogram.times is not None:
        clicks = engine.stage(bounded)
        return ClicksOfKeys(KeyCounts.of(engine, clicks, key), clicks, histogram, histogram.times)
    return ThresholdedKeys(KeyCounts.of(engine, bounded, key), histogram)


def count_records(engine: Engine, records: ir.Table, key: Sequence[str], plan: TablePlan) -> CountedKeys:
    """Read records that are bounded already and count 1 each, as papers' variants have them."""
    return ThresholdedKeys(KeyCounts.of(engine, records, key), _histogram(plan), most_per_key=plan.per_user)


def _histogram(plan: TablePlan) -> HistogramPlan:
    if not isinstance(plan, HistogramPlan):
        raise ParameterError("records that count 1 each need a plan of one draw per key")
    return plan


@dataclass(frozen=True)
class ThresholdedKeys:
    """Every row counts 1; a threshold decides.

    most_per_key: largest contribution of one user to one key.
    """

    keys: KeyCounts
    plan: HistogramPlan
    most_per_key: int = 1

    def release(self, randomness: Randomness) -> ReleasedKeys:
        """Draw."""
        plan = self.plan
        return release_keys(
            self.keys,
            plan.noise,
            plan.threshold,
            randomness,
            published_noise=plan.published_noise,
            tie_probability=plan.tie_probability,
        )


@dataclass(frozen=True)
class ClicksOfKeys:
    """Users decide by a threshold; the clicks of the keys that came out are counted anew."""

    keys: KeyCounts
    clicks: ir.Table
    plan: HistogramPlan
    times: Times

    def release(self, randomness: Randomness) -> ReleasedKeys:
        """Decide, then count."""
        plan, key = self.plan, self.keys.key
        chosen = release_keys(self.keys, plan.noise, plan.threshold, randomness, tie_probability=plan.tie_probability)
        counts = bounded_clicks(self.keys.engine, self.clicks, chosen.table, key, self.times)
        keys, true = counts.drop_columns(["n"]), counts["n"].fill_null(0).to_numpy()
        noisy = true + randomness.noise(plan.published_noise or plan.noise, true.size)
        return ReleasedKeys(by_noisy_count(keys, noisy, key), chosen.draws + true.size)


@dataclass(frozen=True)
class KeysWithoutCounts:
    """Each row counts 1; a key comes out with the probability of its count, which is not published."""

    keys: KeyCounts
    plan: KeysOnlyPlan

    def release(self, randomness: Randomness) -> ReleasedKeys:
        """Draw."""
        return release_by_chance(self.keys, self.plan.chances, randomness)
