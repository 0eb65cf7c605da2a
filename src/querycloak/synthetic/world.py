"""Subjects of searches: topics and their things, sites, words. One world for all logs and seeds.

Texts are pieces in one pool; whatever refers to a text holds a piece's number. Number 0 is the empty piece.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.synthetic import vocabulary
from querycloak.synthetic.heavy_tails import Floats, Ints, WeightedChoice, below, falling, mixed, share_of
from querycloak.text.wordnet import wordnet

# Topics are subtrees of WordNet: label, sense, and how many people care (weights, ours).
TOPICS: tuple[tuple[str, int, float], ...] = (
    ("disease", 1, 6), ("scientific discipline", 1, 3), ("sport", 1, 7), ("social event", 1, 5), ("music", 1, 7),
    ("motor vehicle", 1, 5), ("clothing", 1, 5), ("dish", 2, 5), ("city", 1, 6), ("country", 2, 3), ("dog", 1, 3),
    ("drug", 1, 4), ("game", 1, 5), ("furniture", 1, 3), ("building", 1, 3), ("flower", 1, 2), ("bird", 1, 2),
    ("school", 1, 4), ("occupation", 1, 3), ("body part", 1, 4), ("religion", 1, 2), ("beverage", 1, 2),
    ("electronic device", 1, 3), ("jewelry", 1, 2), ("fabric", 1, 1), ("weapon", 1, 1), ("writer", 1, 2),
    ("actor", 1, 3),
)  # fmt: skip
TOPIC_NAMES = tuple(name for name, _, _ in TOPICS)
DISEASE = TOPIC_NAMES.index("disease")
# Where people want to know about people: the share of persons among what is invented.
_PERSONS = {"sport": 0.7, "music": 0.7, "social event": 0.5, "writer": 0.9, "actor": 0.9, "religion": 0.3}
_KNOWN = 0.52  # the share of WordNet's labels among the things wanted most
_INVENTED_PER_TOPIC = 4_000
_SITES, _SURNAMES, _NUMBERS = 60_000, 30_000, 10_000
_NOUNS = 24_000
_SHARED_MODIFIERS = 12


@dataclass(frozen=True)
class Span:
    """The pieces of one kind: those from `first` on, before `end`."""

    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def at(self, place: Ints) -> Ints:
        """The pieces at these places."""
        return self.first + place % len(self)


@dataclass(frozen=True)
class World:
    """All texts, and how likely each is to be wanted."""

    texts: pa.Array
    words: Ints  # how many words each piece has
    spans: dict[str, Span]
    topic_weights: Floats
    things: Span  # what belongs to topics, topic after topic
    thing_topic: Ints
    diseases: Ints  # WordNet's diseases among the things, the most wanted first
    thing_choice: WeightedChoice
    modifier_choice: WeightedChoice  # one list: the language's modifiers
    noun_choice: WeightedChoice
    function_choice: WeightedChoice
    site_choice: WeightedChoice
    everyday_choice: WeightedChoice

    def modifier_of(self, thing: Ints, share: Floats) -> Ints:
        """A modifier that many people add to a thing: each thing has its own few, the first most often."""
        rank = np.minimum((_SHARED_MODIFIERS**share - 1).astype(np.int64), _SHARED_MODIFIERS - 1)
        spread = self.modifier_choice.of(np.zeros(len(thing), np.int64), share_of(mixed(thing, rank)))
        return self.spans["modifier"].first + spread

    def words_of(self, pieces: Ints) -> Ints:
        """Number of words in rows of pieces."""
        return np.asarray(self.words[pieces].sum(axis=-1))


@lru_cache(maxsize=1)
def world() -> World:
    """The one world; made in a fraction of a second."""
    pool: list[str] = [""]
    spans: dict[str, Span] = {}

    def add(kind: str, texts: list[str]) -> Span:
        spans[kind] = Span(len(pool), len(pool) + len(texts))
        pool.extend(texts)
        return spans[kind]

    surnames = vocabulary.surnames(_SURNAMES)
    brands = vocabulary.brands(_SITES + _INVENTED_PER_TOPIC)
    nouns, noun_weights = _nouns()
    add("function", list(vocabulary.FUNCTION_WORDS))
    add("modifier", list(dict.fromkeys(vocabulary.MODIFIERS)))
    add("noun", nouns)
    add("everyday", list(vocabulary.EVERYDAY))
    add("given", list(vocabulary.GIVEN_NAMES))
    add("surname", surnames)
    add("town", vocabulary.towns())
    add("state", list(vocabulary.FORMS_OF_STATE))
    add("site", brands[:_SITES])
    add("ending", list(vocabulary.SITE_ENDINGS))
    add("www", ["www."])
    add("number", [str(number) for number in range(_NUMBERS)])
    things, topics = _things(surnames, brands)
    return World(
        spans=spans,
        things=add("thing", things),
        texts=pa.array(pool, pa.string()),
        words=_words(pool),
        topic_weights=np.array([weight for _, _, weight in TOPICS]),
        thing_topic=topics,
        diseases=_known_diseases(things, topics),
        thing_choice=WeightedChoice([falling(int(size), 1.0, 3.0) for size in np.bincount(topics)]),
        modifier_choice=WeightedChoice([falling(len(spans["modifier"]), 0.8, 5.0)]),
        noun_choice=WeightedChoice([noun_weights]),
        function_choice=WeightedChoice([falling(len(spans["function"]), 1.0, 1.0)]),
        site_choice=WeightedChoice([falling(_SITES, 1.05, 1.2)]),
        everyday_choice=WeightedChoice([falling(len(spans["everyday"]), 0.8, 2.0)]),
    )


def _words(pool: list[str]) -> Ints:
    blanks: Ints = pc.count_substring(pa.array(pool, pa.string()), " ").to_numpy().astype(np.int64)
    blanks[1:] += 1
    return blanks


def _nouns() -> tuple[list[str], Floats]:
    """Single-word nouns of the language, those used most in tagged text first."""
    taxonomy = wordnet()
    uses = np.add.reduceat(taxonomy.sense_counts, taxonomy.senses_of.starts[:-1])
    by_use = np.argsort(-uses, kind="stable").tolist()  # labels are in order of the alphabet: so are those of equal use
    nouns = [label for label in map(taxonomy.labels.__getitem__, by_use) if label.isalpha()][:_NOUNS]
    return nouns, falling(len(nouns), 0.7, 30.0)


def _things(surnames: list[str], brands: list[str]) -> tuple[list[str], Ints]:
    """Things of each topic, the most wanted first: WordNet's labels, invented people and brands among them."""
    things: list[str] = []
    topics: list[int] = []
    for topic in range(len(TOPICS)):
        ranked = _ranked(topic, surnames, brands)
        things += ranked
        topics += [topic] * len(ranked)
    return things, np.array(topics, np.int64)


def _known_diseases(things: list[str], topics: Ints) -> Ints:
    taxonomy = wordnet()
    known = {label for label, _, _ in taxonomy.labels_under(taxonomy.concept("disease"))}
    return np.array([place for place in np.flatnonzero(topics == DISEASE) if things[place] in known], np.int64)


def _ranked(topic: int, surnames: list[str], brands: list[str]) -> list[str]:
    taxonomy = wordnet()
    name, sense, _ = TOPICS[topic]
    counts: dict[str, int] = {}
    for label, _, count in taxonomy.labels_under(taxonomy.concept(name, sense)):
        counts[label] = max(count, counts.get(label, 0))
    known = sorted(counts, key=lambda label: (-counts[label], zlib.crc32(label.encode())))
    number = np.arange(_INVENTED_PER_TOPIC)
    stream = mixed(np.full(_INVENTED_PER_TOPIC, topic), number)
    invented = [
        f"{vocabulary.GIVEN_NAMES[given]} {surnames[surname]}" if person else brands[_SITES - 1 - brand]
        for person, given, surname, brand in zip(
            (share_of(stream) < _PERSONS.get(name, 0.0)).tolist(),
            below(mixed(stream, number + 1), len(vocabulary.GIVEN_NAMES)).tolist(),
            below(mixed(stream, number + 2), len(surnames)).tolist(),
            below(mixed(stream, number + 3), _SITES // 2).tolist(),
            strict=True,
        )
    ]
    # Known and invented take turns by chance, so that both are found among the most wanted and among the least.
    known_left, invented_left = iter(known), iter(invented)
    turns = share_of(mixed(topic, np.arange(len(known) + len(invented)), 7)) < _KNOWN
    merged = [next(known_left if turn else invented_left, None) for turn in turns.tolist()]
    return list(dict.fromkeys([*filter(None, merged), *known_left, *invented_left]))
