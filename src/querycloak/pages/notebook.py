"""Notebook views of profiles, guarantees, releases, evaluations and audits: small pieces of the pages.

They bring their own style, follow the notebook's colours, and say first if they are private.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import pyarrow as pa

from querycloak.audits.guarantees.method_audit import MethodAudit
from querycloak.audits.release_audit import ReleaseAudit
from querycloak.evaluation.evaluation import Evaluation
from querycloak.logs.profile import Profile
from querycloak.pages.layout import environment
from querycloak.pages.shown_text import shown_interval, shown_number, shown_share
from querycloak.privacy.guarantee import Guarantee
from querycloak.releases.release import Release
from querycloak.releases.tables import Table, batches_of

ROWS = 5
"""Number of rows shown of each table."""
MOST = 60
"""Number of rows shown of an evaluation or audit."""
Cells = Sequence[Sequence[Any]]


def _piece(title: str, *, private: bool = False, **values: Any) -> str:
    blank: dict[str, Any] = {"lines": [], "tables": [], "listed": [], "listed_title": ""}
    return environment().get_template("notebook.html").render(title=title, private=private, **{**blank, **values})


def _table(columns: Sequence[str], rows: Cells, caption: str = "") -> dict[str, Any]:
    return {"columns": columns, "rows": rows, "caption": caption}


@singledispatch
def html_of(value: object) -> str:
    """The value's piece; a value of another type is shown as text."""
    return _piece(repr(value))


@html_of.register
def _(profile: Profile) -> str:
    facts = [
        ("rows kept", f"{profile.rows_kept:,} of {profile.rows_read:,}"),
        ("users", f"{profile.users:,}"),
        ("searches", f"{profile.searches:,}"),
        ("clicks", f"{profile.clicks:,}"),
        ("distinct queries", f"{profile.distinct_queries:,}"),
        ("asked by one user alone", shown_share(profile.one_user_share)),
        ("sessions", f"{profile.sessions:,}"),
        ("words per search", shown_number(profile.words_per_query.mean)),
        ("first and last time", f"{profile.first_time} to {profile.last_time}"),
    ]
    return _piece("Profile of a log", private=True, tables=[_table(["figure", "value"], facts)])


@html_of.register
def _(guarantee: Guarantee) -> str:
    lines = guarantee.explain().split("\n\n")
    return _piece(
        f"{guarantee.kind}: {guarantee.line}",
        lines=[*lines, f"Why it holds: {guarantee.because}."],
        listed=list(guarantee.unprotected),
        listed_title="What is not protected",
    )


@html_of.register
def _(release: Release) -> str:
    tables = [_first_rows(kind, table) for kind, table in release.tables.items()]
    claimed = [] if release.claimed is None else [f"claimed by the paper: {release.claimed.line}"]
    return _piece(
        release.title,
        lines=[f"proven: {release.proven.line}", *claimed, *release.warnings],
        tables=tables,
        listed=list(release.proven.unprotected),
        listed_title="What is not protected",
    )


def _first_rows(kind: str, table: Table) -> dict[str, Any]:
    """The first rows of a table, read no further than they stand."""
    length = f", {table.num_rows:,} rows" if isinstance(table, pa.Table) else ""
    rows: list[list[Any]] = []
    for batch in batches_of(table):
        rows += [list(row.values()) for row in batch.slice(0, ROWS - len(rows)).to_pylist()]
        if len(rows) >= ROWS:
            break
    shown = [[" > ".join(cell) if isinstance(cell, list) else cell for cell in row] for row in rows]
    return _table(table.schema.names, shown, f"{kind}{length}: the first {len(shown)}")


@html_of.register
def _(evaluation: Evaluation) -> str:
    shown = [row for row in evaluation.rows if row.slice is None and row.reading == "all"]
    cells = [
        (row.task, row.measure, row.release, shown_number(row.value), _between(row.low, row.high),
         shown_share(row.answered / row.cases) if row.cases and row.answered is not None else "", row.why or "")
        for row in shown[:MOST]
    ]  # fmt: skip
    more = "" if len(shown) <= MOST else f"the first {MOST} of {len(shown)}"
    columns = ("task", "measure", "release", "all cases", "95 % interval", "answered", "why not")
    return _piece("What releases are good for", private=True, tables=[_table(columns, cells, more)])


@html_of.register
def _(audit: ReleaseAudit) -> str:
    cells = [
        (row["attack"], row["setting"] or "", row["release"], shown_share(row["main"]), shown_share(row["control"]),
         shown_share(row["risk"]), shown_interval(row["low"], row["high"]), row["why"] or "")
        for row in audit.rows[:MOST]
    ]  # fmt: skip
    more = "" if len(audit.rows) <= MOST else f"the first {MOST} of {len(audit.rows)}"
    columns = ("attack", "setting", "release", "main", "control", "risk", "95 % interval", "remark")
    return _piece(
        "What an attacker gains", private=True, lines=list(audit.alarms), tables=[_table(columns, cells, more)]
    )


@html_of.register
def _(audit: MethodAudit) -> str:
    measured, proven = audit.to_json()["measured"], audit.method.proven()
    cells = [
        ("proven", proven.line),
        ("shown by runs", f"epsilon of at least {measured['epsilon']:.3g} at delta {measured['delta']:.3g}"),
        ("runs for each log", f"{measured['runs']:,}"),
        ("could have been shown", f"epsilon {measured['ceiling']:.3g} at most"),
        ("verdict", "nothing speaks against what is proven" if audit.holds else "REFUTED"),
    ]
    return _piece(f"Audit of {audit.method.name}", tables=[_table(["", ""], cells)])


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{shown_number(low)} to {shown_number(high)}"
