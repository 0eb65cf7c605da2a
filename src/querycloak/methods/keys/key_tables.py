"""Tables of keys, counted, before the draw; the draw may choose the bound (proof: calibration/bound_choice.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.methods.keys.auto_bound import AutoBound, Planned
from querycloak.methods.keys.partition_selection import CountedKeys, count, counts_of
from querycloak.methods.keys.plans import FixedPlans
from querycloak.methods.method import Drawn
from querycloak.methods.noiseless import Noiseless, Past, Step
from querycloak.methods.runs import DrawnRuns, RepeatedDraw, renumbered
from querycloak.privacy.calibration.bound_choice import choose_plan, choose_plans, largest_score, qualities
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Table

Keys = Mapping[str, Sequence[str]]
Publish = Callable[[str, pa.Table], Table]


@dataclass(frozen=True)
class KeyTables(RepeatedDraw, Noiseless):
    """Tables whose plans are known."""

    counted: Mapping[str, CountedKeys]
    plans: Mapping[str, TablePlan]
    published: Publish

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw table after table."""
        tables = {table: self.published(table, each.release(randomness).table) for table, each in self.counted.items()}
        return Drawn(tables, counts=counts_of(list(self.plans.values())[-1]))

    def draw_runs(self, randomness: Randomness, runs: int) -> DrawnRuns:
        """Draw table after table, each in all runs."""
        return DrawnRuns(runs, {table: each.release(randomness, runs).table for table, each in self.counted.items()})

    def steps(self, past: Past) -> Sequence[Step]:
        """Those of every table."""
        return [
            replace(step, name=f"{table}: {step.name}")
            for table, each in self.counted.items()
            for step in each.steps(past)
        ]


def count_tables(
    engine: Engine, planned: FixedPlans, contributions: Mapping[str, ir.Table], keys: Keys, published: Publish
) -> KeyTables:
    """Read the contributions to each table, once."""
    counted = {table: count(engine, rows, keys[table], planned.plans[table]) for table, rows in contributions.items()}
    return KeyTables(counted, planned.plans, published)


@dataclass(frozen=True)
class TablesAtAnyBound(RepeatedDraw, Noiseless):
    """Tables that are counted anew once their bound is chosen."""

    engine: Engine
    chooser: AutoBound
    candidates: Sequence[Planned]
    kept: Mapping[object, Mapping[str, ir.Table]]
    """What users may add to each table, by what a candidate reads."""
    held: Mapping[str, Mapping[int, int]]
    keys: Keys
    published: Publish

    def draw(self, randomness: Randomness) -> Drawn:
        """Choose by the exponential mechanism, count at that bound, draw."""
        at = choose_plan([each.plans for each in self.candidates], self.held, self.chooser.budget[0], randomness)
        chosen = self.candidates[at]
        counted = self.counted(chosen)
        tables = {table: self.published(table, each.release(randomness).table) for table, each in counted.items()}
        counts = counts_of(next(iter(chosen.plans.values())))
        return Drawn(tables, counts, parameters=chosen.parameters(), reach=chosen.reach())

    def draw_runs(self, randomness: Randomness, runs: int) -> DrawnRuns:
        """Choose for every run, then count at each bound that was chosen and draw for all of its runs."""
        plans = [each.plans for each in self.candidates]
        at = choose_plans(plans, self.held, self.chooser.budget[0], randomness, runs)
        parts: dict[str, list[pa.Table]] = {table: [] for table in self.held}
        for number in np.unique(at).tolist():
            mine = np.flatnonzero(at == number)
            for table, each in self.counted(self.candidates[number]).items():
                parts[table].append(renumbered(each.release(randomness, mine.size).table, mine))
        tables = {table: pa.concat_tables(drawn) for table, drawn in parts.items()}
        return DrawnRuns(runs, tables, [each.parameters() for each in self.candidates], at)

    def steps(self, past: Past) -> Sequence[Step]:
        """The scores by which it chooses, and the steps of every plan that may be chosen."""
        plans = [each.plans for each in self.candidates]
        names = [str(choice) for choice, _ in self.chooser.payable]
        quality = dict(zip(names, qualities(plans, self.held), strict=True))
        steps = [Step("choice", quality, most=largest_score(plans))]
        for name, candidate in zip(names, self.candidates, strict=True):
            tables = KeyTables(self.counted(candidate), candidate.plans, self.published)
            steps += [replace(step, name=f"{name}: {step.name}", group=name) for step in tables.steps(past)]
        return steps

    def counted(self, chosen: Planned) -> dict[str, CountedKeys]:
        """Every table, counted at the bound that was chosen."""
        kept = self.kept[chosen.reads()]
        return {
            table: count(self.engine, kept[table], self.keys[table], plan, kept=True)
            for table, plan in chosen.plans.items()
        }


def count_at_chosen_bound(
    engine: Engine,
    chooser: AutoBound,
    reads: object,
    contributions: Mapping[object, Mapping[str, ir.Table]],
    keys: Keys,
    published: Publish,
) -> TablesAtAnyBound:
    """Count how many keys users hold, of the contributions that the method itself reads.

    All contributions are kept: they are read to choose, and again to release.
    """
    candidates = chooser.candidates()
    staged: dict[object, ir.Table] = {}
    kept: dict[object, dict[str, ir.Table]] = {}
    for kind, tables in contributions.items():
        # What reads the log in the same way, as clicks do whatever counts of sessions, is read once.
        for rows in tables.values():
            if rows.op() not in staged:
                staged[rows.op()] = engine.stage(rows)
        kept[kind] = {table: staged[rows.op()] for table, rows in tables.items()}
    held = {table: users_by_keys(engine, rows, _most(table, candidates)) for table, rows in kept[reads].items()}
    return TablesAtAnyBound(engine, chooser, candidates, kept, held, keys, published)


def _most(table: str, candidates: Sequence[Planned]) -> int:
    return max(each.plans[table].per_user for each in candidates)


def users_by_keys(engine: Engine, keys: ir.Table, most: int) -> dict[int, int]:
    """How many users hold 1, 2, ... keys; users of more than `most` keys count as users of `most` (private)."""
    per_user = keys.group_by("user").agg(keys=keys.count())
    clipped = per_user.mutate(keys=per_user["keys"].clip(upper=most))
    counted = engine.fetch(clipped.group_by("keys").agg(users=clipped.count()))
    return dict(zip(counted["keys"].to_pylist(), counted["users"].to_pylist(), strict=True))
