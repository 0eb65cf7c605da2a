"""The coded checks of a log's rows: one function and one line of docs each.

Codes from L101 are bad rows, counted against `--max-bad`, except L106: many sound logs have empty
searches (12 % of Excite's), and these do not show that it was read in a wrong way. Codes from L201 are rows left
out on purpose, by the format's own rules or by the owner's choices. A row has one code, the first that applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.logs.choices import Choices, microseconds
from querycloak.text.spans import Mask, Spans

Codes = NDArray[np.int16]
LONGEST_FIELD = 1 << 16

KEPT = 0
MISSING_USER = 101
UNREADABLE_TIME = 102
WRONG_FIELDS = 103
UNDECODABLE = 104
OVERLONG = 105
EMPTY_QUERY = 106
CLICK_WITHOUT_QUERY = 107
UNREADABLE_RANK = 108
NOT_AN_OBJECT = 109
CLICK_OF_ANOTHER = 110
OTHER_FORMAT = 111
UNREADABLE_CLICKED = 112
OUTSIDE_TIME_RANGE = 201
OTHER_APPLICATION = 202
USER_LEFT_OUT = 203
OTHER_ACTION = 204
REPEATED_QUERY_ID = 205

MEANINGS: dict[int, str] = {
    MISSING_USER: "missing user",
    UNREADABLE_TIME: "unreadable time",
    WRONG_FIELDS: "wrong number of fields",
    UNDECODABLE: "not decodable",
    OVERLONG: "overlong field",
    EMPTY_QUERY: "empty query",
    CLICK_WITHOUT_QUERY: "click without its query",
    UNREADABLE_RANK: "unreadable rank of a click",
    NOT_AN_OBJECT: "not a JSON object of a known kind",
    CLICK_OF_ANOTHER: "click by another user than its query's",
    OTHER_FORMAT: "written as another format has it",
    UNREADABLE_CLICKED: "clicked that is neither true nor false",
    OUTSIDE_TIME_RANGE: "outside the time range chosen",
    OTHER_APPLICATION: "of an application not chosen",
    USER_LEFT_OUT: "of a user left out by choice",
    OTHER_ACTION: "event that is not a click",
    REPEATED_QUERY_ID: "later copy of a query id",
}


def code_name(code: int) -> str:
    """`L103` of 103."""
    return f"L{code}"


def is_bad(code: int) -> bool:
    """True if rows of this code count against `--max-bad`."""
    return 100 < code < 200 and code != EMPTY_QUERY


class Clicked(NamedTuple):
    """True for clicked results; and the rows that do not say it."""

    values: Mask
    unreadable: Mask


@dataclass
class Candidates:
    """The rows of a block on their way into the log, column by column."""

    user: Spans
    time: NDArray[np.int64]
    time_readable: Mask
    query: pa.StringArray
    url: Spans
    rank: NDArray[np.int32]
    rank_readable: Mask
    rank_present: Mask
    choices: Choices
    undecodable: Mask
    overlong: Mask
    wrong_fields: Mask
    fields: NDArray[np.int32]
    application: pa.StringArray | None = None
    not_an_object: Mask | None = None
    other_action: Mask | None = None
    user_known_later: bool = False
    query_elsewhere: Mask | None = None
    attributes: Mapping[str, Spans] = field(default_factory=dict)
    """Texts of the attributes that the owner named; an empty one is missing."""
    clicked: Clicked | None = None
    """Clicks in a log with a row for each result shown; None: every row with a url is a click."""
    shown: pa.ListArray | None = None
    """Results shown for the search of each row; None: not read."""

    def __len__(self) -> int:
        return len(self.user)


def overlong(rows: Candidates) -> Mask:
    """L105: a field longer than 64 KiB, or a record longer than 4 MiB."""
    return rows.overlong


def undecodable(rows: Candidates) -> Mask:
    """L104: bytes that the log's encoding does not allow."""
    return rows.undecodable


def not_an_object(rows: Candidates) -> Mask:
    """L109: a line that is not a JSON object, or one of no known kind."""
    return _none(rows) if rows.not_an_object is None else rows.not_an_object


def other_action(rows: Candidates) -> Mask:
    """L204: an event whose action `--click-actions` does not name."""
    return _none(rows) if rows.other_action is None else rows.other_action


def wrong_fields(rows: Candidates) -> Mask:
    """L103: more or fewer fields than the format has, or a JSON object without a query's key."""
    return rows.wrong_fields


def missing_user(rows: Candidates) -> Mask:
    """L101: no user id, so the row cannot be counted for anybody."""
    return _none(rows) if rows.user_known_later else rows.user.lengths == 0


def unreadable_time(rows: Candidates) -> Mask:
    """L102: a time that cannot be read or does not exist."""
    return ~rows.time_readable


def empty_query(rows: Candidates) -> Mask:
    """L106: nothing left of the query after normalisation."""
    empty = _mask(pc.equal(pc.binary_length(rows.query), 0))
    return empty if rows.query_elsewhere is None else empty & ~rows.query_elsewhere


def unreadable_rank(rows: Candidates) -> Mask:
    """L108: a click with a rank that is not a whole number."""
    return rows.rank_present & ~rows.rank_readable & (rows.url.lengths > 0)


def unreadable_clicked(rows: Candidates) -> Mask:
    """L112: neither true nor false (nor 1, 0, yes, no) in the column `clicked`; an empty one is false."""
    return _none(rows) if rows.clicked is None else rows.clicked.unreadable


def outside_time_range(rows: Candidates) -> Mask:
    """L201: before `--since`, or at or after `--until`."""
    since, until = rows.choices.since, rows.choices.until
    outside = _none(rows)
    if since is not None:
        outside |= rows.time < microseconds(since)
    if until is not None:
        outside |= rows.time >= microseconds(until)
    return outside


def other_application(rows: Candidates) -> Mask:
    """L202: from an application that `--applications` does not name."""
    if not rows.choices.applications or rows.application is None:
        return _none(rows)
    return ~_mask(pc.is_in(rows.application, pa.array(rows.choices.applications)))


def user_left_out(rows: Candidates) -> Mask:
    """L203: of a user whom `--leave-out` names."""
    if not rows.choices.leave_out or rows.user_known_later:
        return _none(rows)
    return _mask(pc.is_in(rows.user.strings(), pa.array(sorted(rows.choices.leave_out))))


# In the order in which they apply: what was not read cannot be judged further.
CHECKS: dict[int, Callable[[Candidates], Mask]] = {
    OVERLONG: overlong,
    UNDECODABLE: undecodable,
    NOT_AN_OBJECT: not_an_object,
    OTHER_ACTION: other_action,
    WRONG_FIELDS: wrong_fields,
    MISSING_USER: missing_user,
    UNREADABLE_TIME: unreadable_time,
    EMPTY_QUERY: empty_query,
    UNREADABLE_RANK: unreadable_rank,
    UNREADABLE_CLICKED: unreadable_clicked,
    OUTSIDE_TIME_RANGE: outside_time_range,
    OTHER_APPLICATION: other_application,
    USER_LEFT_OUT: user_left_out,
}


def mark(rows: Candidates) -> Codes:
    """The code of each row: the first check that it fails, 0 if it passes all."""
    codes = np.zeros(len(rows), np.int16)
    for code, check in CHECKS.items():
        failed = check(rows)
        if failed.any():
            codes[failed & (codes == KEPT)] = code
    return codes


def _none(rows: Candidates) -> Mask:
    return np.zeros(len(rows), np.bool_)


def _mask(array: pa.BooleanArray) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask
