"""Steps and many runs of the parts of a made-up log (synthetic.md). Importing this module registers them.

Runs publish the noisy parts themselves: made-up rows are computed from them, so an audit of the parts sees at least as
much as one of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.guarantees.exact_test import OWN_KEYS
from querycloak.audits.guarantees.level_steps import steps_of_levels
from querycloak.audits.guarantees.method_runs import keys_of_runs, tables_of_levels
from querycloak.audits.guarantees.method_steps import distinct_queries, queries_of, released_queries
from querycloak.audits.guarantees.remembering_engine import once
from querycloak.audits.guarantees.runs import RUN, DrawnRuns, draw_runs, numbered, tables_of_runs_alike
from querycloak.audits.guarantees.steps import Limit, Past, Step, steps_of
from querycloak.methods.phrases.method import QUERIES, TABLE
from querycloak.methods.synthetic.parts import SyntheticParts
from querycloak.methods.synthetic.parts_plan import CLICKS, HOSTS, TRANSITIONS, plan_parts
from querycloak.methods.synthetic.shape import CELLS
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.calibration.gaussian import squared_loss
from querycloak.privacy.calibration.histogram import noisy_counts
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness

_OF_QUERIES = ("sources", "lengths", "ranks")
"""Public parts that look at released queries."""
LOSS = "squared loss"
_ROUNDING = 1 + 1e-9


@steps_of.register
def _(counted: SyntheticParts, past: Past) -> list[Step]:
    """The steps of each part, given what is supposed to have come out; and each part's loss against its share."""
    method, plan = counted.method, counted.method.plan
    steps = steps_of_levels(counted.levels, method.phrases, past)
    queries = _texts(released_queries(counted, past))
    asked = queries_of(counted) | past.queries
    words = _texts(sorted(filter(past.came_out, {word for query in asked for word in query.split(" ")})))
    given = (counted.searches.op(), tuple(queries.to_pylist()), tuple(words.to_pylist()))
    for part in (CLICKS, HOSTS):
        if part in plan.selected:
            keys = once(counted.engine, (part, *given), partial(counted.counted, part, queries, words))
            steps += [replace(step, name=f"{part}: {step.name}") for step in steps_of(keys, past)]
    for part, each in plan.public.items():
        if part in CELLS:
            cells, bound = CELLS[part], CELLS[part].squared
            counts = once(counted.engine, (part, *given), partial(counted.true_cells, part, queries))
            centres = {str(at): n for at, n in enumerate(counts.tolist())}
            most = 1 if cells.once else cells.most
            steps.append(Step(f"{part}: counts", centres, cells.most, bound, most, each.noise))
        else:
            pairs = once(counted.engine, (part, *given), partial(_pairs, counted, queries))
            steps.append(Step(f"{part}: counts", pairs, 1, 1, 1, each.noise))
    return [*steps, *losses_of_parts(counted)]


def _pairs(counted: SyntheticParts, queries: pa.ChunkedArray) -> dict[str, int]:
    return counted.pairs(queries.combine_chunks())[0].numbers()


@queries_of.register
def _(counted: SyntheticParts) -> frozenset[str]:
    return distinct_queries(counted.engine, counted.searches)


def _texts(texts: Sequence[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.string())])


def losses_of_parts(counted: SyntheticParts) -> list[Step]:
    """Loss by noise and chance of own keys of each part, against its share by the note: names a part that is over."""
    plan = counted.method.plan
    stated = plan_parts(counted.method.given, counted.method.split)
    steps = []
    for part, own in plan.selected.items():
        mine, share = _rounds(own.draw()), _rounds(stated.selected[part].draw())
        loss = Limit(LOSS, mine.squared_loss, share.squared_loss * _ROUNDING)
        steps.append(Step(part, limits=(loss, Limit(OWN_KEYS, mine.own_keys, share.own_keys * _ROUNDING))))
    for part, each in plan.public.items():
        bound = 1 if part == TRANSITIONS else CELLS[part].squared
        losses = [squared_loss(_gaussian(public.noise), bound) for public in (each, stated.public[part])]
        steps.append(Step(part, limits=(Limit(LOSS, losses[0], losses[1] * _ROUNDING),)))
    return steps


def _rounds(draw: object) -> GaussianRounds:
    if not isinstance(draw, GaussianRounds):
        raise TypeError("parts of a made-up log are rounds of Gaussian noise; this is a bug in querycloak")
    return draw


def _gaussian(noise: object) -> Gaussian:
    if not isinstance(noise, Gaussian):
        raise TypeError("parts of a made-up log have Gaussian noise; this is a bug in querycloak")
    return noise


@draw_runs.register
def _(counted: SyntheticParts, randomness: Randomness, runs: int) -> DrawnRuns:
    """All parts but transitions, whose keys are drawn as those of sessions are."""
    tables = tables_of_levels(counted.levels, counted.method.phrases, randomness, runs)
    nothing = pa.chunked_array([pa.array([], pa.string())])
    always = _cells(counted, [name for name in CELLS if name not in _OF_QUERIES], nothing, randomness, runs)
    queries = tables[QUERIES].select([RUN, "query"]).sort_by([(RUN, "ascending"), ("query", "ascending")])
    of_queries = tables_of_runs_alike(
        queries, ("query",), runs, lambda same, number: _given_queries(counted, same, randomness, number)
    )
    phrases = tables[TABLE]
    plain = pc.and_(pc.equal(phrases["words"], 1), pc.invert(pc.or_(phrases["begins"], phrases["ends"])))
    words = phrases.filter(plain).select([RUN, "phrase"]).sort_by([(RUN, "ascending"), ("phrase", "ascending")])
    of_words = tables_of_runs_alike(
        words, ("phrase",), runs, lambda same, number: _given_words(counted, same, randomness, number)
    )
    return DrawnRuns(runs, {**tables, **of_words, **of_queries, "cells of users": always})


def _given_words(counted: SyntheticParts, same: pa.Table, randomness: Randomness, runs: int) -> Mapping[str, pa.Table]:
    if HOSTS not in counted.method.plan.selected:
        return {}
    words = same["phrase"]
    return {HOSTS: keys_of_runs(counted.counted(HOSTS, words, words), randomness, runs)}


def _given_queries(
    counted: SyntheticParts, same: pa.Table, randomness: Randomness, runs: int
) -> Mapping[str, pa.Table]:
    queries = same["query"]
    tables = {"cells of searches": _cells(counted, _OF_QUERIES, queries, randomness, runs)}
    if CLICKS in counted.method.plan.selected:
        tables[CLICKS] = keys_of_runs(counted.counted(CLICKS, queries, queries), randomness, runs)
    return tables


def _cells(
    counted: SyntheticParts, parts: Sequence[str], queries: pa.ChunkedArray, randomness: Randomness, runs: int
) -> pa.Table:
    """part, cell and count in each run."""
    drawn = [part for part in parts if part in counted.method.plan.public]
    noisy = [
        noisy_counts(counted.true_cells(part, queries), counted.method.plan.public[part].noise, randomness, runs=runs)
        for part in drawn
    ]
    numbers = [each.shape[1] for each in noisy]
    cells = pa.array([str(cell) for cell in range(max(numbers, default=0))], pa.string())
    part = np.repeat(np.arange(len(drawn)), [runs * number for number in numbers])
    cell = np.concatenate([np.empty(0, np.int64), *(np.tile(np.arange(number), runs) for number in numbers)])
    run = np.concatenate([np.empty(0, np.int64), *(np.repeat(np.arange(runs), number) for number in numbers)])
    names = {
        "part": pa.DictionaryArray.from_arrays(pa.array(part), pa.array(drawn, pa.string())),
        "cell": pa.DictionaryArray.from_arrays(pa.array(cell), cells),
    }
    count = np.concatenate([np.empty(0, np.int64), *(each.reshape(-1) for each in noisy)])
    return numbered(pa.table({**names, "count": pa.array(count)}), run)
