"""Who holds which key: the one thing that every selection reads, as flat arrays of numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.logs.searchlog import SearchLog
from querycloak.logs.sequences import as_lists
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.queries.method import Queries
from querycloak.methods.sessions.method import Sessions

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Holdings:
    """Entry i says that user `user[i]` holds key `key[i]`; a user's entries stand together, in their order.

    parts: what each key is made of, padded by -1: the items of a sequence, the query of a clicked pair; or None.
    """

    user: Ints
    key: Ints
    users: int
    keys: int
    parts: Ints | None = None

    @cached_property
    def place(self) -> Ints:
        """Where each entry stands among those of its user, from 0 on."""
        starts = np.flatnonzero(np.r_[True, self.user[1:] != self.user[:-1]]) if self.user.size else np.zeros(0, int)
        return np.asarray(np.arange(self.user.size) - np.repeat(starts, np.diff(np.r_[starts, self.user.size])))

    @cached_property
    def holders(self) -> Ints:
        """How many users hold each key."""
        return np.bincount(self.key, minlength=self.keys)

    def kept(self, mask: NDArray[np.bool_]) -> Holdings:
        """These entries alone; numbers of users and keys stay as they are."""
        return Holdings(self.user[mask], self.key[mask], self.users, self.keys, self.parts)

    def first(self, most: int) -> Holdings:
        """The first entries of each user."""
        return self.kept(self.place < most)

    def of_users(self) -> Ints:
        """How many entries each user has."""
        return np.bincount(self.user, minlength=self.users)


def holdings_of(
    users: pa.ChunkedArray, keys: pa.ChunkedArray, order: list[pa.ChunkedArray]
) -> tuple[Holdings, pa.Array]:
    """The holdings of a table of users and keys, and the texts of its keys by their number."""
    named, coded = _coded(users)[0], _coded(keys)
    table = pa.table({"user": named, "key": coded[0], **{f"by{i}": each for i, each in enumerate(order)}})
    table = table.sort_by([("user", "ascending"), *((f"by{i}", "ascending") for i in range(len(order)))])
    user, key = (table[name].to_numpy().astype(np.int64) for name in ("user", "key"))
    return Holdings(user, key, int(user.max(initial=-1)) + 1, len(coded[1])), coded[1]


def _coded(column: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    encoded = pc.dictionary_encode(column.combine_chunks())
    return encoded.indices, encoded.dictionary


def clicks_of(log: SearchLog) -> Holdings:
    """Pairs of query and url, each user's in order of time."""
    rows = log.engine.fetch(Clicks(epsilon=1.0, delta=1e-6, max_keys_per_user=256).contributions(log)["clicks"])
    pairs = pc.binary_join_element_wise(rows["query"], rows["url"], "\t")
    held, texts = holdings_of(rows["user"], pairs, [rows["earliest"], rows["query"], rows["url"]])
    queries = pc.dictionary_encode(pc.list_element(pc.split_pattern(texts, "\t"), 0)).indices
    return replace(held, parts=queries.to_numpy().astype(np.int64)[:, None])


def queries_of(log: SearchLog) -> Holdings:
    """Queries, each user's in order of time."""
    rows = log.engine.fetch(Queries(epsilon=1.0, delta=1e-6, max_keys_per_user=256).contributions(log)["queries"])
    return holdings_of(rows["user"], rows["query"], [rows["earliest"], rows["query"]])[0]


def sessions_of(log: SearchLog) -> Holdings:
    """Sequences of two or three queries of a session, each user's in order of time."""
    method = Sessions(no_clicks=True, epsilon=1.0, delta=1e-6, selection="multi-round", sessions_per_user=32)
    rows = log.engine.fetch(method.contributions(log)["sessions"])
    held, texts = holdings_of(rows["user"], rows["queries"], [rows["earliest"], rows["queries"]])
    queries = as_lists(texts)
    items = pc.dictionary_encode(queries.flatten()).indices.to_numpy().astype(np.int64)
    starts = queries.offsets.to_numpy()[:-1] - queries.offsets.to_numpy()[0]
    lengths = pc.list_value_length(queries).to_numpy()
    parts = np.full((len(texts), int(lengths.max(initial=0))), -1, np.int64)
    for place in range(parts.shape[1]):
        inside = lengths > place
        parts[inside, place] = items[starts[inside] + place]
    return Holdings(held.user, held.key, held.users, held.keys, parts)


def glosses_of(folder: Path) -> Holdings:
    """WordNet's definitions as users, the words in them as keys: a public text collection (Debian: wordnet-base)."""
    users: list[int] = []
    words: list[str] = []
    documents = 0
    for name in ("adj", "adv", "noun", "verb"):
        for line in (folder / f"data.{name}").read_text("ascii").splitlines():
            if line.startswith("  "):  # the licence
                continue
            found = list(dict.fromkeys(WORD.findall(line.partition(" | ")[2].lower())))
            users += [documents] * len(found)
            words += found
            documents += 1
    order = pa.chunked_array([pa.array(np.arange(len(words)))])
    return holdings_of(pa.chunked_array([users]), pa.chunked_array([words]), [order])[0]
