"""Sanchez et al. 2018: profiles of users after every query was replaced, under both readings of the budget.

Each sentence of the paper on Figures 2 to 4 is a finding that holds, does not, or cannot be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from querycloak.privacy.sampling.randomness import Randomness
from querycloak.reproduction.exhibit import (
    Chart,
    Exhibit,
    Grid,
    Measured,
    Series,
    all_of,
    number,
    order_words,
    verdict_of,
)
from querycloak.reproduction.sanchez2018_figures import (
    EPSILONS,
    HISTOGRAM_USERS,
    QUERIES,
    READINGS,
    RUNS,
    SETTINGS,
    Profiled,
    Setting,
    points,
    profiled_users,
)
from querycloak.reproduction.workbench import Workbench
from querycloak.text.taxonomy import FOUR, NINETEEN, topic_concepts, widest_sense
from querycloak.text.wordnet import wordnet

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
    """A loss with its interval over users; its number of hits is the queries of a user."""
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
        "losses of SQC2 fall as epsilon grows": curves["sqc2"][last].below(curves["sqc2"][min(curves["sqc2"])]),
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
    """True if HBDP loses more than every criterion; None if an interval of one contains the other value."""
    return _all_below([at[criterion] for criterion in DRAWN], [at["hbdp"]])


def _all_below(lower: Sequence[Measured], upper: Sequence[Measured]) -> bool | None:
    return all_of([low.below(high) for low in lower for high in upper])


def _about(one: Measured, other: Measured) -> bool:
    return abs(value(one) - value(other)) <= ABOUT * max(value(one), value(other))


CITATION = (
    "D. Sánchez, M. Batet, A. Viejo, M. Rodríguez-García and J. Castellà-Roca, A semantic-preserving differentially "
    "private method for releasing query logs, 2018"
)
USERS, FEW_USERS = 1_000, 200
FEW_EPSILONS = (0.1, 1.0, 5.0, 10.0)
FEW_HISTOGRAM_USERS = 10
SEED = 2018
_READING = {
    "user": "epsilon for all queries of a user together, as the paper's Proposition 3 divides it",
    "query": "epsilon for each query, so that a user of 100 queries spends 100 times as much",
    MIXED: "epsilon for each query where concepts are drawn, and for a user where HBDP adds noise",
}
# What Section 4 says of its drawings, which have no numbers in the text.
SAID = {
    2: "SQC2 < SQC1 <= NSQC < HBDP, where SQC1 and NSQC are not very different; HBDP with D(q) = P is not zero but "
    "like NSQC with D(q) > P; from epsilon 1 to 10 "
    "the best criterion becomes about 4 times lower than the non-semantic one",
    3: "larger losses than in Setting A, SQC1 and SQC2 as far apart as there; HBDP more than twice as large as "
    "there, hardly falling with epsilon",
    4: "smaller losses than in A and B, those of A and C roughly adding up to B's; SQC1 and SQC2 clearly below NSQC; "
    "HBDP as in Setting B, an order of magnitude above the others",
}


def sanchez2018(bench: Workbench) -> list[Exhibit]:
    """Every figure; the paper has no tables."""
    people = _People(bench)
    made = {place: people.points(place) for place in range(len(SETTINGS))}
    equal = {2: made[4], 3: made[4], 4: made[3]}  # D(q) = P with 19 topics, and with four
    others = {"A": made[0], "B": made[1]}
    return [
        figure_1(),
        *(_figure(bench, SETTINGS[place], made[place], equal[SETTINGS[place].figure], others) for place in (0, 1, 2)),
        reading_exhibit(bench, made),
    ]


class _People:
    """The users whose queries are replaced, found when something of them is missing."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    @cached_property
    def _profiled(self) -> Profiled:
        return profiled_users(self._bench.log, FEW_USERS if self._bench.quick else USERS)

    def points(self, place: int) -> list[dict[str, Any]]:
        """All points of a setting, in the paper's variant and in ours."""
        return list(self._bench.step(f"setting_{place + 1}", lambda: self._points(place)))

    def _points(self, place: int) -> list[dict[str, Any]]:
        quick = self._bench.quick
        curve = points(
            self._profiled, settings=(SETTINGS[place],), epsilons=FEW_EPSILONS if quick else EPSILONS,
            variants=("paper",) if quick else ("paper", "default"), runs=RUNS,
            histogram_users=FEW_HISTOGRAM_USERS if quick else HISTOGRAM_USERS, randomness=Randomness(seed=SEED + place),
        )  # fmt: skip
        return [point.to_json() for point in curve]


def figure_1() -> Exhibit:
    """The domains and topics: ours, because the paper's nineteen stand in a drawing only."""
    nouns = wordnet()
    domains = dict.fromkeys(FOUR, "a domain and one of four topics")
    domains["abstraction"] = "the one domain of settings B and C"
    rows = [
        {"concept": name, "is": role, "concepts under it": int(nouns.under(widest_sense(nouns, name)).sum())}
        for name, role in domains.items()
    ]
    rows += [
        {"concept": name, "is": "one of our nineteen topics", "concepts under it": int(nouns.under(concept).sum())}
        for name, concept in zip(NINETEEN, topic_concepts(nouns, NINETEEN), strict=True)
    ]
    return Exhibit(
        "Figure 1", "Taxonomies of query domains and profile topics", "agrees in part",
        "The four topics and the domain of all queries are those that the text names. Of the nineteen profile topics "
        "the text names a few; the others are our choice, published here.",
        "The figure that lists all nineteen is a drawing which our copy of the paper lacks. So losses are compared by "
        "their order and shape, not by their size.",
        ours=Grid.of(rows, "WordNet 3.0, nouns; the paper does not say which version it used"),
    )  # fmt: skip


def _figure(
    bench: Workbench, setting: Setting, points: Sequence[Mapping[str, Any]], equal: Sequence[Mapping[str, Any]],
    others: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Exhibit:  # fmt: skip
    judged = {
        (reading, profile): findings(setting, points, equal, others, reading, profile)
        for reading in ALL_READINGS
        for profile in (TOPICS, NAMED)
    }
    best = max(judged, key=lambda each: list(judged[each].values()).count(True))
    rows = []
    for reading in READINGS:
        for criterion, name in CRITERIA.items():
            named = curve(points, criterion, reading, NAMED)
            for epsilon, loss in curve(points, criterion, reading).items():
                same = curve(equal, criterion, reading).get(epsilon)
                losses = {
                    "loss, D(q) > P": round(value(loss), 4), "margin": round((loss.high or 0.0) - value(loss), 4),
                    "named topics alone": round(value(named[epsilon]), 4),
                    "loss, D(q) = P": None if same is None else round(value(same), 4),
                }  # fmt: skip
                rows.append({"epsilon per": reading, "epsilon": epsilon, "criterion": name, **losses})
    return Exhibit(
        f"Figure {setting.figure}", f"Utility loss, Setting {setting.name}",
        verdict_of([holds for claims in judged.values() for holds in claims.values()]),
        "\n".join(_sentence(reading, judged[reading, TOPICS], points) for reading in ALL_READINGS)
        + f"\nThe verdict is about all {len(judged)} readings: three of epsilon, two of profiles. Most favourable to "
        f"the paper, with {list(judged[best].values()).count(True)} of {len(judged[best])} findings: "
        f"{_READING[best[0]]}; "
        + ("profiles of the named topics alone." if best[1] == NAMED else "what lies under no topic is one more topic.")
        + f" {_listed(judged[best])}",
        f"What the paper says of this drawing: {SAID[setting.figure]}. Its figures fit epsilon per query; its text "
        "divides epsilon over a user's queries. With epsilon 10 over 100 queries each concept gets 0.1, and no "
        "probability differs by more than 5 %: then every criterion is as good as none. Margins are 95 % over users; "
        "a comparison in which an interval contains "
        f"the other loss cannot be told. 'About' is within {ABOUT:.0%}.",
        ours=Grid.of(rows, f"ours on {_users(bench)}, mean of {RUNS} runs; a drawing without numbers in the paper"),
        charts=tuple(_chart(setting, points, equal, reading) for reading in READINGS),
    )  # fmt: skip


def _users(bench: Workbench) -> str:
    """Users whose queries are replaced: a quick run takes fewer than the paper's 1,000."""
    people, histograms = (FEW_USERS, FEW_HISTOGRAM_USERS) if bench.quick else (USERS, HISTOGRAM_USERS)
    return (
        f"the {people:,} users of {bench.words} with most searches for the four topics (HBDP: {histograms} of them), "
        f"each one's repeated in turn until there are {QUERIES}"
    )


def _listed(claims: Mapping[str, bool | None]) -> str:
    """Sentences on findings that hold, that do not, and that cannot be told."""
    parts = {True: "Holds", False: "Does not hold", None: "Cannot be told"}
    listed = {each: "; ".join(words for words, holds in claims.items() if holds is each) for each in parts}
    return " ".join(f"{parts[each]}: {words}." for each, words in listed.items() if words)


def _chart(
    setting: Setting, points: Sequence[Mapping[str, Any]], equal: Sequence[Mapping[str, Any]], reading: str
) -> Chart:
    lines = []
    for criterion, name in CRITERIA.items():
        losses = curve(points, criterion, reading)
        lines.append(Series.over(name, list(losses), [value(loss) for loss in losses.values()]))
    same = curve(equal, "hbdp", reading)
    lines.append(Series.over("HBDP, D(q) = P", list(same), [value(loss) for loss in same.values()]))
    return Chart(f"Setting {setting.name}, epsilon per {reading}", "epsilon", "utility loss", tuple(lines), log_x=True)


def _sentence(reading: str, claims: Mapping[str, bool | None], points: Sequence[Mapping[str, Any]]) -> str:
    last = {name: value(list(curve(points, each, reading).values())[-1]) for each, name in CRITERIA.items()}
    losses = ", ".join(f"{name} {number(loss, 3)}" for name, loss in last.items())
    return f"With {_READING[reading]}: {order_words(last)} at the largest epsilon ({losses}). {_listed(claims)}"


_LAST = {True: "yes", False: "no", None: "cannot tell"}


def reading_exhibit(bench: Workbench, made: Mapping[int, Sequence[Mapping[str, Any]]]) -> Exhibit:
    """Place of HBDP among the others, in every setting and under both readings."""
    rows: list[dict[str, Any]] = []
    last: dict[str, list[bool | None]] = {reading: [] for reading in READINGS}
    for place, setting in enumerate(SETTINGS):
        for reading in READINGS:
            curves = {criterion: curve(made[place], criterion, reading) for criterion in CRITERIA}
            for epsilon in (min(curves["sqc1"]), max(curves["sqc1"])):
                at = {criterion: losses[epsilon] for criterion, losses in curves.items()}
                last[reading].append(hbdp_is_last(at))
                order = order_words({CRITERIA[criterion]: value(loss) for criterion, loss in at.items()})
                label = f"{setting.name}, {len(setting.topics)} topics"
                rows.append(
                    {
                        "setting": label, "epsilon per": reading, "epsilon": epsilon, "order of losses": order,
                        "HBDP is last": _LAST[last[reading][-1]],
                    }
                )  # fmt: skip
    numbers = {reading: [claims.count(each) for each in (True, None)] for reading, claims in last.items()}
    return Exhibit(
        "Order of HBDP", "Where HBDP stands under both readings",
        verdict_of([each for claims in last.values() for each in claims]),
        f"The paper has HBDP last everywhere. With epsilon per user it is last in {numbers['user'][0]} of "
        f"{len(last['user'])} comparisons here, and {numbers['user'][1]} cannot be told: noise of scale 200 / "
        "epsilon on every bin makes its profile that of "
        "the domain, whatever the user asked, and the replacements do nearly the same. With epsilon per query it is "
        f"last in {numbers['query'][0]} of {len(last['query'])}, and {numbers['query'][1]} cannot be told: where "
        "epsilon is large, noise of scale 2 / epsilon on "
        "counts keeps more of a profile than replacing every query does.",
        "A comparison cannot be told if the interval of one loss contains the other. Replacing one query changes two "
        "bins by one each, so L1 is twice the number of queries; the paper states "
        "once.",
        ours=Grid.of(rows, f"ours on {bench.words}; printed: what Section 4 says of Figures 2 to 4"),
    )  # fmt: skip
