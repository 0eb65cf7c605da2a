"""Domains: parts of a taxonomy within which concepts are replaced, their names and candidates (semantic.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import refuse, whole
from querycloak.text.taxonomy import FOUR, OTHER, Flags, Taxonomy, topics_of, widest_sense

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.text.query_concepts import ConceptFinder, Mentions

ALL, TOPICS = "all", "topics"


def domain_labels(name: str) -> tuple[str, ...]:
    """The labels that a domain's name consists of; those of four topics of WordNet for `topics`."""
    return FOUR if name == TOPICS else tuple(name.split("|"))


def domain_roots(taxonomy: Taxonomy, name: str) -> list[int]:
    """The concept of each label; of `all`, the root."""
    return [taxonomy.root] if name == ALL else [widest_sense(taxonomy, label) for label in domain_labels(name)]


def domain_numbers(taxonomy: Taxonomy, name: str) -> NDArray[np.int32]:
    """Number of each concept's domain, from 1, if several are named; 0 for the rest."""
    # No concept is in two domains, so that a replacement has the topic of what it replaces.
    labels, roots = domain_labels(name), domain_roots(taxonomy, name)
    numbers = topics_of(taxonomy, roots)
    for number, root in enumerate(roots, 1):
        if numbers[root] != number:
            inside = labels[numbers[root] - 1]
            raise ParameterError.of(
                "{domain} names {inner!r}, which lies within {outer!r}; leave one out, or name the narrower first",
                inner=labels[number - 1],
                outer=inside,
            )
    if numbers[taxonomy.root]:
        raise ParameterError.of("{domain} names the root beside other concepts; name only these, the rest has its own")
    return numbers


def check_domain(taxonomy: Taxonomy, name: str) -> None:
    """Refuse a name that means no domain of this taxonomy."""
    if len(domain_roots(taxonomy, name)) > 1:
        domain_numbers(taxonomy, name)


DEPTH, USUAL, TOTALS = "depth", "usual", "totals"
RULE = "depth=N, usual=N or totals=N"
WAY_OUT = "such as depth=6, usual=1000, or totals=100000 for that many draws; leave it out for all concepts"


def parse_candidates(text: str) -> tuple[str, int]:
    """Choice of candidates, and their number."""
    kind, equals, number = (piece.strip() for piece in text.partition("="))
    if kind not in (DEPTH, USUAL, TOTALS) or not equals or not number.isdecimal():
        refuse("candidates", RULE, text, WAY_OUT)
    return kind, whole("candidates", int(number), WAY_OUT, least=1, most=10**12 if kind == TOTALS else 10**6)


def kept_concepts(taxonomy: Taxonomy, text: str) -> Flags:
    """Concepts of a domain that may come out: with each of them, all that stand above it."""
    kind, number = parse_candidates(text)
    if kind == DEPTH:
        return np.asarray(taxonomy.depths <= number)
    uses = inclusive_uses(taxonomy)
    if not uses.any():
        raise ParameterError.of(
            "{candidates} by use needs a taxonomy that counts uses, as WordNet does; give depth=N instead"
        )
    # A concept has at least the uses of what is below it; of equal ones the higher goes first: nothing between is lost.
    order = np.lexsort((np.arange(len(taxonomy)), taxonomy.depths, -uses))
    kept = np.zeros(len(taxonomy), np.bool_)
    kept[order[:number]] = True
    return kept


def own_uses(taxonomy: Taxonomy) -> NDArray[np.int64]:
    """Frequency of each concept itself in tagged text."""
    counted = np.bincount(taxonomy.senses_of.values, taxonomy.sense_counts, minlength=len(taxonomy))
    return np.rint(counted).astype(np.int64)


def inclusive_uses(taxonomy: Taxonomy) -> NDArray[np.int64]:
    """Frequency of each concept or one below it in tagged text (Resnik 1995)."""
    above = taxonomy.ancestors_of
    counted = np.bincount(above.values, own_uses(taxonomy)[above.owners()], minlength=len(taxonomy))
    return np.rint(counted).astype(np.int64)


def representatives(taxonomy: Taxonomy, kept: Flags) -> Ints:
    """Representative of each concept, numbered among the kept: itself, or the lowest kept one above it."""
    above = taxonomy.ancestors_of
    size = np.int64(len(taxonomy))
    # The deepest comes out on top, and of equally deep ones the first.
    rank = taxonomy.depths[above.values].astype(np.int64) * size + (size - 1 - above.values)
    best = np.maximum.reduceat(np.where(kept[above.values], rank, -1), above.starts[:-1])
    numbers = np.cumsum(kept) - 1
    return np.asarray(numbers[size - 1 - best % size], np.int32)


Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Domain:
    """Some concepts of the taxonomy with one above all, numbered on their own.

    finer: the taxonomy in which queries are looked up; it has more concepts than `taxonomy` if only some may come out.
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
    """One domain for all queries; or one for each topic, and the rest of the taxonomy for all other queries."""

    taxonomy: Taxonomy
    domains: tuple[Domain, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy, name: str, candidates: str | None = None) -> Domains:
        """`all`, `topics` (four of WordNet), a label or label#sense, or several of these separated by `|`."""
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
        """True if the domain of a query says something about it."""
        return len(self.domains) > 1

    @cached_property
    def finder(self) -> ConceptFinder:
        """The finder of concepts in queries; heavy, so loaded when first used."""
        from querycloak.text.query_concepts import ConceptFinder

        # With one domain the domain decides which of a label's senses is meant; with several it must be found out.
        return ConceptFinder(self.taxonomy if self.several else self.domains[0].finer)

    @property
    def vocabulary(self) -> ConceptFinder:
        """The finder over the whole taxonomy, whatever the domain: for the check of a log's language."""
        from querycloak.text.query_concepts import ConceptFinder

        whole = self.domains[0].finer
        return self.finder if self.several or len(whole) == len(self.taxonomy) else ConceptFinder(self.taxonomy)

    @cached_property
    def _homes(self) -> tuple[Ints, Ints]:
        """The domain of each concept that a query can have, and the concept's number there."""
        if not self.several:
            place = self.domains[0].place_of
            return np.zeros(len(place), np.int32), place
        home = np.empty(len(self.taxonomy), np.int32)
        place = np.empty(len(self.taxonomy), np.int32)
        for number, domain in enumerate(self.domains):
            home[domain.concepts], place[domain.concepts] = number, np.arange(len(domain.concepts))
        return home, place

    def placed(self, concepts: Ints) -> tuple[Ints, Ints]:
        """The domain of each concept and its number there; an unknown concept (-1) is the root of the last domain."""
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
        """Mentions in each phrase of each query, and their concepts."""
        mentions = self.finder.mentions(queries)
        return mentions, self.finder.concepts_of(mentions.label)

    def whole(self, domains: Ints, places: Ints) -> Ints:
        """The numbers in the whole taxonomy of concepts that are numbered in their domains."""
        concepts = np.empty(len(places), np.int32)
        for number, domain in enumerate(self.domains):
            inside = domains == number
            concepts[inside] = domain.concepts[places[inside]]
        return concepts
