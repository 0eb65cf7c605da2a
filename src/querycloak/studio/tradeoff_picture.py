"""The trade-off as a picture: rows expected of a twin above, the belief about one person below, both over epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass

from querycloak.pages.officer_answers import DEPLOYMENTS, Deployment
from querycloak.privacy.explanation import belief_after
from querycloak.studio.twin_grid import EPSILONS, Curve

LOWEST, HIGHEST = EPSILONS[0], EPSILONS[-1]
TICKS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
WIDE, NARROW = 640, 340
_LEFT, _RIGHT = {WIDE: 0.1, NARROW: 0.14}, 0.03
"""Shares of the width beside the plots; `studio.css` gives the slider above the same."""
_TOP, _ROWS, _GAP, _BELIEF, _BOTTOM = 46, 150, 30, 80, 26


@dataclass(frozen=True)
class Mark:
    """A tick, a label or a point of the picture."""

    x: float
    y: float
    text: str = ""
    end: bool = False
    """True if the text stands left of the point."""


@dataclass(frozen=True)
class TradeoffPicture:
    """Places of everything in the picture, in pixels."""

    form: str
    width: int
    epsilon: float
    curve: Curve | None
    """None if no twin was counted: the picture then has the lower plot alone."""

    @property
    def height(self) -> int:
        """Height of the whole picture."""
        return self.panels[1][1] + _BOTTOM

    @property
    def left(self) -> float:
        """Left edge of the plots."""
        return round(self.width * _LEFT[self.width], 1)

    @property
    def right(self) -> float:
        """Right edge of the plots."""
        return round(self.width * (1 - _RIGHT), 1)

    @property
    def panels(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Top and bottom of both plots; the upper one has no height without a curve."""
        upper = _TOP if self.curve is None else _TOP + _ROWS
        return (_TOP, upper), (upper + _GAP, upper + _GAP + _BELIEF)

    @property
    def decades(self) -> int:
        """Powers of ten on the axis of rows."""
        most = 0 if self.curve is None else max(*self.curve.rows, self.curve.k_anonymous or 0)
        return max(2, math.ceil(math.log10(1 + most)))

    def x(self, epsilon: float) -> float:
        """Place of an epsilon."""
        share = math.log(min(max(epsilon, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, rows: float) -> float:
        """Place of a number of rows, on a log scale that begins at 0."""
        return round(_TOP + _ROWS * (1 - math.log10(1 + rows) / math.log10(1 + 10**self.decades)), 1)

    def y_belief(self, belief: float) -> float:
        """Place of a belief between 50 and 100 %."""
        top, bottom = self.panels[1]
        return round(bottom - (belief - 0.5) * 2 * (bottom - top), 1)

    @property
    def line(self) -> str:
        """Points of the curve of rows; empty without one."""
        curve = self.curve
        return "" if curve is None else " ".join(f"{self.x(each)},{self.y(curve.at(each))}" for each in _steps())

    @property
    def belief_line(self) -> str:
        """Points of the curve of beliefs."""
        return " ".join(f"{self.x(each)},{self.y_belief(belief_after(0.5, each))}" for each in _steps())

    @property
    def x_ticks(self) -> list[Mark]:
        """Epsilons with a number."""
        return [Mark(self.x(each), self.panels[1][1], f"{each:g}") for each in TICKS]

    @property
    def y_ticks(self) -> list[Mark]:
        """Numbers of rows with a line."""
        return [
            Mark(self.left, self.y(rows), f"{rows:,}")
            for rows in (0, *(10**power for power in range(1, self.decades + 1)))
        ]

    @property
    def belief_ticks(self) -> list[Mark]:
        """Beliefs with a line."""
        return [
            Mark(self.left, self.y_belief(each), f"{each:.0%}".replace("%", "\u00a0%")) for each in (0.5, 0.75, 1.0)
        ]

    @property
    def point(self) -> Mark:
        """Rows at the epsilon that is chosen."""
        x = self.x(self.epsilon)
        return Mark(x, self.y(self.rows), f"about {shown_rows(self.rows)}", end=x > self.width * 0.6)

    @property
    def belief_point(self) -> Mark:
        """Belief at the epsilon that is chosen."""
        x, belief = self.x(self.epsilon), belief_after(0.5, self.epsilon)
        return Mark(x, self.y_belief(belief), f"at most {_percent(belief)}", end=x > self.width * 0.6)

    @property
    def rows(self) -> float:
        """Rows expected at the epsilon that is chosen; 0 without a curve."""
        return 0.0 if self.curve is None else self.curve.at(self.epsilon)

    @property
    def deployments(self) -> list[Mark]:
        """Letters of known deployments; neighbours stand at two heights."""
        return [
            Mark(self.x(each.epsilon), 14 + 14 * (place % 2), letter) for place, (letter, each) in enumerate(lettered())
        ]


def pictures(curve: Curve | None, epsilon: float) -> list[TradeoffPicture]:
    """The picture for wide and for narrow screens; style shows one of them."""
    return [TradeoffPicture("wide", WIDE, epsilon, curve), TradeoffPicture("narrow", NARROW, epsilon, curve)]


def lettered() -> list[tuple[str, Deployment]]:
    """Known deployments for users as a whole, by epsilon, with letters."""
    same = sorted((each for each in DEPLOYMENTS if each.unit == "user"), key=lambda each: each.epsilon)
    return [(chr(ord("A") + place), each) for place, each in enumerate(same)]


def shown_rows(rows: float) -> str:
    """A number of rows in two digits, since it is an estimate."""
    if rows < 0.5:
        return "0"
    power = max(0, math.floor(math.log10(rows)) - 1)
    return f"{round(rows / 10**power) * 10**power:,}"


def _percent(share: float) -> str:
    """A limit in per cent, rounded up."""
    if share > 0.9999:
        return "almost 100\u00a0%"
    digits = 2 if share > 0.99 else 1
    return f"{math.ceil(100 * share * 10**digits - 1e-9) / 10**digits:.{digits}f}\u00a0%"


def _steps() -> list[float]:
    """Epsilons at which curves are computed; straight lines join them."""
    return [LOWEST * (HIGHEST / LOWEST) ** (step / 60) for step in range(61)]
