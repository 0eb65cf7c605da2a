"""Noisy parts of a made-up log: each is counted when those it looks at have come out (synthetic.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.logs.reading.schema import MINUTE, microseconds_of
from querycloak.logs.reformulations import kinds_of_steps
from querycloak.methods.keys.contribution_bounding import first_keys, once_per_key
from querycloak.methods.keys.partition_selection import CountedKeys, count_keys
from querycloak.methods.keys.public_keys import PublicKeys
from querycloak.methods.keys.thresholded import KeyCounts
from querycloak.methods.method import Drawn
from querycloak.methods.phrases.counted_levels import CountedLevels
from querycloak.methods.phrases.levels import uses_of_words, with_tokens
from querycloak.methods.phrases.method import QUERIES, TABLE
from querycloak.methods.sessions.public_plans import PAIR_OF_QUERY
from querycloak.methods.sessions.public_tables import PAIR, QUERIES_OF_SESSION, above_cut
from querycloak.methods.synthetic.parts_plan import CLICKS, HOSTS, TRANSITIONS
from querycloak.methods.synthetic.shape import (
    AGAIN,
    CELLS,
    FIRST,
    GAP_MINUTES,
    HOURS,
    PAUSES,
    SEARCHES,
    SESSIONS,
    STEPS,
)
from querycloak.methods.synthetic.shape import CLICKS as CLICK_CELLS
from querycloak.methods.synthetic.shape import RANKS as RANK_CELLS
from querycloak.methods.synthetic.shape import WORDS as WORD_CELLS
from querycloak.privacy.calibration.histogram import noisy_counts
from querycloak.privacy.calibration.public_counts import SPURIOUS, PublicPlan, cut_for
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.row_kinds import RowKind
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.synthetic.method import Synthetic

CLICK, HOST = ("query", "url"), ("word", "host")
KEYS: Mapping[str, tuple[str, ...]] = {CLICKS: CLICK, HOSTS: HOST}
_HOUR, _SECOND = 60 * MINUTE, MINUTE // 60
_MONDAY = 72
"""Hours from a Monday's midnight to the first of January 1970."""
_ADDRESS = "^([a-z][a-z0-9+.-]*://)?[^/?#]*"
NO_CLICK_COLUMN = Sentence("the log has no column of clicked urls, so no made-up search has a click")


@dataclass(frozen=True, eq=False)
class NoisyParts:
    """Everything that made-up users are drawn from; a part without a share is empty."""

    phrases: pa.Table
    queries: pa.Table
    clicks: pa.Table
    hosts: pa.Table
    transitions: pa.Table
    cells: Mapping[str, IntArray]
    noise: Mapping[str, float]
    """The standard deviation of the noise in cells."""

    def without_clicks(self) -> NoisyParts:
        """The same if no search has a click: what noise or public shares say of clicks is left out."""
        sources = np.maximum(self.cells.get("sources", np.ones(CELLS["sources"].number, np.int64)), 0)
        sources = sources.reshape(2, CLICK_CELLS) * (np.arange(CLICK_CELLS) == 0)
        if not sources.any():
            sources[:, 0] = 1
        return replace(self, cells={**self.cells, "sources": sources.reshape(-1)})


@dataclass(frozen=True)
class SyntheticParts:
    """Searches and clicks of users in the engine, waiting for the parts to be drawn."""

    method: Synthetic
    engine: Engine
    levels: CountedLevels
    searches: ir.Table
    """user, at (microseconds), query, clicks, number (from 0), session (from 1), begins, before and pause."""
    clicks: ir.Table
    """user, query, url, rank and at of every click."""
    period: tuple[datetime | None, datetime | None]
    holds_clicks: bool

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw part after part, then make up users."""
        from querycloak.methods.synthetic.made_up_log import made_up_log

        drawn = self.drawn(randomness)
        parts = drawn if self.holds_clicks else drawn.without_clicks()
        table = made_up_log(parts, self.method.users, self.period, int(randomness.below(1 << 62, 1)[0]))
        remarks = [] if self.holds_clicks else [NO_CLICK_COLUMN]
        return Drawn({"log": table}, counts="synthetic", rows=RowKind.COMPOSED, remarks=remarks)

    def drawn(self, randomness: Randomness) -> NoisyParts:
        """All noisy parts; later ones look at earlier ones."""
        plan = self.method.plan
        tables = self.levels.released(self.method.phrases, randomness)
        phrases, queries = (pa.table(tables[name]) for name in (TABLE, QUERIES))
        words = words_of_level(phrases)
        keys = {
            name: self.counted(name, queries["query"], words).release(randomness).table
            if name in plan.selected
            else _nothing(*KEYS[name])
            for name in KEYS
        }
        cells = {
            name: noisy_counts(self.true_cells(name, queries["query"]), each.noise, randomness)[0]
            for name, each in plan.public.items()
            if name in CELLS
        }
        transitions = _nothing(*PAIR)
        if TRANSITIONS in plan.public:
            transitions = self._transitions(queries, plan.public[TRANSITIONS], randomness)
        noise = {name: plan.public[name].noise.size for name in cells}
        return NoisyParts(phrases, queries, keys[CLICKS], keys[HOSTS], transitions, cells, noise)

    def counted(self, part: str, queries: pa.ChunkedArray, words: pa.ChunkedArray) -> CountedKeys:
        """Clicks or hosts, counted by their plan, given the queries and words that came out."""
        name, known = ("word", words) if part == HOSTS else ("query", queries)
        released = self.engine.upload(pa.table({name: known.cast(pa.string())}))
        kept = self.engine.stage(self.keys_of_users(part).semi_join(released, name))
        return count_keys(self.engine, kept, KEYS[part], self.method.plan.selected[part], kept=True)

    def keys_of_users(self, part: str) -> ir.Table:
        """user, key and earliest of clicks or hosts, whatever came out."""
        return self._host_rows if part == HOSTS else self._click_keys

    @cached_property
    def _click_keys(self) -> ir.Table:
        rows = self.clicks.mutate(time=self.clicks.time)
        return self.engine.stage(once_per_key(rows, CLICK))

    @cached_property
    def _host_rows(self) -> ir.Table:
        """user, word, host and earliest of each user's clicks."""
        clicks = self._click_keys
        cut = with_tokens(self.engine, clicks.mutate(host=clicks.url.re_extract(_ADDRESS, 0)).drop("url"))
        words = cut.select("user", "host", "earliest", word=cut.tokens.split(" ").unnest())
        return self.engine.stage(words.group_by(["user", *HOST]).agg(earliest=words.earliest.min()))

    def true_cells(self, part: str, queries: pa.ChunkedArray) -> IntArray:
        """The counts of a public part, bounded for each user (private); queries: those that came out."""
        events = _EVENTS[part](self, queries)
        counts = self.engine.fetch(events.group_by("cell").agg(n=events.count()))
        true = np.zeros(CELLS[part].number, np.int64)
        true[counts["cell"].to_numpy()] = counts["n"].to_numpy()
        return true

    def pairs(self, queries: pa.Array) -> tuple[KeyCounts, PublicKeys]:
        """Counts of pairs of these queries, and all pairs (sessions.md)."""
        from querycloak.logs.sequences import pairs_of_steps

        among = self.engine.upload(pa.table({"query": queries}))
        pairs = pairs_of_steps(self.searches, among, QUERIES_OF_SESSION, repeats=False)
        counts = KeyCounts.of(self.engine, first_keys(pairs, PAIR, 1), PAIR)
        return counts, PublicKeys({"query": queries, "next_query": queries}, different=True)

    def _transitions(self, queries: pa.Table, plan: PublicPlan, randomness: Randomness) -> pa.Table:
        names = queries["query"].cast(pa.string()).combine_chunks()
        counts = sorted(queries["count"].drop_null().to_pylist(), reverse=True)
        number = len(names)
        if number < 2 or len(counts) < 2:
            return _nothing(*PAIR)
        if counts[1] < PAIR_OF_QUERY * cut_for(plan.noise, number * (number - 1), SPURIOUS):
            return _nothing(*PAIR)  # no pair is likely to exceed its cut (sessions.md, claim E)
        return above_cut(*self.pairs(names), plan, randomness).table


def read_parts(log: SearchLog, method: Synthetic) -> SyntheticParts:
    """Read searches and clicks, once."""
    engine = log.engine
    log.stage()
    rows = log.rows
    once = engine.stage(once_per_key(log.asked, ("query",)))
    levels = CountedLevels(engine, uses_of_words(engine, once), once, {"fixed": method.phrases}, None, {})
    clicks = log.clicks.select("user", "query", "url", "rank", "time")
    choices = log.source.choices
    return SyntheticParts(
        method, engine, levels, engine.stage(_searches(rows)), clicks, (choices.since, choices.until),
        log.source.reader.holds_clicks,
    )  # fmt: skip


def words_of_level(phrases: pa.Table) -> pa.ChunkedArray:
    """The words that came out at the first level."""
    flags = zip(*(phrases[name].to_pylist() for name in ("words", "begins", "ends")), strict=True)
    plain = [words == 1 and not begins and not ends for words, begins, ends in flags]
    return phrases["phrase"].filter(pa.array(plain, pa.bool_()))


def _searches(rows: ir.Table) -> ir.Table:
    each = rows.group_by(["user", "time", "query"]).agg(clicks=rows.url.count().cast("int64"))
    at = microseconds_of(each.time)
    order = ibis.window(group_by=each.user, order_by=[each.time, each.query])
    placed = each.select(
        "user", "query", "clicks", at=at, pause=at - at.lag().over(order), before=each.query.lag().over(order)
    )
    placed = placed.mutate(begins=(placed.pause > GAP_MINUTES * MINUTE).fill_null(True))
    window = {"group_by": placed.user, "order_by": [placed.at, placed.query]}
    session = placed.begins.cast("int64").sum().over(ibis.window(**window, preceding=None, following=0))
    first = placed.at.min().over(ibis.window(group_by=[placed.user, placed.query]))
    return placed.mutate(
        number=ibis.row_number().over(ibis.window(**window)).cast("int64"),
        session=session.cast("int64"),
        again=first < placed.at,
        before=ibis.ifelse(placed.begins, ibis.null("string"), placed.before),
    )


def _users(parts: SyntheticParts, _: pa.ChunkedArray) -> ir.Table:
    each = parts.searches.group_by("user").agg(n=parts.searches.session.max())
    return each.select("user", cell=_bin(each.n, SESSIONS))


def _sessions(parts: SyntheticParts, _: pa.ChunkedArray) -> ir.Table:
    first = parts.searches.filter(parts.searches.session <= CELLS["sessions"].most)
    each = first.group_by(["user", "session"]).agg(n=first.count().cast("int64"))
    return each.select("user", cell=each.n.clip(upper=SEARCHES) - 1)


def _hours(parts: SyntheticParts, _: pa.ChunkedArray) -> ir.Table:
    begun = parts.searches.filter(parts.searches.begins)
    hour = ((begun.at // _HOUR + _MONDAY) % HOURS + HOURS) % HOURS
    placed = begun.select("user", "at", cell=hour.cast("int64"))
    each = placed.group_by(["user", "cell"]).agg(earliest=placed["at"].min())
    return first_keys(each, ("cell",), CELLS["hours"].most).select("user", "cell")


def _pauses(parts: SyntheticParts, _: pa.ChunkedArray) -> ir.Table:
    moves = parts.searches.filter(~parts.searches.begins)
    place = ibis.row_number().over(ibis.window(group_by=moves.user, order_by=moves.number))
    placed = moves.select("user", pause=moves.pause // _SECOND, place=place)
    first = placed.filter(placed.place < CELLS["pauses"].most)
    return first.select("user", cell=_bin(first.pause, PAUSES[:-1]))


def _kinds(parts: SyntheticParts, _: pa.ChunkedArray) -> ir.Table:
    first = parts.searches.filter(parts.searches.number < CELLS["kinds"].most)
    begun = first.filter(first.begins)
    again = ibis.ifelse(begun.again, _cell(STEPS.index(AGAIN)), _cell(STEPS.index(FIRST)))
    moves = kinds_of_steps(first)
    kind = moves.kind.cases(*[(name, _cell(STEPS.index(name))) for name in STEPS[2:]], else_=_cell(0))
    return begun.select("user", cell=again).union(moves.select("user", cell=kind))


def _sources(parts: SyntheticParts, queries: pa.ChunkedArray) -> ir.Table:
    first = parts.searches.filter(parts.searches.number < CELLS["sources"].most)
    marked = _marked(parts.engine, first, queries)
    return marked.select("user", cell=marked.whole * CLICK_CELLS + marked.clicks.clip(upper=CLICK_CELLS - 1))


def _lengths(parts: SyntheticParts, queries: pa.ChunkedArray) -> ir.Table:
    first = parts.searches.filter(parts.searches.number < CELLS["lengths"].most)
    marked = _marked(parts.engine, first, queries)
    composed = marked.filter(marked.whole == 0)
    blanks = (composed.query.length() - composed.query.replace(" ", "").length()).cast("int64")
    return composed.select("user", cell=blanks.clip(upper=WORD_CELLS - 1))


def _ranks(parts: SyntheticParts, queries: pa.ChunkedArray) -> ir.Table:
    order = [parts.clicks[name] for name in ("time", "rank", "query", "url")]
    place = ibis.row_number().over(ibis.window(group_by=parts.clicks.user, order_by=order))
    placed = parts.clicks.mutate(place=place)
    marked = _marked(parts.engine, placed.filter(placed.place < CELLS["ranks"].most), queries)
    rank = marked["rank"].cast("int64").fill_null(0)
    beyond = ibis.ifelse(rank <= 20, _cell(RANK_CELLS - 2), _cell(RANK_CELLS - 1))
    cell = ibis.ifelse(rank <= 10, ibis.greatest(rank, _cell(0)), beyond)
    return marked.select("user", cell=marked.whole * RANK_CELLS + cell)


_EVENTS: Mapping[str, Callable[[SyntheticParts, pa.ChunkedArray], ir.Table]] = {
    "users": _users, "sessions": _sessions, "hours": _hours, "pauses": _pauses, "kinds": _kinds, "sources": _sources,
    "lengths": _lengths, "ranks": _ranks,
}  # fmt: skip


def _marked(engine: Engine, rows: ir.Table, queries: pa.ChunkedArray) -> ir.Table:
    """The rows with `whole`: 1 if the query came out, else 0."""
    texts = queries.cast(pa.string()).combine_chunks()
    released = engine.upload(pa.table({"known": texts, "one": pa.array(np.ones(len(texts), np.int64))}))
    joined = rows.left_join(released, rows.query == released.known)
    return joined.mutate(whole=joined.one.fill_null(0)).drop("known", "one")


def _bin(number: ir.IntegerValue, least: tuple[int, ...]) -> ir.IntegerValue:
    """The place of a number among the least numbers of bins."""
    at = _cell(0)
    for bound in least[1:]:
        at = at + (number >= bound).cast("int64")
    return at


def _cell(number: int) -> ir.IntegerScalar:
    return ibis.literal(number, "int64")


def _nothing(*names: str) -> pa.Table:
    texts = {name: pa.array([], pa.string()) for name in names}
    return pa.table({**texts, "count": pa.array([], pa.int64())})
