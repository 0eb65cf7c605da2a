"""Contributions of users to counts of query sequences, and the released lists (sessions.md)."""

from __future__ import annotations

import ibis.expr.types as ir
import pyarrow as pa

from querycloak.logs import sequences
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.sessions.joint_plans import CHARACTERS_PER_USER, SessionBounds


def sequences_of(log: SearchLog, bounds: SessionBounds, gap_minutes: float, *, repeats: bool) -> ir.Table:
    """Each user's distinct subsequences of sessions."""
    sessions = kept_sessions(log, gap_minutes, bounds.queries)
    return sequences.once_per_sequence(subsequences(log, sessions, bounds, repeats=repeats))


def subsequences(log: SearchLog, sessions: ir.Table, bounds: SessionBounds, *, repeats: bool) -> ir.Table:
    """The subsequences of these sessions, up to the characters of a user; repeats: see `logs.sequences`."""
    sessions = sequences.affordable_sessions(sessions, bounds.queries, CHARACTERS_PER_USER)
    escape = not log.source.choices.normalise
    return sequences.subsequences(sessions, bounds.queries, escape=escape, repeats=repeats)


def kept_sessions(log: SearchLog, gap_minutes: float, most: int) -> ir.Table:
    """The first queries of each session. The log is read once, also if fewer of them are asked for later."""
    name = ("session queries", gap_minutes)
    if name not in log.kept or f"q{most - 1}" not in log.kept[name].columns:
        log.kept[name] = log.engine.stage(sequences.session_queries(log.rows, gap_minutes, most))
    return log.kept[name].select("user", "began", *(f"q{i}" for i in range(most)))


def with_lists(released: pa.Table) -> pa.Table:
    """The released sequences as lists of queries."""
    return released.set_column(
        released.column_names.index("queries"), "queries", sequences.as_lists(released["queries"])
    )
