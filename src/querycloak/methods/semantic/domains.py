"""Domains: the parts of a taxonomy within which concepts are replaced, and which of them a query belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.methods.semantic.candidates import kept_concepts, representatives
from querycloak.methods.semantic.domain_names import ALL, domain_labels, domain_numbers, domain_roots
from querycloak.text.query_concepts import ConceptFinder, Mentions
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.topics import OTHER

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Domain:
    """Some concepts of the taxonomy with one above all, numbered on their own.

    finer: what queries are looked up in, where fewer concepts may come out than can be found.
    """

    taxonomy: Taxonomy
    concepts: Ints  # by their numbers in the whole
    finer: Taxonomy
    within: Ints  # by their numbers in `finer`
    place_of: Ints  # of each concept of `finer`: the candidate that stands for it

    @classmethod
    def of(cls, taxonomy: Taxonomy, concepts: Ints, candidates: str | None = None) -> Domain:
        """A domain whose concepts are all candidates, or only some of them."""
        if candidates is None:
            every = np.arange(len(taxonomy), dtype=np.int32)
            return cls(taxonomy, concepts, taxonomy, every, every)
        kept = kept_concepts(taxonomy, candidates)
        cut = taxonomy.only(kept, f"{taxonomy.name}, {candidates}")
        within = np.flatnonzero(kept).astype(np.int32)
        return cls(cut, concepts[kept], taxonomy, within, representatives(taxonomy, kept))


@dataclass(frozen=True, eq=False)
class Domains:
    """One domain for all queries; or one for each topic, and the rest of the taxonomy for what has none of these."""

    taxonomy: Taxonomy
    domains: tuple[Domain, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy, name: str, candidates: str | None = None) -> Domains:
        """`all`, `topics` (four of WordNet), a label or label#sense, or several of these parted by `|`."""
        if name == ALL:
            return cls(taxonomy, (Domain.of(taxonomy, np.arange(len(taxonomy), dtype=np.int32), candidates),))
        roots = domain_roots(taxonomy, name)
        if len(roots) == 1:
            return cls(taxonomy, (Domain.of(taxonomy.below(roots[0]), taxonomy.descendants(roots[0]), candidates),))
        topics = domain_numbers(taxonomy, name)
        numbers = [*range(1, len(roots) + 1), OTHER]
        names = [*domain_labels(name), "the rest"]
        parts = (
            Domain.of(taxonomy.only(inside, f"{taxonomy.name}: {name}"), np.flatnonzero(inside).astype(np.int32))
            for inside, name in ((topics == number, name) for number, name in zip(numbers, names, strict=True))
        )
        return cls(taxonomy, tuple(parts))

    @property
    def several(self) -> bool:
        """Whether the domain of a query says something about it."""
        return len(self.domains) > 1

    @cached_property
    def finder(self) -> ConceptFinder:
        """What finds concepts in queries."""
        # With one domain the domain decides which of a label's senses is meant; with several it must be found out.
        return ConceptFinder(self.taxonomy if self.several else self.domains[0].finer)

    @cached_property
    def _homes(self) -> tuple[Ints, Ints]:
        """For every concept that can be found: its domain, and its number there."""
        if not self.several:
            place = self.domains[0].place_of
            return np.zeros(len(place), np.int32), place
        home = np.empty(len(self.taxonomy), np.int32)
        place = np.empty(len(self.taxonomy), np.int32)
        for number, domain in enumerate(self.domains):
            home[domain.concepts], place[domain.concepts] = number, np.arange(len(domain.concepts))
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
