"""Topics: named concepts whose subtrees part a taxonomy, for profiles of users and for domains of replacement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.text.taxonomy import Taxonomy

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
    """The concepts that topics are named after: `4`, `19`, labels parted by `|`, or `children`, those of the root."""
    if names == "children":
        return [int(each) for each in taxonomy.children_of[taxonomy.root]]
    listed = NAMED.get(names) or tuple(names.split("|")) if isinstance(names, str) else tuple(names)
    return [widest_sense(taxonomy, name) for name in listed]


def topics_of(taxonomy: Taxonomy, concepts: Sequence[int]) -> NDArray[np.int32]:
    """For every concept the number (from 1) of the first of these that it is or lies under, else 0."""
    topics = np.full(len(taxonomy), OTHER, np.int32)
    for number in range(len(concepts), 0, -1):
        topics[taxonomy.under(concepts[number - 1])] = number
    return topics
