"""The steps of querycloak's methods: what each of them counts, and the bounds that its proof note states.

Importing this module registers them with `steps_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, singledispatch

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.audits.guarantees.remembering_engine import once
from querycloak.audits.guarantees.steps import Limit, Past, Step, each_is_drawn, named, prefixed, steps_of
from querycloak.engines import Engine
from querycloak.logs.reformulations import KINDS
from querycloak.methods.keys.contribution_bounding import bounded_clicks
from querycloak.methods.keys.key_tables import KeyTables, UnboundedTables
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.partition_selection import ClicksOfKeys, KeysWithoutCounts, ThresholdedKeys
from querycloak.methods.keys.public_lists import urls_of
from querycloak.methods.keys.thresholded import KeyCounts
from querycloak.methods.keys.weighted_selection import WeightedSelection, digested
from querycloak.methods.optimal.holdings import KEY
from querycloak.methods.optimal.noisy_tables import (
    LINK,
    BoundedPairs,
    held_pairs,
    linked_pairs,
    pairs_in_all,
    pairs_per_user,
)
from querycloak.methods.query_pool.count import CLICK, TRANSITION, Pooling, SelectingPooling
from querycloak.methods.semantic.replacement import Replacement
from querycloak.methods.semantic.searches import Histories, Searches
from querycloak.methods.sessions.public_tables import PAIRS, PublicTables
from querycloak.papers.zhang2016_count import PaperPooling
from querycloak.privacy.calibration.bound_choice import largest_score, qualities
from querycloak.privacy.calibration.public_counts import PublicPlan
from querycloak.privacy.calibration.weighted import FULL_INTEREST, GRID, LEAST_INTEREST, PreselectionRound
from querycloak.privacy.sampling.noise import Gaussian

_SECRET = "the same for all logs"
"""Secret of both neighbours' digests: proofs hold for every secret without collisions. No release uses this one."""


@steps_of.register
def _(counted: KeyTables, past: Past) -> list[Step]:
    return _steps_of_tables(counted, past, {})


def _steps_of_tables(counted: KeyTables, past: Past, of_bounds: dict[tuple[str, int], dict[str, int]]) -> list[Step]:
    """of_bounds: counts of public tables by table and bound per user, which several plans may share."""
    steps = [step for table, each in counted.counted.items() for step in prefixed(table, steps_of(each, past))]
    if not isinstance(counted.later, PublicTables):
        return steps
    for table, plan in counted.later.plans.tables.items():
        if (table, plan.per_user) not in of_bounds:
            of_bounds[table, plan.per_user] = _public_counts(counted.later, table, plan, past)
        bounds = (plan.per_user, plan.per_user, 1, plan.noise)
        steps.append(Step(f"{table}: counts", of_bounds[table, plan.per_user], *bounds))
    return steps


def _public_counts(later: PublicTables, table: str, plan: PublicPlan, past: Past) -> dict[str, int]:
    """Counts of pairs or of reformulations, for queries that are assumed to have come out (sessions.md)."""
    names = pa.array(released_queries(later, past), pa.string())
    if table == PAIRS:
        return later.pairs(names, plan)[0].numbers()
    totals, words, _ = later.cells_of(names, plan)
    return {**dict(zip(KINDS, totals.tolist(), strict=True)), **words.numbers()}


@singledispatch
def queries_of(counted: object) -> frozenset[str]:
    """Queries of the log that a table of released queries looks at; empty for what has no such table."""
    _ = counted
    return frozenset()


@queries_of.register
def _(counted: PublicTables) -> frozenset[str]:
    return distinct_queries(counted.engine, counted.steps)


@queries_of.register
def _(counted: KeyTables) -> frozenset[str]:
    return queries_of(counted.later)


@queries_of.register
def _(counted: UnboundedTables) -> frozenset[str]:
    return frozenset().union(*map(queries_of, counted.later.values()))


@queries_of.register
def _(counted: Pooling) -> frozenset[str]:
    return distinct_queries(counted.engine, counted.rows)


def distinct_queries(engine: Engine, rows: ir.Table) -> frozenset[str]:
    """Every query of these rows."""
    return frozenset(engine.fetch(rows.select("query").distinct())["query"].to_pylist())


def released_queries(counted: object, past: Past) -> list[str]:
    """Queries of this log and of the past that are assumed to have come out."""
    return sorted(filter(past.came_out, queries_of(counted) | past.queries))


@steps_of.register
def _(counted: UnboundedTables, past: Past) -> list[Step]:
    """The scores of the choice, and the steps of every plan that may be chosen."""
    plans = [each.plans for each in counted.candidates.values()]
    quality = dict(zip(counted.candidates, qualities(plans, counted.users_by_keys), strict=True))
    steps = [Step("choice", quality, most=largest_score(plans))]
    of_bounds: dict[tuple[str, int], dict[str, int]] = {}
    for name, candidate in counted.candidates.items():
        of_plan = _steps_of_tables(_counted_at(counted, name, candidate), past, of_bounds)
        steps += prefixed(name, of_plan, group=name)
    return steps


def _counted_at(counted: UnboundedTables, name: str, candidate: KeysMethod) -> KeyTables:
    """Tables of a candidate, counted once for all pasts."""
    rows = tuple(table.op() for table in counted.kept[candidate.reads()].values())
    return once(counted.engine, (name, rows), lambda: counted.counted_at(candidate))


@steps_of.register
def _(counted: ThresholdedKeys, past: Past) -> list[Step]:
    """The counts (histogram.md: each user once per key; claim 5: perhaps all on one key)."""
    _ = past
    plan, most = counted.plan, counted.most_per_key
    bounds = (plan.per_user, plan.per_user * most, most)
    law = (plan.noise, plan.threshold, plan.tie_probability)
    return [Step("counts", counted.keys.numbers(), *bounds, *law)]


@steps_of.register
def _(counted: ClicksOfKeys, past: Past) -> list[Step]:
    """The users of keys, and the clicks of those that came out (histogram.md, claim 9)."""
    plan, key, times = counted.plan, counted.keys.key, counted.times
    users = counted.keys.numbers()
    law = (plan.noise, plan.threshold, plan.tie_probability)
    decision = Step("users", users, plan.per_user, plan.per_user, 1, *law)
    out = [tuple(name.split("\t")) for name in users if past.came_out(name)]
    chosen = pa.table({name: pa.array([each[at] for each in out], pa.string()) for at, name in enumerate(key)})
    clicks = _numbers(bounded_clicks(counted.keys.engine, counted.clicks, chosen, key, times), key)
    return [decision, Step("clicks", clicks, times.per_user, times.squared, times.per_key, plan.published_noise)]


@steps_of.register
def _(counted: KeysWithoutCounts, past: Past) -> list[Step]:
    """The counts (histogram.md, claim 8: each user once per key)."""
    _ = past
    bound, chances = counted.plan.per_user, counted.plan.chances
    return [Step("keys", counted.keys.numbers(), bound, bound, 1, passes=lambda users: chances.of(users).up())]


@steps_of.register
def _(counted: WeightedSelection, past: Past) -> list[Step]:
    """Weights of keys, or parts, for each round and the decision, users of the keys that came out (selection.md)."""
    past = replace(past, queries=frozenset())  # only tables that look at released queries depend on them
    what = (type(counted), counted.keys.op(), counted.key, counted.plan, past)
    return once(counted.engine, what, lambda: _steps_of_weighted(counted, past))


def _steps_of_weighted(counted: WeightedSelection, past: Past) -> list[Step]:
    whole = left = replace(counted, secret=_SECRET)
    plan, weighed = counted.plan, left.weighed(None)
    steps, first = [], True
    before: dict[str, float] = {}
    for number, scout in enumerate(plan.scouts, start=1):
        loads = left.loads(scout, weighed)
        fetched = pa.concat_tables(list(loads.in_turn()))
        centres = dict(zip(fetched["digest"].to_pylist(), fetched["n"].to_pylist(), strict=True))
        keys = _digested_keys(left, scout)
        digests = keys["digest"].to_pylist()
        drawn = (each_is_drawn([each for each in digests if first or past.came_out(each)], centres),)
        steps.append(Step(f"scout {number}", centres, l2_squared=GRID**2, noise=scout.noise, limits=drawn))
        if scout.parts is None:
            before = _passed(left, scout, keys, centres, before)
        left, weighed = left.after(scout, loads.known([left.engine.upload(_interests(digests, past))]))
        first = scout.parts is not None  # of what a round of parts leaves, all keys are looked at
    votes = whole.votes(weighed).numbers()
    decision = Step("decision", votes, l2_squared=GRID**2, noise=plan.noise, threshold=plan.threshold)
    steps.append(replace(decision, passed_before=before))
    return steps if plan.counting is None else [*steps, _counts_of_weighted(whole, past)]


def _passed(
    selection: WeightedSelection,
    scout: PreselectionRound,
    keys: pa.Table,
    loads: Mapping[str, int],
    before: Mapping[str, float],
) -> dict[str, float]:
    """The chance of each key to pass this round of keys and those before it (selection.md, claim 6)."""
    names = map("\t".join, zip(*(keys[name].to_pylist() for name in selection.key), strict=True))
    digests = dict(zip(names, keys["digest"].to_pylist(), strict=True))
    needed = {name: scout.floor + 1 - loads.get(digest, 0) for name, digest in digests.items()}
    return {name: before.get(name, 1.0) * _exceeding(scout.noise, each) for name, each in needed.items()}


@lru_cache(maxsize=65536)
def _exceeding(noise: Gaussian, least: int) -> float:
    return noise.tail(least).up()


def _counts_of_weighted(counted: WeightedSelection, past: Past) -> Step:
    """The users, or the clicks, of the keys that are assumed to have come out."""
    plan = counted.plan
    keys = counted.engine.fetch(counted.keys.select(*counted.key).distinct())
    names = ["\t".join(key.values()) for key in keys.to_pylist()]
    chosen = keys.filter(pa.array([past.came_out(name) for name in names], pa.bool_()))
    counts = _numbers(counted.counted(chosen), counted.key)
    if plan.times is not None:
        return Step("clicks", counts, plan.times.per_user, plan.times.squared, plan.times.per_key, plan.counting)
    most = plan.counted_per_user
    return Step("counts", counts, l1=most, l2_squared=most, most=1, noise=plan.counting)


def _digested_keys(selection: WeightedSelection, scout: PreselectionRound) -> pa.Table:
    """Every key, or part, with users, and its digest."""
    names = selection.key if scout.parts is None else ("part",)
    rows = selection.keys if scout.parts is None else selection.parts(scout.parts)
    return selection.engine.fetch(digested(rows.select(*names).distinct(), names, selection.secret))


def _interests(digests: Sequence[str], past: Past) -> pa.Table:
    """The keys, or parts, that are assumed to have passed a round, with users' interest in them."""
    left = [digest for digest in digests if past.came_out(digest)]
    known = [LEAST_INTEREST if digest in past.lightened else FULL_INTEREST for digest in left]
    return pa.table({"digest": pa.array(left, pa.string()), "known": pa.array(known, pa.int64())})


def _numbers(counts: pa.Table, key: Sequence[str]) -> dict[str, int]:
    cells = zip(*(counts[name].to_pylist() for name in key), strict=True)
    return named(cells, counts["n"].fill_null(0).to_pylist())


@steps_of.register
def _(counted: Pooling, past: Past) -> list[Step]:
    """Counts of each table; the later ones for queries that are assumed to have come out."""
    method, pool = counted.method, set(counted.pool.to_pylist())
    queries = counted.counts.numbers()
    steps = [_counts_of_pool(counted, "queries", {key: n for key, n in queries.items() if key in pool})]
    if method.off_pool:
        outside = {key: n for key, n in queries.items() if key not in pool}
        steps.append(_others_of_pool(counted, "queries", outside))
    released = counted.engine.upload(pa.table({"query": pa.array(released_queries(counted, past), pa.string())}))
    if "clicks" in method.bounds:
        urls = urls_of(method.lists["urls"], counted.choices) if "urls" in method.lists else None
        listed = None if urls is None else counted.engine.upload(pa.table({"url": urls}))
        counts = counted.count(counted.clicks(released, listed), CLICK).numbers()
        steps.append((_others_of_pool if urls is None else _counts_of_pool)(counted, "clicks", counts))
    if "transitions" in method.bounds:
        counts = counted.count(counted.transitions(released), TRANSITION).numbers()
        steps.append(_counts_of_pool(counted, "transitions", counts))
    return steps


@steps_of.register
def _(counted: SelectingPooling, past: Past) -> list[Step]:
    """Counts of public keys, rounds of selections; the later ones for queries that are assumed to have come out."""
    method, plan = counted.method, counted.plan
    steps = [_counts_of_pool(counted, "queries", counted.counts.numbers())]
    if method.off_pool:
        others = counted.selected(counted.outside, ("query",), plan.selected["queries"])
        steps += prefixed("other queries", steps_of(others, past))
    released = counted.engine.upload(pa.table({"query": pa.array(released_queries(counted, past), pa.string())}))
    if "clicks" in plan.selected:
        clicks = counted.clicks_selected(released, plan.selected["clicks"])
        steps += prefixed("clicks", steps_of(clicks, past))
    elif "clicks" in plan.public:
        listed = counted.engine.upload(pa.table({"url": urls_of(method.lists["urls"], counted.choices)}))
        clicked = counted.count(counted.clicks(released, listed), CLICK).numbers()
        steps.append(_counts_of_pool(counted, "clicks", clicked))
    if "transitions" in plan.public:
        counts = counted.count(counted.transitions(released), TRANSITION).numbers()
        steps.append(_counts_of_pool(counted, "transitions", counts))
    return steps


def _counts_of_pool(counted: Pooling, table: str, counts: dict[str, int]) -> Step:
    bound = counted.method.bounds[table]
    return Step(f"{table}: counts", counts, bound, bound, 1, counted.method.noises[table])


def _others_of_pool(counted: Pooling, table: str, counts: dict[str, int]) -> Step:
    """The step of counts of keys outside public lists, with their threshold."""
    method = counted.method
    step = _counts_of_pool(counted, table, counts)
    return replace(step, threshold=method.thresholds[table], tie_probability=method.ties()[table])


@steps_of.register
def _(counted: PaperPooling, past: Past) -> list[Step]:
    """Counts of queries, against the bound that the paper's claim needs; they refute it."""
    _ = past
    bound, pool = counted.method.bounds["queries"], set(counted.pool.to_pylist())
    noise, threshold = counted.method.noises["queries"], counted.method.thresholds["queries"]
    counts = counted.counts.numbers()
    inside, outside = ({key: n for key, n in counts.items() if (key in pool) is of_pool} for of_pool in (True, False))
    return [
        Step("queries: counts", inside, bound, noise=noise),
        Step("queries: counts", outside, bound, noise=noise, threshold=threshold),
    ]


@steps_of.register
def _(counted: BoundedPairs, past: Past) -> list[Step]:
    """Counts of pairs; of pairs per user and of associations among those that are assumed to have come out."""
    engine, contributions, plan = counted.engine, counted.contributions, counted.plan
    pairs = WeightedSelection.of(engine, contributions, KEY, plan.pairs, kept=True)
    steps = prefixed("pairs", steps_of(pairs, past))
    released = engine.fetch(contributions.select(*KEY).distinct()).sort_by([(name, "ascending") for name in KEY])
    names = ["\t".join(key.values()) for key in released.to_pylist()]
    kept = [past.came_out(name) for name in names]
    users = held_pairs(engine, contributions, released.filter(pa.array(kept, pa.bool_())), plan.counted_per_user)
    names = [name for name, stays in zip(names, kept, strict=True) if stays]
    sizes = pairs_per_user(engine, users, plan).tolist()
    steps.append(Step("pairs per user", {f"{size}": n for size, n in enumerate(sizes, 1)}, 1, 1, 1, plan.size_noise))
    if plan.link_noise is not None:
        links = KeyCounts.of(engine, linked_pairs(engine, users, plan.linked_per_user), LINK).numbers()
        centres = {" with ".join(names[int(place)] for place in link.split("\t")): n for link, n in links.items()}
        most = plan.links_per_user
        steps.append(Step("associations", centres, most, most, 1, plan.link_noise, plan.link_threshold))
    if plan.total_noise is not None:
        most = plan.per_user
        centres = {"total": pairs_in_all(engine, contributions)}
        steps.append(Step("total", centres, most, most**2, most, plan.total_noise))
    return steps


@steps_of.register
def _(counted: Histories, past: Past) -> list[Step]:
    """The number of searches of each user, which neighbours share, and the loss of their draws (semantic.md)."""
    _ = past
    searches = counted.pulled("", counted.replacement.concepts_of)
    drawn = np.minimum(searches.lengths, searches.allowed)
    numbers = dict(zip(searches.users.to_pylist(), drawn.tolist(), strict=True))
    return [Step("searches of each user", numbers, most=0, limits=_losses(counted.replacement, searches))]


def _losses(replacement: Replacement, searches: Searches) -> list[Limit]:
    """The exact loss of all draws of one user together (claim 2): at most epsilon (private)."""
    method = replacement.method
    if method.criterion == "hbdp" or method.variant == "paper":
        return []
    domains, places = replacement.domains.placed(searches.concepts)
    owners = np.repeat(np.arange(len(searches.users)), searches.lengths)
    numbers = np.minimum(searches.lengths, searches.allowed)
    if method.repeats == "reuse":
        distinct = np.unique(np.stack([owners, domains, places], axis=1), axis=0)
        numbers = np.bincount(distinct[:, 0], minlength=len(searches.users))
    shares = replacement.losses(numbers if method.repeats == "reuse" else searches.lengths)
    draws = np.ones(len(numbers)) if method.budget_per == "query" else numbers
    used = [replacement.weights(number) for number in np.unique(domains).tolist()]
    lost = {
        share: max(each.exact_loss(each.exponents([share])[0]) for each in used) for share in np.unique(shares).tolist()
    }
    if method.delta is not None:  # draws may lose more than epsilon together, each no more than its share
        return [Limit("loss of one draw", max(lost.values(), default=0.0), float(shares.max(initial=0.0)))]
    of_users = (lost[share] * number for share, number in zip(shares.tolist(), draws.tolist(), strict=True))
    return [Limit("loss of one user's draws", max(of_users, default=0.0), method.budget)]
