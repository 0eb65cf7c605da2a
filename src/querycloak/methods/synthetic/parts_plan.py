"""One budget for all parts of a made-up log, from the parameters alone (proof: synthetic.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from querycloak.methods.phrases.method import LEVELS
from querycloak.methods.synthetic.shape import CELLS
from querycloak.privacy.accounting.draws import Draw, GaussianRounds
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.public_counts import PublicPlan
from querycloak.privacy.calibration.selection import PER_USER, plan_tables
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.parameters import refuse

LONGEST = 3
"""Words of a phrase at most."""
WORDS, QUERIES, CLICKS, HOSTS, TRANSITIONS = "words", "queries", "clicks", "hosts", "transitions"
SELECTED = (WORDS, QUERIES, CLICKS, HOSTS)
SHARES: Mapping[str, int] = {
    WORDS: 31, QUERIES: 30, CLICKS: 22, HOSTS: 5, TRANSITIONS: 3,
    "users": 1, "sessions": 1, "hours": 2, "pauses": 1, "kinds": 1, "sources": 1, "lengths": 1, "ranks": 1,
}  # fmt: skip
"""Parts of the budget, 100 in all, measured beside others on synthetic logs (docs/synthetic-release.md)."""
LEVEL_SHARES = (3, 2, 1)
"""Parts of the words' budget, by level."""
NEEDED: Mapping[str, Sequence[str]] = {
    WORDS: ("the queries that are put together from words",),
    QUERIES: ("whole queries", CLICKS, TRANSITIONS, "sources"),
    "users": ("every made-up user",),
    "sessions": ("every made-up session",),
}
"""Parts that others are made of."""
_LEVELS = LEVELS[:LONGEST]
_CLICKED = "clicked"
_MOST_PARTS = 1_000_000


@dataclass(frozen=True)
class PartsPlan:
    """A plan for each part that is drawn."""

    epsilon: float
    delta: float
    shares: Mapping[str, int]
    selected: Mapping[str, TablePlan]
    """By level of `words`, and by part."""
    public: Mapping[str, PublicPlan]
    later: GaussianRounds
    """The rounds of all public parts together."""
    because: str

    def draws(self) -> list[Draw]:
        """Draws, recorded for composition."""
        return [*(plan.draw() for plan in self.selected.values()), self.later]


def parse_shares(text: str | None) -> dict[str, int]:
    """The share of each part: those named in a text such as words=40,hosts=0, and by default the others."""
    shares = dict(SHARES)
    named: set[str] = set()
    rule = f"a whole number of parts for some of {', '.join(SHARES)}"
    for piece in [] if text is None else str(text).split(","):
        name, equals, number = (each.strip() for each in piece.partition("="))
        if name not in SHARES or name in named or not equals or not number.isascii() or not number.isdecimal():
            refuse("split", rule, text, "such as words=40,hosts=0; what is not named keeps its part")
        shares[name] = min(int(number), _MOST_PARTS)
        named.add(name)
    for name, others in NEEDED.items():
        if not shares[name]:
            refuse("split", f"above 0 for {name}", text, f"{', '.join(others)} are made from it")
    if shares["ranks"] and not shares[CLICKS] and not shares[HOSTS]:
        refuse("split", "0 for ranks where clicks and hosts are 0", text, "there are no clicks that could have ranks")
    return shares


@lru_cache(maxsize=64)
def plan_parts(given: Budget, split: str | None) -> PartsPlan:
    """Noise and thresholds of all parts within one budget."""
    shares = parse_shares(split)
    levels = dict(zip(_LEVELS, (shares[WORDS] * part for part in LEVEL_SHARES), strict=True))
    tables = {**levels, **{name: sum(LEVEL_SHARES) * shares[name] for name in SELECTED[1:]}}
    # `plan_tables` gives a table called clicks a round for its queries; here they came out before.
    tables = {_CLICKED if name == CLICKS else name: part for name, part in tables.items() if part}
    last = {name: part for name, part in shares.items() if part and name not in SELECTED}
    later = Fraction(sum(last.values()), sum(shares.values()))
    planned = plan_tables(
        given.epsilon,
        given.delta,
        dict.fromkeys(tables, PER_USER["multi-round"]),
        selection="multi-round",
        split=tables,
        later=later,
    )
    public = {
        name: PublicPlan.of_loss(planned.later_loss * part / sum(last.values()) * (1 - 1e-12), _squared(name))
        for name, part in last.items()
    }
    sigmas = ", ".join(f"{name} {plan.noise.size:g}" for name, plan in public.items())
    thresholds = ", ".join(f"{name} {plan.parameters()['threshold']:.4g}" for name, plan in planned.plans.items())
    because = (
        "in each selected part a user divides a weight of Euclidean length 1 among at most "
        f"{PER_USER['multi-round']} keys, by earlier noisy rounds that are never published; a key comes out if its "
        f"total weight, with Gaussian noise, exceeds a threshold ({thresholds}), and is then counted with fresh noise "
        "(privacy/calibration/selection.md); every cell of the other parts gets Gaussian noise, held or not, of sigma "
        f"{sigmas}; all rounds add up to (epsilon, delta), and users are made up from what they give "
        "(methods/synthetic/synthetic.md)"
    )
    selected = {CLICKS if name == _CLICKED else name: plan for name, plan in planned.plans.items()}
    return PartsPlan(
        planned.epsilon, planned.delta, shares, selected, public, GaussianRounds(planned.later_loss, 0.0), because
    )


def _squared(name: str) -> int:
    return 1 if name == TRANSITIONS else CELLS[name].squared
