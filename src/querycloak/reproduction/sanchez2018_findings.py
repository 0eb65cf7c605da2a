"""What Sanchez et al. (2018) say of Figures 2 to 4, each sentence a finding that holds, does not, or cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from querycloak.reproduction.exhibit import Measured, all_of
from querycloak.reproduction.sanchez2018_figures import QUERIES, READINGS, Setting

CRITERIA = {"sqc2": "SQC2", "sqc1": "SQC1", "nsqc": "NSQC", "hbdp": "HBDP"}
DRAWN = ("sqc2", "sqc1", "nsqc")
"""Criteria of an exponential mechanism."""
MIXED = "mixed"
"""Epsilon for each query where concepts are drawn, for a user where HBDP adds noise."""
ALL_READINGS = (*READINGS, MIXED)
TOPICS, NAMED = "loss", "loss_on_topics"
"""Profiles with what lies under no topic as one more topic, and profiles of the named topics alone."""
_MARGINS = {TOPICS: "margin", NAMED: "margin_on_topics"}
ABOUT = 0.25
"""Relative difference up to which two losses are "roughly the same"."""
Points = Sequence[Mapping[str, Any]]
Curve = Mapping[float, Measured]


def curve(points: Points, criterion: str, reading: str, profile: str = TOPICS) -> dict[float, Measured]:
    """The loss over epsilon in the paper's variant, over named topics and what lies under none, or over named ones."""
    variant = "default" if criterion == "hbdp" else "paper"
    if reading == MIXED:
        reading = "user" if criterion == "hbdp" else "query"
    chosen = [p for p in points if (p["criterion"], p["variant"], p["reading"]) == (criterion, variant, reading)]
    return {point["epsilon"]: _measured(point, profile) for point in chosen}


def _measured(point: Mapping[str, Any], profile: str) -> Measured:
    """A loss with its interval over users; each user has as many queries."""
    loss, margin = point[profile], point[_MARGINS[profile]]
    return Measured(loss, loss - margin, loss + margin, QUERIES)


def value(measured: Measured) -> float:
    """The loss itself."""
    return measured.value or 0.0


def findings(
    setting: Setting, points: Points, equal: Points, others: Mapping[str, Points], reading: str, profile: str = TOPICS
) -> dict[str, bool | None]:
    """The findings of a figure under a reading; `equal` has D(q) = P, `others` the settings by name."""
    curves = {criterion: curve(points, criterion, reading, profile) for criterion in CRITERIA}
    last = max(curves["sqc1"])
    at = {criterion: each[last] for criterion, each in curves.items()}
    same = {criterion: curve(equal, criterion, reading, profile) for criterion in CRITERIA}
    claims = {
        f"SQC2 loses less than SQC1 and NSQC at epsilon {last:g}": _all_below([at["sqc2"]], [at["sqc1"], at["nsqc"]]),
        f"NSQC loses no less than SQC1 at epsilon {last:g}": value(at["nsqc"]) >= value(at["sqc1"])
        or at["nsqc"].below(at["sqc1"]) is None,
        "HBDP loses most": hbdp_is_last(at),
        "losses of SQC2 fall as epsilon grows": _falls(curves["sqc2"]),
        "D(q) = P loses nothing with an exponential mechanism": all(
            value(loss) == 0 for criterion in DRAWN for loss in same[criterion].values()
        ),
        "HBDP loses something with D(q) = P": all(value(loss) > 0 for loss in same["hbdp"].values()),
    }
    there = {
        name: {c: curve(each, c, reading, profile)[last] for c in CRITERIA} for name, each in others.items()
    }  # fmt: skip
    return claims | _OF_FIGURE[setting.figure](at, curves, same, there)


At = Mapping[str, Measured]


def _of_figure_2(
    at: At, _: Mapping[str, Curve], same: Mapping[str, Curve], __: Mapping[str, At]
) -> dict[str, bool | None]:
    best = min(value(at["sqc1"]), value(at["sqc2"]))
    last = max(same["hbdp"])
    return {
        "the best semantic criterion loses a third of NSQC's loss or less (the paper: about 4 times lower)": best
        <= value(at["nsqc"]) / 3,
        "HBDP with D(q) = P loses about as much as NSQC with D(q) > P": _about(same["hbdp"][last], at["nsqc"]),
    }


def _of_figure_3(
    at: At, curves: Mapping[str, Curve], _: Mapping[str, Curve], there: Mapping[str, At]
) -> dict[str, bool | None]:
    hbdp = curves["hbdp"]
    return {
        "SQC2, SQC1 and NSQC lose more than in Setting A": all_of([there["A"][c].below(at[c]) for c in DRAWN]),
        "HBDP loses more than twice as much as in Setting A": value(at["hbdp"]) > 2 * value(there["A"]["hbdp"]),
        "SQC1 and SQC2 are about as far apart as in Setting A": abs(
            value(at["sqc2"]) / value(at["sqc1"]) - value(there["A"]["sqc2"]) / value(there["A"]["sqc1"])
        )
        <= ABOUT,
        "HBDP's loss hardly falls with epsilon": value(hbdp[max(hbdp)]) > 0.9 * value(hbdp[min(hbdp)]),
    }


def _of_figure_4(
    at: At, _: Mapping[str, Curve], __: Mapping[str, Curve], there: Mapping[str, At]
) -> dict[str, bool | None]:
    return {
        "HBDP loses five times as much as each other, or more (the paper: an order of magnitude)": value(at["hbdp"])
        >= 5 * max(value(at[criterion]) for criterion in DRAWN),
        "SQC2, SQC1 and NSQC lose less than in Settings A and B": all_of(
            [at[c].below(there[name][c]) for c in DRAWN for name in ("A", "B")]
        ),
        "SQC2 and SQC1 lose less than NSQC": _all_below([at["sqc2"], at["sqc1"]], [at["nsqc"]]),
        "losses in A and C add up to about those in B": all(
            abs(value(there["A"][c]) + value(at[c]) - value(there["B"][c])) <= ABOUT * value(there["B"][c])
            for c in DRAWN
        ),
        "HBDP loses about as much as in Setting B": _about(at["hbdp"], there["B"]["hbdp"]),
    }


_OF_FIGURE = {2: _of_figure_2, 3: _of_figure_3, 4: _of_figure_4}


def hbdp_is_last(at: At) -> bool | None:
    """Whether HBDP loses more than every criterion; None if an interval of one contains the other value."""
    return _all_below([at[criterion] for criterion in DRAWN], [at["hbdp"]])


def _all_below(lower: Sequence[Measured], upper: Sequence[Measured]) -> bool | None:
    return all_of([low.below(high) for low in lower for high in upper])


def _about(one: Measured, other: Measured) -> bool:
    return abs(value(one) - value(other)) <= ABOUT * max(value(one), value(other))


def _falls(losses: Curve) -> bool | None:
    """Whether the loss at the largest epsilon is below that at the smallest."""
    return losses[max(losses)].below(losses[min(losses)])
