"""Inference: from a few harmless queries of a person, does that person also ask about something sensitive?

Half of the targets do and half do not, so that a guess without the release is right half of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.audits.attack import Finding, Share
from querycloak.audits.holders import NameIndex
from querycloak.audits.knowledge import AuditData, Numbers, UserHistories
from querycloak.evaluation.target import Target, in_pieces
from querycloak.text.query_concepts import ConceptFinder
from querycloak.text.topics import OTHER, topic_concepts, topics_of
from querycloak.text.wordnet import wordnet

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
TOPICS = ("disease", "religion")
KNOWN = (1, 3, 5)
NOT_TIED = "its tables tie no query of a person to another, so nothing follows from one about the other"


class Inference:
    """Among names that fit best what is known, or in sequences that hold it, is the topic more usual than elsewhere?"""

    name: ClassVar[str] = "inference"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """It takes rows under names, or sequences of queries."""
        return None if {"log", "sessions", "transitions"} & set(release.tables) else NOT_TIED

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Each topic, with one, three and five known queries."""
        sensitive = about(knowledge.texts)
        learn = _by_names if "log" in release.tables else _by_sequences
        for place, guess in enumerate(learn(release, knowledge)):
            for known in KNOWN:
                shares = []
                for people, side in ((knowledge.members, "members"), (knowledge.controls, "controls")):
                    random = knowledge.random(f"inference {TOPICS[place]} {side}")
                    has, queries = _targets(people, sensitive[place], known, random)
                    shares.append(Share.of(float(_right(guess(queries), has, guess.prior).sum()), len(has)))
                yield Finding.of(f"m={known} {TOPICS[place]}", shares[0], shares[1], 0.5)


@lru_cache(maxsize=1)
def _finder() -> tuple[ConceptFinder, Flags]:
    taxonomy = wordnet()
    within = [topics_of(taxonomy, topic_concepts(taxonomy, [topic])) != OTHER for topic in TOPICS]
    # The last entry stands for no concept.
    return ConceptFinder(taxonomy), np.pad(np.array(within), ((0, 0), (0, 1)))


def about(texts: pa.Array) -> Flags:
    """For each topic whether each text is about it."""
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
    """1 for a right guess, 1/2 where the release says nothing."""
    silent = np.isnan(score) | (score == prior)
    return np.where(silent, 0.5, (score > prior) == has)


class Guess(Protocol):
    """Frequency of a topic given the known queries, NaN if the release says nothing; `prior`: without them."""

    prior: float

    def __call__(self, known: Numbers) -> Floats:
        """For each row of known queries."""
        ...


class _ByNames:
    """Frequency of the topic among the names that hold the most of the known queries."""

    def __init__(self, holders: NameIndex, marked: Flags, prior: float) -> None:
        self._holders, self._marked, self.prior = holders, marked, prior

    def __call__(self, known: Numbers) -> Floats:
        marked, best = self._holders.best(known, self._marked)
        return np.asarray(np.divide(marked, best, out=np.full(len(known), np.nan), where=best > 0))


class _ByTexts:
    """Frequency of the topic in sequences that hold a text, averaged over the known texts."""

    def __init__(self, share: Floats, prior: float) -> None:
        self._share, self.prior = share, prior

    def __call__(self, known: Numbers) -> Floats:
        shares = self._share[known]
        is_known = ~np.isnan(shares)
        number = is_known.sum(1)
        total = np.where(is_known, shares, 0).sum(1)
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
        guesses.append(_ByNames(holders, marked, len(having) / everybody))
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
    return [_ByTexts(share[topic], float(of / max(all_, 1))) for topic, (of, all_) in enumerate(total)]


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
