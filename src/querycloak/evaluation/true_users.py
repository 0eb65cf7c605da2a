"""Number of users of a log with each key: of all, or of those within a method's bounds (private output)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.logs import sequences
from querycloak.logs.reading.schema import MINUTE, pause_before
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.contribution_bounding import first_keys, once_per_key
from querycloak.methods.keys.public_lists import BUILT_IN
from querycloak.methods.keys.public_priors import with_prior
from querycloak.text.english import public_phrases

KEYS = {
    "queries": ("query",), "clicks": ("query", "url"), "transitions": ("query", "next_query"), "sessions": ("queries",),
}  # fmt: skip
"""The columns of a key; a sequence of queries is one text, as `logs.sequences` writes it."""
GAP_MINUTES = 30.0


def true_users(log: SearchLog, kind: str, parameters: Mapping[str, Any]) -> ir.Table:
    """The key's columns and `n`, its users, without any bound; of sequences those of two different queries."""
    contributions = _contributions(log, kind, parameters)
    return contributions.group_by(list(KEYS[kind])).agg(n=contributions.count())


def depends_on(kind: str, parameters: Mapping[str, Any]) -> tuple[object, ...]:
    """Parameters of a method that decide the true users of its keys."""
    gap = float(parameters.get("gap_minutes") or GAP_MINUTES)
    decides = {"sessions": (gap,), "transitions": (gap, _within_pool(parameters))}
    return (kind, *decides.get(kind, ()))


def unknown(kind: str, parameters: Mapping[str, Any]) -> str | None:
    """Reason that the true users of a kind of key are unknown; None if they are known."""
    if kind != "transitions" or _within_pool(parameters) or parameters.get("off_pool") or "pool" not in parameters:
        return None
    return "between two queries of a transition lies no other of the pool, and the owner's pool is not in the folder"


def _within_pool(parameters: Mapping[str, Any]) -> bool:
    return parameters.get("pool") == BUILT_IN and not parameters.get("off_pool")


def _contributions(log: SearchLog, kind: str, parameters: Mapping[str, Any]) -> ir.Table:
    """user and key, once each."""
    gap = float(parameters.get("gap_minutes") or GAP_MINUTES)
    if kind == "queries":
        return log.rows.select("user", "query").distinct()
    if kind == "clicks":
        return log.clicks.select("user", "query", "url").distinct()
    if kind == "sessions":
        return sequences.later_queries(log.sessions(gap), escape=not log.source.choices.normalise)
    return _transitions(log, gap, parameters)


def _transitions(log: SearchLog, gap_minutes: float, parameters: Mapping[str, Any]) -> ir.Table:
    """Two queries of a pool that one user asked with no other query of the pool between (query_pool.md)."""
    rows = log.rows
    if _within_pool(parameters):
        rows = rows.semi_join(log.engine.upload(public_phrases().select(["phrase"]).rename_columns(["query"])), "query")
    order = ibis.window(group_by=rows.user, order_by=[rows.time, rows.query])
    pause = pause_before(rows, [rows.time, rows.query])
    steps = rows.select("user", query=rows.query.lag().over(order), next_query=rows.query, pause=pause)
    near = steps.filter((steps.query != steps.next_query) & (steps.pause <= gap_minutes * MINUTE))
    return near.select("user", "query", "next_query").distinct()


class KeysOfMethod:
    """The keys of each user that a method counts, from its card; `unsupported_reason` is set if the card lacks it."""

    def __init__(self, method: tuple[str, str], parameters: Mapping[str, Any]) -> None:
        self._method, self._parameters = method, parameters

    def unsupported_reason(self, kind: str) -> str | None:
        """Reason that bounding cannot be told from noise here; None if it can."""
        name, variant = self._method
        if variant == "paper":
            return "the paper's variant counts records, so a user may count several times"
        if "cells_per_user" in self._parameters:
            return "cells of users are bounded, not keys"
        if kind == "sessions" and self._parameters.get("sequences") == "released":
            return "of a user's pairs the first of released queries count, which the card alone does not tell"
        known = ("queries", "clicks", "sessions", "optimal", "k-anonymity", "affinity", "original")
        apart = bool(self._parameters.get("off_pool")) and "outside" in self._parameters
        of_pool = name == "query-pool" and kind == "queries" and not apart
        if name in known or (of_pool and self._parameters.get("pool") == BUILT_IN):
            return None
        return f"what {name} lets in of a user's {kind} does not follow from its card alone"

    def unbounded(self) -> bool:
        """True if all of a user's keys count."""
        return self._method[0] in ("k-anonymity", "affinity", "original")

    def same_as(self, kind: str) -> tuple[object, ...]:
        """Cache key: methods with equal keys let in the same keys of users."""
        decisive = (
            "per_user", "sequences_per_user", "queries_per_user", "queries_per_session", "gap_minutes", "priors",
            "repeats", "pool", "off_pool",
        )  # fmt: skip
        return (kind, *(self._parameters.get(name) for name in decisive))

    def counted(self, log: SearchLog, kind: str, contributions: ir.Table, released: pa.Table) -> ir.Table:
        """The key's columns and `n`, the users counted for it; `released` are the keys that came out."""
        key, most = list(KEYS[kind]), self._of(kind, "counted_per_user")
        contributions = contributions.semi_join(log.engine.upload(released.select(key)), key)
        if most is not None:
            contributions = first_keys(contributions, key, int(most))
        return contributions.group_by(key).agg(n=contributions.count())

    def _of(self, kind: str, name: str) -> Any:
        """A parameter: the table's own, or that of all tables."""
        own = self._parameters.get(kind)
        return own[name] if isinstance(own, Mapping) and name in own else self._parameters.get(name)

    def contributions(self, log: SearchLog, kind: str) -> ir.Table:
        """user, key and earliest of what the bound lets in."""
        key, bound = KEYS[kind], "sequences_per_user" if kind == "sessions" else "per_user"
        if kind == "queries" and "queries_per_user" in self._parameters:
            bound = "queries_per_user"
        if kind == "sessions":
            most = int(self._parameters["queries_per_session"])
            sessions = sequences.session_queries(log.rows, float(self._parameters["gap_minutes"]), most)
            # Cards of earlier versions do not name repeats, and sequences with them counted.
            repeats = self._parameters.get("repeats") != "drop"
            escape = not log.source.choices.normalise
            texts = sequences.subsequences(sessions, most, escape=escape, repeats=repeats)
            keys = sequences.once_per_sequence(texts)
        else:
            rows = log.clicks if kind == "clicks" else self._asked(log)
            keys = once_per_key(rows, key)
        if self._parameters.get("priors"):
            keys = with_prior(log.engine, keys, key[0])
        return first_keys(keys, key, int(self._parameters[bound]))

    def _asked(self, log: SearchLog) -> ir.Table:
        """Queries as the method takes them; of a pool, its own queries."""
        asked = log.rows.select("user", "time", "query")
        if self._method[0] != "query-pool" or self._parameters.get("off_pool"):
            return asked
        pool = public_phrases().select(["phrase"]).rename_columns(["query"])
        return asked.semi_join(log.engine.upload(pool), "query")
