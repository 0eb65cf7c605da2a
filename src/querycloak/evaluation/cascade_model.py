"""Cascade click model: people look at results from the top, click the first that attracts, and stop.

Attractiveness of a pair of query and url is the share of clicks among the times that it was looked at; a result below
the first click was not looked at. So the estimate of the largest likelihood is a ratio, and needs lists of results.
"""

from __future__ import annotations

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine

_LEAST = 1e-6
_PRIOR_CLICKS, _PRIOR_LOOKS = 1.0, 2.0
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
        """For each rank the bits that clicks and their absence cost, and the number of views.

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
    """The same of records of sessions (session, query, rank, url, clicked), which stand in order."""
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
