"""Where the labels of points go so that they cover neither each other nor a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_HEIGHT, _GAP = 15.0, 8.0
_LETTER = 6.4  # pixels of a letter at 12 px, a little wide


class Box(NamedTuple):
    """A rectangle of the picture, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The area that two have in common."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return width * height if width > 0 and height > 0 else 0.0


class Place(NamedTuple):
    """The left end and the middle of a label, in pixels from the picture's upper left corner."""

    x: float
    y: float
    moved: bool
    """Whether it stands so far from its point that a line should lead there."""


def label_places(
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    width: float,
    height: float,
    lines: Sequence[Box] = (),
) -> list[Place]:
    """A place for each label, chosen one after the other, from the left: beside its point, or a little above or below.

    lines: what else should not be covered, but may be rather than a point. Over the edge counts as covered.
    """
    taken = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    found: dict[int, Place] = {}
    for number in sorted(range(len(points)), key=lambda each: (points[each][0], points[each][1])):
        long = len(labels[number]) * _LETTER
        candidates = list(_candidates(points[number], long))
        costs = [_cost(_box(each, long), taken, width, height) + 3.0 * rank for rank, each in enumerate(candidates)]
        costs = [cost + sum(_box(each, long).overlap(line) for line in lines)
                 for cost, each in zip(costs, candidates, strict=True)]  # fmt: skip
        best = candidates[costs.index(min(costs))]
        found[number] = best
        taken.append(_box(best, long))
    return [found[number] for number in range(len(points))]


def _candidates(point: tuple[float, float], long: float) -> list[Place]:
    x, y = point
    sides = (x + _GAP + 2, x - _GAP - 2 - long)
    steps = [0.0, *(sign * _HEIGHT * step for step in (1, 2, 3, 4, 5) for sign in (-1, 1))]
    return [Place(side, y + step, abs(step) > _HEIGHT) for step in steps for side in sides]


def _box(place: Place, long: float) -> Box:
    return Box(place.x, place.y - _HEIGHT / 2, place.x + long, place.y + _HEIGHT / 2)


def _cost(box: Box, taken: Sequence[Box], width: float, height: float) -> float:
    outside = (box.right - box.left) * (box.bottom - box.top) - box.overlap(Box(0, 0, width, height))
    return 2 * outside + sum(box.overlap(other) for other in taken)
