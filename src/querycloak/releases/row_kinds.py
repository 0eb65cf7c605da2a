"""Kinds of rows in a table `log`: the meaning of the query in a row.

The value of a kind is the word that cards hold under `rows`.
"""

from __future__ import annotations

from enum import StrEnum

_TOO_FEW = "what too few people asked is missing, and the rest is as described below"


class RowKind(StrEnum):
    """Kind of a row's query, with the uses of such rows and their difference from the log."""

    query: str
    good_for: str
    changed: str

    def __new__(cls, value: str, query: str = "", good_for: str = "", changed: str = "") -> RowKind:
        """Make a member from its word and three phrases for people."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.query, member.good_for, member.changed = query, good_for, changed
        return member

    ASKED = (
        "asked",
        "what was asked",
        "studies of how single users search, in what came out",
        _TOO_FEW,
    )
    ALIKE = (
        "alike",
        "what was asked, by one person alone perhaps",
        "studies of how people refine queries, and of rare queries",
        "queries are missing unless enough people asked them or others much like them, and user names were replaced",
    )
    GENERALISED = (
        "generalised",
        "the label of a concept that takes in what was asked",
        "counting what kinds of things people look for; as a baseline",
        "every search became the most specific concept that enough people share, and those without one are missing",
    )
    REPLACED = (
        "replaced",
        "what was drawn in place of what was asked",
        "topics and kinds of things that people look for, taken over many rows; trying out software",
        "every query was replaced by a concept that was drawn at random, more often one of a similar meaning. A row "
        "may be what somebody asked, or anything else: read how often topics and kinds of things occur, never a single "
        "row",
    )
    RANDOMISED = (
        "randomised",
        "what was asked or, at random, another query that many people asked; (other): none of these",
        "what people ask, taken over many rows; trying out software",
        "every query became one of a list that enough people asked, or (other). A row may be what its user asked, or "
        "was drawn in its place: read how often queries occur, never a single row",
    )
    REBUILT = (
        "rebuilt",
        "what was asked, with other concepts in place of its own; the words around them are as they were typed",
        "comparing with the published method",
        "within each query, concepts were replaced by others, drawn at random among those of a similar meaning. All "
        "other words are somebody's own",
    )
    NOISED = (
        "noised",
        "the label of a concept, as often as noise decided",
        "a baseline; topics that people look for, taken over many users",
        "noise was added to how often each user asked for each concept. A row may be what somebody asked, or noise "
        "alone",
    )
    DRAWN = (
        "drawn",
        "what was asked",
        "comparing with the published method",
        "a few rows of real users were drawn from it, under other names",
    )
    RECORDS = (
        "records",
        "what was asked, in one session with the rows beside it",
        "ranking from clicks and views, click models, query suggestion, completion",
        "queries with a word that too few people used, or with too many words, are missing, and rows stand in sessions "
        "under made-up ids; the parameters below say how sessions were cut and attributes generalised",
    )
    MADE_UP = (
        "made-up",
        "what a made-up user asked; real people asked it too, enough of them",
        "totals, which pairs go together, how many pairs users have; trying out software",
        "its users were made up from noisy totals. What too few people share is missing, and no user is a real person",
    )
    COMPOSED = (
        "composed",
        "what a made-up user asked: a query that enough people asked, or one put together from their words",
        "software that wants a log (click models, completion, load tests, teaching); lengths of sessions, hours, ranks",
        "its users, sessions and times were made up from noisy parts. Queries may be put together from words that "
        "enough people used; one that coincides with a real query, or spells a name, is no evidence that anybody asked "
        "it. No user is a real person",
    )

    @property
    def is_verbatim(self) -> bool:
        """True if a row's query is a text as people type it, not a label or a concept in its place."""
        return self in (RowKind.ASKED, RowKind.ALIKE, RowKind.DRAWN, RowKind.RECORDS, RowKind.MADE_UP, RowKind.COMPOSED)

    @property
    def is_personal(self) -> bool:
        """True if the rows under one name come from one person of the log."""
        return self not in (RowKind.MADE_UP, RowKind.COMPOSED)

    @property
    def is_random(self) -> bool:
        """True if the whole text of every row was drawn at random, so that single rows can be denied."""
        return self in (RowKind.REPLACED, RowKind.RANDOMISED, RowKind.NOISED)
