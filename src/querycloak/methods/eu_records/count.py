"""Sessions, common words and groups of attributes, counted in the engine (eu_records.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.logs.reading.schema import MINUTE, REQUIRED, pause_before
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.eu_records.european_rules import coarser_and_coarser, levels_of
from querycloak.methods.keyed_digest import NAME_DIGITS, keyed_digest
from querycloak.methods.keys.attributes import OTHER
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Stream

_BETWEEN = "\x1f"
COLUMNS = ("session", "day", "query", "rank", "url", "clicked")


@dataclass(frozen=True)
class SessionRecords:
    """Rows that come out: those of `COLUMNS` with `key` in place of the session's id, their place, and attributes."""

    rows: ir.Table
    attributes: tuple[str, ...]

    def named(self, log: SearchLog, randomness: Randomness) -> Stream:
        """The rows under fresh session ids, sorted by them and then in the order in which they were asked."""
        named = self.rows.mutate(session=keyed_digest(self.rows.key, randomness.secret(), NAME_DIGITS))
        ordered = named.order_by(["session", "place", "query", "rank", "url", "clicked"])
        shown = ordered.select(*COLUMNS, *self.attributes)
        return Stream(shown.schema().to_pyarrow(), lambda: log.engine.stream(shown))

    def owners(self, log: SearchLog, randomness: Randomness) -> pa.Table:
        """name and user of every session that `named` writes with the same randomness; private."""
        named = self.rows.select("user", name=keyed_digest(self.rows.key, randomness.secret(), NAME_DIGITS))
        return log.engine.fetch(named.distinct().select("name", "user"))


def session_records(log: SearchLog, attributes: Sequence[str], numbers: Mapping[str, Any]) -> SessionRecords:
    """The records that the rule lets out."""
    log.clicks_counted = True
    records = _old_enough(log.records, numbers["latency_days"])
    records = records.mutate(**{name: records[name].fill_null(OTHER) for name in attributes})
    records = log.engine.stage(records)
    searches = log.engine.stage(mini_sessions(records, attributes, numbers))
    queries = log.engine.stage(kept_queries(searches, numbers))
    searches = log.engine.stage(searches.semi_join(queries, "query"))
    searches = group_searches(log.engine, searches, attributes, numbers["min_group_users"])
    shown = records.select(*REQUIRED, "rank", "url", "clicked")
    rows = shown.inner_join(searches, list(REQUIRED))
    day = rows.time.truncate({"day": "D", "week": "W", "month": "M"}[numbers["times"]]).cast("date").cast("string")
    names = ("user", "key", "place", "query", "rank", "url", "clicked", *attributes)
    return SessionRecords(log.engine.stage(rows.select(*names, day=day)), tuple(attributes))


def _old_enough(records: ir.Table, days: int) -> ir.Table:
    """Records that were made this many days ago, or earlier."""
    today = datetime.now(UTC).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    return records.filter(records.time < ibis.timestamp(today - timedelta(days=days - 1))) if days else records


def mini_sessions(records: ir.Table, attributes: Sequence[str], numbers: Mapping[str, Any]) -> ir.Table:
    """user, time, query, attributes, key (of a session) and place of each search, in the order of time."""
    searches = records.group_by(list(REQUIRED)).agg(**{name: records[name].min() for name in attributes})
    order = [searches.time, searches.query]
    window = ibis.window(group_by=searches.user, order_by=order)
    begins = (pause_before(searches, order) > numbers["gap_minutes"] * MINUTE).fill_null(True)
    for name in attributes:
        begins = begins | (searches[name] != searches[name].lag().over(window)).fill_null(True)
    steps = searches.mutate(begins=begins.cast("int64"), place=ibis.row_number().over(window))
    so_far = ibis.window(group_by=steps.user, order_by=[steps.time, steps.query], preceding=None, following=0)
    steps = steps.mutate(visit=steps.begins.sum().over(so_far))
    if numbers["linked"] == "user":
        part: ir.StringValue = ibis.literal("")
    elif numbers["linked"] == "day":
        part = steps.time.truncate("D").cast("date").cast("string")
    else:
        part = steps.visit.cast("string")
    steps = steps.mutate(key=steps.user + _BETWEEN + part)
    most = numbers["mini_session"]
    if most:
        within = ibis.row_number().over(ibis.window(group_by=steps.key, order_by=[steps.time, steps.query]))
        steps = steps.mutate(within=within)
        steps = steps.mutate(key=steps.key + _BETWEEN + (steps.within // most).cast("int64").cast("string"))
    return steps.select(*REQUIRED, *attributes, "key", "place")


def kept_queries(searches: ir.Table, numbers: Mapping[str, Any]) -> ir.Table:
    """Queries whose every word has enough users, and which have neither too many words nor too many digits."""
    asked = searches.select("user", "query").distinct()
    used = asked.select("user", word=asked.query.split(" ").unnest()).distinct()
    users = used.group_by("word").agg(users=used.user.nunique())
    rare = users.filter(users.users < numbers["min_term_users"]).select("word")
    queries = asked.select("query").distinct()
    words = queries.select("query", word=queries.query.split(" ").unnest())
    digits = queries.query.re_replace("[^0-9]", "").length()
    short = (queries.query.split(" ").length() <= numbers["max_words"]) & (digits <= numbers["max_digits"])
    short = short & ~queries.query.contains("@")
    return queries.filter(short).anti_join(words.semi_join(rare, "word").select("query").distinct(), "query")


def group_searches(engine: Engine, searches: ir.Table, attributes: Sequence[str], least: int) -> ir.Table:
    """The searches of groups of at least `least` users, their attributes generalised as little as that takes."""
    names = list(attributes) or ["everybody"]
    searches = searches if attributes else searches.mutate(everybody=ibis.literal(OTHER))
    holders = searches.select("user", *names).distinct()
    cells = engine.fetch(holders.select(*names).distinct().order_by(names))
    holders = engine.stage(holders)
    waiting = list(zip(*(cells[name].to_pylist() for name in names), strict=True))
    settled: dict[tuple[str, ...], tuple[str, ...]] = {}
    for levels in coarser_and_coarser(names):
        if not waiting:
            break
        wider = {cell: _at(names, cell, levels) for cell in waiting}
        large = _large(engine, holders, names, wider, least)
        settled |= {cell: group for cell, group in wider.items() if group in large}
        waiting = [cell for cell in waiting if cell not in settled]
    table = _as_table(names, settled)
    joined = searches.inner_join(engine.upload(table), names)
    kept = {name: joined[f"wide_{name}"] for name in attributes}
    return joined.select(*REQUIRED, "key", "place", **kept)


def _at(names: Sequence[str], cell: Sequence[str], levels: Sequence[int]) -> tuple[str, ...]:
    return tuple(levels_of(name, value)[level] for name, value, level in zip(names, cell, levels, strict=True))


def _large(
    engine: Engine,
    holders: ir.Table,
    names: list[str],
    wider: Mapping[tuple[str, ...], tuple[str, ...]],
    least: int,
) -> set[tuple[str, ...]]:
    """Groups with enough users among those that still wait."""
    wide = [f"wide_{name}" for name in names]
    joined = holders.inner_join(engine.upload(_as_table(names, wider)), names)
    counted = joined.group_by(wide).agg(users=joined.user.nunique())
    large = engine.fetch(counted.filter(counted.users >= least).select(*wide))
    return set(zip(*(large[name].to_pylist() for name in wide), strict=True))


def _as_table(names: Sequence[str], wider: Mapping[tuple[str, ...], tuple[str, ...]]) -> pa.Table:
    """Cells and their wider values; an empty table has columns, too."""
    columns = {name: pa.array([cell[place] for cell in wider], pa.string()) for place, name in enumerate(names)}
    wide = {
        f"wide_{name}": pa.array([each[place] for each in wider.values()], pa.string())
        for place, name in enumerate(names)
    }
    return pa.table({**columns, **wide})
