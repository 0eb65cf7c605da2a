"""A block of people with all that they searched: the same for the same seed and number, in any order of making.

Result pages and clicks follow from the queries. Queries that give their author away are planted here and there, each
with its kind written down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.synthetic.heavy_tails import Flags, Hashes, Ints, below, mixed, share_of
from querycloak.synthetic.made_up_records import (
    PAGE,
    WantedRecords,
    attribute_columns,
    clicks_on,
    countries_of,
    devices_of,
)
from querycloak.synthetic.people import (
    AIMS,
    DAY,
    EVERYDAY,
    SITE,
    START,
    TAIL_SITE,
    People,
    PlannedSessions,
    make_people,
    make_sessions,
)
from querycloak.synthetic.queries import CORE, PLACES, TypedQueries, Typist, texts_of
from querycloak.synthetic.world import TOPIC_NAMES, World

# The share of people who type one.
KINDS = {
    "own name": 0.06,
    "surname and town": 0.04,
    "card number": 0.004,
    "social security number": 0.003,
    "rare disease": 0.02,
    "secret": 0.004,
}
_SECRET_BEGINNINGS = ("visa", "account", "password", "pin", "policy", "case")


@dataclass(frozen=True)
class Planted:
    """Replaced queries, with their replacements and kinds."""

    query: Ints
    text: list[str]
    kind: list[str]


def plant(
    world: World, people: People, sessions: PlannedSessions, queries: TypedQueries, random: np.random.Generator
) -> Planted:
    """Choose who gives something away, and in which of their queries; a query is chosen once at most."""
    person_of = sessions.person[queries.session]
    count = np.bincount(person_of, minlength=len(people))
    first = np.cumsum(count) - count
    planted: dict[int, tuple[str, str]] = {}
    for kind, share in KINDS.items():
        for person in np.flatnonzero(random.random(len(people)) < share).tolist():
            query = int(first[person] + random.integers(0, count[person]))
            planted.setdefault(query, (_text(kind, person, world, people, random), kind))
    order = sorted(planted)
    return Planted(np.array(order, np.int64), [planted[q][0] for q in order], [planted[q][1] for q in order])


def _text(kind: str, person: int, world: World, people: People, random: np.random.Generator) -> str:
    def piece(number: int) -> str:
        return str(world.texts[int(number)].as_py())

    if kind == "own name":
        return f"{piece(people.given[person])} {piece(people.surname[person])}"
    if kind == "surname and town":
        return f"{piece(people.surname[person])} {piece(people.town[person])}"
    if kind == "card number":
        return _card_number(random)
    if kind == "social security number":
        area, group, serial = random.integers(1, 665), random.integers(1, 100), random.integers(1, 10_000)
        return f"{area:03}-{group:02}-{serial:04}"
    if kind == "rare disease":
        # The last half of them, which hardly any other person asks for.
        rare = world.diseases[len(world.diseases) // 2 :]
        return piece(world.things.first + int(random.choice(rare)))
    letters = "".join(chr(ord("a") + each) for each in random.integers(0, 26, 3))
    return f"{random.integers(100, 1000)}{letters} {_SECRET_BEGINNINGS[random.integers(0, len(_SECRET_BEGINNINGS))]}"


def _card_number(random: np.random.Generator) -> str:
    """Sixteen digits that pass the check that all payment cards pass."""
    digits = [4, 0, 0, 0, *random.integers(0, 10, 11).tolist()]
    doubled = sum(sum(divmod(2 * digit, 10)) if place % 2 == 0 else digit for place, digit in enumerate(digits))
    digits.append(-doubled % 10)
    text = "".join(map(str, digits))
    return " ".join(text[i : i + 4] for i in range(0, 16, 4)) if random.random() < 0.5 else text


def with_planted(texts: pa.Array, planted: Planted) -> pa.Array:
    """The texts with what was planted in its place."""
    import pyarrow.compute as pc

    mask = np.zeros(len(texts), np.bool_)
    mask[planted.query] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(planted.text, pa.string()))


_FURTHER_PAGES = 0.39  # the chance of one more page
_FURTHER_PAGES_LONG = np.array([0.27, 0.12])  # of a query of four words, of five or more
_FURTHER_PAGES_SITE = 0.13  # for who was looking for a site
_LONG = 4
_CLICKED = 0.40  # the chance of a click on a page
_CLICKED_SITE = 0.60
_MORE_CLICKS = 0.53  # the chance of one more click after each
_MOST_CLICKS = 12
# How often each of ten places is looked at and clicked, by and large as click logs show it.
_PLACES = np.array([0.42, 0.135, 0.10, 0.08, 0.06, 0.05, 0.045, 0.04, 0.035, 0.035])
_TOPIC_SITES = 0.25  # the share of results that a whole topic has in common
_OWN_RESULTS = 0.45  # the share of results that a refinement has apart from its thing's


@dataclass(frozen=True)
class ResultRows:
    """One row for each search without a click and for each click, ordered by query, page and place."""

    query: Ints
    page: Ints
    rank: Ints  # 0 without a click
    url: Hashes


def make_rows(world: World, queries: TypedQueries, random: np.random.Generator) -> ResultRows:
    """The pages asked for, and the clicks on them."""
    to_site = np.isin(queries.aim, (SITE, TAIL_SITE))
    words = world.words_of(queries.pieces)
    further = np.where(words < _LONG, _FURTHER_PAGES, _FURTHER_PAGES_LONG[np.clip(words - _LONG, 0, 1)])
    stop = 1 - np.where(to_site, _FURTHER_PAGES_SITE, further)
    pages = np.minimum(random.geometric(stop), 20)
    query = np.repeat(np.arange(len(queries)), pages)
    page = np.arange(len(query)) - np.repeat(np.cumsum(pages) - pages, pages)
    chance = np.where(to_site[query] & (page == 0), _CLICKED_SITE, np.where(page == 0, _CLICKED, 0.8 * _CLICKED))
    clicked = random.random(len(query)) < chance
    clicks = np.where(clicked, np.minimum(random.geometric(1 - _MORE_CLICKS, len(query)), _MOST_CLICKS), 0)
    row_of = np.repeat(np.arange(len(query)), np.maximum(clicks, 1))
    has_click: Flags = clicks[row_of] > 0
    place = np.searchsorted(np.cumsum(_PLACES) / _PLACES.sum(), random.random(len(row_of)), side="right")
    # Who looks for a site finds it in the first place.
    place[to_site[query[row_of]] & (random.random(len(row_of)) < 0.7)] = 0
    rank = np.where(has_click, page[row_of] * PAGE + 1 + np.minimum(place, PAGE - 1), 0)
    order = np.lexsort((rank, page[row_of], query[row_of]))
    row_of, rank = row_of[order], rank[order]
    kept = np.ones(len(rank), np.bool_)  # nobody clicks the same result twice
    kept[1:] = (row_of[1:] != row_of[:-1]) | (rank[1:] != rank[:-1])
    row_of, rank = row_of[kept], rank[kept]
    asked = query[row_of]
    return ResultRows(asked, page[row_of], rank, _results(world, queries, asked, rank))


def _results(world: World, queries: TypedQueries, query: Ints, rank: Ints) -> Hashes:
    """The number of the site at a rank of a query's results: queries about one thing have most of them in common."""
    text = mixed(*(queries.pieces[query, place] for place in range(PLACES)))
    thing, site = queries.thing[query], queries.site[query]
    core = mixed(queries.pieces[query, CORE], queries.pieces[query, CORE + 1], queries.pieces[query, CORE + 2])
    subject = np.where(thing >= 0, mixed(thing), np.where(site >= 0, mixed(site, 1), core))
    own = share_of(mixed(text, rank, 3)) < np.where(subject == text, 0, _OWN_RESULTS)
    site_hash = np.where(own, mixed(text, rank), mixed(subject, rank))
    number = len(world.spans["site"]) + below(site_hash, 1 << 40)
    topic = world.thing_topic[np.maximum(thing, 0)]
    common = (thing >= 0) & (share_of(mixed(site_hash, 5)) < _TOPIC_SITES)
    number = np.where(common, below(mixed(topic, below(mixed(site_hash, 6), 30)), len(world.spans["site"])), number)
    everyday = (queries.aim[query] == EVERYDAY) & (rank <= 3)
    number = np.where(everyday, below(mixed(core, rank), 2_000), number)
    return np.where((site >= 0) & (rank == 1), site, number).astype(np.uint64)


def urls_of(world: World, sites: Hashes) -> pa.Array:
    """The address of each site: a known one has a name of its own, the others two words run together."""
    number = sites.astype(np.int64)
    named = number < len(world.spans["site"])
    noun = world.spans["noun"]
    spread = mixed(number)
    first = np.where(
        named, world.spans["site"].first + number % len(world.spans["site"]), noun.first + below(spread, len(noun))
    )
    second = np.where(named, 0, noun.first + below(mixed(spread, 1), len(noun)))
    ending = world.spans["ending"].at(np.where(named, number, first + second))
    pieces = (world.texts.take(pa.array(column)) for column in (first, second, ending))
    return pc.binary_join_element_wise("http://www.", *pieces, "")


_NO_RECORDS = WantedRecords()
PEOPLE = 2_000
"""Number of people in a block."""

_PAUSE, _PAUSE_SPREAD, _LONGEST_PAUSE = 55.0, 1.1, 600.0  # seconds between queries of a session
_PAGE_PAUSE = 25.0


@dataclass(frozen=True)
class PeopleBlock:
    """Rows of the log, and the truth about them."""

    people: int
    rows: pa.Table  # user, time, query, rank, url
    sensitive: pa.Table  # user, time, query, kind
    interests: pa.Table  # user, topic, begins, ends, condition
    sessions: pa.Table  # user, start, aim, topic, queries


def make_block(
    world: World,
    seed: int,
    number: int,
    people: int = PEOPLE,
    visits: int | None = None,
    records: WantedRecords = _NO_RECORDS,
) -> PeopleBlock:
    """The block of this number; its first person's id follows from the number."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, number])))
    crowd = make_people(world, random, people, visits)
    sessions = make_sessions(crowd, random)
    queries = Typist(world, crowd, sessions, random).all_queries()
    planted = plant(world, crowd, sessions, queries, random)
    rows = make_rows(world, queries, random)
    texts = with_planted(texts_of(world, queries), planted)
    typed = _times(sessions, queries, random)
    ids = pa.array(1 + number * PEOPLE + np.arange(people))
    rows, more = _with_records(world, records, seed, number, sessions, queries, rows) if records else (rows, {})
    return PeopleBlock(
        people,
        _log(world, ids, sessions, queries, rows, texts, typed, random, more),
        _sensitive(ids, sessions, queries, planted, typed),
        _interests(world, ids, crowd),
        _sessions(world, ids, sessions, queries),
    )


def _times(sessions: PlannedSessions, queries: TypedQueries, random: np.random.Generator) -> Ints:
    """Time of each query: some time after the one before it in its session."""
    pause = np.clip(random.lognormal(np.log(_PAUSE), _PAUSE_SPREAD, len(queries)), 3.0, _LONGEST_PAUSE)
    pause[queries.place == 0] = 0.0
    running = np.cumsum(pause)
    begins = np.flatnonzero(queries.place == 0)
    since = running - running[begins][np.cumsum(queries.place == 0) - 1]
    return np.asarray(sessions.start[queries.session] + since.astype(np.int64))


def _log(
    world: World,
    ids: pa.Array,
    sessions: PlannedSessions,
    queries: TypedQueries,
    rows: ResultRows,
    texts: pa.Array,
    typed: Ints,
    random: np.random.Generator,
    more: dict[str, pa.Array],
) -> pa.Table:
    page_pause = 5 + random.exponential(_PAGE_PAUSE, len(queries)).astype(np.int64)
    time = typed[rows.query] + rows.page * page_pause[rows.query]
    person = sessions.person[queries.session[rows.query]]
    order = np.lexsort((rows.rank, time, person))
    clicked = rows.rank > 0
    sites, place = np.unique(rows.url, return_inverse=True)
    url = urls_of(world, sites).take(pa.array(place, mask=~clicked))
    table = pa.table(
        {
            "user": ids.take(pa.array(person)),
            "time": pa.array(time, pa.timestamp("s")),
            "query": texts.take(pa.array(rows.query)),
            "rank": pa.array(rows.rank, pa.int32(), mask=~clicked),
            "url": url,
            **more,
        }
    )
    return table.take(pa.array(order))


def _with_records(
    world: World,
    records: WantedRecords,
    seed: int,
    number: int,
    sessions: PlannedSessions,
    queries: TypedQueries,
    rows: ResultRows,
) -> tuple[ResultRows, dict[str, pa.Array]]:
    """The rows, one for each result shown if views are wanted, and the columns beside them."""
    person = 1 + number * PEOPLE + sessions.person
    device = devices_of(person, np.arange(len(sessions)), seed)
    columns: dict[str, pa.Array] = {}
    if records.views:
        pages = np.unique(np.stack([rows.query, rows.page]), axis=1)
        query, page = np.repeat(pages, PAGE, axis=1)
        rank = page * PAGE + 1 + np.tile(np.arange(PAGE), pages.shape[1])
        rows = ResultRows(query, page, rank, _results(world, queries, query, rank))
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, number, 31])))
        sought = (queries.site[query] >= 0) & (rank == 1)
        subject = mixed(queries.pieces[query, CORE], queries.pieces[query, CORE + 1], queries.pieces[query, CORE + 2])
        of_session = device[queries.session[query]]
        columns["clicked"] = pa.array(clicks_on(rank, of_session, subject, rows.url, sought, random.random(len(query))))
    session, thing = queries.session[rows.query], queries.thing[rows.query]
    topic = pa.array(TOPIC_NAMES).take(pa.array(world.thing_topic[np.maximum(thing, 0)], mask=thing < 0))
    country = countries_of(person, seed)[session]
    return rows, columns | attribute_columns(records.attributes, country, device[session], topic.fill_null("none"))


def _sensitive(
    ids: pa.Array, sessions: PlannedSessions, queries: TypedQueries, planted: Planted, typed: Ints
) -> pa.Table:
    person = sessions.person[queries.session[planted.query]]
    return pa.table(
        {
            "user": ids.take(pa.array(person)),
            "time": pa.array(typed[planted.query], pa.timestamp("s")),
            "query": pa.array(planted.text, pa.string()),
            "kind": pa.array(planted.kind, pa.string()),
        }
    )


def _interests(world: World, ids: pa.Array, people: People) -> pa.Table:
    is_interest = np.arange(people.topic.shape[1]) < people.interests[:, None]
    person, column = np.nonzero(is_interest)
    condition = np.where(column == 0, people.condition[person], -1)
    texts = world.texts.take(pa.array(world.things.first + condition, mask=condition < 0))
    return pa.table(
        {
            "user": ids.take(pa.array(person)),
            "topic": pa.array(TOPIC_NAMES).take(pa.array(people.topic[person, column])),
            "begins": pa.array((START + people.begins[person, column] * DAY).astype(np.int64), pa.timestamp("s")),
            "ends": pa.array((START + people.ends[person, column] * DAY).astype(np.int64), pa.timestamp("s")),
            "condition": texts,
        }
    )


def _sessions(world: World, ids: pa.Array, sessions: PlannedSessions, queries: TypedQueries) -> pa.Table:
    first = np.flatnonzero(queries.place == 0)
    thing = queries.thing[first]
    topic = world.thing_topic[np.maximum(thing, 0)]
    return pa.table(
        {
            "user": ids.take(pa.array(sessions.person)),
            "start": pa.array(sessions.start, pa.timestamp("s")),
            "aim": pa.array(AIMS).take(pa.array(sessions.aim)),
            "topic": pa.array(TOPIC_NAMES).take(pa.array(topic, mask=thing < 0)),
            "queries": pa.array(np.bincount(queries.session, minlength=len(sessions)), pa.int32()),
        }
    )
