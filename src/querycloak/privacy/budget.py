"""Owner's privacy parameters: a budget, from which noise and threshold follow, or noise and threshold themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import checked_delta, checked_epsilon, number_above_zero, refuse, whole
from querycloak.sentence import Sentence, listed

LEAST_NOISE = 0.001
"""The scale of Laplace noise for one key at the largest epsilon."""


@dataclass(frozen=True)
class Budget:
    """The most that a release may lose: epsilon and delta, both checked."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = checked_epsilon(self.epsilon)
        delta = checked_delta(self.delta, "give a number such as 1e-7, far below one divided by the number of users")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)


@dataclass(frozen=True)
class ExplicitNoise:
    """The size of the noise, and the count that a key must exceed."""

    noise: float
    threshold: int

    def __post_init__(self) -> None:
        noise = number_above_zero("noise", self.noise, "give the scale of Laplace, or the sigma of Gaussian noise")
        if noise < LEAST_NOISE:
            refuse("noise", f"at least {LEAST_NOISE:g}", self.noise, "less protects nobody")
        threshold = whole("threshold", self.threshold, "give the count K that a key must exceed", least=0)
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "threshold", threshold)


Given = Budget | ExplicitNoise


def budget_or_knobs(
    epsilon: float | None, delta: float | None, noise: float | None, threshold: int | None
) -> Budget | ExplicitNoise:
    """The one of the two that was given, as a value."""
    given = which_is_given({"epsilon": epsilon, "delta": delta}, {"noise": noise, "threshold": threshold})
    if given == "knobs" and noise is not None and threshold is not None:
        return ExplicitNoise(noise, threshold)
    if epsilon is not None and delta is not None:
        return Budget(epsilon, delta)
    raise TypeError("which_is_given lets nothing pass that is not complete")


def which_is_given(budget: Mapping[str, object], knobs: Mapping[str, object]) -> str:
    """`budget` or `knobs` (explicit noise): all of one must be given, and none of the other."""
    given = {name for name, value in {**budget, **knobs}.items() if value is not None}
    names = {"budget": list(budget), "knobs": list(knobs)}
    chosen = [kind for kind, members in names.items() if given & set(members)]
    either = Sentence("the budget ({budget}) or explicit noise ({knobs})", budget=listed(budget), knobs=listed(knobs))
    if not chosen:
        raise ParameterError.of("give {either}", either=either)
    if len(chosen) > 1:
        raise ParameterError.of("give {either}, never both: each follows from the other", either=either)
    lacking = [name for name in names[chosen[0]] if name not in given]
    if lacking:
        names_lacking = listed(lacking, " and ")
        raise ParameterError.of("{lacking} must be given too: {either}, complete", lacking=names_lacking, either=either)
    return chosen[0]
