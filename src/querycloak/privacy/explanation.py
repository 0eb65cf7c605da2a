"""A guarantee in plain words, for the person in charge of other people's privacy."""

import math
from fractions import Fraction

from querycloak.privacy.chance.exact import exp_minus, four_digits_up, shown_up, stated
from querycloak.privacy.guarantee import Guarantee

__all__ = ["belief_after", "caught_at_most", "explain", "group_delta"]

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
    """Return delta, rounded up, at `size` times epsilon for so many at once: delta (1 + e^epsilon + ...), at most 1."""
    if not delta:
        return 0.0
    if (size - 1) * epsilon > _LEAST_LOG:
        return 1.0
    steps = [stated(epsilon) * step for step in range(size)]
    bits = 64 + 2 * math.ceil(steps[-1])
    grown = sum(Fraction(1 << bits, exp_minus(step, bits)[0]) for step in steps)
    return min(1.0, four_digits_up(stated(delta) * grown))


def explain(guarantee: Guarantee) -> str:
    """Return what the numbers mean for one person, a paragraph for each point."""
    if guarantee.kind == "syntactic":
        points = _syntactic(guarantee)
    else:
        points = _beliefs(guarantee) + _accidents(guarantee) + _limits(guarantee)
    return "\n\n".join([*points, _left_out(guarantee), f"Why this holds: {guarantee.because}."])


def _syntactic(guarantee: Guarantee) -> list[str]:
    crowd = f"at least {guarantee.k} users share it" if guarantee.k else "it meets a rule about the data"
    if guarantee.k and guarantee.unit == "query":
        crowd = (
            f"at least {guarantee.k} users asked it or what the method counts as like it: "
            "a single query may still be one person's alone"
        )
    return [
        f"Something is released only if {crowd}. That is a rule about what the output looks like. It sets no "
        "limit to what somebody can conclude about one person: whoever knows the others in the crowd, or "
        "sees two such releases, may conclude everything. It cannot be added up with other guarantees either."
    ]


def _beliefs(guarantee: Guarantee) -> list[str]:
    epsilon, _ = guarantee.numbers
    even, faint = belief_after(0.5, epsilon), belief_after(0.01, epsilon)
    points = [
        f"Suppose that somebody knows everything but one thing: {_question(guarantee)}.",
        "If they held it as likely as not (50 %) before they saw the release, the release can lift that to "
        f"{_percent(even)} and no further. If they held it improbable (1 %), to {_percent(faint)} and no "
        "further. This is so whatever else they know and however they compute "
        f"(epsilon = {epsilon:g}: the odds change at most by a factor of {_factor(epsilon)}, up or down).",
    ]
    if guarantee.kind == "sampling-only":
        points.insert(0, _one_step(guarantee))
    if even > 0.99:
        points.append(
            "That is a weak promise: in the worst case a guess becomes near certainty. The worst case needs "
            "an attacker who knows nearly all else in the log, but nothing in these numbers rules one out."
        )
    return points


def _one_step(guarantee: Guarantee) -> str:
    if guarantee.neighbours == "replace-query":
        return (
            "Careful: these numbers cover one step only, the random choice of what stands for a concept. All else that "
            "comes out of a query was released as it was typed, and nothing below covers that."
        )
    return (
        "Careful: these numbers cover the last step only, the random choice of rows. How many rows of "
        "each kind to choose was computed from the log without noise, and nothing below covers that."
    )


def _question(guarantee: Guarantee) -> str:
    if guarantee.unit == "query":
        return "whether a certain search was for one thing or for another"
    if guarantee.neighbours == "replace-query":
        return "whether a certain person, who is known to be in the log, searched for these things or for quite others"
    return "whether a certain person is in the log at all"


def _accidents(guarantee: Guarantee) -> list[str]:
    _, delta = guarantee.numbers
    if delta == 0:
        return ["There is no exception to these limits (delta = 0)."]
    text = (
        f"There is an exception (delta = {shown_up(delta)}, {_one_in(delta)}). The release is at least as safe as "
        "one that, with that probability, tells all about the person, and otherwise keeps to the limits "
        "above. When the exception happens, nothing limits what is learnt."
    )
    if delta >= 1e-3:
        text += " A probability as large as this protects no one whom it befalls, and it will befall some."
    else:
        text += " It counts for each person: keep it well below one divided by the number of people in the log."
    return [text]


def _limits(guarantee: Guarantee) -> list[str]:
    caught = caught_at_most(0.01, *guarantee.numbers)
    by_search = guarantee.unit == "query" or guarantee.neighbours == "replace-query"
    tested = "members of the log"
    if by_search:
        tested = "searches for the one thing" if guarantee.unit == "query" else "people who searched for the one thing"
    text = (
        f"Put as a test: a test that is wrong about 1 % of the others finds at most {_percent(caught)} of the {tested}."
    )
    if guarantee.unit == "query":
        return [f"{text} This counts for each single search. A person with ten searches: {_group(guarantee, 10)}."]
    if by_search:
        text += (
            " It covers all searches of one person together, not whether that person is in the log, nor how often "
            "that person searched."
        )
    return [f"{text} Each further release of the same log adds its own.", _groups(guarantee)]


def _groups(guarantee: Guarantee) -> str:
    """What is left for several accounts, whose delta grows far faster than their epsilon (histogram.md)."""
    who = "Two accounts of one person"
    if guarantee.neighbours == "add-remove-user":
        who += ", two people who act as one, and one person replaced by another"
    return (
        f"All this is for one user as the log knows users. {who}: {_group(guarantee, 2)}. "
        f"Three accounts: {_group(guarantee, 3)}."
    )


def _group(guarantee: Guarantee, size: int) -> str:
    epsilon, delta = guarantee.numbers
    grown = f"epsilon {four_digits_up(size * stated(epsilon)):g}" if epsilon else "epsilon 0"
    delta = group_delta(size, epsilon, delta)
    if delta == 0:
        return grown
    return "no promise is left (delta reaches 1)" if delta == 1 else f"{grown}, delta {delta:g} ({_one_in(delta)})"


def _left_out(guarantee: Guarantee) -> str:
    if not guarantee.unprotected:
        return "Not covered by any noise: nothing that is released."
    return "Not covered by any noise: " + "; ".join(guarantee.unprotected) + "."


def _percent(share: float) -> str:
    """Write a share as a percentage, rounded up, as it is a limit."""
    if share > 0.9999:
        return "almost 100 %"
    step = 1e-4 if share > 0.99 else 1e-3
    return f"{math.ceil(share / step - 1e-9) * step * 100:.{2 if step == 1e-4 else 1}f} %"


def _factor(epsilon: float) -> str:
    if epsilon > 25:
        return f"10^{math.floor(epsilon / math.log(10))} and more"
    factor = math.exp(epsilon)
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def _one_in(delta: float) -> str:
    """Write a probability for people, rounded up to three digits, as it is a limit."""
    if delta > 0.1:
        return f"{math.ceil(100 * stated(delta))} %"
    one_in = math.floor(1 / stated(delta))
    return f"1 in {one_in - one_in % 10 ** max(0, len(str(one_in)) - 3):,}"
