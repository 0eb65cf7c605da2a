from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.logs.choices import Choices, KeepUrl, microseconds

EAST = timezone(timedelta(hours=2))
MARCH, APRIL = datetime(2006, 3, 1), datetime(2006, 4, 1)
ZONES = st.none() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
LOCAL = st.datetimes(datetime(1900, 1, 1), datetime(2199, 12, 31))
MOMENTS = st.tuples(LOCAL, ZONES).map(lambda moment: moment[0].replace(tzinfo=moment[1]))


def refusal_of(**choices: object) -> str:
    with pytest.raises(ParameterError) as refusal:
        Choices(**choices)  # type: ignore[arg-type]
    return str(refusal.value)


def in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@given(MOMENTS)
@settings(deadline=None)
def test_microseconds_count_from_1970_in_utc(moment: datetime) -> None:
    expected = (in_utc(moment) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert microseconds(moment) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(1970, 1, 1), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        (datetime(2006, 3, 1, 7, 17, 12, 5), 1_141_197_432_000_005),
        (datetime(2006, 3, 1, 9, 17, 12, tzinfo=EAST), 1_141_197_432_000_000),
    ],
)
def test_golden_microseconds(moment: datetime, expected: int) -> None:
    assert microseconds(moment) == expected


@given(MOMENTS, MOMENTS)
@settings(deadline=None)
def test_since_must_be_before_until_whatever_their_zones(since: datetime, until: datetime) -> None:
    if in_utc(since) < in_utc(until):
        assert Choices(since=since, until=until).since == since
    else:
        assert refusal_of(since=since, until=until).startswith("since must be before until; they are ")


@pytest.mark.parametrize("until", [APRIL, APRIL.replace(tzinfo=UTC)])
def test_a_moment_without_a_zone_goes_with_one_that_has_it(until: datetime) -> None:
    assert Choices(since=MARCH, until=until).until == until
    assert Choices(since=MARCH.replace(tzinfo=UTC), until=until).until == until


@pytest.mark.parametrize("since", [MARCH, APRIL])
def test_since_at_or_after_until_is_refused_with_both(since: datetime) -> None:
    expected = f"since must be before until; they are {since} and 2006-03-01 00:00:00"
    assert refusal_of(since=since, until=MARCH) == expected


def test_either_end_of_time_may_be_open() -> None:
    assert Choices(since=MARCH).until is None
    assert Choices(until=MARCH).since is None


@pytest.mark.parametrize("keep", get_args(KeepUrl))
def test_every_way_to_keep_an_address_is_accepted(keep: KeepUrl) -> None:
    assert Choices(keep_url=keep).keep_url == keep


@pytest.mark.parametrize("keep", ["none", "Path", "", None])
def test_another_way_is_refused_with_those_that_are(keep: object) -> None:
    given = "given, one of full, path, host" if keep is None else f"one of full, path, host, got {keep!r}"
    assert refusal_of(keep_url=keep) == f"keep_url must be {given}; choose one of these"


@pytest.mark.parametrize("actions", [(), ("",), ("click", "")])
def test_clicks_without_an_action_are_refused_with_what_was_given(actions: tuple[str, ...]) -> None:
    refusal = refusal_of(click_actions=actions)
    assert refusal.startswith("click_actions must be names of actions")
    assert repr(actions) in refusal


def test_the_description_names_no_user() -> None:
    choices = Choices(since=MARCH, applications=("shop",), leave_out=frozenset({"u4417"}))
    assert choices.describe() == {
        "since": "2006-03-01T00:00:00",
        "until": None,
        "applications": ["shop"],
        "users_left_out": True,
        "keep_url": "path",
        "normalise": True,
        "click_actions": ["click"],
    }
    assert Choices().describe()["users_left_out"] is False


def test_choices_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Choices().keep_url = "full"  # type: ignore[misc]
