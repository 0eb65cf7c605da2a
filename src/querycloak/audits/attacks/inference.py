"""Attribute inference: a person's sensitive topic or attribute, guessed from a few known harmless queries.

Half of the targets have the topic, so a guess without the release is right half of the time. In releases by attributes
the attack also guesses the country, device ... of a person; without the release it guesses the most common one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.audits.attack import Finding, Share
from querycloak.audits.audit_data import AuditData, NameIndex, Numbers, UserHistories, rows_of_users
from querycloak.evaluation.target import Target, in_pieces
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.attributes import OTHER as ATTRIBUTE_OTHER
from querycloak.releases.tables import whole_table
from querycloak.text.query_concepts import ConceptFinder
from querycloak.text.taxonomy import OTHER, topic_concepts, topics_of
from querycloak.text.wordnet import wordnet

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
TOPICS = ("disease", "religion")
KNOWN = (1, 3, 5)
NOT_TIED = "its tables tie no query of a person to another, so nothing follows from one about the other"


class Inference:
    """Guesses the topic if it is more frequent in the best-fitting names, or sequences, than in the whole release."""

    name: ClassVar[str] = "inference"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """Needs rows under names, sequences of queries, or attributes."""
        return None if {"log", "sessions", "transitions"} & set(release.tables) or release.attributes else NOT_TIED

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Each topic and attribute, with one, three and five known queries."""
        if {"log", "sessions", "transitions"} & set(release.tables):
            yield from self._topics(release, knowledge)
        for name in release.attributes:
            yield from _attribute_findings(release, knowledge, name)

    def _topics(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        sensitive = about(knowledge.texts)
        learn = _by_names if "log" in release.tables else _by_sequences
        for place, guess in enumerate(learn(release, knowledge)):
            for known in KNOWN:
                shares = []
                for people, side in ((knowledge.members, "members"), (knowledge.controls, "controls")):
                    random = knowledge.random(f"inference {TOPICS[place]} {side}")
                    has, queries = _targets(people, sensitive[place], known, random)
                    shares.append(Share.of(float(_right(guess.score(queries), has, guess.prior).sum()), len(has)))
                yield Finding.of(f"m={known} {TOPICS[place]}", shares[0], shares[1], 0.5)


@lru_cache(maxsize=1)
def _finder() -> tuple[ConceptFinder, Flags]:
    taxonomy = wordnet()
    within = [topics_of(taxonomy, topic_concepts(taxonomy, [topic])) != OTHER for topic in TOPICS]
    # The last entry stands for no concept.
    return ConceptFinder(taxonomy), np.pad(np.array(within), ((0, 0), (0, 1)))


def about(texts: pa.Array) -> Flags:
    """By topic and text: True if the text is about the topic."""
    finder, within = _finder()
    return within[:, finder.concepts(texts)]


def _targets(people: UserHistories, sensitive: Flags, known: int, random: np.random.Generator) -> tuple[Flags, Numbers]:
    """As many people with the topic as without, and for each some queries that are not about it, chosen at random."""
    about = sensitive[people.query]
    has = np.bincount(people.person, about, len(people)) > 0
    harmless = np.bincount(people.person, ~about, len(people))
    # Each person's harmless queries first, in random order.
    query = people.ordered(about, random.random(len(about)))
    sides = [random.permutation(np.flatnonzero((has == side) & (harmless >= known))) for side in (True, False)]
    number = min(map(len, sides))
    who = np.sort(np.concatenate([side[:number] for side in sides]))
    return has[who], np.ascontiguousarray(query[people.starts[who][:, None] + np.arange(known)])


def _right(score: Floats, has: Flags, prior: float) -> Floats:
    """1 for a right guess, 1/2 where the release has no evidence."""
    silent = np.isnan(score) | (score == prior)
    return np.where(silent, 0.5, (score > prior) == has)


class Guess(NamedTuple):
    """A guess at a topic. score: its frequency given rows of known queries, NaN if the release has none of them.

    prior: its frequency in the whole release.
    """

    prior: float
    score: Callable[[Numbers], Floats]


def _among_names(holders: NameIndex, marked: Flags, known: Numbers) -> Floats:
    """Frequency of the topic among the names that hold the most of the known queries."""
    number, best = holders.best(known, marked)
    return np.asarray(np.divide(number, best, out=np.full(len(known), np.nan), where=best > 0))


def _among_sequences(share: Floats, known: Numbers) -> Floats:
    """Frequency of the topic in sequences that hold a text (`share`, NaN if unknown), averaged over the known texts."""
    shares = share[known]
    is_known = ~np.isnan(shares)
    number, total = is_known.sum(1), np.where(is_known, shares, 0).sum(1)
    return np.asarray(np.divide(total, number, out=np.full(len(known), np.nan), where=number > 0))


def _by_names(release: Target, knowledge: AuditData) -> list[Guess]:
    holders = knowledge.holders_in(release)
    names: list[pa.Array] = []
    with_topic: list[list[pa.Array]] = [[] for _ in TOPICS]
    for rows in in_pieces(release.batches("log", ["user", "query"])):
        coded = rows["query"].combine_chunks().dictionary_encode()
        names.append(rows["user"].unique())
        for listed, topical in zip(with_topic, about(coded.dictionary), strict=True):
            listed.append(rows["user"].filter(pa.array(topical[coded.indices.to_numpy()])).unique())
    everybody = max(len(pa.chunked_array(names, pa.string()).unique()), 1)
    guesses: list[Guess] = []
    for listed in with_topic:
        having = pa.chunked_array(listed, pa.string()).unique()
        marked = np.asarray(pc.is_in(holders.names, having).to_numpy(zero_copy_only=False), np.bool_)
        guesses.append(Guess(len(having) / everybody, partial(_among_names, holders, marked)))
    return guesses


def _by_sequences(release: Target, knowledge: AuditData) -> list[Guess]:
    size = len(TOPICS), len(knowledge.texts)
    with_topic, counts = np.zeros(size), np.zeros(size)
    total = np.zeros((len(TOPICS), 2))
    for texts, sequence, count in _sequences(release):
        weight = np.maximum(count, 0).astype(np.float64)
        place = pc.fill_null(pc.index_in(texts, knowledge.texts), -1).to_numpy(zero_copy_only=False)
        for topic, sensitive in enumerate(about(texts)):
            # A sequence speaks of the topic to each of its other queries.
            topical = np.bincount(sequence, sensitive, len(count)) > 0
            total[topic] += [weight[topical].sum(), weight.sum()]
            known = (place >= 0) & ~sensitive
            np.add.at(counts[topic], place[known], weight[sequence[known]])
            np.add.at(with_topic[topic], place[known], (weight * topical)[sequence[known]])
    share = np.divide(with_topic, counts, out=np.full(size, np.nan), where=counts > 0)
    prior = total[:, 0] / np.maximum(total[:, 1], 1)
    return [Guess(float(prior[topic]), partial(_among_sequences, share[topic])) for topic in range(len(TOPICS))]


def _sequences(release: Target) -> Iterator[tuple[pa.Array, Numbers, Numbers]]:
    """Texts, the number of the sequence of each, and the sequences' counts."""
    if "sessions" in release.tables:
        counted = "count" in release.columns["sessions"]
        for rows in in_pieces(release.batches("sessions", ["queries", *(["count"] if counted else [])])):
            lists = rows["queries"].combine_chunks()
            counts = rows["count"].to_numpy() if counted else np.ones(rows.num_rows, np.int64)
            yield lists.flatten(), pc.list_parent_indices(lists).to_numpy(), counts
    if "transitions" in release.tables:
        for rows in in_pieces(release.batches("transitions", ["query", "next_query", "count"])):
            texts = pa.concat_arrays([rows["query"].combine_chunks(), rows["next_query"].combine_chunks()])
            yield texts, np.tile(np.arange(rows.num_rows), 2), rows["count"].to_numpy()


def _attribute_findings(release: Target, knowledge: AuditData, name: str) -> Iterator[Finding]:
    """Guess the value of an attribute that a person has most often, by the values of the known queries."""
    if name not in knowledge.train.attributes or name not in knowledge.control.attributes:
        yield Finding.missing(f"the logs were read without {name}", f"{name}")
        return
    guess = _ByValues.of(release, name, knowledge.texts)
    if guess is None:
        yield Finding.missing("no row came out", f"{name}")
        return
    sides = (knowledge.train, knowledge.members, True), (knowledge.control, knowledge.controls, False)
    true = [guess.known_values(_usual_values(log, people.users, name)) for log, people, _ in sides]
    for known in KNOWN:
        shares, usual = [], 0.0
        for (_, _, members), values in zip(sides, true, strict=True):
            who, queries = knowledge.known("random", known, members=members)
            who, queries = who[values[who] >= 0], queries[values[who] >= 0]
            shares.append(Share.of(int((guess(queries) == values[who]).sum()), len(who)))
            if members and len(who):
                usual = float(np.bincount(values[who]).max() / len(who))
        yield Finding.of(f"m={known} {name}", shares[0], shares[1], usual)


def _usual_values(log: SearchLog, users: pa.Array, name: str) -> pa.Array:
    """The value that each user has most often; null for none."""
    rows = rows_of_users(log, users)
    counted = log.engine.fetch(rows.group_by(["user", name]).agg(n=rows.count()))
    ordered = counted.sort_by([("user", "ascending"), ("n", "descending"), (name, "ascending")])
    person = pc.index_in(ordered["user"], users).to_numpy()
    first = np.unique(person, return_index=True)
    place = np.full(len(users), -1)
    place[first[0]] = first[1]
    return ordered[name].combine_chunks().take(pa.array(place, mask=place < 0))


class _ByValues:
    """Naive Bayes: released counts of each value, in all and with each query that came out."""

    def __init__(self, values: pa.Array, counts: Floats, place: Numbers) -> None:
        self._values, self._place = values, place
        total = counts.sum(axis=0)
        prior = (total + 1) / (total.sum() + len(total))
        self._prior = np.log(prior)
        # The last row stands for texts that did not come out: no evidence.
        self._evidence = np.zeros((len(counts) + 1, len(values)))
        self._evidence[:-1] = np.log((counts + prior) / (counts.sum(axis=1, keepdims=True) + 1)) - self._prior

    @classmethod
    def of(cls, release: Target, name: str, texts: pa.Array) -> _ByValues | None:
        """From the table of queries that has the attribute; None if nothing came out, or there is none."""
        tables = ((kind, table) for kind, table in release.cells.items() if {"query", name} <= set(table.schema.names))
        kind, cells = next(tables, ("", None))
        table = None if cells is None else whole_table(kind, cells)
        if table is None or not table.num_rows:
            return None
        number = next((each for each in ("count", "viewers") if each in table.column_names), None)
        weight = np.ones(table.num_rows) if number is None else pc.fill_null(table[number], 1).to_numpy()
        query = table["query"].combine_chunks().dictionary_encode()
        value = pc.utf8_lower(pc.fill_null(table[name], ATTRIBUTE_OTHER)).combine_chunks().dictionary_encode()
        counts = np.zeros((len(query.dictionary), len(value.dictionary)))
        np.add.at(counts, (query.indices.to_numpy(), value.indices.to_numpy()), np.maximum(weight, 0))
        place = pc.fill_null(pc.index_in(texts, query.dictionary), -1).to_numpy(zero_copy_only=False)
        return cls(value.dictionary, counts, place.astype(np.int64))

    def known_values(self, values: pa.Array) -> Numbers:
        """Numbers of values as the release writes them; -1 for a value that it does not have."""
        lower = pc.utf8_lower(values)
        place = pc.index_in(lower, self._values)
        other = pc.index_in(pa.scalar(ATTRIBUTE_OTHER), self._values)
        numbers = pc.if_else(pc.is_valid(lower), pc.coalesce(place, other), other)
        return np.asarray(pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False), np.int64)

    def __call__(self, known: Numbers) -> Numbers:
        """The likeliest value for each row of known queries."""
        score = np.tile(self._prior, (len(known), 1))
        for column in known.T:
            score += self._evidence[self._place[column]]
        return np.asarray(score.argmax(axis=1), np.int64)
