"""Explanation of a guarantee in plain words, for the people who sign a release."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural
from querycloak.privacy.sampling.exact import exp_minus, four_digits_up, shown_up, stated

if TYPE_CHECKING:
    from jinja2 import Template

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
    """Return what the numbers mean for one person, a paragraph for each point; the sentences are in explanation.jinja.

    Why the guarantee holds and what it leaves unprotected are texts of the guarantee itself, and are not repeated.
    """
    numbers: dict[str, Any] = {}
    if guarantee.covers_release:
        epsilon, delta = guarantee.numbers
        numbers = {
            "epsilon": epsilon,
            "delta": delta,
            "even": belief_after(0.5, epsilon),
            "faint": belief_after(0.01, epsilon),
            "caught": at_most(caught_at_most(0.01, epsilon, delta)),
            "group": lambda size: (four_digits_up(size * stated(epsilon)), group_delta(size, epsilon, delta)),
            "same_topics": any(text.startswith(_TOPICS) for text in guarantee.unprotected),
        }
    text = explanation_template().render(guarantee=guarantee, **numbers)
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n\n".join(filter(None, paragraphs))


@cache
def explanation_template() -> Template:
    """The sentences, compiled. Loaded at the first use: `guarantee` starts without Jinja."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"at_most": at_most, "factor": _factor, "one_in": _one_in, "up": shown_up}
    return environment.from_string(Path(__file__).with_suffix(".jinja").read_text("utf-8"))


_TOPICS = "the domain of each query"


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
    """Sentence on quantities that come out exactly: presence, and the quantities of searches that the card lists."""
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
            f"epsilon is {shown_up(epsilon)}: above {LARGE_EPSILON:g} it limits next to nothing, because a guess about "
            "one person may become near certainty; 1 or less is cautious"
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
