"""Pages of results, what is clicked on them, and where it leads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.synthetic.heavy_tails import Flags, Hashes, Ints, below, mixed, share_of
from querycloak.synthetic.queries import CORE, PLACES, Queries
from querycloak.synthetic.visits import EVERYDAY, SITE, TAIL_SITE
from querycloak.synthetic.world import World

PAGE = 10
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
class Rows:
    """One row for each search without a click and for each click, ordered by query, page and place."""

    query: Ints
    page: Ints
    rank: Ints  # 0 without a click
    url: Hashes


def make_rows(world: World, queries: Queries, random: np.random.Generator) -> Rows:
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
    return Rows(asked, page[row_of], rank, _results(world, queries, asked, rank))


def _results(world: World, queries: Queries, query: Ints, rank: Ints) -> Hashes:
    """The number of the site at a rank of a query's results: queries about one thing have most of them in common."""
    text = mixed(*(queries.pieces[query, place] for place in range(PLACES)))
    thing, site = queries.thing[query], queries.site[query]
    core = mixed(queries.pieces[query, CORE], queries.pieces[query, CORE + 1], queries.pieces[query, CORE + 2])
    subject = np.where(thing >= 0, mixed(thing), np.where(site >= 0, mixed(site, 1), core))
    own = share_of(mixed(text, rank, 3)) < np.where(subject == text, 0, _OWN_RESULTS)
    found = np.where(own, mixed(text, rank), mixed(subject, rank))
    number = len(world.spans["site"]) + below(found, 1 << 40)
    topic = world.thing_topic[np.maximum(thing, 0)]
    common = (thing >= 0) & (share_of(mixed(found, 5)) < _TOPIC_SITES)
    number = np.where(common, below(mixed(topic, below(mixed(found, 6), 30)), len(world.spans["site"])), number)
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
