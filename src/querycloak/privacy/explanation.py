"""A guarantee in plain words, for the person in charge of other people's privacy."""

from __future__ import annotations

import math
from fractions import Fraction

from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural
from querycloak.privacy.sampling.exact import exp_minus, four_digits_up, shown_up, stated

__all__ = ["at_most", "belief_after", "caught_at_most", "cautions_of", "comes_out_exactly", "explain", "group_delta"]


_LEAST_LOG = 745  # e^-745 is below every float above 0


def belief_after(before: float, epsilon: float) -> float:
    """Return the most that a belief of `before` can become: Bayes' rule with odds times e^epsilon."""
    odds_against = (1 - before) / before
    return 1 / (1 + odds_against * math.exp(-min(epsilon, 700.0)))


def caught_at_most(false_alarms: float, epsilon: float, delta: float) -> float:
    """Return the largest share of members found by a test that wrongly names `false_alarms` of the others."""
    grown = math.exp(min(epsilon, 700.0)) * false_alarms + delta
    shrunk = 1 - math.exp(-epsilon) * (1 - false_alarms - delta)
    return min(1.0, grown, shrunk)


def group_delta(size: int, epsilon: float, delta: float) -> float:
    """Return the delta of group privacy for `size` users, at `size` times epsilon, rounded up and at most 1.

    It is delta (1 + e^epsilon + ... + e^((size-1) epsilon)): histogram.md, neighbours.
    """
    if not delta:
        return 0.0
    if (size - 1) * epsilon > _LEAST_LOG:
        return 1.0
    steps = [stated(epsilon) * step for step in range(size)]
    bits = 64 + 2 * math.ceil(steps[-1])
    grown = sum(Fraction(1 << bits, exp_minus(step, bits)[0]) for step in steps)
    return min(1.0, four_digits_up(stated(delta) * grown))


def explain(guarantee: Guarantee) -> str:
    """Return what the numbers mean for one person, a paragraph for each point.

    Why the guarantee holds and what it leaves unprotected are texts of the guarantee itself, and are not repeated.
    """
    if guarantee.kind == "syntactic":
        return _syntactic(guarantee)
    if guarantee.kind == "sampling-only":
        return _one_step(guarantee)
    return "\n\n".join(_beliefs(guarantee) + _accidents(guarantee) + _limits(guarantee))


def _syntactic(guarantee: Guarantee) -> str:
    if guarantee.k is None:
        return (
            "Nothing limits what this release tells about one person. Use it only for comparisons, on logs that "
            "everybody may see. Do not publish it from a private log."
        )
    crowd = f"at least {guarantee.k} users share it"
    if guarantee.unit == "query":
        crowd = (
            f"at least {guarantee.k} users asked it or something that the method counts as like it; "
            "a single query may still be one person's alone"
        )
    return (
        f"Something is released only if {crowd}. That is a rule about what the release looks like. It sets no "
        "limit to what somebody can conclude about one person: somebody who knows the other users, or "
        "sees two such releases, may learn everything. It cannot be added up with other guarantees either."
    )


def _beliefs(guarantee: Guarantee) -> list[str]:
    epsilon, _ = guarantee.numbers
    even, faint = belief_after(0.5, epsilon), belief_after(0.01, epsilon)
    points = [
        f"Suppose that somebody knows everything but one thing: {_question(guarantee)}.",
        "If they believe before the release that it is as likely as not (50 %), the release can raise that to "
        f"{at_most(even)}. If they believe that it is improbable (1 %), the release can raise that to "
        f"{at_most(faint)}. This holds whatever else they know, and whatever they compute "
        f"(epsilon = {epsilon:g}: the odds change by a factor of at most {_factor(epsilon)}, up or down).",
    ]
    if even > 0.99:
        attacker = (
            "An attacker who knows the few other people who asked the same can come near it: at epsilon 8 it may be "
            "enough to know two of them."
        )
        if guarantee.neighbours == "replace-query":
            attacker = "An attacker needs to know nobody else for that: each person's rows are drawn from their own."
        points.append(f"That is a weak promise: in the worst case a guess becomes almost certain. {attacker}")
    return points


def _one_step(guarantee: Guarantee) -> str:
    step, rest = (
        "the random choice of rows",
        "how many rows of each kind are chosen is computed from the log without noise",
    )
    if guarantee.neighbours == "replace-query":
        step = "the random choice of the concept that replaces another"
        rest = "everything else in a query is released as it was typed"
    return (
        "Nothing limits what this release tells about one person. The proof covers one step of the method only: "
        f"{step}. The rest is not covered: {rest}. Use it only for comparisons, on logs that everybody may "
        "see. Do not publish it from a private log."
    )


_TOPICS = "the domain of each query"


def _question(guarantee: Guarantee) -> str:
    if guarantee.unit == "query":
        return "whether a certain search was for one thing or for another"
    if guarantee.neighbours == "replace-query":
        same = " of the same topics" if any(text.startswith(_TOPICS) for text in guarantee.unprotected) else ""
        return (
            "whether a certain person, who is known to be in the log, searched for these things or for quite others"
            f"{same}"
        )
    return "whether a certain person is in the log at all"


def _accidents(guarantee: Guarantee) -> list[str]:
    _, delta = guarantee.numbers
    if delta == 0:
        return ["There is no exception to these limits (delta = 0)."]
    text = (
        f"There is an exception (delta = {shown_up(delta)}, {_one_in(delta)}). At worst, the release tells everything "
        "about the person with this probability, and keeps to the limits above otherwise. When the exception happens, "
        "nothing limits what is learnt."
    )
    if delta >= 1e-3:
        text += " A probability as large as this is no protection: the exception will happen to some people."
    else:
        text += " The probability is for each person: keep it far below one divided by the number of people in the log."
    return [text]


def _limits(guarantee: Guarantee) -> list[str]:
    caught = at_most(caught_at_most(0.01, *guarantee.numbers))
    if guarantee.unit == "query":
        text = _as_a_test("which searches were for one thing", "searches for something else", "those for it", caught)
        return [f"{text} This is for each single search. For a person with ten searches: {_group(guarantee, 10)}."]
    if guarantee.neighbours == "replace-query":
        text = _as_a_test("who searched for one thing", "people who did not", "those who did", caught)
        text += (
            " The guarantee covers all searches of one person together. It does not cover whether that person is in "
            "the log, nor how often that person searched."
        )
    else:
        text = _as_a_test("who is in the log", "people who are not", "those who are", caught)
    return [f"{text} Each further release of the same log adds its own numbers to these.", _groups(guarantee)]


def _as_a_test(question: str, others: str, members: str, caught: str) -> str:
    caught = caught if caught.startswith("at most") else f"up to {caught}"
    return (
        f"Suppose that somebody uses a test to find out {question}. If the test wrongly names 1 % of the {others}, it "
        f"rightly names {caught} of {members}."
    )


def _groups(guarantee: Guarantee) -> str:
    """Guarantee for several accounts, whose delta grows far faster than their epsilon (histogram.md)."""
    who = "two accounts of one person"
    if guarantee.neighbours == "add-remove-user":
        who += ", two people who act as one, or one person replaced by another"
    return (
        f"All this is for one user of the log. For {who}: {_group(guarantee, 2)}. "
        f"For three accounts: {_group(guarantee, 3)}."
    )


def _group(guarantee: Guarantee, size: int) -> str:
    epsilon, delta = guarantee.numbers
    grown = f"epsilon {four_digits_up(size * stated(epsilon)):g}" if epsilon else "epsilon 0"
    delta = group_delta(size, epsilon, delta)
    if delta == 0:
        return grown
    return "nothing is promised (delta reaches 1)" if delta == 1 else f"{grown}, delta {delta:g} ({_one_in(delta)})"


def at_most(share: float) -> str:
    """Write a limit of a share as a percentage, rounded up."""
    if share > 0.9999:
        return "almost 100 %"
    step = 1e-4 if share > 0.99 else 1e-3
    return f"at most {math.ceil(share / step - 1e-9) * step * 100:.{2 if step == 1e-4 else 1}f} %"


def _factor(epsilon: float) -> str:
    """Write e^epsilon, rounded up."""
    if epsilon > 25:
        return f"10^{math.ceil(epsilon / math.log(10))}"
    factor = math.exp(epsilon)
    return f"{math.ceil(factor):,}" if factor >= 100 else f"{four_digits_up(stated(factor)):g}"


def _one_in(delta: float) -> str:
    """Write a probability for people, rounded up to three digits, as it is a limit."""
    if delta > 0.1:
        return f"{math.ceil(100 * stated(delta))} %"
    one_in = math.floor(1 / stated(delta))
    return f"1 in {one_in - one_in % 10 ** max(0, len(str(one_in)) - 3):,}"


def comes_out_exactly(proven: Guarantee) -> str:
    """Presence, and what else of searches the card lists; a bound on their number is part of its line."""
    facts = ["that they are in the log"]
    for text in proven.unprotected:
        if text.startswith("how many queries each user has"):
            bound = text.partition(", ")[2]
            facts.append(f"how often they searched{bound and f' ({bound})'}")
        elif text.startswith(_TOPICS):
            facts.append("the topic of each search")
        elif text in _TIMES:
            facts.append(text)
    return (
        f"{', '.join(facts[:-1])} and {facts[-1]} comes out exactly" if facts[1:] else f"{facts[0]} comes out exactly"
    )


_TIMES = tuple(f"the {unit} of every search" for unit in ("time", "hour", "day", "month"))


LARGE_EPSILON = 10.0
"""Above this a belief of 50 % may become one of 99.995 %."""


LARGE_DELTA = 1e-3


def cautions_of(guarantee: Guarantee, population_size: int | None = None) -> list[str]:
    """Say which numbers promise little; `population_size` is the number of users in the log, if public."""
    if population_size is not None:
        natural("population_size", population_size, "say how many users there are behind the log")
    if not guarantee.covers_release:
        return []  # its card says that it bounds nothing
    epsilon, delta = guarantee.numbers
    cautions = []
    if epsilon > LARGE_EPSILON:
        cautions.append(
            f"epsilon is {shown_up(epsilon)}: above {LARGE_EPSILON:g} it limits next to nothing, for a guess about one "
            "person may become near certainty; 1 or less is cautious"
        )
    if population_size is not None and delta * population_size > 1:
        cautions.append(
            f"delta is {shown_up(delta)}, above 1/{population_size:,}: the release may tell everything about somebody"
        )
    elif delta >= LARGE_DELTA:
        cautions.append(
            f"delta is {shown_up(delta)}: the release may tell everything about {_share_of_users(delta)}; take a delta "
            "far below one divided by the number of users"
        )
    return cautions


def _share_of_users(delta: float) -> str:
    """Write the share of users that a delta may expose: one user in 1,000, or 50 % of all users."""
    return f"{_one_in(delta)} of all users" if delta > 0.1 else f"one user in {_one_in(delta).removeprefix('1 in ')}"
