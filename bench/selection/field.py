"""Every algorithm at every budget on one collection: keys and volume, each at its best parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from bench.selection import dp_ngrams, dp_sips, limit, mad, mad2r, ours, policy_gaussian, policy_laplace
from bench.selection.accounting import purse
from bench.selection.holdings import Floats, Holdings, Ints
from bench.selection.our_plans import our_plan
from bench.selection.renyi import RenyiPurse

Draw = np.random.Generator
Select = Callable[[Holdings, tuple[float, float], Draw], Ints]

TUNED: Mapping[str, tuple[Callable[..., Ints], Mapping[str, Sequence[object]]]] = {
    "policy Gaussian": (policy_gaussian.select, {"most": (100, 256), "alpha": (0.5, 1.5, 3.0)}),
    "policy Laplace": (policy_laplace.select, {"most": (4, 16, 100), "alpha": (1.0, 3.0)}),
    "DP-SIPS": (dp_sips.select, {"most": (100, 256), "rounds": (2, 3), "ratio": (1 / 10, 1 / 3)}),
    "MAD": (mad.select, {"most": (100, 256), "degree": (10, 50), "beta": (0.0, 2.0)}),
    "MAD2R": (mad2r.select, {"most": (256,), "first": (0.1, 0.3, 0.5), "beta": (0.0, 2.0), "above": (1.0, 2.0, 3.0)}),
    "policy Gaussian, Rényi": (policy_gaussian.select, {"most": (256,), "alpha": (1.5, 3.0, 5.0)}),
    "MAD2R, Rényi": (mad2r.select, {"most": (256,), "first": (0.1, 0.3), "beta": (0.0, 2.0), "above": (1.0, 2.0, 3.0)}),
    "DP n-grams": (dp_ngrams.select, {"most": (100,), "shares": ((0.2, 0.6, 0.2), (0.3, 0.4, 0.3), (0.5, 0.4, 0.1))}),
}
"""Published algorithms and the parameters that are tried: the papers' own, and values on both sides of them."""
OURS = ("laplace", "gaussian", "weighted", "multi-round", "auto")
LIMIT = "limit"
KEYS_ONLY = ", keys only"
RENYI = ", Rényi"
"""With the decision of renyi.md in place of Gaussian noise, where no count comes out."""


@dataclass(frozen=True)
class Row:
    """What one algorithm released, on average over runs; the errors are standard errors of these means."""

    log: str
    table: str
    epsilon: float
    delta: float
    algorithm: str
    parameters: str
    keys: float
    error: float
    volume: float
    volume_error: float


def rows(
    log: str,
    table: str,
    held: Holdings,
    budgets: Sequence[tuple[float, float]],
    runs: int,
    seed: int,
    *,
    ours_only: bool = False,
) -> Iterator[Row]:
    """The field, ours, and the limits, at each budget."""
    for budget in budgets:
        published = [] if ours_only else _published_ones(held, table, budget, seed)
        for algorithm, given, select in (*published, *_own_ones(table)):
            drawn = [select(held, budget, np.random.default_rng([seed, run])) for run in range(runs)]
            sizes = np.array([each.size for each in drawn], float)
            volumes = np.array([held.holders[each].sum() for each in drawn]) / max(held.key.size, 1)
            means = [(float(each.mean()), _error(each)) for each in (sizes, volumes)]
            yield Row(log, table, *budget, algorithm, given, *means[0], *means[1])


def _error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0


def _published_ones(
    held: Holdings, table: str, budget: tuple[float, float], seed: int
) -> Iterator[tuple[str, str, Select]]:
    """Published algorithms, at their best parameters."""
    for name, (function, grid) in TUNED.items():
        if name == "DP n-grams" and table != "sessions":
            continue
        select = partial(_published, name, function)
        given = _best(select, grid, held, budget, np.random.default_rng([seed, 1 << 30]))
        yield name, _words(given), partial(select, given)


def _own_ones(table: str) -> Iterator[tuple[str, str, Select]]:
    """Our selections, and the limit."""
    for name in OURS:
        yield name, "", partial(_ours, name, table, counts=True)
        if name in ("weighted", "multi-round"):
            yield name + KEYS_ONLY, "", partial(_ours, name, table, counts=False)
            yield name + KEYS_ONLY + RENYI, "", partial(_ours, name, table, counts=False, renyi=True)
    yield LIMIT, "", limit.select


def _published(
    name: str,
    function: Callable[..., Ints],
    given: Mapping[str, object],
    held: Holdings,
    budget: tuple[float, float],
    draw: Draw,
) -> Ints:
    spend = budget if name == "policy Laplace" else RenyiPurse(*budget) if name.endswith(RENYI) else purse(*budget)
    return function(held, spend, draw, **given)


def _ours(
    name: str, table: str, held: Holdings, budget: tuple[float, float], draw: Draw, *, counts: bool, renyi: bool = False
) -> Ints:
    plan, bounded = our_plan(name, table, held, budget, draw, counts=counts)
    return ours.select(bounded, plan, draw, RenyiPurse(*budget, ours.scouting_loss(plan)) if renyi else None)


def _best(
    select: Callable[[Mapping[str, object], Holdings, tuple[float, float], Draw], Ints],
    grid: Mapping[str, Sequence[object]],
    held: Holdings,
    budget: tuple[float, float],
    draw: Draw,
) -> dict[str, object]:
    """The parameters that release most on this very log: what nobody could know, and nobody is charged for."""
    tried = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return max(tried, key=lambda given: select(given, held, budget, draw).size)


def _words(given: Mapping[str, object]) -> str:
    texts = {name: f"{value:.3g}" if isinstance(value, float) else str(value) for name, value in given.items()}
    return " ".join(f"{name}={text}" for name, text in texts.items())
