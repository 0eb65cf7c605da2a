"""Reconstruction: a person's true concepts, read from the replaced queries under that person's name.

A comparison of WordNet concepts, so a rephrased query counts as a success.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.audits.attack import Finding, Share
from querycloak.audits.audit_data import AuditData, Numbers, UserHistories
from querycloak.evaluation.target import NO_OWNERS, Target, in_pieces
from querycloak.text.query_concepts import ConceptFinder
from querycloak.text.wordnet import wordnet

Flags = NDArray[np.bool_]


class Reconstruction:
    """Guesses the concept of each row; in setting `most frequent`, only the most frequent concept of each name."""

    name: ClassVar[str] = "reconstruction"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """Needs rows under names, and the owners of names."""
        return release.without_names() or (None if release.owners is not None else NO_OWNERS)

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Success for people in the log, beside success of the same rows for people outside it."""
        person, concept, times = _released(release, knowledge)
        concepts = _finder().concepts(knowledge.texts)
        own, others = (_pairs(people, concepts) for people in (knowledge.members, knowledge.controls))
        stranger = knowledge.random("reconstruction").integers(0, len(knowledge.controls), len(knowledge.members))
        baseline = _guess(own, others, len(knowledge.members))
        first = np.zeros(len(person), np.bool_)
        # The most frequent concept of each person stands first when sorted by person and falling number.
        order = np.lexsort((concept, -times, person))
        first[order[np.unique(person[order], return_index=True)[1]]] = True
        for setting, chosen in (("any row", np.ones(len(person), np.bool_)), ("most frequent", first)):
            right = _holds(own, person[chosen], concept[chosen])
            of_strangers = _holds(others, stranger[person[chosen]], concept[chosen])
            control = Share.of(int(of_strangers.sum()), len(of_strangers))
            yield Finding.of(setting, Share.of(int(right.sum()), len(right)), control, baseline)


@lru_cache(maxsize=1)
def _finder() -> ConceptFinder:
    return ConceptFinder(wordnet())


def _released(release: Target, knowledge: AuditData) -> tuple[Numbers, Numbers, Numbers]:
    """Concepts in the rows of the attacked people, with their frequencies."""
    owners = release.owners
    users = knowledge.members.users
    if owners is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    owners = owners.filter(pc.is_in(owners["user"], users))
    names, user = owners["name"].combine_chunks(), pc.index_in(owners["user"], users).to_numpy().astype(np.int64)
    pairs = []
    for rows in in_pieces(release.batches("log", ["user", "query"])):
        place = pc.index_in(rows["user"], names)
        known = pc.is_valid(place)
        query = rows["query"].filter(known).combine_chunks().dictionary_encode()
        concept = _finder().concepts(query.dictionary)[query.indices.to_numpy()]
        person = user[place.filter(known).to_numpy()]
        pairs.append(_one_number(person, concept)[concept >= 0])
    pair, times = np.unique(np.concatenate([np.zeros(0, np.int64), *pairs]), return_counts=True)
    return pair >> 32, pair & 0xFFFFFFFF, times


def _one_number(person: Numbers, concept: NDArray[np.int32]) -> Numbers:
    return (person.astype(np.int64) << 32) | concept


def _pairs(people: UserHistories, concepts: NDArray[np.int32]) -> Numbers:
    """Person and concept as one number, for all that these people asked, sorted."""
    person_concepts = concepts[people.query]
    return np.unique(_one_number(people.person, person_concepts)[person_concepts >= 0])


def _holds(pairs: Numbers, person: Numbers, concept: Numbers) -> Flags:
    wanted = (person << 32) | concept
    place = np.searchsorted(pairs, wanted)
    return np.asarray(np.append(pairs, -1)[place] == wanted)


def _guess(own: Numbers, others: Numbers, people: int) -> float:
    """Probability that a concept drawn from people outside the log is one that a member asked about."""
    if not len(others):
        return 0.0
    concept, number = np.unique(others & 0xFFFFFFFF, return_counts=True)
    share = number / number.sum()
    own_concepts = own & 0xFFFFFFFF
    place = np.searchsorted(concept, own_concepts).clip(0, len(concept) - 1)
    return float(np.where(concept[place] == own_concepts, share[place], 0.0).sum() / max(people, 1))
