"""Steps and many runs of the parts of a made-up log (synthetic.md). Importing this module registers them.

Runs publish the noisy parts themselves: made-up rows are computed from them, so an audit of the parts sees at least as
much as one of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.guarantees.exact_test import OWN_KEYS
from querycloak.audits.guarantees.method_runs import tables_of_levels
from querycloak.audits.guarantees.method_steps import distinct_queries, queries_of, released_queries
from querycloak.audits.guarantees.phrase_levels import selected_of_runs, steps_of_levels
from querycloak.audits.guarantees.remembering_engine import once
from querycloak.audits.guarantees.runs import RUN, DrawnRuns, draw_runs, numbered
from querycloak.audits.guarantees.steps import Limit, Past, Step, prefixed, steps_of
from querycloak.audits.guarantees.weighted_runs import Mask, UserKeys
from querycloak.methods.phrases.method import QUERIES, TABLE
from querycloak.methods.synthetic.parts import KEYS, SyntheticParts
from querycloak.methods.synthetic.parts_plan import CLICKS, HOSTS, TRANSITIONS, plan_parts
from querycloak.methods.synthetic.shape import CELLS
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.calibration.gaussian import squared_loss
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import IntArray, Randomness

_OF_QUERIES = ("sources", "lengths", "ranks")
"""Public parts that look at released queries."""
LOSS = "squared loss"
_ROUNDING = 1 + 1e-9


@steps_of.register
def _(counted: SyntheticParts, past: Past) -> list[Step]:
    """The steps of each part, given the assumed outcome of earlier ones; and each part's loss against its share."""
    method, plan = counted.method, counted.method.plan
    steps = steps_of_levels(counted.levels, method.phrases, past)
    queries = _texts(released_queries(counted, past))
    asked = queries_of(counted) | past.queries
    words = _texts(sorted(filter(past.came_out, {word for query in asked for word in query.split(" ")})))
    given = (counted.searches.op(), tuple(queries.to_pylist()), tuple(words.to_pylist()))
    for part in (CLICKS, HOSTS):
        if part in plan.selected:
            keys = once(counted.engine, (part, *given), partial(counted.counted, part, queries, words))
            steps += prefixed(part, steps_of(keys, past))
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
    """Squared loss and chance of own keys of each part, against its share of the budget (synthetic.md)."""
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
    plan, tables = counted.method.plan, tables_of_levels(counted.levels, counted.method.phrases, randomness, runs)
    phrases = tables[TABLE]
    plain = pc.and_(pc.equal(phrases["words"], 1), pc.invert(pc.or_(phrases["begins"], phrases["ends"])))
    words = CameOut.of(phrases.filter(plain), "phrase", runs)
    queries = CameOut.of(tables[QUERIES], "query", runs)
    for part, texts in ((CLICKS, queries), (HOSTS, words)):
        if part in plan.selected:
            tables[part] = _keys_of_runs(counted, part, texts, randomness)
    cells = {part: _true_cells(counted, part, queries) for part in CELLS if part in plan.public}
    noisy = {
        part: true + randomness.many(plan.public[part].noise, true.size).reshape(true.shape)
        for part, true in cells.items()
    }
    return DrawnRuns(runs, {**tables, "cells": _table_of_cells(noisy, runs)})


@dataclass(frozen=True)
class CameOut:
    """Texts that came out in some run."""

    texts: pa.Array
    by_run: Mask
    """By run and text: whether it came out."""

    @classmethod
    def of(cls, table: pa.Table, name: str, runs: int) -> CameOut:
        """The texts of a column in each run."""
        column = table[name].cast(pa.string()).combine_chunks()
        texts = column.unique().sort()
        by_run = np.zeros((runs, len(texts)), np.bool_)
        by_run[table[RUN].to_numpy(), pc.index_in(column, texts).to_numpy(zero_copy_only=False).astype(np.int64)] = True
        return cls(texts, by_run)

    def candidates(self, texts: pa.ChunkedArray) -> Mask:
        """By run and text of this column: whether it came out."""
        place = pc.fill_null(pc.index_in(texts, self.texts), len(self.texts)).to_numpy().astype(np.int64)
        never = np.zeros((len(self.by_run), 1), np.bool_)
        return np.concatenate([self.by_run, never], axis=1)[:, place]


def _keys_of_runs(counted: SyntheticParts, part: str, texts: CameOut, randomness: Randomness) -> pa.Table:
    """Clicks or hosts of each run: those whose query or word came out in it are candidates."""
    keys = UserKeys.of(counted.engine, counted.keys_of_users(part), KEYS[part]).grouped()
    candidates = texts.candidates(keys.names[KEYS[part][0]])
    return selected_of_runs(keys, candidates, counted.method.plan.selected[part], randomness)


def _true_cells(counted: SyntheticParts, part: str, queries: CameOut) -> IntArray:
    """True counts by run and cell, given the queries of that run.

    Bounds do not depend on released queries, so each released query adds its own change to the counts without any.
    """
    without = _cells_given(counted, part, [])
    if part not in _OF_QUERIES:
        return np.tile(without, (len(queries.by_run), 1))
    changes = [_cells_given(counted, part, [query]) - without for query in queries.texts.to_pylist()]
    change: IntArray = queries.by_run.astype(np.int64) @ np.array(changes, np.int64).reshape(len(changes), without.size)
    return without + change


def _cells_given(counted: SyntheticParts, part: str, queries: Sequence[str]) -> IntArray:
    given = (counted.searches.op(), part, *queries)
    return once(counted.engine, given, partial(counted.true_cells, part, _texts(queries)))


def _table_of_cells(noisy: Mapping[str, IntArray], runs: int) -> pa.Table:
    """part, cell and count in each run."""
    numbers = [each.shape[1] for each in noisy.values()]
    names = pa.array([str(cell) for cell in range(max(numbers, default=0))], pa.string())
    part = np.repeat(np.arange(len(noisy)), [runs * number for number in numbers])
    cell = np.concatenate([np.empty(0, np.int64), *(np.tile(np.arange(number), runs) for number in numbers)])
    run = np.concatenate([np.empty(0, np.int64), *(np.repeat(np.arange(runs), number) for number in numbers)])
    columns = {
        "part": pa.DictionaryArray.from_arrays(pa.array(part), pa.array(list(noisy), pa.string())),
        "cell": pa.DictionaryArray.from_arrays(pa.array(cell), names),
    }
    count = np.concatenate([np.empty(0, np.int64), *(each.reshape(-1) for each in noisy.values())])
    return numbered(pa.table({**columns, "count": pa.array(count)}), run)
