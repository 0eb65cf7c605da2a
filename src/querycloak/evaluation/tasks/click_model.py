"""Task click-model: click models trained on a release, judged on the raw views of TEST.

Position-based: a result is clicked if its rank is examined and if it attracts: examination by groups of ranks,
attractiveness by pair of query and url, both by expectation maximisation. Totals of pairs and of ranks alone would not
identify the two. The cascade model (people look at results from the top, click the first that attracts, and stop)
needs lists of results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.evaluation.task import NO_DATA, ORIGINAL, Figure, Floats, Logs, Measure, Numbers, Subject
from querycloak.logs.searchlog import SearchLog
from querycloak.releases.tables import Table, whole_table

GROUPS = ("1", "2", "3", "4-5", "6-10", "11+")
RANKS = 10
_GROUP_OF_RANK = np.array([0, 1, 2, 3, 3, 4, 4, 4, 4, 4])
_ROUNDS = 50
_LEAST = 1e-6
_PRIOR_CLICKS, _PRIOR_VIEWS = 1.0, 2.0
_BY_RANK_WITHOUT_DATA = 0.4 / np.arange(1, RANKS + 1)
"""The chance of a click at each rank that is supposed without any data: at rank r an r-th of that at rank 1."""
_CITATION = "Chuklin, Markov, de Rijke, Click Models for Web Search, 2015"


def _perplexity(clicks: Floats, chances: Floats, weights: Floats) -> float:
    """2 to the mean number of bits that a view's click or its absence costs."""
    chance = np.clip(chances, _LEAST, 1 - _LEAST)
    bits = clicks * np.log2(chance) + (weights - clicks) * np.log2(1 - chance)
    return float(2 ** (-bits.sum() / weights.sum()))


PERPLEXITY = Measure(
    "perplexity",
    "2 to the mean number of bits that clicks at a rank cost if the position-based model predicts them; overall the "
    "mean over ranks 1 to 10. 1 is certain, 2 is a coin",
    _CITATION,
    "lower",
    compute=_perplexity,
)
RANK_ALONE = Measure(
    "perplexity_rank_alone",
    "the same if the rank alone predicts clicks, by the release's own views and clicks at each rank",
    _CITATION,
    "lower",
    compute=_perplexity,
)

CASCADE = Measure(
    "perplexity_cascade",
    "the same if a cascade model predicts clicks: results are looked at from the top down to the first click. It needs "
    "lists of results",
    "Craswell, Zoeter, Taylor, Ramsey, An experimental comparison of click position-bias models, WSDM 2008",
    "lower",
    compute=_perplexity,
)
NO_LISTS = "it has counts of pairs by rank, and a cascade model needs lists of results"


@dataclass(frozen=True)
class PairCounts:
    """Viewers and clickers of pairs, by group of ranks: one entry for each pair and group that occurs."""

    pair: Numbers
    group: Numbers
    viewers: Floats
    clickers: Floats


@dataclass(frozen=True)
class PositionModel:
    """Chance that each group of ranks is examined, and that each pair attracts."""

    examined: Floats
    attractive: Floats


def fitted(counts: PairCounts, pairs: int, groups: int = len(GROUPS), rounds: int = _ROUNDS) -> PositionModel:
    """The position-based model by expectation maximisation; a pair has one click in two views on top."""
    examined, attractive = np.full(groups, 0.5), np.full(pairs, 0.5)
    missed = counts.viewers - counts.clickers
    views = np.bincount(counts.group, counts.viewers, groups)
    shown = np.bincount(counts.pair, counts.viewers, pairs)
    for _ in range(rounds):
        seen, attracts = examined[counts.group], attractive[counts.pair]
        rest = np.maximum(1 - seen * attracts, _LEAST)
        seen_of = counts.clickers + missed * seen * (1 - attracts) / rest
        attracted = counts.clickers + missed * attracts * (1 - seen) / rest
        examined = np.bincount(counts.group, seen_of, groups) / np.maximum(views, _LEAST)
        examined = np.clip(np.where(views > 0, examined, 0.0), _LEAST, 1.0)
        attractive = (np.bincount(counts.pair, attracted, pairs) + _PRIOR_CLICKS) / (shown + _PRIOR_VIEWS)
    return PositionModel(examined, attractive)


class ClickModel:
    """Perplexity of a position-based and a cascade model on the views of TEST, by rank and overall."""

    name: ClassVar[str] = "click-model"
    summary: ClassVar[str] = "clicks on the results shown to other people, by a position-based model"
    citation: ClassVar[str] = _CITATION

    measures = (PERPLEXITY, RANK_ALONE, CASCADE)
    readings = ("all",)

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It takes viewers and clickers by rank."""
        if subject.name in (ORIGINAL, NO_DATA) or {"viewers", "clicked"} & set(_columns(subject)):
            return None
        return "it does not say what was shown and not clicked; clicks with views does, and eu-records"

    def prepare(self, logs: Logs) -> PreparedClickModel:
        """The views of TEST at ranks 1 to 10, summed by pair and rank."""
        return PreparedClickModel(logs)


def _cells(subject: Subject) -> Mapping[str, Table]:
    """Tables as they were released, by attributes and ranks; empty for a baseline."""
    return getattr(subject, "cells", {})


def _columns(subject: Subject) -> tuple[str, ...]:
    cells = _cells(subject)
    return tuple(name for kind in ("clicks", "log") if kind in cells for name in cells[kind].schema.names)


class PreparedClickModel:
    """The task for one TEST; `views` is None if TEST does not say what was shown."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        shows = logs.test.shows_views() and logs.train.shows_views()
        self.views = _by_pair_and_rank(logs.test) if shows else None

    def scores(self, subject: Subject) -> Iterator[Figure]:
        """Figures by rank and overall, of the model and of the rank alone."""
        views = self.views
        if views is None or not views.num_rows:
            for measure in (PERPLEXITY, RANK_ALONE, CASCADE):
                yield Figure(measure, None, why="TRAIN or TEST does not say which results were shown")
            return
        rank = views["rank"].to_numpy().astype(np.int64) - 1
        clicks, number = (views[name].to_numpy().astype(np.float64) for name in ("clicks", "n"))
        by_rank, chances = self.predicted(subject, views, rank)
        for measure, predicted in ((PERPLEXITY, chances), (RANK_ALONE, by_rank[rank])):
            values = []
            for place in range(RANKS):
                here = rank == place
                if not number[here].sum():
                    continue
                values.append(measure(clicks[here], predicted[here], number[here]))
                cases = int(number[here].sum())
                yield Figure(measure, values[-1], f"rank={place + 1}", cases=cases, answered=cases)
            cases = int(number.sum())
            yield Figure(measure, float(np.mean(values)), cases=cases, answered=cases)
        yield from self._cascade(subject)

    def _cascade(self, subject: Subject) -> Iterator[Figure]:
        """Figures of the cascade model, where there are lists of results."""
        if subject.name == ORIGINAL:
            looked = looked_at(self._logs.train.engine, _ranked(self._logs.train))
        elif subject.name != NO_DATA and "viewers" not in _columns(subject):
            looked = looked_at_in_records(_records(subject))
        else:
            yield Figure(CASCADE, None, why=NO_LISTS if subject.name != NO_DATA else "it has no lists of results")
            return
        bits = CascadeModel.of(looked, _BY_RANK_WITHOUT_DATA).bits(self._logs.test.engine, _ranked(self._logs.test))
        values = {rank: 2 ** (cost / number) for rank, (cost, number) in bits.items()}
        for rank, value in values.items():
            yield Figure(CASCADE, value, f"rank={rank}", cases=bits[rank][1], answered=bits[rank][1])
        cases = sum(number for _, number in bits.values())
        yield Figure(CASCADE, float(np.mean(list(values.values()))), cases=cases, answered=cases)

    def predicted(self, subject: Subject, views: pa.Table, rank: Numbers) -> tuple[Floats, Floats]:
        """The chance of a click at each rank, and of each pair at its rank; unknown pairs have that of their rank."""
        if subject.name == NO_DATA:
            return _BY_RANK_WITHOUT_DATA, _BY_RANK_WITHOUT_DATA[rank]
        if subject.name == ORIGINAL:
            counts, by_rank = _counted(_by_pair_and_rank(self._logs.train))
        else:
            counts, by_rank = _of_release(subject) if "viewers" in _columns(subject) else _of_records(subject)
        keys = counts.select(["query", "url"]).group_by(["query", "url"]).aggregate([])
        keys = keys.append_column("pair", pa.array(np.arange(keys.num_rows)))
        numbered = counts.join(keys, ["query", "url"])
        table = PairCounts(
            numbered["pair"].to_numpy().astype(np.int64),
            pc.index_in(numbered["ranks"], pa.array(GROUPS)).to_numpy().astype(np.int64),
            *(numbered[name].to_numpy().astype(np.float64) for name in ("viewers", "clickers")),
        )
        model = fitted(table, keys.num_rows)
        placed = views.append_column("place", pa.array(np.arange(views.num_rows))).join(keys, ["query", "url"])
        known = placed.filter(pc.is_valid(placed["pair"]))
        place, pair = (known[name].to_numpy().astype(np.int64) for name in ("place", "pair"))
        chances = by_rank[rank]
        chances[place] = model.examined[_GROUP_OF_RANK[rank[place]]] * model.attractive[pair]
        return by_rank, chances


def _by_pair_and_rank(log: SearchLog) -> pa.Table:
    views = _ranked(log)
    counted = views.group_by(["query", "url", "rank"]).agg(n=views.count(), clicks=views.clicked.cast("int64").sum())
    return log.engine.fetch(counted)


def _ranked(log: SearchLog) -> ir.Table:
    views = log.views
    return views.filter(views["rank"].between(1, RANKS))


def _records(subject: Subject) -> pa.Table:
    """Released records with a rank from 1 to 10."""
    rows = whole_table("log", _cells(subject)["log"]).select(["session", "query", "url", "rank", "clicked"]).drop_null()
    return rows.filter(pc.and_(pc.greater_equal(rows["rank"], 1), pc.less_equal(rows["rank"], RANKS)))


def _of_records(subject: Subject) -> tuple[pa.Table, Floats]:
    """Views and clicks of released records by pair and group of ranks, and the chance of a click at each rank."""
    rows = _records(subject).select(["query", "url", "rank", "clicked"])
    rows = rows.set_column(3, "clicks", rows["clicked"].cast(pa.int64()))
    table = rows.group_by(["query", "url", "rank"]).aggregate([("clicks", "sum"), ("clicks", "count")])
    return _counted(table.rename_columns(["query", "url", "rank", "clicks", "n"]))


def _counted(table: pa.Table) -> tuple[pa.Table, Floats]:
    """Views and clicks by pair and group of ranks, and the chance of a click at each rank."""
    rank = table["rank"].to_numpy().astype(np.int64) - 1
    clicks, number = (table[name].to_numpy().astype(np.float64) for name in ("clicks", "n"))
    groups = pa.array(GROUPS).take(pa.array(_GROUP_OF_RANK[rank]))
    counts = pa.table(
        {"query": table["query"], "url": table["url"], "ranks": groups, "viewers": number, "clickers": clicks}
    )
    views = np.bincount(rank, number, RANKS)
    by_rank = np.bincount(rank, clicks, RANKS) / np.maximum(views, 1)
    # A rank that no row shows has the chance that is supposed without any data.
    return counts, np.where(views > 0, np.clip(by_rank, _LEAST, 1 - _LEAST), _BY_RANK_WITHOUT_DATA)


def _of_release(subject: Subject) -> tuple[pa.Table, Floats]:
    """Viewers and clickers of a release, attributes summed, and the chance of a click at each rank."""
    cells = _cells(subject)
    clicks = whole_table("clicks", cells["clicks"])
    filled = clicks.set_column(clicks.column_names.index("clickers"), "clickers", clicks["clickers"].fill_null(0))
    summed = filled.group_by(["query", "url", "ranks"]).aggregate([("viewers", "sum"), ("clickers", "sum")])
    viewers, clickers = (summed[f"{name}_sum"].to_numpy().astype(np.float64) for name in ("viewers", "clickers"))
    counts = pa.table(
        {
            **{name: summed[name] for name in ("query", "url", "ranks")},
            "viewers": viewers,
            "clickers": np.minimum(clickers, viewers),
        }
    )
    if "positions" not in cells:
        group = pc.index_in(counts["ranks"], pa.array(GROUPS)).to_numpy()
        shares = np.bincount(group, clickers, len(GROUPS)) / np.maximum(np.bincount(group, viewers, len(GROUPS)), 1)
        return counts, np.clip(shares[_GROUP_OF_RANK], _LEAST, 1 - _LEAST)
    positions = whole_table("positions", cells["positions"]).slice(0, RANKS)
    views, clicked = (positions[name].fill_null(0).to_numpy().astype(np.float64) for name in ("views", "clicks"))
    return counts, np.clip((clicked + 1) / (views + 2), _LEAST, 1 - _LEAST)


_PRIOR_LOOKS = 2.0
_DIGITS = 12
"""Engines add up in any order; sums of floats differ beyond these digits."""


@dataclass(frozen=True)
class CascadeModel:
    """Attractiveness of pairs (query, url, attracts) and, for pairs that are unknown, of each rank."""

    pairs: pa.Table
    ranks: NDArray[np.float64]

    @classmethod
    def of(cls, looked: pa.Table, unseen: NDArray[np.float64]) -> CascadeModel:
        """looked: query, url, rank, n (times looked at) and clicks, by pair and rank; unseen: for ranks without any."""
        ranks = len(unseen)
        at = looked["rank"].to_numpy().astype(np.int64) - 1
        clicks, looks = (looked[name].to_numpy().astype(np.float64) for name in ("clicks", "n"))
        looks_of = np.bincount(at, looks, ranks)
        by_rank = (np.bincount(at, clicks, ranks) + _PRIOR_CLICKS) / (looks_of + _PRIOR_LOOKS)
        summed = looked.group_by(["query", "url"]).aggregate([("clicks", "sum"), ("n", "sum")])
        attracts = pc.divide(
            pc.add(summed["clicks_sum"].cast(pa.float64()), _PRIOR_CLICKS),
            pc.add(summed["n_sum"].cast(pa.float64()), _PRIOR_LOOKS),
        )
        return cls(
            summed.select(["query", "url"]).append_column("attracts", attracts), np.where(looks_of > 0, by_rank, unseen)
        )

    def bits(self, engine: Engine, views: ir.Table) -> dict[int, tuple[float, int]]:
        """Log loss in bits of clicks and skips at each rank, and the number of views.

        views: user, time, query, url, rank, clicked; a search is a user, a time and a query.
        """
        ranks = pa.table({"rank": pa.array(range(1, len(self.ranks) + 1), pa.int32()), "usual": self.ranks})
        by_rank, by_pair = engine.upload(ranks), engine.upload(self.pairs)
        known = views.left_join(by_pair, ["query", "url"]).select(*_LISTED, attracts=by_pair.attracts)
        placed = known.inner_join(by_rank, "rank").select(*_LISTED, "attracts", usual=by_rank.usual)
        chance = ibis.coalesce(placed.attracts, placed.usual).clip(lower=_LEAST, upper=1 - _LEAST)
        scored = placed.select(*_LISTED, chance=chance, passed=(1 - chance).ln())
        above = ibis.window(
            group_by=[scored.user, scored.time, scored.query],
            order_by=[scored["rank"], scored.url],
            preceding=None,
            following=0,
        )
        reached = (scored.passed.sum().over(above) - scored.passed).exp()
        clicked = (scored.chance * reached).clip(lower=_LEAST, upper=1 - _LEAST)
        judged = scored.select("rank", bits=-ibis.ifelse(scored.clicked, clicked.log2(), (1 - clicked).log2()))
        summed = engine.fetch(judged.group_by("rank").agg(bits=judged.bits.sum(), n=judged.count()))
        return {row["rank"]: (round(row["bits"], _DIGITS), row["n"]) for row in summed.sort_by("rank").to_pylist()}


_LISTED = ("user", "time", "query", "url", "rank", "clicked")


def looked_at(engine: Engine, views: ir.Table) -> pa.Table:
    """Times looked at and clicks of each pair and rank in a log: results down to the first click of their search."""
    search = ibis.window(group_by=[views.user, views.time, views.query])
    first = ibis.ifelse(views.clicked, views["rank"], ibis.null("int32")).min().over(search)
    lists = views.select("query", "url", "rank", "clicked", first=first)
    looked = lists.filter(lists["first"].isnull() | (lists["rank"] <= lists["first"]))
    counted = looked.group_by(["query", "url", "rank"]).agg(n=looked.count(), clicks=looked.clicked.cast("int64").sum())
    return engine.fetch(counted)


def looked_at_in_records(records: pa.Table) -> pa.Table:
    """Times looked at and clicks of each pair and rank in records (session, query, rank, url, clicked), in order."""
    session, query = (
        records[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in ("session", "query")
    )
    rank, clicked = records["rank"].to_numpy().astype(np.int64), records["clicked"].to_numpy()
    begins = np.ones(len(rank), np.bool_)
    begins[1:] = (session[1:] != session[:-1]) | (query[1:] != query[:-1]) | (rank[1:] <= rank[:-1])
    search = np.cumsum(begins) - 1
    first = np.full(search.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, search[clicked], rank[clicked])
    looked = records.select(["query", "url", "rank", "clicked"]).filter(pa.array(rank <= first[search]))
    looked = looked.set_column(3, "clicks", looked["clicked"].cast(pa.int64()))
    counted = looked.group_by(["query", "url", "rank"]).aggregate([("clicks", "count"), ("clicks", "sum")])
    return counted.rename_columns(["query", "url", "rank", "n", "clicks"])
