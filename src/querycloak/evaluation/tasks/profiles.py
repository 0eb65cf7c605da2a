"""Task profiles: interests of people by topic, in the release against the log.

A folder tells interests pooled over all its rows. Interests of single users can be compared only if it is known whose
row is whose: the process that makes a release knows that, a folder does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.subjects import NO_USERS
from querycloak.evaluation.task import NO_DATA, ORIGINAL, Figure, Floats, Logs, Measure, Numbers, Subject
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.distinct_queries import uses_of
from querycloak.text.query_concepts import ConceptFinder
from querycloak.text.taxonomy import FOUR, NINETEEN, Taxonomy, topic_concepts, topics_of
from querycloak.text.wordnet import wordnet

Ints = NDArray[np.integer]
_PAIRS_AT_ONCE = 1 << 18


def topic_profiles(owners: Ints, topics: Ints, users: int, count: int, weights: Ints | None = None) -> Floats:
    """Share of each topic (0 is other) in the queries of each user, or in their weights."""
    cells = owners.astype(np.int64) * (count + 1) + topics
    table = np.bincount(cells, weights, minlength=users * (count + 1)).reshape(users, count + 1).astype(float)
    totals = table.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(table, totals, out=np.zeros_like(table), where=totals > 0))


def on_topics(profiles: Floats) -> Floats:
    """Profiles over the named topics alone, as if nothing else had been asked; zeros if nothing was on a topic."""
    named = profiles[:, 1:]
    totals = named.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(named, totals, out=np.zeros_like(named), where=totals > 0))


def divergences(before: Floats, after: Floats) -> Floats:
    """The Jensen-Shannon divergence, base 2, of each row; an empty profile is as far as can be from any other."""
    middle = (before + after) / 2
    divergence = (_relative_entropy(before, middle) + _relative_entropy(after, middle)) / 2
    empty = (before.sum(axis=1) == 0) != (after.sum(axis=1) == 0)
    return np.where(empty, 1.0, np.clip(divergence, 0.0, 1.0))


def _relative_entropy(shares: Floats, middle: Floats) -> Floats:
    ratio = np.divide(shares, middle, out=np.ones_like(shares), where=shares > 0)
    return np.asarray((shares * np.log2(ratio)).sum(axis=1))


def profile_loss(before: Floats, after: Floats) -> float:
    """The mean divergence over users; exactly 0 where all profiles are equal."""
    return float(divergences(before, after).mean()) if len(before) else 0.0


def profile_loss_on_topics(before: Floats, after: Floats) -> float:
    """The mean divergence over users, on the named topics alone."""
    return profile_loss(on_topics(before), on_topics(after))


def pooled_loss(before: Floats, after: Floats) -> float | None:
    """The divergence of two profiles, from how often each topic (0 is other) occurs; None if one is empty."""
    first, second = (np.asarray(each, np.float64).reshape(1, -1) for each in (before, after))
    if first.sum() == 0 or second.sum() == 0:
        return None
    return float(divergences(first / first.sum(), second / second.sum())[0])


def pooled_loss_on_topics(before: Floats, after: Floats) -> float | None:
    """The divergence of two profiles without queries that lie under no topic; None if one is empty."""
    return pooled_loss(np.asarray(before)[1:], np.asarray(after)[1:])


def kept_share(before: Ints, after: Ints) -> float:
    """Share of queries that keep their concept."""
    return float((np.asarray(before) == np.asarray(after)).mean()) if len(before) else 1.0


def similarities(taxonomy: Taxonomy, left: Ints, right: Ints) -> Floats:
    """The similarity of each pair of concepts of one taxonomy."""
    values = np.empty(len(left))
    for first in range(0, len(left), _PAIRS_AT_ONCE):
        some = slice(first, first + _PAIRS_AT_ONCE)
        values[some] = _similarities(taxonomy, left[some], right[some])
    return values


def _similarities(taxonomy: Taxonomy, left: Ints, right: Ints) -> Floats:
    above = taxonomy.ancestors_of
    pairs = np.arange(len(left), dtype=np.int64) * len(taxonomy)
    mine, theirs = above.take(left), above.take(right)
    own = np.repeat(pairs, mine.lengths) + mine.values
    others = np.repeat(pairs, theirs.lengths) + theirs.values
    common = np.intersect1d(own, others, assume_unique=True) // len(taxonomy)
    shared = np.bincount(common, minlength=len(left))
    union = mine.lengths + theirs.lengths - shared
    return np.asarray(1 - np.log2(1 + (union - shared) / union))


def closeness(taxonomy: Taxonomy, before: Ints, after: Ints) -> float:
    """Mean similarity between the original query and its replacement."""
    return float(similarities(taxonomy, before, after).mean()) if len(before) else 1.0


SANCHEZ = "Sanchez, Batet, Viejo, Rodriguez-Garcia & Castella-Roca, releasing query logs, semantic-preserving, 2018"
SIMILARITY = "Sanchez, Batet, Isern & Valls, Ontology-based semantic similarity: a new feature-based approach, 2012"

PROFILE_LOSS = Measure(
    "profile_loss",
    "mean over users of the Jensen-Shannon divergence (base 2) between their shares of topics in the log and in the "
    "release; what lies under no topic is a topic of its own",
    f"{SANCHEZ}, eq. 9 to 11",
    "lower",
    compute=profile_loss,
)
PROFILE_LOSS_ON_TOPICS = Measure(
    "profile_loss_on_topics",
    "the same over the named topics alone: what lies under none is left out, and a profile that is empty on one side "
    "only is as far as can be",
    f"{SANCHEZ}, whose figures it fits",
    "lower",
    compute=profile_loss_on_topics,
)
POOLED_LOSS = Measure(
    "pooled_loss",
    "the Jensen-Shannon divergence (base 2) between the shares of topics in the whole log and in the whole release",
    f"querycloak, after {SANCHEZ}",
    "lower",
    compute=pooled_loss,
)
POOLED_LOSS_ON_TOPICS = Measure(
    "pooled_loss_on_topics",
    "the same over the named topics alone",
    f"querycloak, after {SANCHEZ}",
    "lower",
    compute=pooled_loss_on_topics,
)
CLOSENESS = Measure(
    "closeness",
    "mean similarity of meaning between a query's concept and the one that stands for it, 1 where they are the same",
    f"{SIMILARITY}; {SANCHEZ}, eq. 5",
    "higher",
    compute=closeness,
)
KEPT = Measure("kept", "share of queries that stand for themselves", "querycloak", "none", compute=kept_share)
POOLED_MEASURES = (POOLED_LOSS, POOLED_LOSS_ON_TOPICS)
USER_MEASURES = (PROFILE_LOSS, PROFILE_LOSS_ON_TOPICS)


TOPICS: Mapping[str, Sequence[str]] = {"4": FOUR, "19": NINETEEN}
_NO_OWNERS = (
    "a folder does not say whose row is whose: only commands that make the release can compare single users "
    "(compare, reproduce)"
)
Codes = NDArray[np.int64]


class Profiles:
    """Topics that people ask about; `owners` tells, by release, which user of TRAIN stands behind a name."""

    name: ClassVar[str] = "profiles"
    summary: ClassVar[str] = "which topics people are interested in"

    def __init__(self, owners: Mapping[str, pa.Table] | None = None) -> None:
        self._owners = dict(owners or {})

    measures = (*POOLED_MEASURES, *USER_MEASURES)
    readings = ("all",)

    def unsupported_reason(self, subject: Subject) -> str | None:
        """Every release but one of phrases or cells alone has queries."""
        return unsupported(subject)

    def prepare(self, logs: Logs) -> PreparedProfiles:
        """The topics of TRAIN's queries."""
        return PreparedProfiles(logs.train, self._owners)


class TopicFinder:
    """The topics of queries, of all sets of topics in one number."""

    def __init__(self) -> None:
        nouns = wordnet()
        self._finder = ConceptFinder(nouns)
        self._topics = [topics_of(nouns, topic_concepts(nouns, names)) for names in TOPICS.values()]
        self.sizes = tuple(len(names) + 1 for names in TOPICS.values())

    def codes(self, queries: pa.Array) -> Codes:
        """One number for each query; `topics` parts it."""
        concepts = self._finder.concepts(queries)
        # The last entry of a table of topics is for no concept, which is -1: other.
        codes = [np.where(concepts >= 0, topics[concepts], 0) for topics in self._topics]
        return np.ravel_multi_index(tuple(codes), self.sizes).astype(np.int64)

    def topics(self, codes: Codes) -> dict[str, Numbers]:
        """The topic of each code in each set of topics."""
        return dict(zip(TOPICS, np.unravel_index(codes, self.sizes), strict=True))

    def pooled(self, totals: Floats) -> dict[str, Floats]:
        """Frequency of each topic, from the frequencies of codes."""
        grid = totals.reshape(self.sizes)
        return {name: grid.sum(axis=1 - axis) for axis, name in enumerate(TOPICS)}

    @property
    def number(self) -> int:
        """Number of codes."""
        return int(np.prod(self.sizes))


class PreparedProfiles:
    """The task for one TRAIN."""

    def __init__(self, train: SearchLog, owners: Mapping[str, pa.Table]) -> None:
        self._log, self._owners, self._finder = train, owners, TopicFinder()
        self._totals = dict[str, Floats]()

    def scores(self, subject: Subject) -> Iterator[Figure]:
        """The loss of pooled profiles and, where owners are known, of users' own."""
        if (reason := unsupported(subject)) is not None:
            for measure in (*POOLED_MEASURES, *USER_MEASURES):
                yield from (Figure(measure, None, f"topics={name}", why=reason) for name in TOPICS)
            return
        yield from self._pooled(subject)
        if subject.name in self._owners:
            yield from self._of_users(subject.table("log"), self._owners[subject.name])
            return
        for measure in USER_MEASURES:
            for name in TOPICS:
                if subject.name == ORIGINAL:
                    same = np.ones((1, len(TOPICS[name]) + 1))
                    yield Figure(measure, measure(same, same), f"topics={name}")
                else:
                    why = NO_USERS if subject.name == NO_DATA else _NO_OWNERS
                    yield Figure(measure, None, f"topics={name}", why=why)

    def _pooled(self, subject: Subject) -> Iterator[Figure]:
        source = source_of(subject)
        before = self._train_totals(source)
        after = before if subject.name == ORIGINAL else self._released_totals(subject, source)
        mine, theirs = self._finder.pooled(before), self._finder.pooled(after)
        for measure in POOLED_MEASURES:
            for name in TOPICS:
                value = measure(mine[name], theirs[name])
                why = None if value is not None else "nothing on these topics to compare"
                yield Figure(measure, value, f"topics={name}", cases=int(after.sum()), why=why)

    def _train_totals(self, source: str) -> Floats:
        """Frequency of each code in TRAIN, by the unit that the source counts; each query is looked up once."""
        if not self._totals:
            self._totals = {name: np.zeros(self._finder.number) for name in _WEIGHTS}
            for batch in self._log.engine.stream(_weighted_queries(self._log)):
                codes = self._finder.codes(batch.column("query"))
                for name in _WEIGHTS:
                    weights = pc.fill_null(batch.column(name).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
                    self._totals[name] += np.bincount(codes, weights, minlength=self._finder.number)
        return self._totals[source if source in _WEIGHTS else "queries"]

    def _released_totals(self, subject: Subject, source: str) -> Floats:
        queries, weights = released_queries(subject.table(source), source)
        encoded = queries.dictionary_encode()
        codes = self._finder.codes(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
        totals = np.bincount(codes, np.maximum(weights, 0), minlength=self._finder.number)
        return totals.astype(np.float64)

    def _of_users(self, rows: pa.Table, owners: pa.Table) -> Iterator[Figure]:
        """The loss over users who have a row in the release; `owners` has the columns user and owner."""
        named = rows.join(owners, "user", join_type="inner")
        people = pc.unique(named["owner"].combine_chunks())
        after = self._codes_of(named.select(["owner", "query"]).rename_columns(["user", "query"]), people)
        before = self._codes_in_train(people)
        for measure in USER_MEASURES:
            for name in TOPICS:
                mine, theirs = (
                    topic_profiles(user, self._finder.topics(code)[name], len(people), len(TOPICS[name]), weight)
                    for user, code, weight in (before, after)
                )
                yield Figure(measure, measure(mine, theirs), f"topics={name}", cases=len(people))

    def _codes_of(self, rows: pa.Table, people: pa.Array) -> tuple[Codes, Codes, Codes]:
        encoded = rows["query"].combine_chunks().dictionary_encode()
        codes = self._finder.codes(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
        return _places(rows["user"], people), codes, np.ones(len(codes), np.int64)

    def _codes_in_train(self, people: pa.Array) -> tuple[Codes, Codes, Codes]:
        """user, code and searches of these people, batch after batch."""
        uses = uses_of(self._log)
        uses = uses.semi_join(self._log.engine.upload(pa.table({"user": people})), "user")
        batches = [
            (
                _places(batch.column("user"), people),
                self._finder.codes(batch.column("query")),
                batch.column("searches").cast(pa.int64()).to_numpy(zero_copy_only=False),
            )
            for batch in self._log.engine.stream(uses)
        ]
        none = np.empty(0, np.int64)
        users, codes, weights = (np.concatenate([none, *parts]) for parts in zip((none,) * 3, *batches, strict=True))
        return users, codes, weights


_SOURCES = ("log", "queries", "clicks", "transitions", "sessions")


def unsupported(subject: Subject) -> str | None:
    """Reason that a subject has no queries; None if it has some."""
    if any(kind in subject.kinds for kind in _SOURCES):
        return None
    return "it has no queries whose topics could be counted"


def source_of(subject: Subject) -> str:
    """The table with most detail on queries; of the original its searches."""
    return next(kind for kind in _SOURCES if kind in subject.kinds)


_WEIGHTS = ("log", "queries", "clicks")


def _weighted_queries(log: SearchLog) -> ir.Table:
    """query and its weights: searches for a log, users for tables, users of each pair for clicks."""
    kinds = {
        "log": log.rows.select("user", "time", "query"),
        "queries": log.rows.select("user", "query"),
        "clicks": log.clicks.select("user", "query", "url"),
    }
    counted = {}
    for name, rows in kinds.items():
        once = rows.distinct()
        counted[name] = once.group_by("query").agg(weight=once.count())
    joined = counted["log"].select("query", log=counted["log"].weight)
    for name in ("queries", "clicks"):
        other = counted[name]
        joined = joined.left_join(other, "query").select(*joined.columns, **{name: other.weight})
    return joined


def released_queries(table: pa.Table, source: str) -> tuple[pa.Array, Numbers]:
    """The queries of a table and how often each stands there."""
    count = table["count"].to_numpy() if "count" in table.column_names else np.ones(table.num_rows, np.int64)
    if source == "sessions":
        lists = table["queries"].combine_chunks()
        return lists.flatten(), np.repeat(count, pc.list_value_length(lists).to_numpy(zero_copy_only=False))
    queries = table["query"].combine_chunks()
    if source == "transitions":
        return pa.concat_arrays([queries, table["next_query"].combine_chunks()]), np.concatenate([count, count])
    return queries, count


def _places(users: pa.Array | pa.ChunkedArray, people: pa.Array) -> Codes:
    """Index of each user in `people`, which has all of them."""
    place = pc.index_in(users, value_set=people).cast(pa.int64())
    return np.asarray((place.combine_chunks() if isinstance(place, pa.ChunkedArray) else place).to_numpy())
