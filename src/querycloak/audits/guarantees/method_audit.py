"""`audit method`: a guarantee tested on neighbouring logs, by sampling and by exact bounds."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from querycloak.audits.guarantees.exact_test import ExactFinding, ExactTester
from querycloak.audits.guarantees.fresh_processes import can_be_spelled, fresh_processes, made_from, spelled, started
from querycloak.audits.guarantees.mechanism import Outcomes, Pair
from querycloak.audits.guarantees.method_mechanism import EXIT_CODE, MethodMechanism
from querycloak.audits.guarantees.neighbour_logs import NeighbourLogs
from querycloak.audits.guarantees.sampling_test import (
    ERROR,
    SamplingFinding,
    SamplingTester,
    power_if_noise_is_halved,
    power_if_threshold_is_off_by_one,
    smallest_shown,
)
from querycloak.errors import ParameterError
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.method import Method
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural, of_kind
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.sentence import Action, Sentence
from querycloak.shown_in_notebooks import ShownInNotebooks

DEFAULT_RUNS = 20_000
_WORTH_A_PROCESS = 10_000
"""With as many runs, exact tests are done in another process meanwhile."""
OnStep = Callable[[str, float], None]
Powers = tuple[tuple[str, float], ...]


@dataclass(frozen=True, repr=False)
class MethodAudit(ShownInNotebooks):
    """Results of both instruments."""

    method: Method
    tester: SamplingTester
    sampled: Sequence[SamplingFinding]
    """Against what is proven or, if that is no differential privacy, against what is claimed."""
    against_claim: Sequence[SamplingFinding]
    """Against what is claimed."""
    exact: Sequence[ExactFinding]
    powers: Powers
    """The chance that standard faults would have been shown."""
    smallest_shown: float
    """The smallest epsilon that would have been shown to exceed the stated one (95 %); infinite if none would."""

    def __repr__(self) -> str:
        verdict = "holds" if self.holds else "REFUTED"
        return f"<MethodAudit {self.method.name}: epsilon {self.measured.per_account:.3g} shown, {verdict}>"

    @property
    def measured(self) -> SamplingFinding:
        """The finding with the largest epsilon per account; a refuted one if there is any."""
        return max(self.sampled, key=lambda finding: (finding.refuted, finding.per_account))

    @property
    def delta(self) -> float:
        """The delta at which epsilon is measured: the one stated for one user.

        A pair of several accounts is judged at the delta of their group. Were epsilon for one user smaller than
        `per_account` at this delta, the group's own epsilon and delta would be smaller, too, than what the pair shows.
        """
        return _stated(self.method).numbers[1]

    @property
    def holds(self) -> bool:
        """True if no test refutes what is proven."""
        if not self.method.proven().covers_release:
            return True
        return not any([each.refuted for each in self.sampled] + [each.refuted for each in self.exact])

    @property
    def refutes_claim(self) -> bool:
        """True if a test refutes what is claimed."""
        claimed = self.method.claimed()
        if claimed is None or not claimed.covers_release:
            return False
        exact = () if self.method.proven().covers_release else self.exact
        return any([each.refuted for each in self.against_claim] + [each.refuted for each in exact])

    def to_json(self) -> dict[str, Any]:
        """The values that `audit method --json` shows."""
        worst, claimed = self.measured, self.method.claimed()
        return {
            "method": self.method.name,
            "claimed": claimed and claimed.to_json(),
            "proven": self.method.proven().to_json(),
            "measured": {
                "epsilon": worst.per_account,
                "delta": self.delta,
                "runs": worst.runs,
                "confidence": 1 - ERROR,
                "ceiling": self.tester.ceiling,
                "smallest_shown": None if math.isinf(self.smallest_shown) else self.smallest_shown,
                "neighbours": worst.neighbours,
                "event": worst.event,
            },
            "pairs": [finding.to_json() for finding in self.sampled],
            "exact": [finding.to_json() for finding in self.exact],
        }


def audit_method(
    method: Method,
    *,
    runs: int = DEFAULT_RUNS,
    seed: int | None = None,
    neighbours: Sequence[str] | None = None,
    on_step: OnStep | None = None,
) -> MethodAudit:
    """Test a method's guarantee on neighbouring logs, by sampling and by what noise is added to.

    runs: how often each log is drawn; half of them choose an event, half judge it. seed: repeatable draws.
    neighbours: kinds of neighbouring logs, all that fit if not given.
    """
    of_kind("method", method, Method, "a method", "such as querycloak.Clicks(epsilon=1, delta=1e-6)")
    natural("runs", runs, "say how often to draw from each log, such as 20,000")
    tell, stated = on_step or (lambda *_: None), _stated(method)
    pairs = NeighbourLogs(method, neighbours).pairs()
    tester = SamplingTester(max(runs, 2), len(pairs))
    claimed = method.claimed()
    sampled: list[SamplingFinding] = []
    against_claim: list[SamplingFinding] = []
    exact: list[ExactFinding] = []
    with (
        _exact_tests(method, neighbours, tester.runs) as elsewhere,
        MethodMechanism(method, Randomness(seed)) as mechanism,
    ):
        for pair, having, without in _outcomes_of_pairs(mechanism, pairs, tester.runs, tell):
            _check_not_broken(mechanism, having, without)
            sampled.append(tester.judge(having, without, pair, stated))
            if claimed is not None and claimed.covers_release:
                against_claim.append(tester.judge(having, without, pair, claimed))
            if elsewhere is None:
                exact += exact_findings(mechanism, pair, stated)
        if elsewhere is not None:
            tell("exact tests", 1.0)
            exact += _findings_of(elsewhere, mechanism, pairs, stated)
    tell("two processes", 1.0)
    exact += fresh_processes(method)
    powers, smallest = _powers(method, tester, stated), smallest_shown(tester, stated)
    return MethodAudit(method, tester, sampled, against_claim, exact, powers, smallest)


def _outcomes_of_pairs(
    mechanism: MethodMechanism, pairs: Sequence[Pair[str]], runs: int, tell: OnStep
) -> Iterator[tuple[Pair[str], Outcomes, Outcomes]]:
    """Each pair with the runs of both its logs."""
    drawn: dict[str, Outcomes] = {}
    for number, pair in enumerate(pairs):
        tell(f"neighbours {pair.name}", number / len(pairs))
        having = mechanism.outcomes(pair.having, runs)
        tell(f"neighbours {pair.name}", (number + 0.4) / len(pairs))
        # Many pairs have one smaller log in common: its runs serve all of them, as each pair has its own bounds.
        later = {each.without for each in pairs[number:]}
        drawn = {data: outcomes for data, outcomes in drawn.items() if data in later}
        if pair.without not in drawn:
            drawn[pair.without] = mechanism.outcomes(pair.without, runs)
        tell(f"neighbours {pair.name}", (number + 0.7) / len(pairs))
        yield pair, having, drawn[pair.without]


def _check_not_broken(mechanism: MethodMechanism, having: Outcomes, without: Outcomes) -> None:
    """Raise the failure if every run on both logs ended with an unforeseen error: then nothing was tested."""
    if mechanism.failure is not None and all((side.column(EXIT_CODE) == 1).all() for side in (having, without)):
        raise mechanism.failure


_ATTACK = Action(
    "querycloak.audit_release(TRAIN, [RELEASE], control=TEST)",
    ("querycloak", "audit", "release", "TRAIN", "RELEASE", "--control", "TEST"),
)


def _stated(method: Method) -> Guarantee:
    """Guarantee under test: the proven one, or the claimed one if the proven one is not differential privacy."""
    proven, claimed = method.proven(), method.claimed()
    if proven.covers_release:
        return proven
    if claimed is not None and claimed.covers_release:
        return claimed
    raise ParameterError(
        Sentence(
            "{name} neither claims nor proves differential privacy, so that there is no epsilon to test; attack what "
            "it releases instead: {attack}",
            name=method.name,
            attack=_ATTACK,
        )
    )


@contextlib.contextmanager
def _exact_tests(method: Method, neighbours: Sequence[str] | None, runs: int) -> Iterator[subprocess.Popen[str] | None]:
    """The exact tests in a process beside the sampling; None if they are done here."""
    if runs < _WORTH_A_PROCESS or (os.cpu_count() or 1) < 2 or not can_be_spelled(method):
        yield None
        return
    process = started(
        "querycloak.audits.guarantees.method_audit", {"method": spelled(method), "neighbours": neighbours}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _findings_of(
    process: subprocess.Popen[str], mechanism: MethodMechanism, pairs: Sequence[Pair[str]], stated: Guarantee
) -> list[ExactFinding]:
    """Findings of the other process; should it have failed, those of this one."""
    printed = process.communicate()[0]
    if process.returncode:
        return [finding for pair in pairs for finding in exact_findings(mechanism, pair, stated)]
    return [ExactFinding(**each) for each in json.loads(printed)]


def _print_exact_findings() -> None:
    given = json.load(sys.stdin)
    method = made_from(given["method"])
    pairs, stated = NeighbourLogs(method, given["neighbours"]).pairs(), _stated(method)
    with MethodMechanism(method) as mechanism:
        findings = [finding for pair in pairs for finding in exact_findings(mechanism, pair, stated)]
    sys.stdout.write(json.dumps([{**vars(each), "value": float(each.value)} for each in findings], default=float))


def exact_findings(mechanism: MethodMechanism, pair: Pair[str], stated: Guarantee) -> Sequence[ExactFinding]:
    """Findings without sampling; none if a neighbour cannot be counted."""
    try:
        for data in (pair.having, pair.without):
            mechanism.counted(data)
    except Exception:  # broad: any failure on a neighbour is an outcome, which sampling sees
        return []
    return ExactTester().test(mechanism, pair, stated)


def _powers(method: Method, tester: SamplingTester, stated: Guarantee) -> Powers:
    if not isinstance(method, KeysMethod) or method.plan.candidates:
        return ()
    plan = next(iter(method.plans.values()))
    if isinstance(plan, KeysOnlyPlan):
        return ()  # there is neither noise nor a threshold
    shared = NeighbourLogs(method).shared_keys
    return (
        ("noise halved", power_if_noise_is_halved(plan, shared, tester, stated)),
        ("threshold off by one", power_if_threshold_is_off_by_one(plan, plan.per_user, tester, stated)),
    )


if __name__ == "__main__":
    _print_exact_findings()
