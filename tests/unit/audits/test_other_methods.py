"""`audit method` on a method of another package: the page's example, whole and with too little noise."""

from __future__ import annotations

import math
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.stats import beta

from querycloak.audits.guarantees import method_audit, method_mechanism
from querycloak.audits.guarantees.fresh_processes import (
    _MOST_DRAWS,
    _TRIED,
    FALSE_ALARM,
    _draws_that_differ,
    _shared_by_many,
    fresh_processes,
)
from querycloak.audits.guarantees.mechanism import Outcomes
from querycloak.audits.guarantees.method_audit import audit_method
from querycloak.audits.guarantees.neighbour_logs import NeighbourLogs
from querycloak.audits.guarantees.sampling_test import SamplingTester, power, smallest_shown
from querycloak.audits.guarantees.user_rows import log_text
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.method import AuditLogs, Method
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.sampling.noise import Laplace
from tests.pages import examples

PAGE = Path(__file__).parents[3] / "docs" / "own-method.md"
NAME = "watch_list_of_the_page"
Kind = type[Any]


@pytest.fixture(scope="module")
def watch_list() -> Iterator[Kind]:
    """The class that the page builds, in a module of its own."""
    code = next(each.text for each in examples(PAGE) if each.file == "watch_list.py")
    module = types.ModuleType(NAME)
    sys.modules[NAME] = module
    exec(code, vars(module))
    yield vars(module)["WatchList"]
    del sys.modules[NAME]


@pytest.fixture
def illnesses(tmp_path: Path) -> str:
    path = tmp_path / "illnesses.txt"
    path.write_text("asthma\nmeasles\narthritis\ngolf elbow\n")
    return str(path)


def with_less_noise(method: Any, part: float) -> Any:
    """The method, which draws this part of the noise that it was proven for."""
    object.__setattr__(method, "noise", Laplace(method.noise.scale * part))
    return method


@pytest.mark.parametrize(
    ("part", "holds"), [(1.0, True), (1 / 3, False), (0.1, False)], ids=["whole", "third", "tenth"]
)
def test_the_pages_method_with_a_third_or_a_tenth_of_its_noise_is_caught(
    watch_list: Kind, illnesses: str, part: float, holds: bool
) -> None:
    method = with_less_noise(watch_list(epsilon=1, queries=illnesses), part)
    with mock.patch.object(method_audit, "fresh_processes", return_value=[]):
        audit = audit_method(method, runs=2_000, seed=1, neighbours=["own", "shared"])
    assert audit.holds == holds
    assert 1 < audit.smallest_shown < 3
    assert audit.measured.refuted != holds


def test_its_neighbours_ask_for_queries_of_its_list(watch_list: Kind, illnesses: str) -> None:
    for pair in NeighbourLogs(watch_list(epsilon=1, queries=illnesses), ["own", "threshold", "shared"]).pairs():
        added = {row.split("\t")[1] for row in pair.having.splitlines() if row.startswith("new")}
        assert added & {"asthma", "measles", "arthritis", "golf elbow"}, pair.name


def test_a_method_names_neighbours_of_its_own(watch_list: Kind, illnesses: str) -> None:
    rows = [f"u{user}\tasthma\t2006-03-01 00:00:00\t\t" for user in range(3)]

    class Named(watch_list):  # type: ignore[misc]
        def audit_logs(self) -> list[AuditLogs]:
            return [AuditLogs("a fourth", rows, ["new\tasthma\t2006-03-01 00:00:00\t\t"])]

    (pair,) = NeighbourLogs(Named(epsilon=1, queries=illnesses), ["method"]).pairs()
    assert pair.name == "method: a fourth"
    assert (pair.without.count("asthma"), pair.having.count("asthma")) == (3, 4)


@pytest.mark.slow
def test_two_honest_processes_agree_less_often_than_is_stated(watch_list: Kind, illnesses: str) -> None:
    """Small clipped counts coincide often: so many draws are compared that they do not."""
    method: Method = watch_list(epsilon=2, queries=illnesses)
    log = log_text(_shared_by_many(method, 20))
    draws = _draws_that_differ(method, log)
    # Four counts with noise of scale 1/2: two draws agree about every seventh time.
    assert 2 < draws < 50
    quiet = watch_list(epsilon=20, queries=illnesses)
    assert _draws_that_differ(quiet, log) > _MOST_DRAWS  # nothing is said of it
    assert FALSE_ALARM <= 1e-4


class Agreeing:
    """A mechanism whose draws agree in this number of pairs."""

    def __init__(self, agree: int) -> None:
        self.agree = agree

    def __call__(self, _: Method) -> Agreeing:
        return self

    def __enter__(self) -> Agreeing:
        return self

    def __exit__(self, *_: object) -> None: ...

    def outcomes(self, _: str, runs: int) -> Outcomes:
        seconds = np.where(np.arange(runs // 2) < self.agree, 1, 2)
        return Outcomes.of_numbers(count=np.stack([np.ones_like(seconds), seconds], axis=1).ravel())


@pytest.mark.parametrize("agree", [0, 1, _TRIED // 7, _TRIED // 2, _TRIED - 1, _TRIED])
def test_equal_releases_of_honest_processes_are_rarer_than_1_in_10_000(
    watch_list: Kind, illnesses: str, monkeypatch: pytest.MonkeyPatch, agree: int
) -> None:
    """The error of the bound and the chance of equal draws under it, by the law of beta, are FALSE_ALARM together."""
    monkeypatch.setattr(method_mechanism, "MethodMechanism", Agreeing(agree))
    method = watch_list(epsilon=2, queries=illnesses)
    draws = _draws_that_differ(method, "")
    assert FALSE_ALARM <= 1e-4
    if agree == _TRIED:  # one draw tells nothing of another: no number of them decides
        assert draws > _MOST_DRAWS
        assert fresh_processes(method) == []
        return
    most = beta.ppf(1 - FALSE_ALARM / 2, agree + 1, _TRIED - agree)
    assert most**draws <= FALSE_ALARM / 2 < most ** (draws - 1)


def test_the_page_says_that_the_contract_does_not_see_the_noise() -> None:
    text = re.sub(r"\s+", " ", PAGE.read_text())
    assert "a copy of `watch-list` with a tenth of its noise keeps all of them" in text
    assert "`querycloak audit method watch-list` finds such a copy" in text


def test_the_smallest_excess_that_runs_show() -> None:
    tester = SamplingTester(20_000, 10)
    stated = user_guarantee(1.0, None, "a test")
    smallest = smallest_shown(tester, stated)
    assert 1 < smallest < 1.5
    assert smallest_shown(SamplingTester(200, 10), stated) > smallest
    assert smallest_shown(tester, replace(stated, epsilon=20.0)) == math.inf
    likely = 0.5
    assert power(likely, likely * math.exp(-1.01), tester, 1.0, 0.0) < 0.95  # what is nearer would be missed


def test_an_audit_always_says_its_power() -> None:
    with mock.patch.object(method_audit, "fresh_processes", return_value=[]):
        audit = audit_method(Clicks(noise=1, threshold=5, max_keys_per_user=1), runs=400, neighbours=["own"])
    assert audit.smallest_shown > 1
    assert audit.to_json()["measured"]["smallest_shown"] == audit.smallest_shown
