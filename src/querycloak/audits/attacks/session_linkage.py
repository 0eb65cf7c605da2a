"""Session linkage: a model, learnt on other people, finds mini-sessions under different ids of one person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.attack import Finding
from querycloak.audits.attacks.record_linkage import (
    GROUP,
    GROUPS,
    NEEDS_LEARNING,
    TRAINING_USERS,
    Records,
    coarser,
    judged_pairs,
)
from querycloak.audits.audit_data import AuditData
from querycloak.evaluation.target import NO_OWNERS, Target
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import whole_table

MOST_SESSIONS = 20


class SessionLinkage:
    """Precision at given recalls, among the sessions of 50 people and among all, by words, attributes and days."""

    name: ClassVar[str] = "linkage-sessions"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """Needs sessions with known owners, and scikit-learn."""
        if "log" not in release.tables or release.rows is not RowKind.RECORDS:
            return "it has no sessions under ids of their own"
        if release.parameters.get("linked") == "user":
            return "nothing is left to link: all sessions of a person stand under one pseudonym"
        if release.owners is None:
            return NO_OWNERS
        return None if find_spec("sklearn") else NEEDS_LEARNING

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Findings with all features of a session, without attributes, without days, and with words and sites alone."""
        random = knowledge.random("linkage-sessions")
        rows = sessions_of(release)
        people = rows["user"].unique()
        for_judging = min(GROUPS, len(people) // 2 // GROUP) * GROUP
        if not for_judging:
            yield Finding.missing(f"it has sessions of fewer than {2 * GROUP} people")
            return
        drawn = people.take(pa.array(random.permutation(len(people))[: for_judging + TRAINING_USERS]))
        sides = drawn.slice(for_judging), drawn.slice(0, for_judging)
        training, judged = (
            Records.of(rows.filter(pc.is_in(rows["user"], side)), MOST_SESSIONS, random) for side in sides
        )
        for label, grouped, unit in (
            ("", True, 1),
            ("no attributes", False, 1),
            ("no days", True, 0),
            ("words", False, 0),
        ):
            if not grouped and not (training.group >= 0).any():
                continue
            seen = [coarser(each, unit) for each in (training, judged)]
            if not grouped:
                seen = [replace(each, group=np.full(len(each), -1, np.int64)) for each in seen]
            yield from judged_pairs(label, seen[0], seen[1], len(people), random)


def sessions_of(release: Target) -> pa.Table:
    """user (the true one), query (all of a session), url, time and group of attributes of each session."""
    owners = release.owners
    if owners is None:
        raise TypeError("owners of sessions are unknown")
    rows = release.table("log").group_by("user", use_threads=False)
    rows = rows.aggregate([("query", "list"), ("url", "min"), ("time", "min")])
    place = pc.index_in(rows["user"], owners["name"].combine_chunks())
    records = whole_table("log", release.cells["log"])
    names = records.column_names[6:]
    columns = {
        "user": owners["user"].combine_chunks().take(place.combine_chunks()),
        "query": pc.binary_join(rows["query_list"].combine_chunks(), " "),
        "url": rows["url_min"],
        "time": rows["time_min"],
    }
    if names:
        first = records.select(["session", *names]).group_by("session").aggregate([(name, "min") for name in names])
        values = [first[f"{name}_min"] for name in names]
        group = values[0] if len(values) == 1 else pc.binary_join_element_wise(*values, "\x1f")
        at = pc.index_in(rows["user"], first["session"].combine_chunks())
        columns["group"] = group.take(at.combine_chunks())
    return pa.table(columns).filter(pc.is_valid(columns["user"]))
