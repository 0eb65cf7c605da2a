"""Task retrieval-feedback: urls for a query by their clicks in the release, moved by clicks in TEST.

In the paper the click that moves a url is the very click by which the order is judged: that reading is circular, and
a random order does nearly as well in it. It is here, labelled so, with a random order beside it. By default
the clicks that move urls are those of other test users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from querycloak.evaluation.task import CaseScores, Logs, Subject
from querycloak.evaluation.tasks.click_retrieval import ZHANG_YANG_SINGH, ClickRetrieval, PreparedSearches
from querycloak.evaluation.tasks.implicit_feedback import NONE, OTHERS, OWN, click_ranks, ranked_urls, searches_of

SEED = 2016
_SLICES: tuple[tuple[str | None, int, bool], ...] = (
    (None, OTHERS, False),
    ("order=random", OTHERS, True),
    ("feedback=none", NONE, False),
    ("feedback=none,order=random", NONE, True),
    ("feedback=own (circular)", OWN, False),
    ("feedback=own (circular),order=random", OWN, True),
)
"""Whose clicks move urls, and whether the release's order is replaced by a random one."""


class RetrievalFeedback(ClickRetrieval):
    """The release's urls of a query by count, moved by the clicks of other test users who asked the same."""

    name: ClassVar[str] = "retrieval-feedback"
    summary: ClassVar[str] = "the urls that a user clicks for a query, by the release's counts and others' clicks"
    citation: ClassVar[str] = f"{ZHANG_YANG_SINGH}, after Agichtein, Brill & Dumais, Improving web search, SIGIR 2006"

    def prepare(self, logs: Logs) -> PreparedFeedback:
        """The searches of TEST with clicks."""
        return PreparedFeedback(logs.graphs)


class PreparedFeedback(PreparedSearches):
    """The task for one TEST."""

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """A search whose query the release has no urls for is not answered."""
        logs, cases = self._graphs.logs, self._cases
        clicks = self._graphs.clicks(subject)
        for random in (False, True):
            lists = ranked_urls(cases, clicks, np.random.default_rng(SEED) if random else None)
            searches = searches_of(cases, lists, logs.urls)
            unanswered = np.diff(lists.starts)[searches.asked] == 0
            for part, feedback, _ in (each for each in _SLICES if each[2] == random):
                found = click_ranks(searches, lists, feedback, logs.engine.threads)
                yield from self._scored(found, unanswered, part)
