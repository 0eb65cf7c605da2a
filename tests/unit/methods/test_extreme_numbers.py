"""Numbers at the ends of their ranges: an answer or one line, within two seconds of computing and without data."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from querycloak.errors import ParameterError, QuerycloakError
from querycloak.methods.registry import METHODS
from tests.commands import in_process

BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
KNOBS: dict[str, Any] = {"noise": 1, "threshold": 20}
RULE: dict[str, Any] = {"min_users": 5}
SMALL, LARGE = (5e-324, 1e-300, 1e-12, 1e-3), (1000, 1.8e9, 1e18, 1e308, float("inf"), float("nan"))
MOST_SECONDS = 4.0
"""Of computing, on a slow machine; an hour is what one of these took before there were limits."""
WHOLE = (0, 1, 1_000_000, 2**53, 10**30)
CASES = [
    *(
        (method, BUDGET, name, value)
        for method in ("queries", "clicks", "sessions", "phrases", "synthetic", "optimal", "query-pool", "semantic")
        for name, values in {"epsilon": SMALL + LARGE, "delta": (*SMALL, 0.999999)}.items()
        for value in values
        if (method, name) != ("semantic", "delta")
    ),
    *(
        (method, KNOBS, name, value)
        for method in ("queries", "clicks", "sessions")
        for name, values in {"noise": SMALL + LARGE, "threshold": WHOLE, "max_keys_per_user": WHOLE}.items()
        for value in values
    ),
    *((method, BUDGET, "max_keys_per_user", value) for method in ("queries", "clicks", "sessions") for value in WHOLE),
    *((method, RULE, "min_users", value) for method in ("k-anonymity", "affinity", "generalize") for value in WHOLE),
]


@pytest.mark.parametrize(("method", "given", "name", "value"), CASES)
def test_every_number_has_an_answer_or_a_line_in_little_time(
    method: str, given: dict[str, Any], name: str, value: float
) -> None:
    options = {key: each for key, each in given.items() if (method, key) != ("semantic", "delta")} | {name: value}
    began = time.process_time()
    with suppress(QuerycloakError):
        made = METHODS[method](**options)
        made.proven()
        made.claimed()
        made.reach()
        made.warnings()
    assert time.process_time() - began < MOST_SECONDS


@pytest.mark.parametrize(
    "method", ["queries", "clicks", "sessions", "phrases", "synthetic", "optimal", "query-pool", "semantic"]
)
def test_an_epsilon_beyond_a_thousand_is_refused(method: str) -> None:
    options: dict[str, Any] = {"epsilon": 1.8e9} | ({} if method == "semantic" else {"delta": 1e-6})
    with pytest.raises(ParameterError, match=r"epsilon must be at most 1,000, got 1800000000\.0"):
        METHODS[method](**options)


def test_a_claimed_delta_below_every_float_is_stated_as_the_least_one() -> None:
    knobs = ("--noise", "1", "--threshold", "800", "--max-keys-per-user", "4")
    done = in_process("guarantee", "clicks", "--variant", "paper", *knobs, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"delta": 2.2250738585072014e-308' in done.stdout
