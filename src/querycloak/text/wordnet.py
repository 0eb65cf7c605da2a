"""WordNet's nouns, shipped with the package: Princeton's WordNet 3.0 as Debian packages it, licence beside it.

`scripts/make_wordnet.py` wrote the table. What it counts: a concept is a noun synset; a label is a distinct noun of
`index.noun`, in lower case, with blanks for underscores; an is-a edge is a hypernym or an instance hypernym.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from querycloak.text.lists import Lists
from querycloak.text.taxonomy import Taxonomy

NAME = "WordNet 3.0 nouns"
TABLE = "data/wordnet-3.0-nouns.npz"
LICENCE = "data/WORDNET-LICENSE"


@cache
def wordnet() -> Taxonomy:
    """The noun taxonomy, read once."""
    with (files("querycloak.text") / TABLE).open("rb") as opened, np.load(opened) as arrays:
        return _unpacked(arrays)


def _unpacked(arrays: dict[str, NDArray[np.integer]]) -> Taxonomy:
    labels = _lines(arrays["labels"])
    labels_of = Lists.of_lengths(arrays["labels_per_concept"], arrays["concept_labels"])
    concepts, places = labels_of.owners(), labels_of.values
    by_label_and_sense = np.lexsort((arrays["senses"], places))
    parents = Lists.of_lengths(arrays["parents_per_concept"], arrays["steps_to_parent"])
    return Taxonomy(
        name=NAME,
        ids=[f"{number:08d}" for number in np.cumsum(arrays["id_steps"], dtype=np.int64).tolist()],
        labels=labels,
        labels_of=labels_of,
        senses_of=Lists.of_lengths(np.bincount(places, minlength=len(labels)), concepts[by_label_and_sense]),
        sense_counts=arrays["counts"][by_label_and_sense].astype(np.int32),
        parents_of=Lists(parents.starts, parents.owners() - parents.values),
        exceptions=dict(_exception(line) for line in _lines(arrays["exceptions"])),
    )


def _exception(line: str) -> tuple[str, tuple[str, ...]]:
    form, *bases = (word.replace("_", " ") for word in line.split(" "))
    return form, tuple(bases)


def _lines(text: NDArray[np.integer]) -> list[str]:
    return text.tobytes().decode("ascii").split("\n")
