"""Mechanisms that are broken on purpose, each in one place: an audit that lets one of them pass is worth nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.guarantees.mechanism import Pair
from querycloak.audits.guarantees.method_mechanism import MethodMechanism
from querycloak.audits.guarantees.steps import Past, Step
from querycloak.audits.guarantees.user_rows import ClickRows, log_text
from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.clicks.method import KEY, TABLE, Clicks
from querycloak.methods.keys import weighted_selection
from querycloak.methods.keys.contribution_bounding import once_per_key
from querycloak.methods.keys.weighted_selection import Loads, WeightedSelection
from querycloak.methods.method import Counted, Drawn
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.weighted import GRID, PreselectionRound
from querycloak.privacy.sampling.randomness import Randomness

MOST_ROWS = 8


def with_another_plan(method: Clicks, **changes: Any) -> Clicks:
    """The method, which draws by another plan than the one it was proven for."""
    plan = method.plans[TABLE]
    assert isinstance(plan, HistogramPlan | KeysOnlyPlan)
    object.__setattr__(method, "plan", replace(method.plan, tables={TABLE: replace(plan, **changes)}))
    return method


def with_another_delta(method: Clicks, delta: float) -> Clicks:
    """The method, which says that its delta is another one."""
    object.__setattr__(method, "plan", replace(method.plan, proven=replace(method.plan.proven, delta=delta)))
    return method


class FilterBeforeBounding(Clicks):
    """Drops what fewer than five users clicked, and only then bounds each user (query_pool.md, counterexample a)."""

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        pairs = once_per_key(log.clicks, KEY)
        asked = pairs.group_by("query").agg(users=pairs.count())
        frequent = asked.filter(asked.users >= 5)
        return {TABLE: pairs.semi_join(frequent, "query")}


class EarlyExit(Clicks):
    """Refuses a log in which one user has many rows."""

    def count(self, log: SearchLog) -> Counted:
        rows = log.engine.fetch(log.rows.group_by("user").agg(rows=log.rows.count()))["rows"]
        if pc.max(rows).as_py() > MOST_ROWS:
            raise InputError("a user has too many rows")
        return super().count(log)


class Crash(Clicks):
    """Ends with an error that nobody foresaw if one user has many rows, as a bug of a reader would."""

    def count(self, log: SearchLog) -> Counted:
        rows = log.engine.fetch(log.rows.group_by("user").agg(rows=log.rows.count()))["rows"]
        places: list[Counted] = [super().count(log)]
        return places[max(0, int(pc.max(rows).as_py()) - MOST_ROWS)]


@dataclass(frozen=True)
class _Unlucky:
    counted: Counted

    def draw(self, randomness: Randomness) -> Drawn:
        if randomness.below(10, 1)[0] == 0:
            raise InputError("one draw in ten fails")
        return self.counted.draw(randomness)


class FailingDraws(Clicks):
    """Fails now and then, whoever is in the log: no user is told by it."""

    def count(self, log: SearchLog) -> Counted:
        return _Unlucky(super().count(log))


@dataclass(frozen=True)
class _Seeded:
    counted: Counted

    def draw(self, randomness: Randomness) -> Drawn:
        return self.counted.draw(Randomness(seed=1))


class SeededNoise(Clicks):
    """Draws the same noise in every process."""

    def count(self, log: SearchLog) -> Counted:
        return _Seeded(super().count(log))


class ColumnsOfTheFirstRow(MethodMechanism):
    """Reads as many columns of every row as the first row has."""

    def reading(self, path: Path, engine: Engine) -> SearchLog:
        header, *rows = path.read_text().splitlines()
        columns = len(rows[0].split("\t"))
        short = ("\t".join([*row.split("\t")[: max(columns, 3)], "", ""][:5]) for row in rows)
        path.write_text("\n".join([header, *short]) + "\n")
        return super().reading(path, engine)


@contextmanager
def scouts_skip_keys_without_weight() -> Iterator[None]:
    """Keys that somebody holds and to which nobody gives weight draw no noise."""
    whole = Loads.in_turn

    def in_turn(self: Loads) -> Iterator[pa.Table]:
        return (part.filter(pc.greater(part["n"], 0)) for part in whole(self))

    with mock.patch.object(Loads, "in_turn", in_turn):
        yield


@contextmanager
def parts_count_for_every_key() -> Iterator[None]:
    """A scout of parts weighs a user's part once for every key that has it, so that all of them add up on one part."""
    whole = WeightedSelection.looked_at

    def looked_at(self: WeightedSelection, scout: PreselectionRound, weighed: ir.Table) -> ir.Table:
        if scout.parts is None:
            return whole(self, scout, weighed)
        return weighted_selection._equally_weighed(self.parts(scout.parts))

    with mock.patch.object(WeightedSelection, "looked_at", looked_at):
        yield


@contextmanager
def weights_rounded_to_the_nearest() -> Iterator[None]:
    """Weights that may be rounded up, so that a user's are longer than 1 together."""

    def divided(rows: ir.Table) -> ir.Table:
        near = (rows.interest * GRID / rows.length.cast("float64").sqrt()).round().cast("int64")
        return rows.mutate(weight=near)

    with mock.patch.object(weighted_selection, "_divided", divided):
        yield


@dataclass(frozen=True)
class GreedySetUnion:
    """Users take their weight away from keys that have enough by *exact* weights (selection.md).

    It states the length of one user's weights as its sensitivity, as if the others did not move.
    """

    enough: int

    def steps(self, data: Sequence[Sequence[str]], past: Past) -> Sequence[Step]:
        heavy = {key for key, weight in self._weights(data).items() if weight >= self.enough}
        left = [[key for key in keys if key not in heavy] for keys in data]
        return [Step("weights", dict(self._weights(left)), l2_squared=GRID**2)]

    @staticmethod
    def _weights(data: Sequence[Sequence[str]]) -> Counter[str]:
        weights: Counter[str] = Counter()
        for keys in data:
            weights.update(dict.fromkeys(keys, math.isqrt(GRID * GRID // max(1, len(keys)))))
        return weights


def set_union_pair() -> Pair[Sequence[Sequence[str]]]:
    """A hundred users {a, x_i}: one more tips a over what is enough, and everybody moves."""
    others = [["a", f"x{user}"] for user in range(100)]
    return Pair("one user moves all others", others, [["a"], *others])


def heavy_key_pair(keys: int = 300) -> Pair[str]:
    """Somebody with very many keys, one of which the new user shares."""
    users = ClickRows(keys, 2)
    others = users.rows("many", [f"key {place}" for place in range(keys)])
    return Pair(
        "a key shared with a user of many", log_text(others), log_text([*users.rows("new", ["key 0"]), *others])
    )
