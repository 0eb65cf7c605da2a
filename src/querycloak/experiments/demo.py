"""The demo: a synthetic log, released in every way there is, side by side, its secrets counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.method import Affinity
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.generalize.method import Generalize
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.queries.method import Queries
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.sessions.method import Sessions
from querycloak.releases.release import Release

USERS = 5_000
EPSILON, DELTA = 8.0, 1e-6
FEW = 5
_TEXTS = ("query", "next_query", "queries")
_OTHER_TEXTS = ("replaced", "generalised")


@dataclass(frozen=True)
class Compared:
    """One way of releasing the demo's log, and what is left of it: true figures, but of an invented log."""

    title: str
    method: Method | None
    rows: int
    queries: int
    searches: float | None  # the share of searches whose query came out; None where other texts stand for queries
    of_few: int | None  # queries that fewer than five users asked
    secrets: int | None


def demo_methods() -> dict[str, Method]:
    """What the demo compares."""
    return {
        "k-anonymity": KAnonymity(min_users=FEW, keys="queries"),
        "affinity": Affinity(min_users=FEW),
        "generalize": Generalize(min_users=FEW),
        "queries": Queries(epsilon=EPSILON, delta=DELTA),
        "clicks, published": Clicks(epsilon=EPSILON, delta=DELTA, variant="paper"),
        "clicks": Clicks(epsilon=EPSILON, delta=DELTA),
        "sessions": Sessions(epsilon=EPSILON, delta=DELTA),
        "query-pool": QueryPool(epsilon=EPSILON),
        "optimal": Optimal(epsilon=EPSILON, delta=DELTA),
        "semantic": Semantic(epsilon=EPSILON, domain="abstraction", max_queries=4),
    }


def compare(
    log: SearchLog, truth: Path, out: Path | None, on_method: Callable[[str], None] = lambda _: None
) -> Iterator[Compared]:
    """Release the log with each method; keep the releases if there is a folder for them."""
    facts = _Facts(log, truth)
    yield facts.of(
        "the log itself", None, facts.users["query"], log.engine.fetch(log.rows.count().as_table())[0][0].as_py()
    )
    for title, method in demo_methods().items():
        on_method(title)
        release = method.release(log)
        if out is not None:
            release.save(out / title.replace(", ", "-").replace(" ", "-"))
        texts, rows = _texts(release)
        if release.rows in _OTHER_TEXTS:  # which are the log's own queries by chance alone
            yield Compared(title, method, rows, len(pc.unique(texts)), None, None, None)
        else:
            yield facts.of(title, method, texts, rows)


def _texts(release: Release) -> tuple[pa.Array, int]:
    """The queries that a release tells, and how many rows it has."""
    found: list[pa.Array] = []
    rows = 0
    for name in release.tables:
        table = release.table(name)
        rows += table.num_rows
        for column in set(_TEXTS) & set(table.column_names):
            values = table[column].combine_chunks()
            found.append(values.flatten() if pa.types.is_list(values.type) else values)
    return pa.concat_arrays([pa.array([], pa.string()), *found]), rows


class _Facts:
    """The truth about the log: who asked what, and what was planted."""

    def __init__(self, log: SearchLog, truth: Path) -> None:
        searches = log.searches
        asked = searches.group_by("query").agg(users=searches.user.nunique(), searches=searches.count())
        self.users: pa.Table = log.engine.fetch(asked)
        self.planted = pq.read_table(truth / "sensitive.parquet")["query"]

    def of(self, title: str, method: Method | None, texts: pa.Array, rows: int) -> Compared:
        """What a release of these texts keeps and tells."""
        known = self.users.filter(pc.is_in(self.users["query"], texts))
        whole = pc.sum(self.users["searches"]).as_py()
        return Compared(
            title=title,
            method=method,
            rows=rows,
            queries=len(pc.unique(texts)),
            searches=(pc.sum(known["searches"]).as_py() or 0) / whole,
            of_few=pc.sum(pc.less(known["users"], FEW)).as_py() or 0,
            secrets=pc.sum(pc.is_in(self.planted, texts)).as_py() or 0,
        )
