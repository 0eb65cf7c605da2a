"""Interpolated n-grams of words on noisy counts (Witten and Bell, 1991).

An n-gram may begin with the mark of a query's beginning and end with the mark of its end. Pr[x | h] mixes the share of
x among the continuations of h with Pr[x | h without its first word]; the number of different continuations of h
decides how much of each. Where nothing shorter is left, the public model of characters spells a word that the release
does not hold. How often that happens follows from the number of words that it holds (`novelty`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from querycloak.language.character_model import character_bits

BEGIN, END = "\x02", "\x03"
"""Marks that no normalised query holds."""
VOCABULARY, LEAST_NOVELTY = 10**6, 0.05
"""Different words that people are taken to use, and the least probability of a word that the release does not hold."""
Gram = tuple[str, ...]


@dataclass(frozen=True)
class Continuations:
    """Possible next words of a context by falling probability, with the weight of the shorter context."""

    words: tuple[str, ...]
    shares: NDArray[np.float64]
    shorter: float

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """The sums of shares up to each word but the last."""
        return np.cumsum(self.shares)[:-1]

    @cached_property
    def share_of(self) -> Mapping[str, float]:
        """The share of each word."""
        return dict(zip(self.words, self.shares.tolist(), strict=True))


@dataclass(frozen=True)
class WordModel:
    """Probabilities of words after words, from counts of n-grams; a count below 0 counts as 0."""

    counts: Mapping[Gram, float]
    _contexts: dict[Gram, Continuations] = field(init=False, repr=False, compare=False)
    _words: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        following: dict[Gram, dict[str, float]] = {}
        for gram, count in self.counts.items():
            if count > 0 and gram[-1] != BEGIN:
                following.setdefault(gram[:-1], {})[gram[-1]] = float(count)
        contexts = {context: _continuations(after) for context, after in following.items()}
        known = sorted(word for word in following.get((), {}) if word != END)
        if () in contexts:
            contexts[()] = replace(contexts[()], shorter=novelty(len(known)))
        object.__setattr__(self, "_contexts", contexts)
        object.__setattr__(self, "_words", tuple(known))

    @property
    def contexts(self) -> Mapping[Gram, Continuations]:
        """The continuations of every context that has any."""
        return self._contexts

    @property
    def words(self) -> tuple[str, ...]:
        """All words of the release, sorted."""
        return self._words

    def knows(self, word: str) -> bool:
        """Say if a word is in the release."""
        place = bisect_left(self._words, word)
        return place < len(self._words) and self._words[place] == word

    def starting_with(self, prefix: str) -> Sequence[str]:
        """Return the words that begin with these letters."""
        end = bisect_left(self._words, prefix + "\U0010ffff")
        return self._words[bisect_left(self._words, prefix) : end]

    def probability(self, word: str, before: Sequence[str]) -> float:
        """Return Pr[word | the words before it]; a word that is not known is spelled out."""
        known = word == END or self.knows(word)
        weight, share = 1.0, 0.0
        for context in self._known_contexts(before):
            continuations = self._contexts[context]
            share += weight * continuations.share_of.get(word, 0.0) * (1 - continuations.shorter)
            weight *= continuations.shorter
        if not known:
            share += weight * 2.0 ** -character_bits(word)
        return share

    def logarithm(self, words: Sequence[str]) -> float:
        """Return the base-2 logarithm of the probability of a whole query; minus infinity if it is impossible."""
        total, before = 0.0, [BEGIN]
        for word in (*words, END):
            probability = self.probability(word, before)
            if probability <= 0:
                return -math.inf
            total += math.log2(probability)
            before.append(word)
        return total

    def likely(self, before: Sequence[str], most: int) -> Iterator[tuple[str, float]]:
        """Yield likely next words with their probabilities: the first `most` of each context."""
        candidates: dict[str, None] = {}
        for context in self._known_contexts(before):
            candidates |= dict.fromkeys(self._contexts[context].words[:most])
        for word in candidates:
            yield word, self.probability(word, before)

    def above(self, before: Sequence[str], least: float) -> Iterator[tuple[str, float]]:
        """Yield next words, and the end, that have a share of at least `least` in one of the contexts."""
        weight, candidates = 1.0, dict[str, None]()
        for context in self._known_contexts(before):
            continuations = self._contexts[context]
            own = weight * (1 - continuations.shorter)
            number = int(np.searchsorted(-continuations.shares * own, -least, side="right"))
            candidates |= dict.fromkeys(continuations.words[:number])
            weight *= continuations.shorter
        for word in candidates:
            yield word, self.probability(word, before)

    def draw(self, before: Sequence[str], random: np.random.Generator) -> str:
        """Draw the next word or the end; where one would have to be spelled, one that the release holds."""
        contexts = [self._contexts[context] for context in self._known_contexts(before)]
        for continuations in contexts:
            if continuations is contexts[-1] or random.random() >= continuations.shorter:
                return continuations.words[int(np.searchsorted(continuations.sums, random.random(), side="right"))]
        return END

    def _known_contexts(self, before: Sequence[str]) -> Iterator[Gram]:
        """Yield the contexts that have continuations, from the longest to the empty one."""
        longest = self._longest
        recent = tuple(before[-longest:]) if longest else ()
        for start in range(len(recent) + 1):
            if recent[start:] in self._contexts:
                yield recent[start:]

    @cached_property
    def _longest(self) -> int:
        return max((len(context) for context in self._contexts), default=0)


def _continuations(after: Mapping[str, float]) -> Continuations:
    total, types = sum(after.values()), len(after)
    ranked = sorted(after.items(), key=lambda each: (-each[1], each[0]))
    shares = np.array([count / total for _, count in ranked])
    return Continuations(tuple(word for word, _ in ranked), shares, types / (total + types))


def novelty(words: int) -> float:
    """Return the probability that a word is not among the `words` most frequent ones, by Zipf's law."""
    return max(LEAST_NOVELTY, 1 - _harmonic(max(1, words)) / _harmonic(VOCABULARY))


def _harmonic(n: int) -> float:
    """Return the sum of 1/rank over the first n ranks, to within 1/(12 n^2)."""
    return math.log(n) + np.euler_gamma + 1 / (2 * n)


def grams_of(
    queries: Iterable[tuple[Sequence[str], float]], longest: int, contexts: Container[Gram] | None = None
) -> dict[Gram, float]:
    """Return counts of n-grams, marks included, of whole queries: for releases that hold no phrases.

    Queries without a word, such as "?!", have none: as n-grams they would be beginnings that end at once.
    contexts: n-grams without their last word; others are left out. None keeps all.
    """
    counts: dict[Gram, float] = {}
    for words, count in queries:
        marked = (BEGIN, *words, END) if words else ()
        for gram in _grams(marked, longest + 1):
            if gram != (BEGIN,) and (contexts is None or gram[:-1] in contexts):
                counts[gram] = counts.get(gram, 0.0) + count
    return counts


def _grams(marked: Gram, longest: int) -> set[Gram]:
    return {marked[at : at + n] for n in range(1, longest + 1) for at in range(len(marked) - n + 1)}


def contexts_of(queries: Iterable[Sequence[str]], longest: int) -> set[Gram]:
    """Return all contexts of up to `longest` words, marks included, on which the probability of these depends."""
    return {(), *(gram for words in queries for gram in _grams((BEGIN, *words), longest))}
