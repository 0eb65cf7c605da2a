"""The concept that stands for a query, and concepts that k users share each (generalize.md, steps 1 and 2).

Figures are true and private until something is released. On a cluster fewer than k users of each small concept come to
one machine: a concept with k users of its own is kept in any case, so k numbers stand for its users.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.methods.distinct_queries import gather, sorted_uses
from querycloak.text.compiled import kernel
from querycloak.text.english import STOP_WORDS
from querycloak.text.lexicon import Lexicon, find, spans_of
from querycloak.text.lists import Lists, sorted_sets
from querycloak.text.spans import Spans
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.wordnet import wordnet

UNMATCHED = -1
LONGEST = 4
_MOST_WORDS = 1024
_FULL = "ful"


class Matcher:
    """All forms of all labels, with the first sense of each."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        known = {form: taxonomy.base(form) for form in _forms(taxonomy)}
        forms = {form: label for form, label in known.items() if label is not None and form not in STOP_WORDS}
        self._forms = Lexicon.of(pa.array(list(forms), pa.string()))
        self._concepts = np.array([taxonomy.concepts(label)[0] for label in forms.values()], np.int32)

    def concepts(self, texts: Spans) -> NDArray[np.int32]:
        """The concept of each query, or UNMATCHED."""
        return self.matches(texts)[0]

    def matches(self, texts: Spans) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """The concept of each query, how many of its words it covers, and how many words there are."""
        concepts, covered, words = (np.empty(len(texts), np.int32) for _ in range(3))
        _match(*spans_of(texts), *self._forms.table, self._concepts, concepts, covered, words)
        return concepts, covered, words


@lru_cache(maxsize=1)
def matcher_of(taxonomy: Taxonomy) -> Matcher:
    """The matcher of a taxonomy, made once: all forms of WordNet's labels take seconds."""
    return Matcher(taxonomy)


def _forms(taxonomy: Taxonomy) -> Iterator[str]:
    """The labels, and the forms that English morphology reduces to one (text/english.py, backwards)."""
    yield from taxonomy.labels
    yield from taxonomy.exceptions
    for label in taxonomy.labels:
        stem, tail = (label[:-3], _FULL) if label.endswith(_FULL) else (label, "")
        yield stem + "s" + tail
        if stem.endswith(("s", "x", "z", "ch", "sh")):
            yield stem + "es" + tail
        if stem.endswith("man"):
            yield stem[:-2] + "en" + tail
        if stem.endswith("y"):
            yield stem[:-1] + "ies" + tail


@njit(cache=True, nogil=True)
def _match(data, starts, ends, slots, form_texts, form_ends, form_concepts, concepts, covered, words):  # type: ignore[no-untyped-def]
    begins, finishes = np.empty(_MOST_WORDS, np.int64), np.empty(_MOST_WORDS, np.int64)
    for row in range(starts.size):
        count = _split(data, starts[row], ends[row], begins, finishes)
        concepts[row], covered[row], words[row] = UNMATCHED, 0, count
        for length in range(min(LONGEST, count), 0, -1):
            # From the right, where the head of an English phrase stands.
            for first in range(count - length, -1, -1):
                slot = find(data, begins[first], finishes[first + length - 1], slots, form_texts, form_ends)
                if slots[slot] >= 0:
                    concepts[row], covered[row] = form_concepts[slots[slot]], length
                    break
            if covered[row]:
                break


@kernel
def _split(data, start, end, begins, finishes):  # type: ignore[no-untyped-def]
    """Starts and ends of words; words beyond the limit are ignored."""
    count, begin = 0, start
    for i in range(start, end + 1):
        if i == end or data[i] == 32:
            if i > begin and count < begins.size:
                begins[count], finishes[count] = begin, i
                count += 1
            begin = i + 1
    return count


MATCHES = pa.schema({"query": pa.string(), "concept": pa.int32()})


def matches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task of an executor: queries with the concepts of WordNet that they match."""
    for batch in batches:
        queries = batch.column("query")
        concepts = matcher_of(wordnet()).concepts(Spans.of(queries))
        matched = pa.record_batch([queries, pa.array(concepts)], schema=MATCHES)
        yield matched.filter(pa.array(concepts != UNMATCHED))


def renamings(engine: Engine, uses: ir.Table, taxonomy: Taxonomy, least: int) -> ir.Table:
    """query and concept, in the engine, for the queries that come out; the taxonomy is WordNet's."""
    matched = engine.stage(engine.mapped(uses.select("query").distinct(), matches, MATCHES))
    pairs = engine.stage(uses.join(matched, "query").select("concept", "user").distinct())
    becomes = cut(Tree.of(taxonomy), *_users(engine, pairs, len(taxonomy), least), least)
    kept = np.flatnonzero((becomes >= 0) & (becomes != taxonomy.root))
    shown = pa.array([taxonomy.shown(concept) for concept in becomes[kept]], pa.string())
    names = engine.upload(pa.table({"concept": pa.array(kept.astype(np.int32)), "shown": shown}))
    return engine.stage(matched.join(names, "concept").select("query", concept="shown"))


def _users(engine: Engine, pairs: ir.Table, concepts: int, least: int) -> tuple[Lists, int]:
    """The users of each concept, as numbers, and how many numbers there are."""
    counted = pairs.group_by("concept").agg(n=pairs.count())
    many = engine.fetch(counted.filter(counted.n >= least).select("concept"))["concept"].to_numpy()
    few = engine.fetch(pairs.semi_join(counted.filter(counted.n < least), "concept"))
    lexicon = Lexicon()
    numbers = lexicon.add_all(few["user"])
    owners = np.concatenate([few["concept"].to_numpy(), np.repeat(many, least)])
    values = np.concatenate([numbers, np.tile(np.arange(least, dtype=np.int32), len(many))])
    return Lists.of_pairs(owners, values, concepts), max(len(lexicon), least)


@dataclass(frozen=True, eq=False)
class Generalised:
    """Queries with their own concepts, and what is needed to cut for any k."""

    queries: pa.ChunkedArray
    own_users: NDArray[np.int32]
    concepts: NDArray[np.int32]
    users_of_concepts: Lists
    number_of_users: int
    tree: Tree

    def becomes(self, least: int) -> NDArray[np.int32]:
        """The concept that stands for each query if each needs this many users; -1 for none."""
        of_concept = cut(self.tree, self.users_of_concepts, self.number_of_users, least)
        return np.where(self.concepts == UNMATCHED, -1, of_concept[self.concepts]).astype(np.int32)


def generalise(engine: Engine, uses: ir.Table, taxonomy: Taxonomy) -> Generalised:
    """Match every query."""
    gathered = gather(engine.stream(sorted_uses(uses)), matcher_of(taxonomy).concepts)
    of_concepts = sorted_sets(gathered.use_numbers, gathered.use_users, len(taxonomy))
    tree = Tree.of(taxonomy)
    return Generalised(
        gathered.queries, gathered.own_users, gathered.numbers, of_concepts, gathered.number_of_users, tree
    )


Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Tree:
    """A taxonomy in which each concept has its first parent only; the root is its own."""

    parents: Numbers
    root: int

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> Tree:
        """The tree of a taxonomy."""
        lists = taxonomy.parents_of
        first = lists.values[np.minimum(lists.starts[:-1], max(0, len(lists.values) - 1))]
        parents = first.astype(np.int32)
        parents[taxonomy.root] = taxonomy.root
        return cls(parents, taxonomy.root)

    @cached_property
    def top_down(self) -> NDArray[np.int64]:
        """The concepts in an order with parents before children."""
        depths, above = np.zeros(len(self.parents), np.int32), self.parents
        while (above != self.root).any():
            depths += above != self.root
            above = self.parents[above]
        depths += np.arange(len(self.parents)) != self.root
        return np.argsort(depths, kind="stable")

    @cached_property
    def leaves_under(self) -> Numbers:
        """Number of leaves under each concept; a leaf counts as one."""
        inner = np.zeros(len(self.parents), np.bool_)
        inner[np.delete(self.parents, self.root)] = True
        counts = (~inner).astype(np.int32)
        _add_up(self.top_down, self.parents, self.root, counts)
        return counts


def cut(tree: Tree, users_of_concepts: Lists, number_of_users: int, least: int) -> Numbers:
    """Replacement of each concept: the first at or above it with enough users; -1 if there is none.

    A concept's users are its own and those of the concepts below it that have too few.
    """
    seen = np.full(number_of_users + 1, -1, np.int64)
    enough = _enough(tree.top_down, tree.parents, users_of_concepts.starts, users_of_concepts.values, least, seen)
    becomes = np.where(enough, np.arange(len(tree.parents)), -1).astype(np.int32)
    _inherit(tree.top_down, tree.parents, becomes)
    return becomes


@kernel
def _add_up(top_down, parents, root, counts):  # type: ignore[no-untyped-def]
    for i in range(top_down.size - 1, -1, -1):
        if top_down[i] != root:
            counts[parents[top_down[i]]] += counts[top_down[i]]


@njit(cache=True, nogil=True)
def _enough(top_down, parents, starts, users, least, seen):  # type: ignore[no-untyped-def]
    """Flags of the concepts that keep their users; others, from the leaves up, pass them to their parents."""
    enough = np.zeros(parents.size, np.bool_)
    # Of each concept the last child that handed up, of each child the one before it, and where its users are listed.
    last_child, child_before = np.full(parents.size, -1, np.int64), np.full(parents.size, -1, np.int64)
    begins, ends = np.zeros(parents.size, np.int64), np.zeros(parents.size, np.int64)
    listed, used = np.empty(1024, np.int32), 0
    for step in range(top_down.size - 1, -1, -1):
        concept = top_down[step]
        begins[concept] = used
        for i in range(starts[concept], starts[concept + 1]):
            listed, used = _with(users[i], concept, seen, listed, used)
        child = last_child[concept]
        while child >= 0:
            for i in range(begins[child], ends[child]):
                listed, used = _with(listed[i], concept, seen, listed, used)
            child = child_before[child]
        if used - begins[concept] >= least:
            enough[concept] = True
            used = begins[concept]
        elif used > begins[concept] and parents[concept] != concept:
            ends[concept] = used
            child_before[concept] = last_child[parents[concept]]
            last_child[parents[concept]] = concept
    return enough


@njit(cache=True, nogil=True)
def _with(user, concept, seen, listed, used):  # type: ignore[no-untyped-def]
    """Add a user to the list of a concept, once."""
    if seen[user] == concept:
        return listed, used
    seen[user] = concept
    if used == listed.size:
        larger = np.empty(2 * used, np.int32)
        for i in range(used):  # putting it there at once would take longer to compile than all the rest
            larger[i] = listed[i]
        listed = larger
    listed[used] = user
    return listed, used + 1


@kernel
def _inherit(top_down, parents, becomes):  # type: ignore[no-untyped-def]
    for concept in top_down:
        if becomes[concept] < 0 and parents[concept] != concept:
            becomes[concept] = becomes[parents[concept]]
