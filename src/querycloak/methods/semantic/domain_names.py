"""Which concepts a domain is named after: all that can be wrong with it, without anything heavy loaded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.sentence import Sentence
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.topics import FOUR, topics_of, widest_sense

ALL, TOPICS = "all", "topics"


def domain_labels(name: str) -> tuple[str, ...]:
    """The labels that a domain's name consists of; those of four topics of WordNet for `topics`."""
    return FOUR if name == TOPICS else tuple(name.split("|"))


def domain_roots(taxonomy: Taxonomy, name: str) -> list[int]:
    """The concept of each label; of `all`, the root."""
    return [taxonomy.root] if name == ALL else [widest_sense(taxonomy, label) for label in domain_labels(name)]


def domain_numbers(taxonomy: Taxonomy, name: str) -> NDArray[np.int32]:
    """For every concept the number of the domain it is in, from 1, if several are named; 0 is the rest."""
    # No concept is in two domains, so that a replacement has the topic of what it replaces.
    labels, roots = domain_labels(name), domain_roots(taxonomy, name)
    found = topics_of(taxonomy, roots)
    for number, root in enumerate(roots, 1):
        if found[root] != number:
            inside = labels[found[root] - 1]
            raise ParameterError(
                Sentence(
                    "{domain} names {inner!r}, which lies within {outer!r}; leave one out, or name the narrower first",
                    inner=labels[number - 1],
                    outer=inside,
                )
            )
    if found[taxonomy.root]:
        raise ParameterError(
            Sentence("{domain} names the root beside other concepts; name only these, the rest has its own")
        )
    return found


def check_domain(taxonomy: Taxonomy, name: str) -> None:
    """Refuse a name that means no domain of this taxonomy."""
    if len(domain_roots(taxonomy, name)) > 1:
        domain_numbers(taxonomy, name)
