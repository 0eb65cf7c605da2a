"""Advice follows from two typed numbers, and says so."""

from __future__ import annotations

import json
import shlex

import pytest

from querycloak.comparison.advice import EPSILONS, advise
from querycloak.errors import ParameterError
from tests.commands import in_process


def test_figures_are_those_of_a_twin_with_the_typed_numbers() -> None:
    advice = advise(3000, 1)
    assert (advice.twin_users, advice.twin_searches_per_user, advice.max_keys_per_user) == (3000, 1.0, 1)
    assert advice.delta == 1e-5
    assert [each.method for each in advice.expected] == ["queries", "clicks"]
    for each in advice.expected:
        assert tuple(each.by_epsilon) == EPSILONS
        assert each.by_epsilon[8.0] > each.by_epsilon[1.0]
        assert each.k_anonymous > 0
    assert advise(3000, 1) == advice


def test_more_searches_are_more_keys() -> None:
    advice = advise(500, 2.6)
    assert advice.max_keys_per_user == 3
    assert 1.5 < advice.twin_searches_per_user <= 3


@pytest.mark.parametrize(("users", "searches"), [(0, 1), (10, 0), (10, float("nan"))])
def test_numbers_that_no_log_has(users: int, searches: float) -> None:
    with pytest.raises(ParameterError, match="must be"):
        advise(users, searches)


def test_the_command_says_where_its_numbers_come_from() -> None:
    done = in_process("advise", "--users", "2000", "--searches-per-user", "1")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert text.startswith("2,000 users with one search each: take `queries`; expect about ")
    assert "k = 5 would keep" in text
    assert "Computed on a synthetic twin from the numbers that you typed: 2,000 invented users" in text
    assert "add --chosen-on-log: the card then says that parameters were chosen after looking at the log" in text
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    words = shlex.split(text.partition("Next: ")[2].replace("\\ ", "").partition(" LOG: ")[0])
    assert words[:4] == ["querycloak", "release", "queries", "LOG"]
    dry = in_process(*(__file__ if word == "LOG" else word for word in words[1:]), "--dry-run")
    assert dry.returncode == 0, dry.stderr


def test_the_command_wants_both_numbers() -> None:
    done = in_process("advise", "--users", "2000")
    assert done.returncode == 2
    assert "--users must be typed together with --searches-per-user" in done.stderr
    figures = json.loads(in_process("advise", "--users", "200", "--searches-per-user", "1", "--json").stdout)
    assert set(figures["rows"]) == {"queries", "clicks"}
