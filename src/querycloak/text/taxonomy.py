"""A taxonomy: concepts under one root, each with labels and parents; WordNet's nouns, a shop's categories, any other.

Concepts and labels are numbered from 0; their relations are arrays. A concept may have several parents, a label
several concepts ("senses", the most usual first), a concept several labels (the one to show first). Topics are named
concepts whose subtrees part a taxonomy, for profiles of users and for domains of replacement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.text.english import base_forms
from querycloak.text.lists import Lists, Numbers, places


def longest_ways(parents_of: Lists) -> Numbers:
    """Steps from the roots to each concept, by the longest way; -1 for what is on a cycle or under one."""
    count = len(parents_of)
    children_of = parents_of.inverted(count)
    depths = np.full(count, -1, np.int32)
    waiting = parents_of.lengths.copy()
    frontier = np.flatnonzero(waiting == 0)
    depth = 0
    while len(frontier):
        depths[frontier] = depth
        reached, times = np.unique(children_of.take(frontier).values, return_counts=True)
        waiting[reached] -= times.astype(np.int32)
        frontier = reached[waiting[reached] == 0]
        depth += 1
    return depths


def all_above(parents_of: Lists, depths: Numbers) -> Lists:
    """Concept -> itself and all above it, ascending; level after level, each from its parents' lists."""
    count = len(parents_of)
    own, above = parents_of.owners().astype(np.int64), parents_of.values
    starts, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    values = np.empty(0, np.int64)
    for depth in range(int(depths.max(initial=0)) + 1):
        level = np.flatnonzero(depths == depth)
        edges = np.flatnonzero(depths[own] == depth)
        inherited = values[places(starts[above[edges]], lengths[above[edges]])]
        owners = np.concatenate([np.repeat(own[edges], lengths[above[edges]]), level])
        pairs = np.sort(owners * count + np.concatenate([inherited, level]))
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
        owners, ancestors = np.divmod(pairs, count)
        starts[level] = len(values) + np.searchsorted(owners, level)
        lengths[level] = np.bincount(owners, minlength=count)[level]
        values = np.concatenate([values, ancestors])
    return Lists.of_lengths(lengths, values[places(starts, lengths)])


Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """Concepts under one root. Build one with `wordnet()`, `read_taxonomy(path)` or `taxonomy_of(rows)`."""

    name: str
    ids: Sequence[str]  # of concepts
    labels: Sequence[str]  # distinct, as normalised queries are: lower case, single blanks
    labels_of: Lists  # concept -> labels, the one to show first
    senses_of: Lists  # label -> concepts, the most usual first
    sense_counts: Numbers  # beside senses_of.values: how often a label stood for the concept in tagged text
    parents_of: Lists  # concept -> concepts
    exceptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # irregular form -> base forms

    def __len__(self) -> int:
        return len(self.labels_of)

    def __repr__(self) -> str:
        return f"<Taxonomy {self.name}: {len(self):,} concepts, {len(self.labels):,} labels>"

    # Labels

    @cached_property
    def label_numbers(self) -> dict[str, int]:
        """The number of each label."""
        return {label: number for number, label in enumerate(self.labels)}

    def concepts(self, label: str) -> Numbers:
        """The senses of a label, the most usual first; none where there is no such label."""
        number = self.label_numbers.get(label)
        return self.senses_of[number] if number is not None else np.empty(0, np.int32)

    def counts(self, label: str) -> Numbers:
        """Frequency of the label in each of its senses."""
        number = self.label_numbers.get(label)
        if number is None:
            return np.empty(0, np.int32)
        return self.sense_counts[self.senses_of.starts[number] : self.senses_of.starts[number + 1]]

    def concept(self, label: str, sense: int = 1) -> int:
        """One sense of a label, counted from 1; an error says what there is."""
        senses = self.concepts(label)
        if not len(senses):
            raise ParameterError(f"{self.name} has no concept {label!r}; give one of its labels, in lower case")
        if not 1 <= sense <= len(senses):
            raise ParameterError(f"{label!r} has senses 1 to {len(senses)} in {self.name}, not {sense}")
        return int(senses[sense - 1])

    def concept_labels(self, concept: int) -> list[str]:
        """The labels of a concept, the one to show first."""
        return [self.labels[number] for number in self.labels_of[concept]]

    def shown(self, concept: int) -> str:
        """The label to show for a concept."""
        return self.labels[int(self.labels_of.values[self.labels_of.starts[concept]])]

    # Forms of labels

    def bases(self, phrase: str) -> list[str]:
        """The labels that a word or phrase may be a form of, the one used most in tagged text first.

        "glasses" has "glass" and "glasses", "aids" has "aid" and "aids"; base forms go first where they are even.
        """
        if self._plainly(phrase):
            return [phrase]
        forms = self._fitting(base_forms(phrase, self.exceptions))
        if phrase in self.label_numbers:
            forms.append(phrase)
        if not forms and " " in phrase:
            forms = self._fitting(self._word_by_word(phrase))
        return sorted(dict.fromkeys(forms), key=lambda label: -int(self.counts(label).sum()))

    def base(self, phrase: str) -> str | None:
        """The label that a word or phrase is a form of, if any: "flights" of "flight", "weather channel" of none."""
        return next(iter(self.bases(phrase)), None)

    def __contains__(self, phrase: object) -> bool:
        return isinstance(phrase, str) and (phrase in self.label_numbers or self.base(phrase) is not None)

    def known(self, phrases: Iterable[str]) -> Flags:
        """True for words or phrases that are forms of a label."""
        return np.fromiter((phrase in self for phrase in phrases), np.bool_)

    def _plainly(self, phrase: str) -> bool:
        """True if it is a label that no other form could win over; a quick test for most."""
        return phrase in self.label_numbers and not phrase.endswith(_INFLECTED) and phrase not in self.exceptions

    def _fitting(self, forms: Iterable[str]) -> list[str]:
        return [form for form in forms if form in self.label_numbers]

    def _word_by_word(self, phrase: str) -> list[str]:
        """Phrases with some of their words in a base form, that of the last word first."""
        if phrase.count(" ") > self._most_blanks:
            return []
        phrases = [[]]  # type: list[list[str]]
        for word in phrase.split(" "):
            forms = [*base_forms(word, self.exceptions), word][:_MOST_FORMS]
            phrases = [[*start, form] for start in phrases for form in forms][:_MOST_PHRASES]
        return [" ".join(words) for words in phrases]

    @cached_property
    def _most_blanks(self) -> int:
        """In any label."""
        return max(label.count(" ") for label in self.labels)

    # Above and below

    @cached_property
    def root(self) -> int:
        """The one concept without parents."""
        return int(np.flatnonzero(self.parents_of.lengths == 0)[0])

    @cached_property
    def children_of(self) -> Lists:
        """Concept -> concepts that have it for a parent."""
        return self.parents_of.inverted(len(self))

    @cached_property
    def depths(self) -> Numbers:
        """Steps from the root to each concept, by the longest way."""
        return longest_ways(self.parents_of)

    @cached_property
    def ancestors_of(self) -> Lists:
        """Concept -> all concepts above it and itself, ascending."""
        return all_above(self.parents_of, self.depths)

    def parents(self, concept: int) -> Numbers:
        """The concepts right above."""
        return self.parents_of[concept]

    def ancestors(self, concept: int) -> Numbers:
        """The concept and all above it, ascending."""
        return self.ancestors_of[concept]

    def descendants(self, concept: int) -> Numbers:
        """The concept and all below it, ascending."""
        return np.flatnonzero(self.under(concept)).astype(np.int32)

    def under(self, concept: int) -> Flags:
        """Flags of the concepts at or below this one."""
        within = np.zeros(len(self), np.bool_)
        frontier = np.array([concept], np.int32)
        while len(frontier):
            within[frontier] = True
            reached = self.children_of.take(frontier).values
            frontier = np.unique(reached[~within[reached]])
        return within

    @cached_property
    def leaves(self) -> Flags:
        """Flags of the concepts without children."""
        return np.asarray(self.children_of.lengths == 0)

    def below(self, concept: int) -> Taxonomy:
        """The sub-taxonomy of a domain: this concept, now the root, and all below it; other parents are gone."""
        return self.only(self.under(concept), f"{self.name}: {self.shown(concept)}")

    def only(self, within: Flags, name: str) -> Taxonomy:
        """The sub-taxonomy of these concepts, one of which must stand above all others, with all between."""
        kept = np.flatnonzero(within).astype(np.int32)
        renumbered = np.full(len(self), -1, np.int32)
        renumbered[kept] = np.arange(len(kept), dtype=np.int32)
        labels, labels_of = _numbered_anew(self.labels_of.take(kept), len(self.labels))
        senses = self.senses_of.take(labels)
        inside = renumbered[senses.values] >= 0
        return Taxonomy(
            name=name,
            ids=[self.ids[each] for each in kept.tolist()],
            labels=[self.labels[each] for each in labels],
            labels_of=labels_of,
            senses_of=_only(senses, inside, renumbered),
            sense_counts=self.sense_counts[self.senses_of.places(labels)][inside],
            parents_of=_only(parents := self.parents_of.take(kept), renumbered[parents.values] >= 0, renumbered),
            exceptions=self.exceptions,
        )

    def labels_under(self, concept: int) -> list[tuple[str, int, int]]:
        """Every (label, concept, count) of the concepts at or below one, by concept, then as each shows them."""
        kept = self.descendants(concept)
        own = self.labels_of.take(kept)
        owners = np.repeat(kept, own.lengths)
        counts = self._count_of_pair(owners, own.values)
        return [(self.labels[label], int(owner), int(n)) for label, owner, n in zip(own.values, owners, counts)]  # noqa: B905

    def _count_of_pair(self, concepts: Numbers, labels: Numbers) -> Numbers:
        keys, order = self._pairs
        wanted = labels.astype(np.int64) * len(self) + concepts
        return self.sense_counts[order[np.searchsorted(keys, wanted)]]

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        keys = self.senses_of.owners().astype(np.int64) * len(self) + self.senses_of.values
        order = np.argsort(keys)
        return keys[order], order


_INFLECTED = ("s", "men", "ful")
_MOST_FORMS = 4  # of one word
_MOST_PHRASES = 64  # of one phrase: a query of many plurals must not take for ever


def _numbered_anew(lists: Lists, count: int) -> tuple[Numbers, Lists]:
    """Values that occur, and the same lists with the values numbered among these."""
    kept = np.unique(lists.values)
    renumbered = np.zeros(count, np.int32)
    renumbered[kept] = np.arange(len(kept), dtype=np.int32)
    return kept, Lists(lists.starts, renumbered[lists.values])


def _only(lists: Lists, kept: Flags, renumbered: Numbers) -> Lists:
    """The lists without the values that are not kept, the others renumbered."""
    lengths = np.bincount(lists.owners()[kept], minlength=len(lists))
    return Lists.of_lengths(lengths, renumbered[lists.values[kept]])


OTHER = 0  # the topic of what lies under none; the first named topic is 1

# Health, Science, Sports and Society, as Sanchez et al. (2018) map them to WordNet.
FOUR = ("disease", "scientific discipline", "sport", "social event")
# Specialisations of these four. The paper's own nineteen stand in a figure only; those that its text names are here.
NINETEEN = (
    "communicable disease", "skin disease", "genetic disease", "respiratory disease", "inflammatory disease",
    "malignancy", "natural science", "social science", "mathematics", "linguistics", "psychology", "athletic game",
    "water sport", "contact sport", "outdoor sport", "racing", "contest", "show", "affair",
)  # fmt: skip
NAMED = {"4": FOUR, "19": NINETEEN}


def widest_sense(taxonomy: Taxonomy, name: str) -> int:
    """The concept of `label` or `label#sense`; without a sense the one with the most concepts below it.

    "abstraction" is then the top of all that is abstract (39,914 concepts), not the notion of it, its first sense.
    """
    label, mark, sense = name.strip().rpartition("#")
    if mark and sense.isdigit():
        return taxonomy.concept(label.strip().lower(), int(sense))
    label = name.strip().lower()
    senses = taxonomy.concepts(label)
    if not len(senses):
        raise ParameterError(f"{taxonomy.name} has no concept {label!r}; give one of its labels, or all")
    return int(max(senses, key=lambda concept: int(taxonomy.under(int(concept)).sum())))


def topic_concepts(taxonomy: Taxonomy, names: str | Sequence[str]) -> list[int]:
    """The concepts that topics are named after: `4`, `19`, labels with `|` between, or `children` of the root."""
    if names == "children":
        return [int(each) for each in taxonomy.children_of[taxonomy.root]]
    listed = NAMED.get(names) or tuple(names.split("|")) if isinstance(names, str) else tuple(names)
    return [widest_sense(taxonomy, name) for name in listed]


def topics_of(taxonomy: Taxonomy, concepts: Sequence[int]) -> NDArray[np.int32]:
    """Number (from 1) of the first of these concepts at or above each concept; 0 for none."""
    topics = np.full(len(taxonomy), OTHER, np.int32)
    for number in range(len(concepts), 0, -1):
        topics[taxonomy.under(concepts[number - 1])] = number
    return topics
