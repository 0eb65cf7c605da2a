"""The steps of phrases, level by level (phrases.md). Importing this module registers them with `steps_of`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa

from querycloak.audits.guarantees.remembering_engine import once
from querycloak.audits.guarantees.steps import Past, Step, steps_of
from querycloak.methods.phrases.counted_levels import CountedLevels
from querycloak.methods.phrases.levels import KEY, contributions
from querycloak.methods.phrases.method import QUERIES, Phrases
from querycloak.privacy.calibration.bound_choice import largest_score, qualities


@steps_of.register
def _(counted: CountedLevels, past: Past) -> list[Step]:
    """The scores of a choice, if there is one; then the steps of each level, by every plan that may be chosen."""
    if counted.budget is None:
        return steps_of_levels(counted, next(iter(counted.methods.values())), past)
    plans = [each.plans for each in counted.methods.values()]
    quality = dict(zip(counted.methods, qualities(plans, counted.users_by_keys), strict=True))
    steps = [Step("choice", quality, most=largest_score(plans))]
    for name, method in counted.methods.items():
        of_plan = steps_of_levels(counted, method, past)
        steps += [replace(step, name=f"{name}: {step.name}", group=name) for step in of_plan]
    return steps


def steps_of_levels(counted: CountedLevels, method: Phrases, past: Past) -> list[Step]:
    """The steps of each level, given the keys below it that are supposed to have come out (phrases.md)."""
    engine, uses = counted.engine, counted.uses.op()
    steps, before = [], None
    for level, table in enumerate(method.levels, 1):
        below: tuple[str, ...] | None = None if before is None else tuple(before[KEY[0]].to_pylist())
        of_level = once(
            engine, (table, uses, method.plans[table], below), partial(counted.counted_level, method, level, before)
        )
        steps += [replace(step, name=f"{table}: {step.name}") for step in steps_of(of_level, past)]
        keys = once(engine, ("keys", table, uses, method.longest), partial(_keys_of_level, counted, method, level))
        out = [past.came_out(key) for key in keys[KEY[0]].to_pylist()]
        before = keys.filter(pa.array(out, pa.bool_()))
    if counted.queries is not None:
        of_queries = (QUERIES, counted.queries.op(), method.plans[QUERIES])
        queries = steps_of(once(engine, of_queries, partial(counted.counted_queries, method)), past)
        steps += [replace(step, name=f"{QUERIES}: {step.name}") for step in queries]
    return steps


def _keys_of_level(counted: CountedLevels, method: Phrases, level: int) -> pa.Table:
    """All keys of a level, whatever came out below it."""
    rows = contributions(counted.engine, counted.uses, level, method.longest, None)
    return counted.engine.fetch(rows.select(*KEY).distinct()).sort_by(KEY[0])
