"""From users' searches to the rows of a release: concepts, shares of the budget, draws, labels (semantic.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.methods.semantic.choice import certified_for, share_of
from querycloak.methods.semantic.domains import Domain, Domains
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.searches import Searches
from querycloak.methods.semantic.totals import (
    MOST_CANDIDATES,
    MOST_LISTED,
    DrawChannel,
    Totals,
    channel_table,
    numbered_texts,
)
from querycloak.methods.semantic.weights import EqualityWeights, SemanticWeights
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Stream, Table
from querycloak.text.taxonomy import Taxonomy, topic_concepts, topics_of

Ints = NDArray[np.int32]
Weights = SemanticWeights | EqualityWeights
_ROWS = 1 << 16
_LEVELS_AT_ONCE = 32


class DrawnTables(NamedTuple):
    """The rows, the channel of all draws, and totals computed back from the rows by it.

    channel, totals: None for counts, if draws have several laws, or with too many candidates. totals: None also if the
    channel cannot be inverted.
    """

    log: Table
    totals: Totals | None = None
    channel: DrawChannel | None = None
    listed: pa.Table | None = None
    """The channel as a table; None if it is too long, or if two numbers determine it."""


@dataclass(frozen=True, eq=False)
class Replacement:
    """The mechanism, ready to draw: its domains and the weights within each, made when first used."""

    method: Semantic
    domains: Domains
    _made: dict[int, Weights] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, method: Semantic, taxonomy: Taxonomy) -> Replacement:
        """Everything that is public, from the parameters and the taxonomy."""
        made = cls(method, Domains.of(taxonomy, method.chosen.domain, method.chosen.candidates))
        if method.criterion == "sqc2":
            topic_concepts(taxonomy, method.topic_names)  # an error in the topics is raised before the log is read
        return made

    def at(self, method: Semantic) -> Replacement:
        """The mechanism for a method with another epsilon, variant or unit, with these domains and weights."""
        return method.mechanism(method, self.domains, self._made)

    def weights(self, number: int) -> Weights:
        """The weights within a domain."""
        if number not in self._made:
            self._made[number] = self._weights(self.domains.domains[number])
        return self._made[number]

    def _weights(self, domain: Domain) -> Weights:
        criterion = self.method.chosen.criterion
        if criterion == "nsqc":
            return EqualityWeights(domain.taxonomy)
        if criterion == "sqc1":
            return SemanticWeights(domain.taxonomy, certified=certified_for(domain.taxonomy, criterion))
        whole, names = self.domains.taxonomy, self.method.topic_names
        topics = topics_of(whole, topic_concepts(whole, names))
        known = certified_for(domain.taxonomy, criterion) if names == "19" else None
        return SemanticWeights(domain.taxonomy, topics[domain.concepts], known)

    @property
    def concepts_of(self) -> Callable[[pa.Array], Ints] | None:
        """The map from queries to concepts; None if the queries themselves are needed."""
        return self.domains.concepts

    def table(self, searches: Searches, randomness: Randomness) -> Table:
        """The rows of the release, drawn once."""
        return self.tables(searches, randomness).log

    def tables(self, searches: Searches, randomness: Randomness) -> DrawnTables:
        """The rows of the release, drawn once, and what follows from them."""
        if self.method.criterion == "hbdp":
            from querycloak.methods.semantic.hbdp import noisy_histograms

            return DrawnTables(noisy_histograms(self.method, self.domains.domains[0], searches, randomness))
        return self._labels(searches, randomness)

    def _labels(self, searches: Searches, randomness: Randomness) -> DrawnTables:
        """A drawn label for each search within the bound, and totals of the labels."""
        domains, places = self.domains.placed(searches.concepts)
        kept = chosen_searches(searches, self._less_telling(searches.concepts, domains), domains)
        domains, places = domains[kept], places[kept]
        owners = np.repeat(np.arange(len(searches.users)), searches.lengths)[kept]
        drawn = self.draw(owners, domains, places, searches.lengths, randomness)
        labels, numbers = self._shown(domains, drawn)
        times = coarse(searches.times[kept], self.method.times)
        log = rows_of(searches.users, owners, labels, numbers, times)
        channel = self.channel()
        if channel is None:
            return DrawnTables(log)
        texts = [self.domains.taxonomy.shown(int(concept)) for concept in self.domains.domains[0].concepts]
        totals = Totals.of(channel, np.bincount(drawn, minlength=len(texts)), texts)
        listed = self.method.chosen.criterion != "nsqc" and len(texts) <= MOST_LISTED
        return DrawnTables(log, totals, channel, channel_table(channel, texts) if totals and listed else None)

    def channel(self) -> DrawChannel | None:
        """The law of every draw; None if draws have different laws, or too many candidates."""
        weights = None if self.domains.several else self.weights(0)
        if weights is None or not self.method.one_loss or weights.concepts > MOST_CANDIDATES:
            return None
        (exponent,) = self.exponents(weights, [self.method.loss])
        return DrawChannel.of(weights, exponent)

    def _less_telling(self, concepts: Ints, domains: Ints) -> NDArray[np.bool_] | None:
        """Searches that are drawn after all others of their user (claim 5); None if times come out.

        Those without a known concept; with several domains, those of the last domain.
        """
        if self.method.times != "drop":
            return None
        # With several domains the domain of what is drawn comes out, so nothing but domains may decide.
        return domains == len(self.domains.domains) - 1 if self.domains.several else concepts < 0

    def draw(
        self, owners: NDArray[np.int64], domains: Ints, places: Ints, lengths: NDArray[np.int64], randomness: Randomness
    ) -> Ints:
        """A concept of its own domain for each, at its user's share of the budget."""
        if self.method.repeats == "reuse":
            return self._drawn_once(owners, domains, places, randomness)
        return self._drawn(self.losses(lengths)[owners], domains, places, randomness)

    def _drawn_once(self, owners: NDArray[np.int64], domains: Ints, places: Ints, randomness: Randomness) -> Ints:
        """One draw for each distinct concept of a user."""
        keys = np.stack([owners, domains, places], axis=1)
        distinct, where = np.unique(keys, axis=0, return_inverse=True)
        own = distinct[:, 0]
        lengths = np.bincount(own, minlength=int(own.max(initial=-1)) + 1)
        drawn = self._drawn(
            self.losses(lengths)[own], distinct[:, 1].astype(np.int32), distinct[:, 2].astype(np.int32), randomness
        )
        return drawn[where.reshape(-1)]

    def losses(self, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Loss of one draw of each user: epsilon, or an equal share of it, rounded down so that shares add up."""
        method = self.method
        if method.budget_per == "query" or method.max_queries is not None:
            return np.full(len(lengths), method.loss)  # a variant may have less than its whole epsilon for draws
        distinct, which = np.unique(np.maximum(lengths, 1), return_inverse=True)
        return np.array([share_of(method.budget, method.delta, int(each)) for each in distinct])[which]

    def _drawn(self, losses: NDArray[np.float64], domains: Ints, places: Ints, randomness: Randomness) -> Ints:
        drawn = np.empty(len(places), np.int32)
        for number in np.unique(domains).tolist():
            inside = np.flatnonzero(domains == number)
            drawn[inside] = self._drawn_within(self.weights(number), places[inside], losses[inside], randomness)
        return drawn

    def exponents(self, weights: Weights, losses: Sequence[float]) -> list[float]:
        """Exponent of the draw by loss."""
        return weights.exponents(losses)

    def _drawn_within(
        self, weights: Weights, places: Ints, losses: NDArray[np.float64], randomness: Randomness
    ) -> Ints:
        """A concept of one domain for each, drawn with at most the loss beside it."""
        distinct, levels = np.unique(losses, return_inverse=True)
        exponents = self.exponents(weights, distinct.tolist())
        drawn = np.empty(len(places), np.int32)
        for first in range(0, len(distinct), _LEVELS_AT_ONCE):
            some = np.flatnonzero((levels >= first) & (levels < first + _LEVELS_AT_ONCE))
            at = (levels[some] - first).astype(np.int32)
            drawn[some] = weights.draw(places[some], at, exponents[first : first + _LEVELS_AT_ONCE], randomness)
        return drawn

    def _shown(self, domains: Ints, places: Ints) -> tuple[pa.Array, Ints]:
        """The label to show for each concept, as labels in order of text and a number for each row."""
        whole = self.domains.whole(domains, places)
        used, where = np.unique(whole, return_inverse=True)
        texts = [self.domains.taxonomy.shown(int(concept)) for concept in used]
        labels, numbers = numbered_texts(texts)
        return labels, numbers[where]


def chosen_searches(
    searches: Searches, later: NDArray[np.bool_] | None, domains: Ints | None = None
) -> NDArray[np.int64]:
    """Searches to draw: the earliest of each user up to the bound, those marked `later` after all others.

    Of searches at one time the domain decides: the text must not, where it would decide which domain comes out.
    """
    if (searches.allowed == searches.lengths).all():
        return np.arange(int(searches.starts[-1]))
    owners = np.repeat(np.arange(len(searches.users)), searches.lengths)
    last = np.zeros(len(owners), np.bool_) if later is None else later
    ties = np.zeros(len(owners), np.int32) if domains is None else domains
    order = np.lexsort((np.arange(len(owners)), ties, searches.times, last, owners))
    rank = np.arange(len(owners)) - np.repeat(searches.starts[:-1], searches.lengths)
    return np.sort(order[rank < searches.allowed[owners]])


def coarse(times: NDArray[np.int64], how: str) -> NDArray[np.int64] | None:
    """Times as they come out: not at all, cut to the beginning of an hour, day or month, or as they are."""
    if how == "drop":
        return None
    if how == "keep":
        return times
    unit = {"hour": "h", "day": "D", "month": "M"}[how]
    cut = times.astype("datetime64[us]").astype(f"datetime64[{unit}]")
    return cut.astype("datetime64[us]").astype(np.int64)


def rows_of(
    users: pa.Array, owners: NDArray[np.int64], labels: pa.Array, numbers: Ints, times: NDArray[np.int64] | None
) -> Stream:
    """Rows sorted by user, query and time, so that their order says nothing else; strings are made as they are read."""
    by = (numbers, owners) if times is None else (times, numbers, owners)
    order = np.lexsort(by)
    fields = [pa.field("user", pa.string()), pa.field("query", pa.string())]
    if times is not None:
        fields.append(pa.field("time", pa.timestamp("us")))
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, max(len(order), 1), _ROWS):
            some = order[first : first + _ROWS]
            columns = [users.take(pa.array(owners[some])), labels.take(pa.array(numbers[some]))]
            if times is not None:
                columns.append(pa.array(times[some]).cast(pa.timestamp("us")))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return Stream(schema, batches)


def rounded_scale(bound: int, epsilon: float) -> float:
    """The least float scale at which a change of `bound` costs no more than epsilon."""
    from fractions import Fraction

    from querycloak.privacy.sampling.exact import stated

    scale = bound / epsilon
    while Fraction(scale) * stated(epsilon) < bound:
        scale = math.nextafter(scale, math.inf)
    return scale
