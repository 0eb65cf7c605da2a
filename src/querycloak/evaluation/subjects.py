"""Subjects beside the releases: the original in a release's form, and plain k-anonymity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.evaluation.numbered_logs import GAP_MINUTES
from querycloak.evaluation.task import K_ANONYMITY, ORIGINAL, Baseline
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.sequences import steps_of
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.releases.tables import KINDS, OF_DRAWS

_NOT_OF_A_LOG = frozenset({"phrases", "positions", "cells", *OF_DRAWS})
"""Tables that a log's queries and views hold already."""
MIN_USERS = 5
"""The k of plain k-anonymity."""


class Original(Baseline):
    """TRAIN itself in a release's form: counts are numbers of events, sequences have two queries."""

    name = method = ORIGINAL

    def __init__(self, train: SearchLog) -> None:
        self._train = train

    @property
    def kinds(self) -> tuple[str, ...]:
        """Tables that TRAIN can be written as; no clicks if the log can hold none."""
        left_out = _NOT_OF_A_LOG if _holds_clicks(self._train) else {*_NOT_OF_A_LOG, "clicks"}
        return tuple(kind for kind in KINDS if kind not in left_out)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """All columns that the log has."""
        left_out = () if _holds_clicks(self._train) else ("url",)
        return {kind: tuple(name for name in KINDS[kind].columns if name not in left_out) for kind in self.kinds}

    @property
    def parameters(self) -> Mapping[str, Any]:
        """None: no method made it."""
        return {}

    def table(self, kind: str) -> pa.Table:
        """TRAIN in the form of this table."""
        made: Mapping[str, Callable[[], ir.Table]] = {
            "queries": lambda: _counted(self._train.searches, "query"),
            "clicks": lambda: _counted(self._train.clicks, "query", "url"),
            "transitions": lambda: _counted(_next(self._train), "query", "next_query"),
            "sessions": lambda: _in_lists(_counted(_later(self._train), "query", "next_query")),
            "log": lambda: _counted(self._train.rows, *KINDS["log"].columns),
        }
        return self._train.engine.fetch(made[kind]().select(*KINDS[kind].columns))


def _holds_clicks(log: SearchLog) -> bool:
    """True if there can be clicks, by the log's format and columns alone."""
    return log.source.reader.holds_clicks


def _counted(rows: ir.Table, *key: str) -> ir.Table:
    columns = [name for name in key if name != "count"]
    return rows.group_by(columns).agg(count=rows.count())


def _next(log: SearchLog) -> ir.Table:
    """Two queries that were asked one right after the other in a session."""
    steps = steps_of(log.rows, GAP_MINUTES)
    order = ibis.window(group_by=steps.user, order_by=[steps["at"], steps.query])
    ahead = steps.select(
        "query", next_query=steps.query.lead().over(order), ends=steps.begins.lead().over(order).fill_null(True)
    )
    return ahead.filter(~ahead.ends).select("query", "next_query")


def _later(log: SearchLog) -> ir.Table:
    """Two different queries of one session, in order."""
    steps = steps_of(log.rows, GAP_MINUTES)
    order = [steps["at"], steps.query]
    so_far = ibis.window(group_by=steps.user, order_by=order, preceding=None, following=0)
    numbered = steps.select(
        "user",
        "query",
        session=steps.begins.cast("int64").sum().over(so_far),
        place=ibis.row_number().over(ibis.window(group_by=steps.user, order_by=order)),
    )
    others = numbered.select("user", "session", next_query=numbered.query, next_place=numbered.place)
    both = numbered.inner_join(others, ["user", "session"])
    return both.filter((both.place < both.next_place) & (both.query != both.next_query))


def _in_lists(pairs: ir.Table) -> ir.Table:
    return pairs.select("count", queries=ibis.array([pairs.query, pairs.next_query]))


class PlainKAnonymity(Baseline):
    """Baseline: queries and clicks shared by at least five users of TRAIN, with their numbers of users."""

    name = method = K_ANONYMITY

    def __init__(self, train: SearchLog) -> None:
        keys: tuple[Literal["queries", "clicks"], ...] = ("queries", "clicks")
        self._tables: dict[str, pa.Table] = {
            kind: KAnonymity(min_users=MIN_USERS, keys=kind).release(train).table(kind)
            for kind in (keys if _holds_clicks(train) else keys[:1])
        }

    @property
    def kinds(self) -> tuple[str, ...]:
        """Queries and clicks; no clicks if the log can hold none."""
        return tuple(self._tables)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""
        return {kind: tuple(table.column_names) for kind, table in self._tables.items()}

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Number of users who must share a key."""
        return {"min_users": MIN_USERS}

    def table(self, kind: str) -> pa.Table:
        """One of its two tables."""
        return self._tables[kind]
