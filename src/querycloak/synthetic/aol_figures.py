"""Figures of AOL's log, which a synthetic log must come close to, and the same figures of any log.

They are true counts, hence private unless the log is synthetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querycloak.logs.reading.schema import microseconds_of
from querycloak.logs.searchlog import SearchLog
from querycloak.text.wordnet import wordnet

README = "AOL's own notes on its log, 2006"
AFFINITY = "Carpineto and Romano 2015"
POOL = "Zhang, Yang and Singh 2016"
SAMPLES = "samples of Excite, Sogou and a shop's log"
REPEATS = "Teevan et al. 2007: a third of queries are their user's own again, within a year"
OURS = "ours"

AOL_USERS = 657_426
STEADY, CALIBRATED, AOL_SIZE = (2_000, 10**9), (50_000, 200_000), (AOL_USERS // 2, 10**9)
_SEARCHES = 28_898_361
_DAY = 86_400_000_000
_MOST_WORDS = 5
_KNOWN_QUERIES = 2
_ATTACKED = 2_000


@dataclass(frozen=True)
class AolFigure:
    """A figure of AOL's log, or of logs in general.

    least, most: range for synthetic logs; None if the figure has no range. users: smallest and largest number of users
    of a log with a range; rates stabilise early, numbers of distinct queries grow with a log.
    """

    name: str
    aol: float
    source: str
    least: float | None = None
    most: float | None = None
    users: tuple[int, int] = STEADY
    note: str = ""

    def held_at(self, users: int) -> bool:
        """True if the figure has a range for a log of this number of users."""
        return self.least is not None and self.users[0] <= users <= self.users[1]

    def holds(self, value: float) -> bool | None:
        """True if a value lies in the range; None without a range."""
        if self.least is None or self.most is None:
            return None
        return self.least <= value <= self.most


def _near(
    name: str, aol: float, source: str, users: tuple[int, int] = STEADY, within: float = 0.1, note: str = ""
) -> AolFigure:
    return AolFigure(name, aol, source, aol * (1 - within), aol * (1 + within), users, note)


FIGURES: tuple[AolFigure, ...] = (
    _near("rows per user", 36_389_567 / AOL_USERS, README),
    _near("searches per user", _SEARCHES / AOL_USERS, README),
    _near("share of rows with a click", 19_442_629 / 36_389_567, README),
    _near("share of searches that ask for a further page", 7_887_022 / _SEARCHES, README),
    *(
        _near(f"words per distinct query: {words}", share, AFFINITY, CALIBRATED)
        for words, share in zip(("1", "2", "3", "4", "5+"), (0.2664, 0.2022, 0.206, 0.146, 0.180), strict=True)
    ),
    *(
        _near(f"words per search: {words}", share, AFFINITY)
        for words, share in zip(("1", "2", "3", "4", "5+"), (0.4121, 0.2453, 0.157, 0.089, 0.097), strict=True)
    ),
    _near("share of terms in WordNet", 23_502_849 / 48_611_583, AFFINITY, note="of new queries"),
    AolFigure(
        "share of sessions with several queries", 0.37, SAMPLES, 0.31 * 0.9, 0.43 * 1.1, note="seen 0.31 to 0.43"
    ),
    AolFigure("share of new queries asked a day or more before", 0.2, REPEATS, 0.15, 0.33, note="within three months"),
    AolFigure("share of interests pursued over 30 days or more", 0.3, OURS, 0.2, 0.5, note="of those searched twice"),
    AolFigure("two known queries find their user", 0.97, OURS, 0.9, 1.0, note="of users with two or more"),
    _near("distinct queries per search", 10_154_742 / _SEARCHES, README, AOL_SIZE),
    _near("share of distinct queries of one user", 0.9, AFFINITY, AOL_SIZE, 0.05),
    AolFigure("share of distinct queries without WordNet", 3_682_195 / 10_154_742, AFFINITY, note="not one term"),
    AolFigure("searches for weather, in a million", 13_826 / _SEARCHES * 1e6, POOL, 160, 1500, AOL_SIZE, "lower bound"),
    AolFigure("searches for the first query, in a million", 10_000, OURS, 1_000, 30_000, AOL_SIZE, "a site's name"),
    AolFigure("users of a head such as tiger woods", 227, AFFINITY, users=AOL_SIZE, note="nearest head"),
    AolFigure("distinct queries that contain it", 365, AFFINITY, 120, 1_100, AOL_SIZE),
    AolFigure("of which one user alone asked", 327, AFFINITY, 100, 1_050, AOL_SIZE),
    AolFigure("several-query sessions that repeat one", 0.04, SAMPLES, note="by anybody"),
    AolFigure("several-query sessions that repeat another's", 0.01, SAMPLES, note="well below"),
)


def measure(log: SearchLog, truth: Path | None = None) -> dict[str, float]:
    """The figures of a log, by name; truth: folder with the interests behind a synthetic log, None if unknown."""
    rows = log.engine.stage(log.rows)
    log.checked()
    searches = log.engine.stage(_searches(rows))
    queries = log.engine.stage(_queries(searches))
    values = {
        **_volumes(log, rows, searches),
        **_words(log, queries),
        **_terms(log, queries),
        **_sessions(log, searches),
        **_repeats(log, searches),
        **_heads(log, searches, queries),
        **_attack(log, searches),
    }
    if truth is not None:
        values |= _interests(truth)
    return {figure.name: values[figure.name] for figure in FIGURES if figure.name in values}


def _searches(rows: ir.Table) -> ir.Table:
    """Searches, with whether they begin a session and whether their query differs from the one before (new)."""
    distinct = rows.select("user", "time", "query").distinct()
    window = ibis.window(group_by=distinct.user, order_by=[distinct.time, distinct.query])
    before = distinct.mutate(last=distinct.query.lag().over(window), last_time=distinct.time.lag().over(window))
    pause = microseconds_of(before.time) - microseconds_of(before.last_time)
    return before.select(
        "user", "time", "query",
        new=(before.last.isnull() | (before.last != before["query"])),
        begins=(pause.isnull() | (pause > 1_800_000_000)),
    )  # fmt: skip


def _queries(searches: ir.Table) -> ir.Table:
    """Distinct queries with searches, new searches, words and one_user: whether one user alone asked them."""
    grouped = searches.group_by("query").agg(
        searches=searches.count(),
        new=searches.new.cast("int64").sum(),
        one_user=searches.user.min() == searches.user.max(),
    )
    blanks = grouped["query"].length() - grouped["query"].replace(" ", "").length()
    return grouped.mutate(words=blanks.cast("int64") + 1)


def _volumes(log: SearchLog, rows: ir.Table, searches: ir.Table) -> dict[str, float]:
    counted = _one(log, rows.agg(rows=rows.count(), clicks=rows.url.count(), users=rows.user.nunique()))
    asked = _one(log, searches.agg(searches=searches.count(), new=searches.new.cast("int64").sum()))
    return {
        "rows per user": counted["rows"] / counted["users"],
        "searches per user": asked["searches"] / counted["users"],
        "share of rows with a click": counted["clicks"] / counted["rows"],
        "share of searches that ask for a further page": 1 - asked["new"] / asked["searches"],
    }


def _words(log: SearchLog, queries: ir.Table) -> dict[str, float]:
    capped = queries.words.clip(upper=_MOST_WORDS)
    counts = _one(
        log,
        queries.agg(
            distinct=queries.count(),
            searches=queries.searches.sum(),
            one_user=queries.one_user.cast("int64").sum(),
            **{f"distinct_{n}": (capped == n).cast("int64").sum() for n in range(1, _MOST_WORDS + 1)},
            **{f"searches_{n}": queries.searches.sum(where=capped == n) for n in range(1, _MOST_WORDS + 1)},
        ),
    )
    labels = {n: f"{n}+" if n == _MOST_WORDS else str(n) for n in range(1, _MOST_WORDS + 1)}
    return {
        **{f"words per distinct query: {labels[n]}": counts[f"distinct_{n}"] / counts["distinct"] for n in labels},
        **{f"words per search: {labels[n]}": (counts[f"searches_{n}"] or 0) / counts["searches"] for n in labels},
        "distinct queries per search": counts["distinct"] / counts["searches"],
        "share of distinct queries of one user": counts["one_user"] / counts["distinct"],
    }


def _terms(log: SearchLog, queries: ir.Table) -> dict[str, float]:
    """Shares of terms and of queries that WordNet's nouns know."""
    terms = log.engine.stage(queries.select("query", "new", term=queries["query"].split(" ").unnest()))
    distinct = log.engine.fetch(terms.group_by("term").agg(uses=terms.new.sum()))
    known = wordnet().known(distinct["term"].to_pylist())
    uses = distinct["uses"].to_numpy()
    upload = pa.table({"term": distinct["term"].combine_chunks().filter(pa.array(known))})
    matched = terms.semi_join(log.engine.upload(upload), "term").select("query").distinct()
    counted = _one(log, matched.agg(queries=matched.count()))
    total = _one(log, queries.agg(queries=queries.count()))
    return {
        "share of terms in WordNet": float(uses[known].sum() / uses.sum()),
        "share of distinct queries without WordNet": 1 - counted["queries"] / total["queries"],
    }


def _sessions(log: SearchLog, searches: ir.Table) -> dict[str, float]:
    """Share of sessions with several queries, and of those that repeat an earlier session."""
    window = ibis.window(
        group_by=searches.user, order_by=[searches.time, searches["query"]], preceding=None, following=0
    )
    numbered = searches.mutate(session=searches.begins.cast("int64").sum().over(window))
    kept = numbered.filter(numbered.new | numbered.begins)
    position = ibis.row_number().over(
        ibis.window(group_by=[kept.user, kept.session], order_by=[kept.time, kept["query"]])
    )
    placed = kept.mutate(position=position)
    # The first six queries distinguish sessions well enough, and no engine needs an ordered list for them.
    by_session = placed.group_by(["user", "session"]).agg(
        queries=placed.count(),
        different=placed["query"].nunique(),
        **{f"q{n}": placed["query"].max(where=placed.position == n) for n in range(6)},
    )
    by_session = log.engine.stage(by_session)
    shares = _one(log, by_session.agg(all=by_session.count(), several=(by_session.different > 1).cast("int64").sum()))
    several = by_session.filter(by_session.different > 1)
    sequences = several.group_by([f"q{n}" for n in range(6)]).agg(times=several.count(), users=several.user.nunique())
    repeated = _one(
        log,
        sequences.agg(again=(sequences.times - 1).sum(), shared=sequences.times.sum(where=sequences.users > 1)),
    )
    return {
        "share of sessions with several queries": shares["several"] / shares["all"],
        "several-query sessions that repeat one": (repeated["again"] or 0) / max(shares["several"], 1),
        "several-query sessions that repeat another's": (repeated["shared"] or 0) / max(shares["several"], 1),
    }


def _repeats(log: SearchLog, searches: ir.Table) -> dict[str, float]:
    """Share of new queries that their user has asked a day or more before."""
    first = searches.group_by(["user", "query"]).agg(first=searches.time.min())
    joined = searches.filter(searches.new).inner_join(first, ["user", "query"])
    later = (microseconds_of(joined.time) - microseconds_of(joined["first"])) >= _DAY
    counts = _one(log, joined.agg(new=joined.count(), later=later.cast("int64").sum()))
    return {"share of new queries asked a day or more before": (counts["later"] or 0) / max(counts["new"], 1)}


def _heads(log: SearchLog, searches: ir.Table, queries: ir.Table) -> dict[str, float]:
    """Rates of the most frequent queries, and of a head of two words with the queries that contain it."""
    total = _one(log, queries.agg(searches=queries.searches.sum(), top=queries.searches.max()))
    weather = _one(log, queries.agg(searches=queries.searches.sum(where=queries["query"] == "weather")))
    users = _one(log, searches.agg(users=searches.user.nunique()))["users"]
    wanted = round(227 * users / AOL_USERS)
    two = queries.filter((queries.words == 2) & (queries.searches.between(wanted, 8 * wanted + 8)))
    candidates = searches.semi_join(two.select("query"), "query").group_by("query").agg(users=searches.user.nunique())
    near = log.engine.fetch(candidates)
    heads = _nearest(near, wanted)
    containing = [_containing(log, queries, head) for head, _ in heads]
    middle = sorted(range(len(containing)), key=lambda i: containing[i]["all"])[len(containing) // 2] if heads else None
    return {
        "searches for weather, in a million": (weather["searches"] or 0) / total["searches"] * 1e6,
        "searches for the first query, in a million": total["top"] / total["searches"] * 1e6,
        "users of a head such as tiger woods": heads[middle][1] if middle is not None else 0,
        "distinct queries that contain it": containing[middle]["all"] if middle is not None else 0,
        "of which one user alone asked": containing[middle]["one"] if middle is not None else 0,
    }


def _nearest(candidates: pa.Table, wanted: int, number: int = 9) -> list[tuple[str, int]]:
    """Heads with their numbers of users, nearest to the wanted number first."""
    users = candidates["users"].to_numpy()
    order = np.lexsort((candidates["query"].to_numpy(zero_copy_only=False), np.abs(users - wanted)))
    names = candidates["query"].to_pylist()
    return [(names[place], int(users[place])) for place in order[:number]]


def _containing(log: SearchLog, queries: ir.Table, head: str) -> dict[str, int]:
    within = queries.filter(queries["query"].contains(head))
    counts = _one(log, within.agg(all=within.count(), one=within.one_user.cast("int64").sum()))
    return {"all": counts["all"], "one": counts["one"] or 0}


def _attack(log: SearchLog, searches: ir.Table) -> dict[str, float]:
    """Share of pairs of known queries that only their own user has."""
    pairs = searches.select("user", "query").distinct()
    order = pairs.mutate(chance=(pairs.user.concat("\t", pairs["query"])).hexdigest("md5"))
    window = ibis.window(group_by=order.user, order_by=order.chance)
    chosen = order.mutate(place=ibis.row_number().over(window)).filter(lambda t: t.place < _KNOWN_QUERIES)
    per_user = chosen.group_by("user").agg(
        known=chosen.count(), one=chosen["query"].min(), other=chosen["query"].max(), chance=chosen.chance.min()
    )
    attacked = log.engine.stage(
        per_user.filter(per_user.known == _KNOWN_QUERIES).order_by("chance").limit(_ATTACKED).select("one", "other")
    )
    first = attacked.inner_join(pairs.rename(one="query", first="user"), "one")
    both = first.inner_join(pairs.rename(other="query", second="user"), "other")
    both = both.filter(both["first"] == both["second"])
    fitting = both.group_by(["one", "other"]).agg(users=both["first"].nunique())
    counts = _one(log, fitting.agg(all=fitting.count(), alone=(fitting.users == 1).cast("int64").sum()))
    return {"two known queries find their user": (counts["alone"] or 0) / max(counts["all"], 1)}


def _interests(truth: Path) -> dict[str, float]:
    """Share of a user's recurring topics that are searched over 30 days or more."""
    sessions = pq.read_table(truth / "sessions.parquet", columns=["user", "topic", "start"])
    sessions = sessions.filter(pc.is_valid(sessions["topic"]))
    spans = sessions.group_by(["user", "topic"]).aggregate([("start", "min"), ("start", "max"), ("start", "count")])
    spans = spans.filter(pc.greater(spans["start_count"], 1))
    days = pc.divide(
        pc.subtract(spans["start_max"], spans["start_min"]).cast(pa.duration("s")).cast(pa.int64()), 86_400
    )
    return {"share of interests pursued over 30 days or more": pc.mean(pc.greater_equal(days, 30)).as_py() or 0.0}


def _one(log: SearchLog, table: ir.Table) -> Mapping[str, int]:
    row: dict[str, int] = log.engine.fetch(table).to_pylist()[0]
    return row
