"""The model of a release: whole queries, n-grams of words and public characters, mixed.

Pr[query] = w Pr[query among whole queries] + v Pr[its words] + u Pr[its characters]; u is larger the fewer words the
release holds (`novelty`). Only the release and public text are used, so whoever has a release can compute it, and it
costs no budget.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.language.character_model import character_bits
from querycloak.language.word_model import BEGIN, END, Gram, WordModel, novelty
from querycloak.privacy.parameters import of_kind, whole
from querycloak.text.english import STOP_WORDS, public_queries
from querycloak.text.word_boundaries import joined, words_of

__all__ = ["Completed", "QueryModel"]

WHOLE = 0.1
"""Weight of whole queries beside words, once characters have theirs. Tuned on a synthetic log."""
_LIKELIHOODS = (14, 26, 2)
"""Exponents of the least probabilities that a list of probable queries is tried with, one after another."""
_BEAM, _NEXT, _LONGEST = 40, 12, 8
"""Width of the search for completions, next words tried at each step, and words of a completion at most."""


RELEASED, SPELLED, PUBLIC = "released", "words", "public"
"""Sources of completions: a released query, released words, public text alone."""


@dataclass(frozen=True)
class Completed:
    """A completion, its source and its score: its probability, but at most the score of the completion before it."""

    query: str
    score: float
    source: str


@dataclass(frozen=True)
class QueryModel:
    """Probabilities of queries from their released counts (`whole`) and from counts of n-grams of words (`grams`)."""

    whole: Mapping[str, float]
    grams: Mapping[Gram, float]
    words: WordModel = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        counted = {query: float(count) for query, count in self.whole.items() if count > 0}
        object.__setattr__(self, "whole", counted)
        object.__setattr__(self, "words", WordModel(self.grams))
        if not counted and not self.words.words:
            raise ParameterError("the release holds no query and no word with a count: there is nothing to learn from")

    def probability(self, query: str) -> float:
        """Return the probability of a query: above 0, but for texts whose probability is too small for a float."""
        return float(2.0 ** -self.bits(query))

    def bits(self, query: str) -> float:
        """Return the bits of a query: minus the base-2 logarithm of its probability."""
        of_kind("query", query, str, "a text", "give a query as it is normalised")
        words = words_of(query)
        by_words = self.words.logarithm(words) if words and joined(words) == query else -math.inf
        parts = (
            math.log2(self._whole_share * self.whole[query] / self._total) if query in self.whole else -math.inf,
            math.log2(self._words_share) + by_words if self.words.words else -math.inf,
            math.log2(self._characters_share) - character_bits(query),
        )
        largest = max(parts)
        return -(largest + math.log2(sum(2.0 ** (part - largest) for part in parts)))

    def expresses(self, query: str) -> bool:
        """Say if the release can spell a query: it holds the whole query, or every word of it."""
        words = words_of(query)
        return query in self.whole or (bool(words) and all(map(self.words.knows, words)))

    def complete(self, prefix: str, n: int = 10) -> list[Completed]:
        """Return up to n queries that begin with these letters: released ones, those that words spell, public ones."""
        of_kind("prefix", prefix, str, "a text", "give the first letters of a query")
        whole("n", n, "such as 10", least=1, most=1000)
        completions: dict[str, Completed] = {}
        least = 1.0
        for source, queries in self._sources(prefix, n):
            for query in (each for each in queries if each not in completions and len(completions) < n):
                least = min(least, self.probability(query))
                completions[query] = Completed(query, least, source)
            if len(completions) == n:
                break
        return list(completions.values())

    def _sources(self, prefix: str, n: int) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield completions with their source: queries released as a whole first, because they have more users."""
        yield RELEASED, self._known(prefix, n)
        yield SPELLED, self._by_count(self.words.starting_with(prefix))[:n]
        yield SPELLED, self._by_words(prefix, 4 * n)
        yield PUBLIC, public_completions(prefix, 2 * n)

    def ranked(self, n: int = 20_000) -> list[str]:
        """Return queries in the order of completions: released ones, words, about n longer ones that words spell."""
        whole("n", n, "such as 20,000", least=1)
        spelled: dict[str, float] = {}
        for exponent in range(*_LIKELIHOODS):
            spelled = self._spelled(2.0**-exponent, 4 * n)
            if len(spelled) >= n:
                break
        released = sorted(self.whole, key=lambda query: (-self.whole[query], query))
        words = self._by_count(self.words.words)
        return list(dict.fromkeys([*released, *words, *sorted(spelled, key=spelled.__getitem__, reverse=True)]))

    def _by_count(self, words: Sequence[str]) -> list[str]:
        """Return words that may be queries by themselves, the most frequent first: no stop words."""
        return sorted(set(words) - STOP_WORDS, key=lambda word: (-self.grams[(word,)], word))

    def _spelled(self, least: float, most: int) -> dict[str, float]:
        """Return queries that words spell with a probability of about `least` or more, by at most so many steps."""
        queries: dict[str, float] = {}
        waiting: list[tuple[float, tuple[str, ...]]] = [(-self._words_share, (BEGIN,))] if self.words.words else []
        for _ in range(most):
            if not waiting:
                break
            negative, words = heapq.heappop(waiting)  # the most probable beginning
            for word, probability in self.words.above(words, least / -negative):
                chance = -negative * probability
                if chance < least or self._is_odd(words, word):
                    continue
                if word != END:
                    heapq.heappush(waiting, (-chance, (*words, word)))
                elif len(words) > 1:
                    text = joined(words[1:])
                    queries[text] = max(queries.get(text, 0.0), chance)
        return queries

    def _is_odd(self, words: Sequence[str], word: str) -> bool:
        """Say if a query would hold a word twice, or end with a stop word, and this did not come out."""
        odd = words[-1] in STOP_WORDS if word == END else word in words
        return odd and (words[-1], word) not in self.grams

    def sample(self, n: int, seed: int) -> list[str]:
        """Draw n queries, from whole queries or word by word; the same seed gives the same queries.

        Released words take the place of those that the model would spell. A query of words has at most 8.
        """
        whole("n", n, "such as 10", least=0, most=10**9)
        random = np.random.Generator(np.random.PCG64(whole("seed", seed, "such as 1", least=0)))
        from_whole = random.random(n) < self._whole_share / (1 - self._characters_share)
        chosen = random.choice(len(self.whole), n, p=self._whole_law) if self.whole else np.zeros(n, np.int64)
        texts = list(self.whole)
        return [texts[at] if take else self._drawn(random) for take, at in zip(from_whole, chosen, strict=True)]

    @cached_property
    def _total(self) -> float:
        return sum(self.whole.values())

    @cached_property
    def _whole_law(self) -> NDArray[np.float64]:
        return np.array(list(self.whole.values())) / self._total

    @cached_property
    def _characters_share(self) -> float:
        return novelty(len(self.words.words))

    @cached_property
    def _whole_share(self) -> float:
        if not self.whole:
            return 0.0
        return (WHOLE if self.words.words else 1.0) * (1 - self._characters_share)

    @cached_property
    def _words_share(self) -> float:
        return 1 - self._characters_share - self._whole_share

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.whole)

    def _known(self, prefix: str, most: int) -> Sequence[str]:
        first, end = bisect_left(self._sorted, prefix), bisect_left(self._sorted, prefix + "\U0010ffff")
        return heapq.nlargest(most, self._sorted[first:end], key=lambda query: self.whole[query])

    def _by_words(self, prefix: str, most: int) -> list[str]:
        """Return queries spelled word by word: a beam of the most probable beginnings, extended until they end."""
        beam = self._beginnings(prefix)
        ended: list[tuple[float, str]] = []
        for _ in range(_LONGEST):
            grown: list[tuple[float, tuple[str, ...]]] = []
            for logarithm, words in beam:
                before = (BEGIN, *words)
                for word, probability in self.words.likely(before, _NEXT):
                    if probability > 0 and not self._is_odd(before, word):
                        grown.append((logarithm + math.log2(probability), (*words, word)))
            ended += [(logarithm, joined(words)) for logarithm, (*words, last) in grown if last == END and words]
            beam = heapq.nlargest(_BEAM, (each for each in grown if each[1][-1] != END))
            if not beam:
                break
        fitting = [each for each in ended if each[1].startswith(prefix)]
        return [query for _, query in heapq.nlargest(most, fitting)]

    def _beginnings(self, prefix: str) -> list[tuple[float, tuple[str, ...]]]:
        """Return the complete words of a prefix, followed by each likely word that its last letters begin.

        The logarithms leave out the complete words, which all have in common.
        """
        typed = words_of(prefix)
        partial = typed.pop() if typed and not prefix.endswith(" ") else ""
        before = [BEGIN, *typed]
        if not partial:
            return [(0.0, tuple(typed))]
        candidates = self.words.starting_with(partial)
        scored = ((self.words.probability(word, before), word) for word in candidates)
        best = heapq.nlargest(_BEAM, scored)
        return [(math.log2(probability), (*typed, word)) for probability, word in best if probability > 0]

    def _drawn(self, random: np.random.Generator) -> str:
        words: list[str] = [BEGIN]
        while len(words) <= _LONGEST:
            word = self.words.draw(words, random)
            if word == END and len(words) > 1:
                break
            if word != END:
                words.append(word)
        return joined(words[1:])


def public_completions(prefix: str, n: int) -> list[str]:
    """Return up to n public phrases that begin with these letters, the most frequent ones."""
    texts, weights = _public_texts()
    first, end = bisect_left(texts, prefix), bisect_left(texts, prefix + "\U0010ffff")
    return [texts[at] for at in heapq.nlargest(n, range(first, end), key=weights.__getitem__)]


@lru_cache(maxsize=1)
def _public_texts() -> tuple[list[str], list[float]]:
    queries = public_queries()
    return queries["query"].to_pylist(), queries["weight"].to_pylist()
