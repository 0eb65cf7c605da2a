from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querycloak.cli.error_line import error_line
from querycloak.errors import ParameterError, TooManyBadLines
from querycloak.logs.formats import accepted_times
from querycloak.logs.reading.checks import CHECKS, EMPTY_QUERY, KEPT, MEANINGS, is_bad
from querycloak.logs.rejected import DEFAULT_MAX_BAD, RowAccounting, checked_share

CODES = st.dictionaries(st.sampled_from([KEPT, *MEANINGS]), st.integers(0, 10**12))


@given(CODES)
@settings(deadline=None)
def test_every_row_read_is_kept_or_rejected_under_its_code(by_code: dict[int, int]) -> None:
    accounting = RowAccounting(by_code)
    assert accounting.rows_read == accounting.rows_kept + sum(accounting.rejected.values())
    assert accounting.rejected == {f"L{code}": rows for code, rows in by_code.items() if code != KEPT}
    assert list(accounting.rejected) == sorted(accounting.rejected)
    assert accounting.set_aside == accounting.rejected


@given(CODES)
@settings(deadline=None)
def test_bad_rows_are_those_from_l101_to_l199_but_for_empty_queries(by_code: dict[int, int]) -> None:
    expected = sum(rows for code, rows in by_code.items() if 101 <= code <= 199 and code != EMPTY_QUERY)
    assert RowAccounting(by_code).bad == expected


def test_every_check_has_a_meaning() -> None:
    assert set(CHECKS) <= set(MEANINGS)
    assert [code for code in MEANINGS if not 101 <= code <= 299] == []
    assert not is_bad(KEPT)


@given(st.integers(1, 10_000), st.data())
@settings(deadline=None, max_examples=300)
def test_exactly_the_share_allowed_passes_and_one_row_more_does_not(rows: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, rows - 1))
    share = bad / rows
    RowAccounting({KEPT: rows - bad, 101: bad}).require(share)
    with pytest.raises(TooManyBadLines):
        RowAccounting({KEPT: rows - bad - 1, 101: bad + 1}).require(share)


@pytest.mark.parametrize(("bad", "rows", "share"), [(29, 100, 0.29), (57, 100, 0.57), (5, 100, 0.05)])
def test_a_share_that_binary_numbers_only_approach_is_met_exactly(bad: int, rows: int, share: float) -> None:
    RowAccounting({KEPT: rows - bad, 103: bad}).require(share)


@given(CODES)
@example({})
@settings(deadline=None)
def test_a_log_may_be_all_bad_if_its_owner_says_so(by_code: dict[int, int]) -> None:
    RowAccounting(by_code).require(1.0)


def test_too_many_bad_rows_are_told_with_the_worst_code_and_the_ways_out() -> None:
    accounting = RowAccounting({KEPT: 8_000, 101: 400, 103: 600, EMPTY_QUERY: 5_000, 201: 1_000})
    with pytest.raises(TooManyBadLines) as refusal:
        accounting.require()
    assert str(refusal.value) == (
        "private: 1,000 of 15,000 rows are bad (6.7%; most of them L103, wrong number of fields), and at most 5.0% "
        "may be: check log_format and columns, look at them with log.write_rejected(FILE), or allow more with max_bad"
    )
    assert error_line(refusal.value).endswith(
        "may be: check --log-format and --columns, look at them with querycloak inspect LOG --rejected FILE, or allow "
        "more with --max-bad"
    )
    accounting.require(0.07)


def test_rows_left_out_by_choice_are_never_too_many() -> None:
    RowAccounting({KEPT: 1, 201: 1_000, 203: 1_000, EMPTY_QUERY: 1_000}).require(0.0)


@pytest.mark.parametrize("share", [0, 0.0, DEFAULT_MAX_BAD, 1])
def test_a_share_is_a_number_between_0_and_1(share: float) -> None:
    assert checked_share(share) == share


@pytest.mark.parametrize("share", [-0.01, 1.01, 5, math.nan, math.inf, -math.inf])
def test_what_is_no_share_is_refused_with_its_rule(share: float) -> None:
    with pytest.raises(ParameterError) as refusal:
        checked_share(share)
    assert str(refusal.value) == (
        f"max_bad must be a share between 0 and 1, got {share!r}; say how many of all rows may be bad, such as 0.05"
    )


def test_an_accounting_is_printed_as_a_table() -> None:
    accounting = RowAccounting({0: 5, 102: 1_200}, accepted_times("table"))
    assert str(accounting).splitlines() == [
        "rows read           1,205",
        "rows kept               5",
        "L102                1,200  unreadable time",
    ]
    assert repr(accounting) == "<RowAccounting: 5 of 1,205 rows kept (private)>"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (104, "say how the log is encoded with --encoding, such as latin-1, cp1252 or gb18030, look at them with"),
        (107, "give the file of queries (ubi_queries) beside that of events (ubi_events), look at them with"),
        (103, "check --log-format and --columns, look at them with"),
    ],
)
def test_the_way_out_follows_from_the_most_frequent_code(code: int, advice: str) -> None:
    with pytest.raises(TooManyBadLines) as refusal:
        RowAccounting({0: 1, code: 9}).require()
    assert advice in error_line(refusal.value)
