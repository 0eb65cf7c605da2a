"""Epsilon that reaches a wanted accuracy of counts, computed without data: the inverse of `routes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from querycloak.errors import ParameterError
from querycloak.methods.method import Method
from querycloak.methods.option import options_of
from querycloak.privacy.calibration.accuracy import LIKELY, ReleaseProbability
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.parameters import natural, refuse, whole
from querycloak.sentence import Parameter, Sentence

AnyMethod = TypeVar("AnyMethod", bound="Method")
_FIRST_DECADE, _LAST_DECADE = -3, 2
_STEPS = 900 * (_LAST_DECADE - _FIRST_DECADE + 1)
"""Numbers of three digits from 0.001 to 999."""
_STEPS_BACK = 4


@dataclass(frozen=True)
class AccuracyTarget:
    """Target with probability 95 %: a key of this many users comes out, and noise changes its count by at most `error`.

    error: None if any noise will do. If the probability depends on what users hold, the worse end counts
    (privacy/calibration/accuracy.md, claims 2 and 3).
    """

    users: int
    error: int | None = None

    def __post_init__(self) -> None:
        name = "for_users" if self.error is None else "at_users"
        natural(name, self.users, "say how many users a key has that should come out, such as 50")
        if self.error is not None:
            whole("for_error", self.error, "say how far noise may carry a count, such as 10", least=0)

    def is_met(self, method: Method) -> bool:
        """True if all routes of all tables reach the target."""
        return all(self._chance(route) >= LIKELY for routes in method.routes().values() for route in routes)

    def _chance(self, route: ReleaseProbability) -> Fraction:
        if self.error is None:
            return Fraction(route.comes_out(self.users * route.least))
        return Fraction(route.hits(self.users, self.error))


def method_for(kind: type[AnyMethod], target: AccuracyTarget, options: Mapping[str, Any]) -> AnyMethod:
    """The method with these options at the smallest epsilon, to three digits, that meets the target."""
    name = "for_users" if target.error is None else "for_error"
    _check(kind, name, target.users, options)
    largest = kind(**{**options, "epsilon": _epsilon(_STEPS - 1)})
    if not largest.routes():
        refuse(name, f"left out with {kind.name}", target.users, "no number of users can be said to bring a row out")
    if not target.is_met(largest):
        _refuse_too_much(name, target, largest)

    def is_met(step: int) -> bool:
        try:
            return target.is_met(kind(**{**options, "epsilon": _epsilon(step)}))
        except ParameterError:  # a budget too small for this method
            return False

    step = smallest_integer(lambda number: number >= _STEPS or is_met(number), above=-1, first=_STEPS // 2)
    # Rounding of noise and threshold may let a slightly smaller epsilon do as well.
    step = min((back for back in range(max(0, step - _STEPS_BACK), step) if is_met(back)), default=step)
    return kind(**{**options, "epsilon": _epsilon(step)})


def _epsilon(step: int) -> float:
    """The numbers of three digits in order: 0.001, 0.00101, ..., 999."""
    decade, digits = divmod(step, 900)
    return float(f"{100 + digits}e{decade + _FIRST_DECADE - 2}")


def _check(kind: type[Method], name: str, asked: int, options: Mapping[str, Any]) -> None:
    listed = {each.name for each in options_of(kind)}
    if "epsilon" not in listed:
        way_out = Sentence("{min_users} is that number itself") if "min_users" in listed else "it has no budget"
        refuse(name, f"left out with {kind.name}, which has no epsilon", asked, way_out)
    for given in ("epsilon", "noise", "threshold"):
        if options.get(given) is not None:
            rule = Sentence("left out with {target}", target=Parameter(name))
            refuse(given, rule, options[given], "epsilon is what is solved for, and the rest follows from it")


def _refuse_too_much(name: str, target: AccuracyTarget, method: Method) -> None:
    """Say how near the largest epsilon comes."""
    routes = [route for each in method.routes().values() for route in each]
    least = max(route.users(LIKELY).high for route in routes)
    if target.users < least:
        asked = "for_users" if target.error is None else "at_users"
        way_out = (
            "no epsilon up to 999 brings out keys of fewer users; raise delta, or lower the number of keys per user"
        )
        refuse(asked, f"at least {least} here", target.users, way_out)
    off = max(route.margin for route in routes)
    refuse(name, f"at least {off} here", target.error, "no epsilon up to 999 makes the noise of a count smaller")
