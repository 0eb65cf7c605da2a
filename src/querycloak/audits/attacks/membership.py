"""Membership inference from published counts, by an attacker who knows the rows of everybody else.

The score of a person is the log-likelihood ratio of the counts with and without that person's keys. Thresholds come
from one half of the people who are not in the log, false alarms are counted on the other half; ties are broken at
random. What differential privacy allows stands beside it (Kairouz, Oh and Viswanath, ICML 2015). That is a limit on the
mean over draws of noise, so several releases of one kind are also judged together; thresholds of one then come from
the others, so that they do not tell how large its own noise was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.stats import beta, rankdata

from querycloak.audits.attack import Z_95, Finding, Share
from querycloak.audits.attacks.key_counts import Contributions, Floats, TestedKeys, key_counts
from querycloak.audits.audit_data import AuditData, Numbers
from querycloak.evaluation.target import Target
from querycloak.privacy.explanation import caught_at_most
from querycloak.privacy.guarantee import Guarantee

FALSE_ALARMS = (0.001, 0.01)
SURE = 1e-4
"""Largest probability that chance alone lifts an attack above the bound of a guarantee."""
_CERTAIN = 30.0  # the log-likelihood ratio of what cannot be without the person
_LEAST_SCALE = 0.05
_ENOUGH_KEYS = 100
OTHER_TEXTS = "its texts are not those that were asked: nobody's keys are counted in it"
NOT_HIDDEN = "it hides what people asked, not who is in the log: everybody keeps rows of their own"


class Membership:
    """Area under the curve, and members found at a thousandth and a hundredth of false alarms."""

    name: ClassVar[str] = "membership"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:
        """Needs counts of keys as they were typed."""
        if release.proven is not None and release.proven.neighbours == "replace-query":
            return NOT_HIDDEN
        if not release.rows.is_verbatim:
            return OTHER_TEXTS
        if len(knowledge.control_sample) < 4:
            return "the control has fewer than four people; half of them set thresholds, half of them are tested"
        return None

    def __init__(self) -> None:
        self._counted: list[tuple[Target, list[TestedKeys]]] = []

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Score everybody by all tables together."""
        return self.run_on_several([release], knowledge)

    def run_on_several(self, releases: Sequence[Target], knowledge: AuditData) -> Iterator[Finding]:
        """Score everybody by every release; shares are means over releases."""
        scored = scores_of([self._counts(release, knowledge) for release in releases], knowledge)
        yield _area(scored)
        for allowed in FALSE_ALARMS:
            yield from _at(allowed, scored, releases[0])

    def _counts(self, release: Target, knowledge: AuditData) -> list[TestedKeys]:
        """Published beside true counts; cached, because a release may be judged alone and with others."""
        counted = next((counts for each, counts in self._counted if each is release), None)
        if counted is None:
            counted = list(key_counts(release, knowledge))
            self._counted.append((release, counted))
        return counted


class Scores(NamedTuple):
    """Scores of members, of non-members that set thresholds and of those tested; number of deciding draws."""

    members: Floats
    reference: Floats
    tested: Floats
    draws: float


def scores_of(counted: Sequence[Sequence[TestedKeys]], knowledge: AuditData) -> list[Scores]:
    """Everybody's score by each of some releases of one kind, given as their tables: one law of noise for all."""
    laws = [_law(tables) for tables in zip(*counted, strict=True)]
    random = knowledge.random("membership")
    order = random.permutation(len(knowledge.control_sample))
    scores = []
    for tables in counted:
        members, controls = np.zeros(len(knowledge.member_sample)), np.zeros(len(knowledge.control_sample))
        evidence = [add_ratios(table, law, members, controls) for table, law in zip(tables, laws, strict=True)]
        # A tie is decided by chance, for members and others alike.
        tested_members, others = (side + random.random(len(side)) * 1e-9 for side in (members, controls))
        reference, tested = np.array_split(others[order], 2)
        scores.append(Scores(tested_members, reference, tested, independent_draws(len(members), evidence)))
    return scores


class Evidence(NamedTuple):
    """Weight of each key in each person's score."""

    person: Numbers
    key: Numbers
    strength: Floats


class Law(NamedTuple):
    """Attacker's model of counts: the noise; `own` is True if only keys of users in the log come out."""

    logarithm: Callable[[Floats], Floats]
    own: bool


def add_ratios(counts: TestedKeys, law: Law, members: Floats, controls: Floats) -> Evidence:
    """Add to everybody's score the log-likelihood ratio of these counts, with the person against without."""
    ratio = _ratios(counts, counts.members, counts.true - 1, law)
    np.add.at(members, counts.members.person, ratio)
    np.add.at(controls, counts.controls.person, _ratios(counts, counts.controls, counts.true, law))
    usual = np.sqrt(np.mean(ratio[np.abs(ratio) < _CERTAIN] ** 2)) if (np.abs(ratio) < _CERTAIN).any() else 1.0
    strength = np.where(np.abs(ratio) < _CERTAIN, max(float(usual), 1e-6), _CERTAIN)
    return Evidence(counts.members.person, counts.members.key, strength)


def _ratios(counts: TestedKeys, added: Contributions, without: Floats, law: Law) -> Floats:
    rest = (counts.published - without)[added.key]
    ratio = law.logarithm(rest - 1) - law.logarithm(rest)
    alone = law.own & (without[added.key] <= 0)
    return np.where(alone, _CERTAIN, np.clip(ratio, -_CERTAIN, _CERTAIN))


def _law(tables: Sequence[TestedKeys]) -> Law:
    """The law of one table, fitted to all releases together."""
    # A spurious row, which no user has, shows that rows may come out without a user.
    own = not any(bool(((table.true == 0) & (table.published > 0)).any()) for table in tables)
    return Law(_fitted(np.concatenate([table.published - table.true for table in tables])), own)


def _fitted(residuals: Floats) -> Callable[[Floats], Floats]:
    """Log-density of the noise: Laplace or Gauss, by the fit to published minus true counts."""
    if not len(residuals):
        return np.zeros_like
    # Few residuals would reveal the noise itself, which no attacker knows.
    centre = float(np.median(residuals)) if len(residuals) >= _ENOUGH_KEYS else 0.0
    moved = residuals - centre
    sigma = max(float(np.sqrt(np.mean(moved**2))), _LEAST_SCALE)
    scale = max(float(np.mean(np.abs(moved))), _LEAST_SCALE)

    def gauss(values: Floats) -> Floats:
        return -((values - centre) ** 2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))

    def laplace(values: Floats) -> Floats:
        return -np.abs(values - centre) / scale - math.log(2 * scale)

    return gauss if gauss(residuals).sum() >= laplace(residuals).sum() else laplace


def _area(scored: Sequence[Scores]) -> Finding:
    """Probability that a member scores higher than a non-member, with Hanley and McNeil's error."""
    others = np.concatenate([each.tested for each in scored])
    shares = []
    for members, _, tested, _ in scored:
        m, n = len(members), len(tested)
        ranks = rankdata(np.concatenate([members, others]))
        area = float((ranks[:m].sum() - m * (m + 1) / 2) / (m * len(others)))
        once, twice = area / (2 - area), 2 * area**2 / (1 + area)
        variance = (area * (1 - area) + (m - 1) * (once - area**2) + (n - 1) * (twice - area**2)) / (m * n)
        shares.append(Share(area, area, Z_95 * math.sqrt(max(variance, 0.0)), m))
    return Finding.of("area under the curve", Share.mean(shares), Share.exactly(0.5), 0.5)


def _at(allowed: float, scored: Sequence[Scores], release: Target) -> Iterator[Finding]:
    """Members found where at most this share of the reference is named wrongly."""
    right, wrong = [], []
    for number, (members, _, tested, _) in enumerate(scored):
        threshold = _threshold(allowed, scored, number)
        right.append(Share.of(int((members > threshold).sum()), len(members)))
        wrong.append(Share.of(int((tested > threshold).sum()), len(tested)))
    main, control = Share.mean(right), Share.mean(wrong)
    setting = f"FPR {allowed:g}"
    guarantees = {"proven": release.proven, "claimed": release.claimed}
    bounds = {name: each for name, each in guarantees.items() if each is not None and _bounds_members(each)}
    alarm = None
    if "proven" in bounds and _exceeds(bounds["proven"], main, control, sum(each.draws for each in scored)):
        several = f" and {len(scored) - 1} like it" if len(scored) > 1 else ""
        alarm = f"membership: more members are found by {release.name}{several} at {setting} than is proven"
    yield Finding.of(setting, main, control, allowed, alarm=alarm)
    for name, guarantee in bounds.items():
        yield _bound(f"{setting}, most by what is {name}", guarantee, allowed)


def _threshold(allowed: float, scored: Sequence[Scores], number: int) -> float:
    """Score that counts as a hit in a release; set by the reference of the other releases, if there are any.

    Its own reference would tell the attacker how large its noise happened to be.
    """
    others = [each.reference for place, each in enumerate(scored) if place != number or len(scored) == 1]
    falling = np.sort(np.concatenate(others))[::-1]
    return float(falling[min(math.floor(allowed * len(falling)), len(falling) - 1)])


def _bounds_members(guarantee: Guarantee) -> bool:
    return guarantee.covers_release and guarantee.neighbours == "add-remove-user"


def _bound(setting: str, guarantee: Guarantee, allowed: float) -> Finding:
    epsilon, delta = guarantee.numbers
    grown = math.exp(min(epsilon, 700.0)) * allowed + delta
    shrunk = 1 - math.exp(-epsilon) * (1 - allowed - delta)
    why = (
        f"not measured: the smaller of e^epsilon FPR + delta = {grown:.4g} and 1 - (1 - FPR - delta) / e^epsilon = "
        f"{shrunk:.4g} at epsilon {epsilon:g}, delta {delta:.3g}"
    )
    return Finding(setting, main=caught_at_most(allowed, epsilon, delta), why=why)


def independent_draws(people: int, evidence: Sequence[Evidence]) -> float:
    """Number of noise draws that decide about these people: all holders of a key share its draw.

    A thousand people with one key are one case, not a thousand. A key weighs as much as the shares that it has in the
    evidence about people; draws of weights w are worth (sum w)^2 / sum w^2 equal ones. People without a published key
    have no evidence and are never found, so the share of all people that is found varies as it would with
    people / informative times as many draws.
    """
    squared = np.zeros(people)
    for each in evidence:
        np.add.at(squared, each.person, each.strength**2)
    informative = float((squared > 0).sum())
    of_squares = 0.0
    for each in evidence:
        weight = np.bincount(each.key, each.strength**2 / squared[each.person])
        of_squares += float((weight**2).sum())
    return people * informative / max(of_squares, informative) if informative else float(people)


def _exceeds(guarantee: Guarantee, main: Share, control: Share, draws: float) -> bool:
    """True if even the least true-positive rate and the largest false-positive rate that fit break the bound."""
    members, others = min(main.cases, draws), min(control.cases, draws)
    if min(members, others) < 1:
        return False
    least = float(beta.ppf(SURE, main.value * members, (1 - main.value) * members + 1)) if main.value else 0.0
    most = (
        float(beta.ppf(1 - SURE, control.value * others + 1, (1 - control.value) * others))
        if control.value < 1
        else 1.0
    )
    return least > caught_at_most(most, *guarantee.numbers)
