"""Affinity by its definitions, slowly: what the compiled code must equal (affinity.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import log2

import numpy as np

from querycloak.text.english import STOP_WORDS
from querycloak.text.lists import Lists

Sets = Sequence[Iterable[int]]


def rows(lists: Sets) -> Lists:
    listed = [sorted(each) for each in lists]
    starts = np.cumsum([0, *map(len, listed)]).astype(np.int64)
    return Lists(starts, np.array([number for each in listed for number in each], np.int32))


def neighbours(sets: Sets, weights: Sequence[int], theta: int) -> list[set[int]]:
    """The plain quadratic computation, in Python's whole numbers."""
    vectors = [set(each) for each in sets]
    norms = [sum(weights[c] ** 2 for c in each) for each in vectors]

    def alike(a: int, b: int) -> bool:
        product = sum(weights[c] ** 2 for c in vectors[a] & vectors[b])
        return (product * 10**6) ** 2 >= theta**2 * norms[a] * norms[b]

    count = range(len(vectors))
    return [{b for b in count if a != b and alike(a, b)} for a in count]


def core_degrees(adjacent: Sequence[set[int]], users: Sets, most: int) -> list[int]:
    """For each k by itself: take away whoever has too few users around, until nobody has."""
    degrees = [0] * len(adjacent)
    sets = [set(each) for each in users]
    for k in range(1, most + 1):
        left = set(range(len(adjacent)))
        while True:
            few = {v for v in left if len(sets[v].union(*(sets[u] for u in adjacent[v] & left))) < k}
            if not few:
                break
            left -= few
        for v in left:
            degrees[v] = k
    return degrees


def grams(query: str, length: int) -> list[tuple[str, ...]]:
    words = [word for word in query.split(" ") if word]
    return [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]


Search = tuple[str, str]


def weights_of(searches: Sequence[Search], least: int) -> dict[tuple[str, ...], float]:
    """The concepts and their weights, from (user, query) of each search."""
    users: dict[tuple[str, ...], set[str]] = defaultdict(set)
    occurrences: Counter[tuple[str, ...]] = Counter()
    containing: Counter[str] = Counter()
    totals = [0, 0, 0, 0]
    for user, query in searches:
        containing.update({word for (word,) in grams(query, 1)})
        for length in (1, 2, 3):
            found = grams(query, length)
            totals[length] += len(found)
            occurrences.update(found)
            for gram in found:
                users[gram].add(user)

    def share(gram: tuple[str, ...]) -> Fraction:
        return Fraction(occurrences[gram], totals[len(gram)])

    def weight(gram: tuple[str, ...]) -> float:
        if len(gram) == 1:
            return log2(containing[gram[0]] + 1)
        x, y = share(gram[:1]), share(gram[1:2])
        if len(gram) == 2:
            return log2(share(gram) / (x * y) + 1)
        z = share(gram[2:])
        return log2(share(gram) / (x * y * z + x * share(gram[1:]) + share(gram[:2]) * z) + 1)

    return {
        gram: weight(gram)
        for gram, by in users.items()
        if len(by) >= least and not all(word in STOP_WORDS for word in gram)
    }


def query_degrees(searches: Sequence[Search], theta: int, least: int, word_users: int, most: int) -> dict[str, int]:
    """Every query's degree, each query a vertex of its own, from the definitions."""
    weights = {gram: max(1, round(weight * 1024)) for gram, weight in weights_of(searches, least).items()}
    users: dict[str, set[str]] = defaultdict(set)
    of_word: dict[str, set[str]] = defaultdict(set)
    for user, query in searches:
        users[query].add(user)
        for (word,) in grams(query, 1):
            of_word[word].add(user)
    numbers = {gram: number for number, gram in enumerate(weights)}
    degrees, vertices = {}, []
    for query, askers in users.items():
        concepts = {gram for length in (1, 2, 3) for gram in grams(query, length)} & set(weights)
        if any(len(of_word[word]) < word_users for (word,) in grams(query, 1)):
            degrees[query] = 0
        elif concepts:
            vertices.append((query, [numbers[gram] for gram in concepts]))
        else:
            degrees[query] = len(askers)
    adjacent = neighbours([concepts for _, concepts in vertices], list(weights.values()), theta)
    numbered = {user: number for number, user in enumerate({user for user, _ in searches})}
    found = core_degrees(adjacent, [[numbered[u] for u in users[query]] for query, _ in vertices], most)
    return degrees | {query: degree for (query, _), degree in zip(vertices, found, strict=True)}
