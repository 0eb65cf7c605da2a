"""Laws of a made-up log as arrays: shares of cells, the n-grams of words, clicks and next queries (synthetic.md).

Everything here is a function of the noisy parts alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.language.word_model import BEGIN, END, Gram, WordModel
from querycloak.methods.synthetic.parts import NoisyParts
from querycloak.methods.synthetic.shape import AGAIN, CELLS, CLICKS, FIRST, MOST_SESSIONS, RANKS, SESSIONS, STEPS, WORDS
from querycloak.privacy.sampling.randomness import IntArray
from querycloak.releases.release_model import model_of_phrases
from querycloak.text.word_boundaries import joined, words_of

Floats = NDArray[np.float64]
_Edges = tuple[NDArray[np.bool_], NDArray[np.bool_], Floats]
MOST_WORDS = 12
_SURE = 3
"""Bins of users below this many standard deviations of their noise are empty: one of many sessions has many rows."""
_FEW_MARKED = 0.1
"""The quantile of the counts of words with marks that says how many users a mark needs to come out."""
_PUBLIC: Mapping[str, Sequence[float]] = {
    "hours": [1.0] * CELLS["hours"].number,
    "pauses": [1.0] * CELLS["pauses"].number,
    "kinds": [3, 1, 1, 1, 1, 1, 2],
    "sources": [1, 1, 0, 0, 0] * 2,
    "lengths": [0.3, 0.3, 0.2, 0.1, 0.1] + [0.0] * (WORDS - 5),
    "ranks": [0, *(1 / rank for rank in range(1, RANKS))] * 2,
}
"""Shares where a part has no share of the budget, or where nothing of it is left above 0."""


class Shape(NamedTuple):
    """Cumulative shares of cells."""

    users: Floats
    least: IntArray
    most: IntArray
    sessions: Floats
    hours: Floats
    pauses: Floats
    again: float
    kinds: Floats
    whole: float
    clicks: Floats
    lengths: Floats
    ranks: Floats


class NextWords(NamedTuple):
    """Contexts of the n-gram model: next words by number, their cumulative shares, and the context that follows."""

    start: IntArray
    word: IntArray
    sums: Floats
    after: IntArray
    shorter: Floats
    back: IntArray
    begin: int
    users: Floats
    """Users of each word; many where it is not known."""
    begins: NDArray[np.bool_]
    """True if queries begin with the word, as far as is known."""
    ends: NDArray[np.bool_]
    alone: Floats
    """Cumulative shares of words as a whole query; empty if no word begins and ends queries."""


class Alternatives(NamedTuple):
    """What may be drawn for each of several things, from start[i] to start[i + 1], by cumulative shares."""

    start: IntArray
    what: IntArray
    sums: Floats


class Whole(NamedTuple):
    """Whole queries by falling count: cumulative shares, words, and a digest of words to find them by."""

    sums: Floats
    start: IntArray
    word: IntArray
    digest: NDArray[np.uint64]
    place: IntArray


class Texts(NamedTuple):
    """Texts one after another, as bytes."""

    data: NDArray[np.uint8]
    start: IntArray


class Laws(NamedTuple):
    """Everything that a made-up log is drawn from."""

    shape: Shape
    words: NextWords
    whole: Whole
    urls_of_query: Alternatives
    urls_of_word: Alternatives
    next_query: Alternatives
    word_texts: Texts
    glued: NDArray[np.uint8]
    """Of each word: 1 if no blank stands before it after another such word, 2 if none stands after it; or both."""
    query_texts: Texts
    urls: pa.Array
    users: int
    """The noisy number of users."""


def laws_of(parts: NoisyParts) -> Laws:
    """The laws that noisy parts give."""
    queries = _counted(parts.queries, "query")
    model = model_of_phrases(parts.phrases.to_batches(), {}).words if parts.phrases.num_rows else WordModel({})
    cut = [words_of(query)[:MOST_WORDS] for query in queries]
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys([*model.words, *(w for each in cut for w in each)]))}
    urls = {
        url: at for at, url in enumerate(dict.fromkeys([*_texts(parts.clicks, "url"), *_texts(parts.hosts, "host")]))
    }
    number = {query: at for at, query in enumerate(queries)}
    shape, users = _shape(parts)
    return Laws(
        shape,
        _words(model, vocabulary),
        _whole(queries, [[vocabulary[word] for word in each] for each in cut]),
        _choices(parts.clicks, ("query", "url"), (number, urls)),
        _choices(parts.hosts, ("word", "host"), (vocabulary, urls)),
        _next(parts.transitions, number, np.array(list(queries.values()))),
        _bytes(vocabulary),
        np.array([_glued(word) for word in vocabulary], np.uint8),
        _bytes(number),
        pa.array(list(urls), pa.string()),
        users,
    )


def _shape(parts: NoisyParts) -> tuple[Shape, int]:
    cells = {name: np.maximum(counts, 0).astype(np.float64) for name, counts in parts.cells.items()}
    users = np.where(parts.cells["users"] >= _SURE * parts.noise["users"], cells["users"], 0.0)
    if not users.any():
        users[0] = cells["users"].sum()
    for name, shares in _PUBLIC.items():
        if name not in cells or not cells[name].any():
            cells[name] = np.array(shares, np.float64)
    if "hours" in parts.cells:
        cells["hours"] = _smooth(parts.cells["hours"], parts.noise["hours"])
    sources, kinds = cells["sources"].reshape(2, CLICKS), cells["kinds"]
    first, again = kinds[STEPS.index(FIRST)], kinds[STEPS.index(AGAIN)]
    least = np.array(SESSIONS, np.int64)
    shape = Shape(
        _sums(users), least, np.append(least[1:], MOST_SESSIONS) - 1, _sums(cells["sessions"]), _sums(cells["hours"]),
        _sums(cells["pauses"]), float(again / max(first + again, 1.0)), _sums(kinds[2:]),
        float(sources[1].sum() / sources.sum()), _rows_of_sums(sources),
        _sums(cells["lengths"]), _rows_of_sums(cells["ranks"].reshape(2, RANKS)),
    )  # fmt: skip
    return shape, int(users.sum())


def _smooth(noisy: IntArray, sigma: float) -> Floats:
    """Hours of the week, drawn towards days x hours the more, the more noise there is (James and Stein, 1961)."""
    week = np.maximum(noisy, 0).astype(np.float64).reshape(7, 24)
    total = week.sum()
    if not total:
        return np.ones(noisy.size)
    product = np.outer(week.sum(axis=1), week.sum(axis=0)) / total
    apart = week - product
    kept = max(0.0, 1 - sigma**2 * noisy.size / max(float((apart**2).sum()), 1e-9))
    smooth: Floats = np.maximum(product + kept * apart, 0).ravel()
    return smooth


def _sums(shares: Floats) -> Floats:
    """Cumulative shares; the last is 1. All equal if there are none."""
    total = shares.sum()
    sums: Floats = np.cumsum(shares / total if total > 0 else np.full(shares.size, 1 / max(1, shares.size)))
    if sums.size:
        sums[np.flatnonzero(sums >= sums[-1])[0] :] = 1.0
    return sums


def _rows_of_sums(rows: Floats) -> Floats:
    return np.stack([_sums(row) for row in rows])


def _words(model: WordModel, vocabulary: Mapping[str, int]) -> NextWords:
    """The contexts of the model in arrays: next words by number within each, so that one can be looked up.

    Where fewer continuations came out than the context has users, the others are rare words: any word then follows.
    """
    counts = model.counts
    following: dict[Gram, list[tuple[int, float, str]]] = {(): [], (BEGIN,): []}
    for gram, count in counts.items():
        if count > 0 and gram[-1] not in (BEGIN, END):
            following.setdefault(gram[:-1], []).append((vocabulary[gram[-1]], count, gram[-1]))
    following[()] = [(number, math.sqrt(count), word) for number, count, word in following[()]]
    numbers = {context: at for at, context in enumerate(sorted(following))}
    word: list[int] = []
    after: list[int] = []
    start, sums, shorter, back = [0], [np.zeros(0)], [], []
    for context in numbers:
        entries = sorted(following[context])
        word.extend(number for number, _, _ in entries)
        after.extend(numbers[_known(context, next_word, numbers)] for _, _, next_word in entries)
        back.append(numbers[_known(context[1:], None, numbers)] if context else -1)
        start.append(len(word))
        users = np.array([count for _, count, _ in entries])
        sums.append(_sums(users))
        goes_on = max(counts.get(context, 0.0) - counts.get((*context, END), 0.0), users.sum(), 1.0)
        shorter.append(1 - users.sum() * users.sum() / goes_on / (users.sum() + users.size) if users.size else 1.0)
    users = np.full(len(vocabulary), np.inf)
    for number, root, _ in following[()]:
        users[number] = root**2
    return NextWords(
        np.array(start), np.array(word, np.int64), np.concatenate(sums), np.array(after, np.int64), np.array(shorter),
        np.array(back), numbers[(BEGIN,)], users, *_edges(counts, vocabulary),
    )  # fmt: skip


def _edges(counts: Mapping[Gram, float], vocabulary: Mapping[str, int]) -> _Edges:
    """Words that may begin and end queries; shares of words as a whole query.

    A frequent word whose mark did not come out hardly stands there: of many users of "of", few would ask it alone.
    """
    begun, ended, both, anywhere = (
        np.array([max(counts.get((*before, word, *behind), 0.0), 0.0) for word in vocabulary])
        for before, behind in (((BEGIN,), ()), ((), (END,)), ((BEGIN,), (END,)), ((), ()))
    )
    marked = np.concatenate([side[side > 0] for side in (begun, ended, both)])
    least = float(np.quantile(marked, _FEW_MARKED)) if marked.size else math.inf
    usual = [side.sum() / max(anywhere.sum(), 1.0) * anywhere for side in (begun, ended)]
    sides = list(zip((begun, ended), usual, strict=True))
    may_begin, may_end = ((side > 0) | (expected < least) for side, expected in sides)
    first, last = (np.where(side > 0, side, np.minimum(expected, least / 2)) for side, expected in sides)
    alone = np.where(both > 0, both, np.minimum(first * last / np.maximum(anywhere, 1.0), least / 2))
    return may_begin, may_end, _sums(alone) if alone.any() else np.zeros(0)


def _known(context: Gram, word: str | None, numbers: Mapping[Gram, int]) -> Gram:
    """The longest known context at the end of these words."""
    whole = context if word is None else (*context, word)
    return next(whole[at:] for at in range(len(whole) + 1) if whole[at:] in numbers)


def _whole(queries: Mapping[str, float], words: Sequence[Sequence[int]]) -> Whole:
    start = np.concatenate([[0], np.cumsum([len(each) for each in words])]).astype(np.int64)
    flat = np.array([word for each in words for word in each], np.int64)
    digests = np.array([digest_of(each) for each in words], np.uint64)
    order = np.argsort(digests, kind="stable")
    return Whole(_sums(np.array(list(queries.values()), np.float64)), start, flat, digests[order], order)


def digest_of(words: Sequence[int]) -> int:
    """A number for a sequence of words (FNV-1a); equal numbers are compared word by word."""
    digest = 0xCBF29CE484222325
    for word in words:
        digest = ((digest ^ (word + 1)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


def _choices(
    table: pa.Table, columns: tuple[str, str], numbers: tuple[Mapping[str, int], Mapping[str, int]]
) -> Alternatives:
    """Alternatives among the second column for each value of the first, by count."""
    given, what = (
        np.array([known[text] for text in _texts(table, name)], np.int64)
        for name, known in zip(columns, numbers, strict=True)
    )
    counts = _counts(table)
    order = np.lexsort((-counts, given))
    start = np.searchsorted(given[order], np.arange(len(numbers[0]) + 1))
    parts = [_sums(counts[order][start[at] : start[at + 1]]) for at in range(len(numbers[0]))]
    return Alternatives(start, what[order], np.concatenate([np.zeros(0), *parts]))


def _next(table: pa.Table, number: Mapping[str, int], users: Floats) -> Alternatives:
    """Next queries; their shares are of all users of the query, so they add up to less than 1."""
    choices = _choices(table, ("query", "next_query"), (number, number))
    totals = np.zeros(len(number))
    np.add.at(totals, [number[text] for text in _texts(table, "query")], _counts(table))
    share = np.minimum(1.0, totals / np.maximum(users, 1.0)) if len(number) else totals
    return choices._replace(sums=choices.sums * np.repeat(share, np.diff(choices.start)))


def _counted(table: pa.Table, name: str) -> dict[str, float]:
    return dict(zip(_texts(table, name), _counts(table).tolist(), strict=True))


def _texts(table: pa.Table, name: str) -> list[str]:
    texts: list[str] = table[name].to_pylist()
    return texts


def _counts(table: pa.Table) -> Floats:
    """Noisy counts; a missing one is 1."""
    return np.array([1.0 if count is None else max(count, 1) for count in table["count"].to_pylist()], np.float64)


def _bytes(texts: Mapping[str, int]) -> Texts:
    parts = [text.encode() for text in texts]
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Texts(np.frombuffer(b"".join(parts) or b"\0", np.uint8), start)


def _glued(word: str) -> int:
    """By `joined`: no blank stands between two characters that are cut one by one."""
    return (joined([word[0], word[0]])[1:2] != " ") + 2 * (joined([word[-1], word[-1]])[1:2] != " ")
