"""Domains: the parts of a taxonomy within which concepts are replaced, and which of them a query belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.words.concepts import ConceptFinder, Mentions
from querycloak.words.taxonomy import Taxonomy
from querycloak.words.topics import FOUR, widest_sense

ALL, TOPICS = "all", "topics"
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Domain:
    """A concept of the taxonomy and all below it, numbered on its own."""

    taxonomy: Taxonomy
    concepts: Ints  # its concepts, by their numbers in the whole

    @classmethod
    def below(cls, taxonomy: Taxonomy, concept: int) -> Domain:
        """The domain of one concept."""
        if concept == taxonomy.root:
            return cls(taxonomy, np.arange(len(taxonomy), dtype=np.int32))
        return cls(taxonomy.below(concept), taxonomy.descendants(concept))


@dataclass(frozen=True, eq=False)
class Domains:
    """One domain for all queries, or one for each topic and the whole taxonomy for the rest."""

    taxonomy: Taxonomy
    domains: tuple[Domain, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy, name: str) -> Domains:
        """`all`, `topics` (four of WordNet), a label or label#sense, or several of these parted by `|`."""
        if name == ALL:
            return cls(taxonomy, (Domain.below(taxonomy, taxonomy.root),))
        labels = FOUR if name == TOPICS else tuple(name.split("|"))
        roots = [widest_sense(taxonomy, label) for label in labels]
        if name != TOPICS and len(roots) > 1 or name == TOPICS:
            roots.append(taxonomy.root)  # the public fallback
        return cls(taxonomy, tuple(Domain.below(taxonomy, root) for root in roots))

    @property
    def several(self) -> bool:
        """Whether the domain of a query says something about it."""
        return len(self.domains) > 1

    @cached_property
    def finder(self) -> ConceptFinder:
        """What finds concepts in queries."""
        # With one domain the domain decides which of a label's senses is meant; with several it must be found out.
        return ConceptFinder(self.taxonomy if self.several else self.domains[0].taxonomy)

    @cached_property
    def _homes(self) -> tuple[Ints, Ints]:
        """For every concept that can be found: its domain, and its number there."""
        if not self.several:
            count = len(self.domains[0].taxonomy)
            return np.zeros(count, np.int32), np.arange(count, dtype=np.int32)
        home = np.empty(len(self.taxonomy), np.int32)
        place = np.empty(len(self.taxonomy), np.int32)
        for number in range(len(self.domains) - 1, -1, -1):  # the first domain that holds a concept is its own
            concepts = self.domains[number].concepts
            home[concepts], place[concepts] = number, np.arange(len(concepts), dtype=np.int32)
        return home, place

    def placed(self, concepts: Ints) -> tuple[Ints, Ints]:
        """The domain of each concept and its number there; what is unknown (-1) is the last domain's root."""
        home, place = self._homes
        last = len(self.domains) - 1
        unknown = concepts < 0
        known = np.where(unknown, 0, concepts)
        root = self.domains[last].taxonomy.root
        return np.where(unknown, last, home[known]), np.where(unknown, root, place[known])

    def concepts(self, queries: pa.Array) -> Ints:
        """The concept of each query, -1 where none is found."""
        return self.finder.concepts(queries)

    def mentions(self, queries: pa.Array) -> tuple[Mentions, Ints]:
        """What each phrase of each query mentions, and the concepts of these."""
        found = self.finder.mentions(queries)
        return found, self.finder.concepts_of(found.label)

    def whole(self, domains: Ints, places: Ints) -> Ints:
        """The numbers in the whole taxonomy of concepts that are numbered in their domains."""
        found = np.empty(len(places), np.int32)
        for number, domain in enumerate(self.domains):
            inside = domains == number
            found[inside] = domain.concepts[places[inside]]
        return found
