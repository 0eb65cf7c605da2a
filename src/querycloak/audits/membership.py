"""Membership: is a person in the log? Judged by the published counts, by somebody who knows everybody else's rows.

The score of a person is the log-likelihood ratio of the counts with and without that person's keys. Thresholds come
from one half of the people who are not in the log, false alarms are counted on the other half; ties are broken at
random. What differential privacy allows stands beside it (Kairouz, Oh and Viswanath, ICML 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.stats import beta, rankdata

from querycloak.audits.attack import Finding
from querycloak.audits.attacked import Attacked
from querycloak.audits.key_counts import Contributions, Floats, KeyCounts, key_counts
from querycloak.audits.knowledge import Knowledge, Numbers
from querycloak.audits.risk import Z_95, Share
from querycloak.privacy.explanation import caught_at_most
from querycloak.privacy.guarantee import Guarantee

FALSE_ALARMS = (0.001, 0.01)
SURE = 1e-4
"""How improbable it must be that chance alone lifts an attack above what a guarantee allows."""
_CERTAIN = 30.0  # the log-likelihood ratio of what cannot be without the person
_LEAST_SCALE = 0.05
OTHER_TEXTS = "its texts are not those that were asked: nobody's keys are counted in it"
NOT_HIDDEN = "it hides what people asked, not who is in the log: everybody keeps rows of their own"

Law = Callable[[Floats], Floats]


class Membership:
    """Area under the curve, and members found at a thousandth and a hundredth of false alarms."""

    name: ClassVar[str] = "membership"

    def why_not(self, release: Attacked, knowledge: Knowledge) -> str | None:
        """It takes counts of what was asked."""
        if release.proven is not None and release.proven.neighbours == "replace-query":
            return NOT_HIDDEN
        if release.rows in ("generalised", "replaced", "rebuilt", "noised"):
            return OTHER_TEXTS
        if len(knowledge.control_sample) < 4:
            return "the control has fewer than four people; half of them set thresholds, half of them are tested"
        return None

    def run(self, release: Attacked, knowledge: Knowledge) -> Iterator[Finding]:
        """Score everybody by all tables together."""
        members, controls = np.zeros(len(knowledge.member_sample)), np.zeros(len(knowledge.control_sample))
        evidence = [add_ratios(counts, members, controls) for counts in key_counts(release, knowledge)]
        draws = independent_draws(len(members), evidence)
        random = knowledge.random("membership")
        # A tie is decided by chance, for members and others alike.
        members = members + random.random(len(members)) * 1e-9
        controls = random.permutation(controls + random.random(len(controls)) * 1e-9)
        reference, tested = np.array_split(controls, 2)
        yield _area(members, tested)
        for allowed in FALSE_ALARMS:
            yield from _at(allowed, members, reference, tested, release, draws)


class Evidence(NamedTuple):
    """Whose score hangs on which key, and how much."""

    person: Numbers
    key: Numbers
    strength: Floats


def add_ratios(counts: KeyCounts, members: Floats, controls: Floats) -> Evidence:
    """Add to everybody's score the log-likelihood ratio of these counts, with the person against without."""
    law = _fitted(counts.published - counts.true)
    # A row that nobody holds shows that rows may come out by themselves.
    own = not bool(((counts.true == 0) & (counts.published > 0)).any())
    ratio = _ratios(counts, counts.members, counts.true - 1, law, own)
    np.add.at(members, counts.members.person, ratio)
    np.add.at(controls, counts.controls.person, _ratios(counts, counts.controls, counts.true, law, own))
    usual = np.sqrt(np.mean(ratio[np.abs(ratio) < _CERTAIN] ** 2)) if (np.abs(ratio) < _CERTAIN).any() else 1.0
    strength = np.where(np.abs(ratio) < _CERTAIN, max(float(usual), 1e-6), _CERTAIN)
    return Evidence(counts.members.person, counts.members.key, strength)


def _ratios(counts: KeyCounts, added: Contributions, without: Floats, law: Law, own: bool) -> Floats:
    rest = (counts.published - without)[added.key]
    ratio = law(rest - 1) - law(rest)
    alone = own & (without[added.key] <= 0)
    return np.where(alone, _CERTAIN, np.clip(ratio, -_CERTAIN, _CERTAIN))


def _fitted(residuals: Floats) -> Law:
    """The logarithm of the noise's law, Laplace's or Gauss', whichever fits published counts less true ones."""
    if not len(residuals):
        return np.zeros_like
    centre = float(np.median(residuals))
    moved = residuals - centre
    sigma = max(float(np.sqrt(np.mean(moved**2))), _LEAST_SCALE)
    scale = max(float(np.mean(np.abs(moved))), _LEAST_SCALE)

    def gauss(values: Floats) -> Floats:
        return -((values - centre) ** 2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))

    def laplace(values: Floats) -> Floats:
        return -np.abs(values - centre) / scale - math.log(2 * scale)

    return gauss if gauss(residuals).sum() >= laplace(residuals).sum() else laplace


def _area(members: Floats, others: Floats) -> Finding:
    """The chance that a member scores higher than somebody else, with Hanley and McNeil's error."""
    m, n = len(members), len(others)
    ranks = rankdata(np.concatenate([members, others]))
    area = float((ranks[:m].sum() - m * (m + 1) / 2) / (m * n))
    once, twice = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (area * (1 - area) + (m - 1) * (once - area**2) + (n - 1) * (twice - area**2)) / (m * n)
    share = Share(area, area, Z_95 * math.sqrt(max(variance, 0.0)), m)
    return Finding.of("area under the curve", share, Share.exactly(0.5), 0.5)


def _at(
    allowed: float, members: Floats, reference: Floats, tested: Floats, release: Attacked, draws: float
) -> Iterator[Finding]:
    """Members found where at most this share of the reference is named wrongly."""
    place = math.floor(allowed * len(reference))
    threshold = float(np.sort(reference)[::-1][min(place, len(reference) - 1)])
    found, wrong = int((members > threshold).sum()), int((tested > threshold).sum())
    main, control = Share.of(found, len(members)), Share.of(wrong, len(tested))
    setting = f"FPR {allowed:g}"
    guarantees = {"proven": release.proven, "claimed": release.claimed}
    bounds = {name: each for name, each in guarantees.items() if each is not None and _bounds_members(each)}
    alarm = None
    if "proven" in bounds and _exceeds(bounds["proven"], main, control, draws):
        alarm = f"membership: {release.name} lets find more members at {setting} than its proven guarantee allows"
    yield Finding.of(setting, main, control, allowed, alarm=alarm)
    for name, guarantee in bounds.items():
        yield _bound(f"{setting}, most by what is {name}", guarantee, allowed)


def _bounds_members(guarantee: Guarantee) -> bool:
    return guarantee.covers_release and guarantee.neighbours == "add-remove-user"


def _bound(setting: str, guarantee: Guarantee, allowed: float) -> Finding:
    epsilon, delta = guarantee.epsilon or 0.0, guarantee.delta or 0.0
    grown = math.exp(min(epsilon, 700.0)) * allowed + delta
    shrunk = 1 - math.exp(-epsilon) * (1 - allowed - delta)
    why = (
        f"not measured: the smaller of e^epsilon FPR + delta = {grown:.4g} and 1 - (1 - FPR - delta) / e^epsilon = "
        f"{shrunk:.4g} at epsilon {epsilon:g}, delta {delta:.3g}"
    )
    return Finding(setting, main=caught_at_most(allowed, epsilon, delta), why=why)


def independent_draws(people: int, evidence: Sequence[Evidence]) -> float:
    """How many draws of noise decide about so many people: whoever holds a key meets the same draw.

    A thousand people with one key are one case, not a thousand. A key weighs as much as the shares that it has in the
    evidence about people; draws of weights w are worth (sum w)^2 / sum w^2 equal ones.
    """
    squared = np.zeros(people)
    for each in evidence:
        np.add.at(squared, each.person, each.strength**2)
    told = squared > 0
    total = of_squares = float((~told).sum())  # who has no key is judged by a draw of their own
    for each in evidence:
        weight = np.bincount(each.key, each.strength**2 / squared[each.person])
        total += float(weight.sum())
        of_squares += float((weight**2).sum())
    return total**2 / of_squares if of_squares else 0.0


def _exceeds(guarantee: Guarantee, main: Share, control: Share, draws: float) -> bool:
    """Whether even the least true-positive rate and the largest false-positive rate that fit break the bound."""
    members, others = min(main.cases, draws), min(control.cases, draws)
    if min(members, others) < 1:
        return False
    least = float(beta.ppf(SURE, main.value * members, (1 - main.value) * members + 1)) if main.value else 0.0
    most = (
        float(beta.ppf(1 - SURE, control.value * others + 1, (1 - control.value) * others))
        if control.value < 1
        else 1.0
    )
    return least > caught_at_most(most, guarantee.epsilon or 0.0, guarantee.delta or 0.0)
