"""A block of people with all that they searched: the same for the same seed and number, whoever makes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from querycloak.synthetic.heavy_tails import Ints
from querycloak.synthetic.people import DAY, START, People, make_people
from querycloak.synthetic.planted import Planted, plant, with_planted
from querycloak.synthetic.queries import Queries, Typist
from querycloak.synthetic.result_pages import Rows, make_rows, urls_of
from querycloak.synthetic.texts import texts_of
from querycloak.synthetic.visits import AIMS, Sessions, make_sessions
from querycloak.synthetic.world import TOPIC_NAMES, World

PEOPLE = 2_000
"""How many people a block has."""

_PAUSE, _PAUSE_SPREAD, _LONGEST_PAUSE = 55.0, 1.1, 600.0  # seconds between queries of a session
_PAGE_PAUSE = 25.0


@dataclass(frozen=True)
class Block:
    """Rows of the log, and the truth about them."""

    people: int
    rows: pa.Table  # user, time, query, rank, url
    sensitive: pa.Table  # user, time, query, kind
    interests: pa.Table  # user, topic, begins, ends, condition
    sessions: pa.Table  # user, start, aim, topic, queries


def make_block(world: World, seed: int, number: int, people: int = PEOPLE, visits: int | None = None) -> Block:
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
    return Block(
        people,
        _log(world, ids, sessions, queries, rows, texts, typed, random),
        _sensitive(ids, sessions, queries, planted, typed),
        _interests(world, ids, crowd),
        _sessions(world, ids, sessions, queries),
    )


def _times(sessions: Sessions, queries: Queries, random: np.random.Generator) -> Ints:
    """When each query is typed: some time after the one before it in its session."""
    pause = np.clip(random.lognormal(np.log(_PAUSE), _PAUSE_SPREAD, len(queries)), 3.0, _LONGEST_PAUSE)
    pause[queries.place == 0] = 0.0
    running = np.cumsum(pause)
    begins = np.flatnonzero(queries.place == 0)
    since = running - running[begins][np.cumsum(queries.place == 0) - 1]
    return np.asarray(sessions.start[queries.session] + since.astype(np.int64))


def _log(
    world: World,
    ids: pa.Array,
    sessions: Sessions,
    queries: Queries,
    rows: Rows,
    texts: pa.Array,
    typed: Ints,
    random: np.random.Generator,
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
        }
    )
    return table.take(pa.array(order))


def _sensitive(ids: pa.Array, sessions: Sessions, queries: Queries, planted: Planted, typed: Ints) -> pa.Table:
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
    held = np.arange(people.topic.shape[1]) < people.interests[:, None]
    person, column = np.nonzero(held)
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


def _sessions(world: World, ids: pa.Array, sessions: Sessions, queries: Queries) -> pa.Table:
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
