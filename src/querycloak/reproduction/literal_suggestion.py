"""Query suggestion as Zhang and Yang (2017) write it: repeats of a query are kept, and a query may be suggested itself.

Section 5.2 leaves neither out. People ask a query again when they turn a page or come back, so the query itself is then
the best suggestion. The task `suggestion` leaves both out, because suggesting what was just typed helps nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from querycloak.evaluation.kernels.graphs import Graphs
from querycloak.evaluation.kernels.similar_queries import click_index, followers, suggested
from querycloak.evaluation.numbered_logs import GAP_MINUTES, Steps
from querycloak.evaluation.rank_measures import RANK_MEASURES, scores
from querycloak.evaluation.task import CaseScores, Logs, Subject
from querycloak.evaluation.tasks.suggestion import MOST, KnownPrefixes, PreparedSuggestion, Suggestion

_NAMES = ("P@5", "R@5")
_MICROSECONDS = 60_000_000


@dataclass(frozen=True)
class LiteralSuggestion(Suggestion):
    """Every search of a session is a step, and what follows may be the same query."""

    def prepare(self, logs: Logs) -> LiterallyPrepared:
        """The prefixes of all sessions of TEST with two searches or more."""
        return LiterallyPrepared(self, logs.graphs)


class LiterallyPrepared(PreparedSuggestion):
    """The task for one TEST."""

    def __init__(self, task: Suggestion, graphs: Graphs) -> None:
        self._task, self._graphs = task, graphs
        self._cases = literal_prefixes(every_step(graphs), graphs.logs.queries)
        self._asked, self._which = np.unique(self._cases.query, return_inverse=True)

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """Five suggestions, the query itself first if it has clicks: its cosine with itself is 1."""
        logs, clicks = self._graphs.logs, self._graphs.clicks(subject)
        index, follow = click_index(clicks, logs.urls, None), followers(self._graphs.later(subject))
        lists = suggested(self._asked, index, follow, self._task.cosine_share, MOST, logs.engine.threads)
        clicked = np.diff(clicks.starts)[self._asked] > 0
        lists = np.where(clicked[:, None], np.column_stack([self._asked, lists[:, : MOST - 1]]), lists)
        shown = lists[self._which].astype(np.int32)
        for name, values in scores(_NAMES, self._cases.hits(shown)).items():
            values[shown[:, 0] < 0] = np.nan
            yield CaseScores(RANK_MEASURES[name], values, self._cases.user, units=self._cases.session)


def every_step(graphs: Graphs) -> Steps:
    """All searches of TEST, repeats too; a session begins with a user, or after a gap."""
    rows = graphs.logs.test.rows.select("user", "time", "query").distinct()
    table = graphs.logs.engine.fetch(rows.order_by(["user", "time", "query"]))
    user, query = (table[name].to_numpy() for name in ("user", "query"))
    time = table["time"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    begins = np.ones(len(user), np.bool_)
    begins[1:] = (user[1:] != user[:-1]) | (np.diff(time) > GAP_MINUTES * _MICROSECONDS)
    return Steps(user, query, begins)


def literal_prefixes(steps: Steps, queries: int) -> KnownPrefixes:
    """All proper prefixes; true are the later queries of the session, the same one among them."""
    cases = KnownPrefixes.of(steps, queries)
    at = np.searchsorted(cases.keys, cases.session * queries + cases.query)
    again = cases.last[at] > cases.place if len(at) else np.zeros(0, np.bool_)
    return replace(cases, true=cases.true + again)
