"""Words, pairs and triples of words in a log's queries, counted by an engine: occurrences, searches, users.

The table of uses that everything starts from has a row for each user and query: user, query, searches.
A word is what stands between blanks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir

from querycloak.engines import Engine

LONGEST = 3
PARTS = ("x", "y", "z")


@dataclass(frozen=True)
class WordCounts:
    """word, occurrences, searches (that contain it), uses (user and query) and whether several users have it."""

    table: ir.Table
    uses: ir.Table
    engine: Engine

    @classmethod
    def of(cls, engine: Engine, uses: ir.Table) -> WordCounts:
        """Count the words once."""
        words = _words(uses)
        counted = words.group_by("x").agg(
            occurrences=words.searches.sum(),
            searches=words.searches.sum(where=words["first"]),
            uses=words["first"].sum(),
            # Told by the least and the greatest user: no set of users is kept for a word that few have.
            shared=words.user.min() != words.user.max(),
        )
        return cls(engine.stage(counted), uses, engine)

    def used_by(self, least: int) -> ir.Table:
        """Words of at least this many users: x, occurrences, searches, users (2 where two or more are asked for)."""
        if least <= 2:
            several = self.table.filter(self.table.shared)
            return several.select("x", "occurrences", "searches", users=ibis.literal(2, "int64"))
        # Users are at most as many as uses, so most words need no counting of users.
        likely = self.table.filter(self.table.uses >= least)
        exploded = _words(self.uses)
        first = exploded.filter(exploded["first"]).select("x", "user").semi_join(likely, "x")
        users = first.group_by("x").agg(users=first.user.nunique())
        enough = users.filter(users.users >= least)
        return enough.join(likely, "x").select("x", "occurrences", "searches", "users")


def users_of_words(uses: ir.Table, words: Sequence[str]) -> ir.Table:
    """x and users: the number of users of each of these words."""
    every = _words(uses)
    wanted = every.filter(every.x.isin(list(words)))
    return wanted.group_by("x").agg(users=wanted.user.nunique())


def longer_grams(uses: ir.Table, length: int, shorter: ir.Table, least: int) -> ir.Table:
    """n-grams of at least this many users, with their occurrences; both their ends must be among the shorter ones.

    An n-gram has no more users than each of its parts, so nothing is lost by that.
    """
    names = PARTS[:length]
    table = _placed(uses, length)
    grams = table.select(
        "user", "searches", **{name: table.words[table.place + offset] for offset, name in enumerate(names)}
    )
    known = shorter.select(*PARTS[: length - 1])
    for ends in (names[:-1], names[1:]):
        renamed = known.rename(dict(zip(ends, PARTS, strict=False))) if ends != names[:-1] else known
        grams = grams.semi_join(renamed, list(ends))
    counted = grams.group_by(list(names)).agg(occurrences=grams.searches.sum(), users=grams.user.nunique())
    return counted.filter(counted.users >= least)


def distinct_grams(uses: ir.Table, length: int) -> ir.Table:
    """Every n-gram of this length once."""
    table = _placed(uses, length)
    return table.select(
        **{name: table.words[table.place + offset] for offset, name in enumerate(PARTS[:length])}
    ).distinct()


def total_occurrences(uses: ir.Table) -> ir.Table:
    """One row: the number of n-grams of each length, repeats included."""
    blanks = (uses.query.length() - uses.query.replace(" ", "").length()).cast("int64")
    words = ibis.ifelse(uses.query == "", 0, blanks + 1)
    counted = uses.select("searches", words=words)
    return counted.agg(
        **{
            f"grams_{n}": ((counted.words - (n - 1)).clip(lower=0) * counted.searches).sum()
            for n in range(1, LONGEST + 1)
        }
    )


def _placed(uses: ir.Table, length: int) -> ir.Table:
    """A row for each place at which an n-gram of this length begins."""
    split = uses.filter(uses.query != "").select("user", "searches", words=uses.query.split(" "))
    enough = split.filter(split.words.length() >= length)
    places = ibis.range(0, enough.words.length() - (length - 1))
    return enough.select("user", "searches", "words", place=places.unnest())


def _words(uses: ir.Table) -> ir.Table:
    """Every word of every use, and whether it is the first of its kind in its query."""
    table = _placed(uses, 1)
    word = table.words[table.place]
    return table.select("user", "searches", x=word, first=table.words.index(word) == table.place)
