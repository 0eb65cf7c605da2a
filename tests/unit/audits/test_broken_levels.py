"""Broken copies of phrases are caught by name; the sound method passes on the same pairs of logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import ibis.expr.types as ir
import pytest

from querycloak.audits.guarantees.exact_test import OWN_KEYS
from querycloak.audits.guarantees.method_mechanism import MethodMechanism
from querycloak.audits.guarantees.neighbour_logs import NeighbourLogs
from querycloak.engines import Engine
from querycloak.methods.phrases import counted_levels, levels
from querycloak.methods.phrases.method import Phrases
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.sampling.noise import Laplace
from tests.unit.audits.test_broken_mechanisms import exactly, pair_of, sampled

RUNS = 200


def sound() -> Phrases:
    return Phrases(noise=1, threshold=9, max_keys_per_user=1, longest=2)


def with_level(level: str, **changes: object) -> Phrases:
    """The method, one level of which draws by another plan than the one it was proven for."""
    method = sound()
    plan = method.plans[level]
    assert isinstance(plan, HistogramPlan)
    tables = {**method.plans, level: replace(plan, **changes)}  # type: ignore[arg-type]
    object.__setattr__(method, "plan", replace(method.plan, tables=tables))
    return method


@contextmanager
def candidates_by_raw_counts(least: int) -> Iterator[None]:
    """Pairs are candidates if enough users hold their words in the raw log, released or not."""
    whole = levels.contributions

    def contributions(
        engine: Engine, uses: ir.Table, level: int, longest: int, before: ir.Table | None, private: Sequence[str] = ()
    ) -> ir.Table:
        if level > 1 and before is not None:
            words = whole(engine, uses, 1, longest, None)
            users = words.group_by("phrase").agg(users=words.count())
            before = users.filter(users.users >= least).select("phrase")
        return whole(engine, uses, level, longest, before, private)

    with mock.patch.object(counted_levels, "contributions", contributions):
        yield


@pytest.mark.parametrize("level", ["level-1", "level-2"])
def test_a_level_with_a_tenth_of_its_noise(level: str) -> None:
    assert not sampled(sound(), "shared", RUNS).refuted
    assert sampled(with_level(level, noise=Laplace(0.1)), "shared", RUNS).refuted


@pytest.mark.parametrize("level", ["level-1", pytest.param("level-2", marks=pytest.mark.slow)])
def test_a_level_whose_threshold_is_dropped(level: str) -> None:
    pair = pair_of(sound(), "own")
    assert exactly(MethodMechanism(sound()), pair) == []
    assert OWN_KEYS in {each.measure for each in exactly(MethodMechanism(with_level(level, threshold=0)), pair)}


def test_a_level_that_looks_at_raw_candidates() -> None:
    """One more user of a word lets the pairs of all others in: every one of them moves."""
    method = sound()
    pair = next(each for each in NeighbourLogs(method, ["method"]).pairs() if "in the balance" in each.name)
    having = sum("york" in row for row in pair.having.splitlines())
    assert exactly(MethodMechanism(method), pair) == []
    with candidates_by_raw_counts(having):
        refuted = exactly(MethodMechanism(method), pair)
    assert {each.step for each in refuted if each.measure == "L1"} == {"level-2: counts"}
