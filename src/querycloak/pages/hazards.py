"""The 24 hazards of NIST SP 800-226, in our words, answered for one release: met, not met, or the owner's duty.

After the draft of December 2023 and the final version of March 2025 (doi:10.6028/NIST.SP.800-226). "Met" says that the
release guards against the hazard, and how; a reason stands beside every answer. Only what the card says is used, so
that all of it may be published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from querycloak.privacy.guarantee import Guarantee
from querycloak.releases.release import Release

Answer = Literal["met", "not met", "the owner's duty"]
MET: Answer = "met"
NOT_MET: Answer = "not met"
DUTY: Answer = "the owner's duty"
CAUTIOUS = 1.0
"""The epsilon up to which the guidelines call a guarantee cautious."""
_FAR_BELOW = 10
Answered = tuple[Answer, str]


@dataclass(frozen=True)
class Hazard:
    """One hazard, answered."""

    number: int
    name: str
    answer: Answer
    reason: str


def hazards_of(release: Release) -> list[Hazard]:
    """All of them, in the order of the publication."""
    return [Hazard(number, name, *answer(release)) for number, (name, answer) in enumerate(_ALL, 1)]


def _no_bound(release: Release) -> str | None:
    """Why nothing limits what is learnt about one person; None where differential privacy does."""
    if release.seeded:
        return "The noise came from a seed: somebody who knows it can remove the noise."
    if release.proven.kind == "syntactic":
        return "There is no epsilon: the method's rule limits nothing that somebody can conclude about one person."
    if release.proven.kind == "sampling-only":
        return "The proof covers one step only; the rest is computed from the log without noise."
    return None


def _numbers(proven: Guarantee) -> tuple[float, float]:
    return proven.numbers


def _large_epsilon(release: Release) -> Answered:
    nothing = _no_bound(release)
    if nothing is not None:
        return NOT_MET, nothing
    epsilon, _ = _numbers(release.proven)
    if epsilon <= CAUTIOUS:
        return MET, f"Epsilon is {epsilon:g}, within the cautious range."
    return NOT_MET, f"Epsilon is {epsilon:g}. Up to {CAUTIOUS:g} is cautious; above it the worst case may mean little."


def _rare_catastrophe(release: Release) -> Answered:
    nothing = _no_bound(release)
    if nothing is not None:
        return NOT_MET, nothing
    _, delta = _numbers(release.proven)
    if delta == 0:
        return MET, "Delta is 0: there is no exception."
    if release.population_size is None:
        return DUTY, (
            f"Delta is {delta:g} for each person. It must be far below one divided by the number of people, which this "
            "release does not state."
        )
    expected = delta * release.population_size
    if expected * _FAR_BELOW <= 1:
        return (
            MET,
            f"Delta is {delta:g}; at worst {expected:.2g} of {release.population_size:,} people would be exposed.",
        )
    return (
        NOT_MET,
        f"Delta is {delta:g}, too large for {release.population_size:,} people: at worst {expected:.2g} of them would "
        "be exposed.",
    )


def _unit(release: Release) -> Answered:
    if release.proven.unit != "user":
        return NOT_MET, "The unit is a single query. What a person asks over time is not covered."
    if release.proven.neighbours == "replace-query":
        return (
            NOT_MET,
            "What a person asked is covered, not that the person is in the log, nor how often they searched.",
        )
    return MET, "The unit is all that one user did in the log. Several accounts of one person are several users."


def _repeats(release: Release) -> Answered:
    if release.proven.unit != "user":
        return NOT_MET, "The limit is for each query, and what repeats adds up."
    return MET, "The limit is for a user's whole history in this log, not for a day or an event."


def _deltas(release: Release) -> Answered:
    if release.proven.kind == "syntactic":
        return MET, "There is no delta that could be compared wrongly; nothing here may be compared with an epsilon."
    return MET, "Every epsilon on this page stands beside its delta; none is compared at another one."


def _units(release: Release) -> Answered:
    between = release.proven.neighbours or "no neighbours: it is a rule, not differential privacy"
    return MET, f"Unit and neighbours are stated: {release.proven.unit}, {between}. Compare with the same only."


def _conversion(release: Release) -> Answered:
    if release.composition:
        return (
            MET,
            "The numbers of the method itself stand on the card; the composed ones beside them, at a stated delta.",
        )
    return MET, "The numbers are those of the method itself, not converted from another kind; noise is on the card."


def _other_releases(_: Release) -> Answered:
    return DUTY, "Nobody but the owner knows what else was published about these people, with or without noise."


def _home_made(release: Release) -> Answered:
    if release.seeded:
        return NOT_MET, "The random numbers are a test's."
    return DUTY, (
        "querycloak is one implementation. Noise comes from OpenDP's exact samplers, every mechanism has a proof note "
        "that tests cite, and an audit of the method tests the guarantee; whether that is enough is the owner's "
        "judgement."
    )


def _small_groups(release: Release) -> Answered:
    needed = [reach.users95.high for reach in release.reach.values() if reach.users95 is not None]
    if release.counts in ("exact", "sampled") or release.rows.is_random:
        return NOT_MET, "Small groups are missing, or changed like everybody else: nothing favours them."
    if not needed:
        return NOT_MET, "The method does not say from how many users on something comes out."
    return NOT_MET, (
        f"What few people ask is missing: a row needs about {max(needed):,} users to come out with 95 % probability. "
        "Do not draw conclusions about small groups from what is not here."
    )


def _rounding(release: Release) -> Answered:
    if release.counts == "synthetic":
        return (
            NOT_MET,
            "Noisy totals are clipped, rounded and fitted to each other; what that costs is not on the card.",
        )
    return MET, "Noise is of whole numbers, so that nothing is rounded; what a count may be off by is on the card."


def _bias(release: Release) -> Answered:
    margins = [reach.margin95 for reach in release.reach.values() if reach.margin95 is not None]
    if release.counts == "exact":
        return MET, "Counts are exact where they are given."
    if not margins:
        return NOT_MET, "The method states no margin for its counts."
    widest = max(margin.high for margin in margins)
    if release.counts in ("one-draw", "public-keys"):
        return MET, (
            f"Noise changes a count by at most {widest:,} (95 %). Counts near the threshold are too high on average; "
            "the datasheet says so."
        )
    raised = ", and but for those that noise brings below 1, which become 1" if release.counts == "weighed" else ""
    return MET, (
        f"Noise changes a count by at most {widest:,} (95 %); counts are right on average except for bounding{raised}."
    )


def _bounding(release: Release) -> Answered:
    if release.proven.kind == "syntactic":
        return MET, "No contribution is bounded."
    return DUTY, (
        "Each user counts for a limited number of rows, so counts of what busy people do are too low. By how much is "
        "private; an evaluation of the task counts shows it to the owner."
    )


def _keys(release: Release) -> Answered:
    nothing = _no_bound(release)
    if nothing is not None:
        return NOT_MET, f"Which rows exist is decided by the log itself. {nothing}"
    if release.counts == "public-keys":
        return MET, "Every row comes from public lists, and noise was drawn for those that nobody asked for, too."
    if release.rows.is_random:
        return MET, "Every row is drawn from a public taxonomy."
    return MET, "Which rows exist is decided by noise and a threshold, and its price is part of delta."


def _no_model(_: Release) -> Answered:
    return MET, "No model is trained or released."


def _synthetic(release: Release) -> Answered:
    if release.counts == "synthetic":
        return MET, "The made-up users come from noisy tables alone, under the guarantee above."
    if release.counts == "sampled":
        return NOT_MET, "Rows are those of real users under other names."
    return MET, "The release holds no synthetic records."


def _deep(_: Release) -> Answered:
    return MET, "No deep generative model is used; tables are noisy counts or made from them."


def _text(release: Release) -> Answered:
    nothing = _no_bound(release)
    if nothing is not None:
        return NOT_MET, f"Texts of single people may come out. {nothing}"
    if release.proven.unit != "user":
        return NOT_MET, "The unit is a query, while a person may tell their story over many."
    return MET, "The unit is the person, not the text: all queries of one user are covered together."


def _interactive(release: Release) -> Answered:
    if release.accounting.charge is not None:
        return MET, "It is one release, nobody can query the log, and it was charged to a ledger before it was drawn."
    return (
        DUTY,
        "It is one release and nobody can query the log. It was not accounted: the owner must add up all releases.",
    )


def _trust(_: Release) -> Answered:
    return DUTY, "Central model: the people who run the release see the raw log and must be trusted with it."


def _side_channels(release: Release) -> Answered:
    if release.seeded:
        return NOT_MET, "The noise came from a seed."
    return DUTY, (
        "Noise is drawn as whole numbers by an exact sampler from the system's entropy, so that floating point tells "
        "nothing; errors and messages hold nothing of the log. How long a run takes is not protected: run it where "
        "nobody watches."
    )


def _security(_: Release) -> Answered:
    return DUTY, "The raw log, its copies and what spills to disk must be protected and deleted in time."


def _access(_: Release) -> Answered:
    return (
        DUTY,
        "Who may read the raw log, run releases and spend from the ledger is for the owner to decide and to watch.",
    )


def _collect_less(release: Release) -> Answered:
    kept = release.log.get("keep_url")
    said = f" Of addresses the {kept} was kept." if kept else ""
    return DUTY, f"What is collected, and for how long it is kept, was decided before this release.{said}"


_ALL: tuple[tuple[str, Callable[[Release], Answered]], ...] = (
    ("A large epsilon may mean little", _large_epsilon),
    ("A delta above 0 allows a rare catastrophe", _rare_catastrophe),
    ("The unit must cover the harm that is feared", _unit),
    ("Limits for each event or period do not protect what repeats", _repeats),
    ("Guarantees with different deltas", _deltas),
    ("Guarantees with different units cannot be compared", _units),
    ("Converting between kinds of guarantees can mislead", _conversion),
    ("Other releases about the same people that are not private", _other_releases),
    ("Home-made implementations", _home_made),
    ("Noise falls hardest on small groups", _small_groups),
    ("Rounding and clamping cost accuracy", _rounding),
    ("Bias must be quantified", _bias),
    ("Bounding what one person adds costs accuracy", _bounding),
    ("Bins and keys can leak", _keys),
    ("Models memorise what they are trained on", _no_model),
    ("Synthetic data without differential privacy can be attacked", _synthetic),
    ("Deep synthesis can be worse than noisy counts", _deep),
    ("For text the unit is hard to define", _text),
    ("Interactive use adds up", _interactive),
    ("Trust assumptions", _trust),
    ("Side channels: floating point, time, back ends", _side_channels),
    ("Security of the data", _security),
    ("Access to the data", _access),
    ("Collect less", _collect_less),
)
