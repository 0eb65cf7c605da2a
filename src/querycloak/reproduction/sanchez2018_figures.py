"""Figures 2 to 4 of Sanchez et al. (2018) as data, under both readings of the budget: private output.

The paper takes 1,000 AOL users with about 100 queries on four topics each. Here the users of a log with the most
searches on these topics stand for them; each user's are repeated in turn until there are 100, as in a longer log.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.evaluation.tasks.profiles import closeness, divergences, on_topics, topic_profiles
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.semantic.domains import Domains
from querycloak.methods.semantic.hbdp import noisy_cells
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.replacement import Replacement, rounded_scale
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.text.query_concepts import ConceptFinder
from querycloak.text.taxonomy import FOUR, NINETEEN, topic_concepts, topics_of
from querycloak.text.wordnet import wordnet

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
READINGS = ("user", "query")
CRITERIA = ("sqc1", "sqc2", "nsqc")
QUERIES = 100
RUNS = 3
# A noisy histogram has about half of its cells: a mean over some of the users costs less time.
HISTOGRAM_USERS = 60


@dataclass(frozen=True)
class Setting:
    """A figure: the domains of queries, and the topics of profiles."""

    figure: int
    name: str
    domain: str
    topics: tuple[str, ...]


SETTINGS = (
    Setting(2, "A", "topics", NINETEEN),
    Setting(3, "B", "abstraction", NINETEEN),
    Setting(4, "C", "abstraction", FOUR),
    Setting(4, "D(q)=P", "topics", FOUR),
    Setting(2, "D(q)=P", "|".join(NINETEEN), NINETEEN),
)


@dataclass(frozen=True)
class Point:
    """One point of a figure: the loss of profiles, and how close in meaning the new queries are."""

    figure: int
    setting: str
    criterion: str
    variant: str
    reading: str
    epsilon: float
    loss: float
    loss_on_topics: float  # without what lies under none: the reading that fits the paper's figures 3 and 4
    margin: float  # half of the 95 % interval of the loss, over users
    margin_on_topics: float
    closeness: float | None

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Profiled:
    """Users with equal numbers of queries, as concepts of WordNet."""

    concepts: NDArray[np.int32]  # users x queries

    @property
    def owners(self) -> NDArray[np.int64]:
        """The user of each query."""
        return np.repeat(np.arange(len(self.concepts)), self.concepts.shape[1])


def profiled_users(log: SearchLog, users: int = 1000, queries: int = QUERIES) -> Profiled:
    """Those who searched most for the four topics, each with this many such searches."""
    nouns = wordnet()
    finder, on_topic = ConceptFinder(nouns), topics_of(nouns, topic_concepts(nouns, FOUR)) > 0
    names, concepts_kept = [], []
    for batch in log.engine.stream(log.rows.select("user", "time", "query").distinct()):
        concepts = finder.concepts(batch.column("query"))
        kept = (concepts >= 0) & on_topic[concepts]
        rows = batch.select(["user", "time"]).filter(pa.array(kept))
        names.append(rows)
        concepts_kept.append(concepts[kept])
    table = pa.Table.from_batches(names).append_column("concept", pa.array(np.concatenate(concepts_kept)))
    table = table.sort_by([("user", "ascending"), ("time", "ascending"), ("concept", "ascending")])
    owners = table["user"].combine_chunks().dictionary_encode().indices.to_numpy()
    counts = np.bincount(owners, minlength=1)
    ends = np.cumsum(counts)
    most = np.sort(np.argsort(-counts, kind="stable")[:users])
    concepts = table["concept"].to_numpy()
    own = [np.resize(concepts[ends[user] - counts[user] : ends[user]], queries) for user in most if counts[user]]
    return Profiled(np.array(own, np.int32).reshape(-1, queries))


def points(
    people: Profiled,
    *,
    settings: Sequence[Setting] = SETTINGS,
    epsilons: Sequence[float] = EPSILONS,
    variants: Sequence[str] = ("default", "paper"),
    runs: int = RUNS,
    histogram_users: int = HISTOGRAM_USERS,
    randomness: Randomness | None = None,
) -> Iterator[Point]:
    """Every point of the figures, averaged over runs; histograms are drawn for some of the users only."""
    drawing = randomness or Randomness()
    for setting in settings:
        for criterion in CRITERIA:
            yield from _replaced(people, setting, criterion, epsilons, variants, runs, drawing)
        some = people.concepts[:: max(1, len(people.concepts) // histogram_users)]
        yield from _histograms(some, setting, epsilons, runs, drawing)


def _replaced(
    people: Profiled,
    setting: Setting,
    criterion: str,
    epsilons: Sequence[float],
    variants: Sequence[str],
    runs: int,
    randomness: Randomness,
) -> Iterator[Point]:
    nouns, owners = wordnet(), people.owners
    topics = topics_of(nouns, topic_concepts(nouns, setting.topics))
    queries = people.concepts.shape[1]
    base = _method(setting, criterion, "default", "user", 1.0, queries)
    ready = Replacement.of(base, nouns)  # its tables serve every epsilon
    home, place = _placed(ready.domains, people.concepts.reshape(-1))
    before = topic_profiles(owners, topics[people.concepts.reshape(-1)], len(people.concepts), len(setting.topics))
    lengths = np.full(len(people.concepts), queries)
    for variant in variants:
        for reading in READINGS:
            for epsilon in epsilons:
                one = ready.at(_method(setting, criterion, variant, reading, epsilon, queries))
                losses, nearness = [], []
                for _ in range(runs):
                    new = ready.domains.whole(home, one.draw(owners, home, place, lengths, randomness))
                    after = topic_profiles(owners, topics[new], len(people.concepts), len(setting.topics))
                    near = closeness(nouns, people.concepts.reshape(-1), new)
                    losses.append(_losses(before, after))
                    nearness.append(near)
                means = *_with_margins(losses), float(np.mean(nearness))
                yield Point(setting.figure, setting.name, criterion, variant, reading, epsilon, *means)


def _losses(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Losses of each user: over all topics, and over named ones."""
    return np.stack([divergences(before, after), divergences(on_topics(before), on_topics(after))])


def _with_margins(losses: Sequence[NDArray[np.float64]]) -> tuple[float, float, float, float]:
    """Both mean losses, and half of the 95 % interval of each over users (t-distribution), whose runs are averaged."""
    from scipy.stats import t

    of_users = np.mean(losses, axis=0)
    users = of_users.shape[1]
    if users < 2:
        return float(of_users[0].mean()), float(of_users[1].mean()), 1.0, 1.0  # a divergence is at most 1
    margins = float(t.ppf(0.975, users - 1)) * of_users.std(axis=1, ddof=1) / math.sqrt(users)
    return float(of_users[0].mean()), float(of_users[1].mean()), float(margins[0]), float(margins[1])


def _histograms(
    some: NDArray[np.int32], setting: Setting, epsilons: Sequence[float], runs: int, randomness: Randomness
) -> Iterator[Point]:
    """HBDP over all the concepts of the setting's domains.

    A query outside of these domains has no bin: it is left out, before and after.
    """
    nouns = wordnet()
    topics = topics_of(nouns, topic_concepts(nouns, setting.topics))
    bins = np.flatnonzero(_inside(setting))
    concepts = some.reshape(-1)
    counted = np.isin(concepts, bins)
    owners = np.repeat(np.arange(len(some)), some.shape[1])[counted]
    concepts = concepts[counted]
    cells = owners * np.int64(len(bins)) + np.searchsorted(bins, concepts)
    before = topic_profiles(owners, topics[concepts], len(some), len(setting.topics))
    for reading in READINGS:
        for epsilon in epsilons:
            moved = 2 * some.shape[1] if reading == "user" else 2
            noise = Laplace(rounded_scale(moved, epsilon))
            losses = []
            for _ in range(runs):
                cell, counts = noisy_cells(cells, len(some) * len(bins), noise, randomness)
                user, concept = cell // len(bins), bins[cell % len(bins)]
                after = topic_profiles(user, topics[concept], len(some), len(setting.topics), counts)
                losses.append(_losses(before, after))
            means = _with_margins(losses)
            yield Point(setting.figure, setting.name, "hbdp", "default", reading, epsilon, *means, None)


def _inside(setting: Setting) -> NDArray[np.bool_]:
    """The concepts of a setting's domains."""
    nouns = wordnet()
    inside = np.zeros(len(nouns), np.bool_)
    for concept in topic_concepts(nouns, FOUR if setting.domain == "topics" else setting.domain):
        inside |= nouns.under(concept)
    return inside


def _method(setting: Setting, criterion: Any, variant: Any, reading: Any, epsilon: float, queries: int) -> Semantic:
    """The method for users of this number of queries."""
    topics = "|".join(setting.topics) if criterion == "sqc2" else None
    return Semantic(
        epsilon=epsilon,
        criterion=criterion,
        domain=setting.domain,
        topics=topics,
        budget_per=reading,
        variant=variant,
        max_queries=queries if (variant, reading) == ("default", "user") else None,
    )


def _placed(domains: Domains, concepts: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The domain of concepts of the whole taxonomy and their numbers there."""
    if domains.several:
        return domains.placed(concepts)
    return np.zeros(len(concepts), np.int32), np.searchsorted(domains.domains[0].concepts, concepts).astype(np.int32)
