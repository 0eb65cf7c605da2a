"""Findings about a log before a release is charged and after one came out empty. Private output.

Between a log without rows (or clicks) and the same log with those of one user, refusing and releasing differ with
probability 1. So nothing is refused because of rows unless its owner decides so, by an option or by an answer on the
terminal; the card of such a release lists that as unprotected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import ibis.expr.types as ir

from querycloak.errors import InputError
from querycloak.sentence import Action, Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog

_SHOWN_ACTIONS = 5
_MANY = 20
_MOST_BYTES = 1 << 28
"""Stored size of a log that is read once more before a release, for hints."""
_BOT_SHARE, _BOT_TIMES = 0.05, 50


BOTNET = Sentence(
    "a botnet of 300 accounts can put a text of its choice on top of what is released, and no guarantee for one user "
    "prevents it: leave robots out with {leave_out} before you look at results"
)


@dataclass(frozen=True)
class RowsPerUser:
    """Number of users and of their rows, and of rows that a user has: the median, the largest, users with one row."""

    users: int
    median: float
    largest: int
    one_row: int
    rows: int


def rows_per_user(log: SearchLog, rows: ir.Table) -> RowsPerUser:
    """The distribution of rows over users."""
    by_user = rows.group_by("user").agg(rows=rows.count())
    figures = by_user.agg(
        users=by_user.count(),
        median=by_user.rows.cast("float64").median(),
        largest=by_user.rows.max(),
        one_row=(by_user.rows == 1).sum(),
        rows=by_user.rows.sum(),
    )
    values = log.engine.fetch(figures).to_pylist()[0]
    return RowsPerUser(
        values["users"] or 0,
        float(values["median"] or 0),
        values["largest"] or 0,
        int(values["one_row"] or 0),
        int(values["rows"] or 0),
    )


@dataclass(frozen=True)
class EmptyGate:
    """The owner's decision about a log of which nothing would be counted.

    tell: called with the problem, without effect on the release; None for silence. ask: called with the problem, and
    returns whether to go on; None to go on. refuse: never go on. hint: called with each shape that is often a mistake,
    without effect on the release; None to look for none.
    """

    tell: Callable[[Sentence], None] | None = None
    ask: Callable[[Sentence], bool] | None = None
    refuse: bool = False
    hint: Callable[[Sentence], None] | None = None

    @property
    def decides(self) -> bool:
        """True if a release may not be made because of rows; then its card says so."""
        return self.refuse or self.ask is not None

    def check(self, log: SearchLog) -> None:
        """Tell of a problem, and raise InputError if the owner does not want to go on."""
        problem = nothing_to_count(log)
        if problem is None:
            if self.hint is not None and sum(file.size for file in log.source.files) <= _MOST_BYTES:
                for shape in hints(log, rows_per_user(log, log.asked)):
                    self.hint(shape)
            return
        if self.refuse:
            raise InputError.of(
                "private: {problem}. Nothing was charged, because of {refuse_empty:True}", problem=problem
            )
        if self.ask is not None and not self.ask(problem):
            raise InputError.of("private: {problem}. Nothing was charged or released", problem=problem)
        if self.ask is None and self.tell is not None:
            self.tell(problem)


def nothing_to_count(log: SearchLog) -> Sentence | None:
    """The reason why nothing of a log would be counted; None if there is something."""
    accounting = log.accounting()
    if not accounting.rows_kept:
        return accounting.why_none_kept()
    # The first click ends the reading.
    if log.clicks_counted and not len(log.engine.fetch(log.clicks.select("user").limit(1))):
        return _no_clicks(log)
    return None


def _no_clicks(log: SearchLog) -> Sentence:
    actions = action_counts(log)
    if not actions:
        return Sentence("no kept row has a click: check the column of urls in {columns}")
    listed = ", ".join(f"{name} ({rows:,})" for name, rows in list(actions.items())[:_SHOWN_ACTIONS])
    return Sentence(
        "no kept row has a click. Actions of its events: {listed}; name those that are clicks with {click_actions}",
        listed=listed,
    )


def action_counts(log: SearchLog) -> dict[str, int]:
    """Number of events of a UBI log by action, the most frequent first; empty for other formats. Reads the log."""
    from querycloak.logs.formats.ubi import UbiReader

    reader = log.source.reader
    if not isinstance(reader, UbiReader):
        return {}
    return reader.action_counts(
        block for part in log.source.parts(None) for block in reader.blocks(log.source.files[part.file], part)
    )


def hints(log: SearchLog, users: RowsPerUser, values: Mapping[str, int] = MappingProxyType({})) -> list[Sentence]:
    """Shapes of a log that are often mistakes; values: the number of values of each attribute, if it was counted."""
    shapes = [*_hints_on_values(users, values), *_hints_on_users(users)]
    actions = action_counts(log)
    if actions and not set(actions) & set(log.source.choices.click_actions):
        shapes.append(_no_clicks(log))
    if users.users:
        shapes.append(BOTNET)
    return shapes


def _hints_on_values(users: RowsPerUser, values: Mapping[str, int]) -> Iterator[Sentence]:
    for name, number in values.items():
        if users.users >= _MANY and number > users.users / 2:
            yield Sentence(
                "{name} has {values:,} values for {users:,} users: is it an id? Hardly any of its values is shared by "
                "enough users to come out; take a coarser column, or give its public values with {domain_of}",
                name=name,
                values=number,
                users=users.users,
            )


def _hints_on_users(users: RowsPerUser) -> Iterator[Sentence]:
    """One row for each user, one user with far more rows than the others, one row for most users."""
    if users.users >= _MANY and users.one_row == users.users:
        yield Sentence(
            "every one of {users:,} users has one row: is the column of users one of row or session ids? If it is, "
            "name another with {columns}; if it is not, {queries} fits this log",
            users=users.users,
            queries=Action("qc.Queries(...)", ("querycloak", "release", "queries")),
        )
    if (
        users.largest >= _MANY
        and users.users > 1
        and users.largest > max(_BOT_SHARE * users.rows, _BOT_TIMES * users.median)
    ):
        yield Sentence(
            "one user has {largest:,} of {rows:,} rows, where the median is {median:g}: a robot or a shared "
            "account such as guest? {leave_out} leaves users out, if you know them without looking at the log",
            largest=users.largest,
            rows=users.rows,
            median=users.median,
        )
    if users.users >= _MANY and users.users / 2 < users.one_row < users.users:
        yield Sentence(
            "{one_row:,} of {users:,} users have one row: with {max_keys_per_user:1} they count as much as the "
            "others, and keys need the fewest users to come out",
            one_row=users.one_row,
            users=users.users,
        )


def why_nothing_came_out(
    log: SearchLog, attributes: Sequence[str] = (), *, viewed: bool = False
) -> tuple[Sentence, int]:
    """The likely reason for an empty release, and the number of users of the key that most users share (0: unknown).

    attributes: those that are a part of the key. viewed: users share a pair if they saw it.
    """
    problem = None if viewed else nothing_to_count(log)
    if problem is not None:
        return problem, 0
    pairs = log.views if viewed else log.clicks if log.clicks_counted else None
    rows, names = (log.rows, ["query"]) if pairs is None else (pairs, ["query", "url"])
    what = "pair of query and url" if log.clicks_counted else "query"
    what = " and ".join([what, *attributes])
    users = rows.group_by([*names, *attributes]).agg(users=rows.user.nunique())
    most = int(log.engine.fetch(users.agg(most=users.users.max()))["most"].to_pylist()[0] or 0)
    if most < 2:
        if attributes:
            return Sentence("no {what} is shared by two users: take a coarser attribute", what=what), 0
        return Sentence("no {what} is shared by two users: is the column of users one of row ids?", what=what), 0
    return Sentence("the {what} that most users share has {most:,} users, too few here", what=what, most=most), most
