"""Broken copies of cells of phrases are caught by name; the sound method passes on the same pairs of logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from unittest import mock

import ibis.expr.types as ir
import pyarrow as pa
import pytest

from querycloak.audits.guarantees.mechanism import Pair
from querycloak.audits.guarantees.method_mechanism import MethodMechanism
from querycloak.audits.guarantees.neighbour_logs import NeighbourLogs
from querycloak.audits.guarantees.steps import Past
from querycloak.methods.phrases.method import Phrases
from querycloak.methods.phrases.phrase_cells import CellsOfPhrases
from querycloak.privacy.sampling.noise import Gaussian
from tests.unit.audits.test_broken_mechanisms import exactly, sampled

RUNS = 300


def sound(**options: object) -> Phrases:
    given = {"epsilon": 2, "delta": 1e-2, "selection": "gaussian", "max_keys_per_user": 2, "longest": 1}
    return Phrases(**given, by="device", domain_of="device=desktop;mobile", **{"cells_per_user": 2, **options})  # type: ignore[arg-type]


def two_cells() -> Pair[str]:
    return next(each for each in NeighbourLogs(sound(), ["method"]).pairs() if "in two cells" in each.name)


def test_cells_that_are_not_bounded() -> None:
    """The user of two words in two cells adds to more counts than two."""
    assert exactly(MethodMechanism(sound()), two_cells()) == []
    counted = MethodMechanism(sound())
    held: Callable[[CellsOfPhrases, Mapping[str, pa.Table]], ir.Table] = CellsOfPhrases.held

    def twice(self: CellsOfPhrases, selected: Mapping[str, pa.Table]) -> ir.Table:
        """Every user stands for as many users as there are keys, so no bound holds."""
        mine = held(self, selected)
        return mine.mutate(user=mine.user + mine.k.cast("string"))

    with mock.patch.object(CellsOfPhrases, "held", twice):
        refuted = exactly(counted, two_cells())
    assert {each.step for each in refuted} == {"cells: counts"}


def test_cells_with_a_tenth_of_their_noise() -> None:
    assert not sampled(sound(), "shared", RUNS).refuted
    quiet = sound()
    assert quiet.cell_plan is not None
    object.__setattr__(quiet.cell_plan, "noise", Gaussian(quiet.cell_plan.noise.sigma / 10))
    assert sampled(quiet, "shared", RUNS).refuted


@pytest.mark.parametrize("by", ["device", "week"])
def test_the_steps_show_every_cell_with_its_bound(by: str) -> None:
    domain = "device=desktop;mobile" if by == "device" else None
    method = Phrases(
        epsilon=4, delta=1e-2, selection="gaussian", max_keys_per_user=2, longest=1, by=by, domain_of=domain
    )
    (pair, *_) = (each for each in NeighbourLogs(method, ["method"]).pairs() if "in two cells" in each.name)
    with MethodMechanism(method) as mechanism:
        cells = [step for step in mechanism.steps(pair.having, Past()) if step.name == "cells: counts"]
    (step,) = cells
    assert method.cell_plan is not None
    assert (step.l2_squared, step.noise) == (method.cell_plan.per_user, method.cell_plan.noise)
    assert {name.split("\t")[0] for name in step.centres} >= {"tiger", "woods"}
