"""The paper's variant: every phrase's concept is replaced inside the query, all other words stay as they were typed.

What stays is released without any protection; the default variant does nothing of the kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.methods.semantic.searches import Searches
from querycloak.releases.tables import Stream
from querycloak.words.forms import as_words
from querycloak.words.query_concepts import Mentions
from querycloak.words.spans import Spans, string_array

if TYPE_CHECKING:
    from querycloak.methods.semantic.replacement import Replacement
    from querycloak.privacy.chance.randomness import Randomness


def rebuilt_queries(replacement: Replacement, searches: Searches, randomness: Randomness) -> Stream:
    """The queries in which a concept was found, each with new ones in their place; the others are discarded."""
    from querycloak.methods.semantic.replacement import coarse, rows_of

    queries = searches.queries.combine_chunks() if searches.queries is not None else pa.array([], pa.string())
    found, concepts = replacement.domains.mentions(queries)
    owner_of = np.repeat(np.arange(len(searches.users)), searches.lengths)
    owners = owner_of[found.query]
    domains, places = replacement.domains.placed(concepts)
    shares = np.bincount(owners, minlength=len(searches.users))  # m_x: concepts that are drawn, not queries
    drawn = replacement.draw(owners, domains, places, shares, randomness)
    labels = _labels(replacement, domains, drawn, _in_plural(queries, found, replacement))
    kept, texts = _rebuilt(queries, found, labels)
    numbered = texts.dictionary_encode()
    order = np.argsort(np.array(numbered.dictionary.to_pylist(), dtype=object), kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    times = coarse(searches.times[kept], replacement.method.times)
    shown = numbered.dictionary.take(pa.array(order))
    return rows_of(searches.users, owner_of[kept], shown, rank[numbered.indices.to_numpy()], times)


def plural(label: str) -> str:
    """A label with its last word in the plural, by the regular rules."""
    if label.endswith(("s", "x", "z", "ch", "sh")):
        return label + "es"
    if label.endswith("y") and label[-2:-1] not in ("", "a", "e", "i", "o", "u"):
        return label[:-1] + "ies"
    return label + "s"


def _in_plural(queries: pa.Array, found: Mentions, replacement: Replacement) -> NDArray[np.bool_]:
    """Whether the query said a label in another form than its own: nouns have no other but the plural."""
    texts = Spans.of(queries)
    starts = texts.starts[found.query]
    said = Spans(texts.data, starts + found.start, starts + found.end).strings().dictionary_encode()
    forms = [as_words(text) for text in said.dictionary.to_pylist()]
    labels = replacement.domains.finder.taxonomy.labels
    return np.array(
        [
            forms[form] != as_words(labels[label])
            for form, label in zip(said.indices.to_pylist(), found.label, strict=True)
        ],
        np.bool_,
    )


def _labels(
    replacement: Replacement, domains: NDArray[np.int32], drawn: NDArray[np.int32], in_plural: NDArray[np.bool_]
) -> pa.Array:
    whole = replacement.domains.whole(domains, drawn)
    used, where = np.unique(whole, return_inverse=True)
    texts = [replacement.domains.taxonomy.shown(int(concept)) for concept in used]
    choices = pa.array([*texts, *map(plural, texts)], pa.string())
    return choices.take(pa.array(where + in_plural * len(texts)))


def _rebuilt(queries: pa.Array, found: Mentions, labels: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """The queries with mentions, and their texts with the labels in place of what was mentioned."""
    old, new = Spans.of(queries), Spans.of(labels)
    kept, first = np.unique(found.query, return_index=True)
    bounds = np.append(first, len(found.query))
    taken = np.add.reduceat(found.end - found.start, first) if len(first) else np.empty(0, np.int64)
    given = np.add.reduceat(new.lengths, first) if len(first) else np.empty(0, np.int64)
    offsets = np.zeros(len(kept) + 1, np.int32)
    np.cumsum(old.lengths[kept] - taken + given, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    spans = old.data, old.starts[kept], old.ends[kept], new.data, new.starts, new.ends
    _write(*spans, bounds, found.start, found.end, data)
    return kept, string_array(offsets, data)


@njit(cache=True, nogil=True)
def _write(old, old_starts, old_ends, new, new_starts, new_ends, bounds, starts, ends, out):  # type: ignore[no-untyped-def]
    position = 0
    for query in range(old_starts.size):
        at = old_starts[query]
        for mention in range(bounds[query], bounds[query + 1]):
            for i in range(at, old_starts[query] + starts[mention]):
                out[position] = old[i]
                position += 1
            for i in range(new_starts[mention], new_ends[mention]):
                out[position] = new[i]
                position += 1
            at = old_starts[query] + ends[mention]
        for i in range(at, old_ends[query]):
            out[position] = old[i]
            position += 1
