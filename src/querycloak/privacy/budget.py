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


def budget_or_noise(
    epsilon: float | None, delta: float | None, noise: float | None, threshold: int | None
) -> Budget | ExplicitNoise:
    """The budget or the explicit noise, whichever the owner gave; both, none and half of one are refused."""
    check_one_given({"epsilon": epsilon, "delta": delta}, {"noise": noise, "threshold": threshold})
    if noise is not None and threshold is not None:
        return ExplicitNoise(noise, threshold)
    if epsilon is not None and delta is not None:
        return Budget(epsilon, delta)
    raise TypeError("check_one_given accepts complete options only")


def check_one_given(budget: Mapping[str, object], noise: Mapping[str, object]) -> None:
    """Refuse options unless a budget or explicit noise is complete and the other absent; None is not given."""
    chosen = [options for options in (budget, noise) if any(value is not None for value in options.values())]
    either = Sentence("the budget ({budget}) or explicit noise ({noise})", budget=listed(budget), noise=listed(noise))
    if not chosen:
        raise ParameterError.of("give {either}", either=either)
    if len(chosen) > 1:
        raise ParameterError.of("give {either}, never both: each follows from the other", either=either)
    lacking = [name for name, value in chosen[0].items() if value is None]
    if lacking:
        names = listed(lacking, " and ")
        raise ParameterError.of("{lacking} must be given too: {either}, complete", lacking=names, either=either)
