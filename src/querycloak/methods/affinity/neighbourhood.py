"""Protection of a query: its neighbours, their users and degrees (private output)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.errors import InputError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.cores import Cores, Expansion, expand_log, words_of
from querycloak.methods.affinity.cosine import neighbours_of
from querycloak.methods.affinity.expansion import UNSAFE
from querycloak.methods.affinity.method import Affinity
from querycloak.methods.affinity.ngram_concepts import GRID, users_of_words
from querycloak.methods.distinct_queries import uses_of
from querycloak.text.normalisation import normalise
from querycloak.text.spans import Spans

HIGHEST_DEGREE = 1000
SHOWN = 20
DROPPED, ALONE, EXPANDED = "a word has too few users", "no concepts", "expanded"


@dataclass(frozen=True)
class Member:
    """Queries of equal concepts in a neighbourhood."""

    query: str
    queries: int
    users: int
    cosine: float
    degree: int


@dataclass(frozen=True)
class Explained:
    """Reason that a query comes out, or does not."""

    query: str
    state: str
    own_users: int
    degree: int
    most: int
    min_users: int
    word_users: dict[str, int]
    concepts: dict[str, float]
    neighbours: int
    users: int
    members: tuple[Member, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def released(self) -> bool:
        """True if it comes out."""
        return self.degree >= self.min_users

    def to_json(self) -> dict[str, Any]:
        """The values of the report."""
        return {"private": True, "released": self.released, **asdict(self)}


def explain(method: Affinity, log: SearchLog, query: str) -> Explained:
    """Look at one query as the release would."""
    min_users = method.k
    most = max(HIGHEST_DEGREE, min_users)
    uses = uses_of(log)
    log.checked()
    expansion = expand_log(log, uses, method.concept_users, method.w, log.progress)
    expanded = expansion.expanded
    text = _as_in_the_log(log, query)
    place = pc.index(expanded.queries, text).as_py()
    if place < 0:
        raise InputError("nobody asked the query that is to be explained in this log; give one as it stands there")
    word_users = _word_users(log, uses, text)
    own, vertex = int(expanded.own_users[place]), int(expanded.vertex[place])
    if vertex < 0:
        state, degree = (DROPPED, 0) if vertex == UNSAFE else (ALONE, own)
        return Explained(text, state, own, degree, most, min_users, word_users, {}, 0, own, (), ())
    cores = Cores.of(
        expanded,
        expansion.concepts.weights,
        method.millionths,
        most,
        max_neighbours=method.max_neighbours,
        threads=log.engine.threads,
        progress=lambda share: log.progress("comparing queries", share),
    )
    return replace(_neighbourhood(cores, expansion, text, own, vertex, most, min_users), word_users=word_users)


def _word_users(log: SearchLog, uses: ir.Table, text: str) -> dict[str, int]:
    """Number of users of each word of a query, the rarest first."""
    words = list(dict.fromkeys(word for word in text.split(" ") if word))
    if not words:
        return {}
    fetched = log.engine.fetch(users_of_words(words_of(log, uses), words)).sort_by(
        [("users", "ascending"), ("x", "ascending")]
    )
    return dict(zip(fetched["x"].to_pylist(), fetched["users"].to_pylist(), strict=True))


def _as_in_the_log(log: SearchLog, query: str) -> str:
    if not log.source.choices.normalise:
        return query
    text: str = normalise(Spans.of(pa.array([query])))[0].as_py()
    return text


def _neighbourhood(
    cores: Cores, expansion: Expansion, text: str, own: int, vertex: int, most: int, min_users: int
) -> Explained:
    index, expanded = cores.index, expansion.expanded
    here = int(np.flatnonzero(index.order == vertex)[0])
    around = _neighbours(cores, here)
    degrees = cores.degrees
    # What stays in the query's own core protects it; of these the ones with the most users are shown.
    inside = around[degrees[around] >= degrees[here]]
    users = np.unique(np.concatenate([cores.users[v] for v in (here, *inside)]))
    by_users = inside[np.argsort(-cores.users.lengths[inside], kind="stable")]
    shown = np.concatenate([[here], by_users[:SHOWN]])
    place = {int(v): i for i, v in enumerate(shown)}
    edges = [(i, place[int(w)]) for v, i in place.items() for w in _neighbours(cores, v) if int(w) in place]
    names = expansion.concepts.names
    weights = expansion.concepts.weights
    concepts = {names[int(c)].as_py(): int(weights[c]) / GRID for c in expanded.concepts[vertex]}
    return Explained(
        query=text,
        state=EXPANDED,
        own_users=own,
        degree=int(degrees[here]),
        most=most,
        min_users=min_users,
        word_users={},
        concepts=concepts,
        neighbours=len(inside),
        users=len(users),
        members=tuple(_member(cores, expansion, int(v), here, text) for v in shown),
        edges=tuple(sorted(edges)),
    )


def _neighbours(cores: Cores, v: int) -> NDArray[np.int32]:
    room = np.empty(len(cores.index), np.int32)
    count = neighbours_of(v, cores.index.arrays, room)
    return np.sort(room[:count])


def _member(cores: Cores, expansion: Expansion, v: int, here: int, text: str) -> Member:
    index, expanded = cores.index, expansion.expanded
    places = np.flatnonzero(expanded.vertex == index.order[v])
    best = places[np.argmax(expanded.own_users[places])]
    common = np.intersect1d(index.vectors[v], index.vectors[here])
    cosine = index.squares[common].sum() / sqrt(int(index.norms[v]) * int(index.norms[here]))
    return Member(
        query=text if v == here else expanded.queries[int(best)].as_py(),
        queries=len(places),
        users=int(cores.users.lengths[v]),
        cosine=float(cosine),
        degree=int(cores.degrees[v]),
    )
