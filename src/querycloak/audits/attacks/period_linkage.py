"""Linkage of periods: a log of the same people from another time, matched to released names by tf-idf profiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from querycloak.audits.attack import Finding, Share
from querycloak.audits.audit_data import AuditData, rows_of_users
from querycloak.errors import InputError
from querycloak.evaluation.target import NO_OWNERS, Target, in_pieces

Floats = NDArray[np.float64]
NO_PERIOD = "it needs a log of the same people from another time"
PEOPLE = 10_000
TOPS = (1, 10)
_ROWS_AT_ONCE = 256
_COMMON = 0.1  # words of more people than this tell nobody apart, and cost most


class PeriodLinkage:
    """Ranks the names of the release for each person of the other period, by tf-idf of queries and words."""

    name: ClassVar[str] = "linkage-periods"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:
        """Needs rows under names, a log of another time, and the owners of names to judge by."""
        if release.without_names() is not None:
            return release.without_names()
        if knowledge.other_period is None:
            return NO_PERIOD
        return None if release.owners is not None else NO_OWNERS

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """The right name is the first, or among the first ten."""
        if knowledge.other_period is None or release.owners is None:
            return
        names, users = _people(release, knowledge)
        if len(users) < 2:
            yield Finding.missing("fewer than two people of the other period are in the release")
            return
        other = knowledge.other_period
        known = other.engine.fetch(rows_of_users(other, users).select("user", "query"))
        pieces = in_pieces(release.batches("log", ["user", "query"]))
        released = pa.concat_tables([rows.filter(pc.is_in(rows["user"], names)) for rows in pieces])
        kept_names = pc.all(pc.equal(names, users)).as_py()
        above, equal = _ranks(*_profiles(known, users, released, names))
        for top in TOPS:
            # Where several are equally like, the right one is among the first with this chance.
            chance = np.clip((top - above) / equal, 0, 1)
            hits = float(len(users)) if kept_names else float(chance.sum())
            guess = min(1.0, top / len(users))
            setting = f"top {top} of {len(users)}{', same names' if kept_names else ''}"
            yield Finding.of(setting, Share.of(hits, len(users)), Share.exactly(guess), guess)


def _people(release: Target, knowledge: AuditData) -> tuple[pa.Array, pa.Array]:
    """A sample of people in both logs: their names in the release, and their user ids."""
    other = knowledge.other_period
    if other is None or release.owners is None:
        return pa.array([], pa.string()), pa.array([], pa.string())
    there = other.engine.fetch(other.rows.select("user").distinct())["user"].combine_chunks()
    both = knowledge.train_users.filter(pc.is_in(knowledge.train_users, there))
    if not len(both):
        raise InputError("the other period shares no user with TRAIN; it must be a log of the same people")
    chosen = np.sort(knowledge.random("linkage-periods").permutation(len(both))[:PEOPLE])
    users = both.take(pa.array(chosen))
    owners = release.owners.filter(pc.is_in(release.owners["user"], users)).sort_by("user")
    return owners["name"].combine_chunks(), owners["user"].combine_chunks()


def _profiles(
    known: pa.Table, users: pa.Array, released: pa.Table, names: pa.Array
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Profiles of both sides, of length 1: tf-idf of what was asked, whole and word by word."""
    sides = [_terms(known, users), _terms(released, names)]
    texts = pa.concat_arrays([side[1] for side in sides]).dictionary_encode().indices.to_numpy()
    cut = len(sides[0][1])
    columns = [texts[:cut], texts[cut:]]
    shape = (len(users), int(texts.max(initial=0)) + 1)
    counts = [
        sp.coo_matrix((np.ones(len(column)), (side[0], column)), shape).tocsr()
        for side, column in zip(sides, columns, strict=True)
    ]
    people = np.asarray(sum((each > 0).sum(axis=0) for each in counts)).ravel() / 2
    weight = np.where(people > _COMMON * len(users), 0.0, np.log(len(users) / np.maximum(people, 0.5)))
    return _weighed(counts[0], weight), _weighed(counts[1], weight)


def _terms(rows: pa.Table, people: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Person and text of every query and of every word in one."""
    person = pc.index_in(rows["user"], people).to_numpy().astype(np.int64)
    query = rows["query"].combine_chunks()
    words = pc.utf8_split_whitespace(query)
    within = pc.list_parent_indices(words).to_numpy()
    # A query of one word and the word in it are two things.
    whole = pc.binary_join_element_wise("=", query, "")
    return np.concatenate([person, person[within]]), pa.concat_arrays([whole, words.flatten().cast(pa.string())])


def _weighed(counts: sp.csr_matrix, weight: Floats) -> sp.csr_matrix:
    counts.data = np.log1p(counts.data)
    weighed = counts @ sp.diags(weight)
    lengths = np.sqrt(np.asarray(weighed.multiply(weighed).sum(axis=1)).ravel())
    made: sp.csr_matrix = (sp.diags(1 / np.maximum(lengths, 1e-12)) @ weighed).tocsr()
    made.eliminate_zeros()
    return made


def _ranks(known: sp.csr_matrix, released: sp.csr_matrix) -> tuple[Floats, Floats]:
    """By person: names more similar to the known profile than the right one, and names as similar."""
    above, equal = np.zeros(known.shape[0]), np.zeros(known.shape[0])
    across = released.T.tocsr()
    for first in range(0, known.shape[0], _ROWS_AT_ONCE):
        likeness = (known[first : first + _ROWS_AT_ONCE] @ across).toarray()
        rows = np.arange(len(likeness))
        own = likeness[rows, first + rows][:, None]
        near = np.isclose(likeness, own, rtol=1e-9, atol=1e-12)
        equal[first + rows] = near.sum(axis=1)
        above[first + rows] = ((likeness > own) & ~near).sum(axis=1)
    return above, equal
