"""The pictures of a comparison: the trade-off, what is left of each task, what each attack gains, budgets as curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from querycloak.comparison.comparison_summary import Kept, ReleaseSummary, Summary
from querycloak.comparison.comparison_views import ATTACK_VIEWS, TASK_VIEWS
from querycloak.pages import palette
from querycloak.pages.charts import NARROW, Picture, themed
from querycloak.pages.shown_text import shown_share, shown_text

_HEIGHT, _GAP = 15.0, 8.0
_FARTHEST = 20
"""Lines that a label may stand above or below its point."""
_COVERED = 1_000.0
_NEAR = 24.0
"""Points within this number of pixels get their labels from top to bottom."""
LETTER = 6.4  # pixels of a letter at 12 px, a little wide


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
    """True if it stands so far from its point that a line should lead there."""


def label_places(
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    width: float,
    height: float,
    lines: Sequence[Box] = (),
) -> list[Place]:
    """A place for each label, chosen one after the other, from the left: beside its point, or a little above or below.

    In a crowd a label may stand right above or below one that has its place, so that no room is lost between them.

    lines: boxes that a label may cover, since it has an outline, if every free place is far. A part of a label beyond
    the picture's edge counts as covered.
    """
    taken = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    places: dict[int, Place] = {}
    for number in sorted(range(len(points)), key=lambda each: (points[each][0] // _NEAR, points[each][1])):
        long = len(labels[number]) * LETTER
        candidates = _candidates(points[number], long, [each.y for each in places.values()])
        costs = [
            _cost(box, taken, width, height) + sum(box.overlap(line) for line in lines) / 4 + 5.0 * rank
            for rank, box in enumerate(_box(each, long) for each in candidates)
        ]
        places[number] = candidates[costs.index(min(costs))]
        taken.append(_box(places[number], long))
    return [places[number] for number in range(len(points))]


def _candidates(point: tuple[float, float], long: float, placed: Sequence[float]) -> list[Place]:
    x, y = point
    sides = (x + _GAP + 2, x - _GAP - 2 - long)
    steps = [0.0, *(sign * _HEIGHT * step for step in range(1, _FARTHEST) for sign in (-1, 1))]
    beside = [Place(side, y + step, abs(step) > _HEIGHT) for step in steps for side in sides]
    return beside + [Place(side, each + step, moved=True) for each in placed for step in steps[1:3] for side in sides]


def _box(place: Place, long: float) -> Box:
    return Box(place.x, place.y - _HEIGHT / 2, place.x + long, place.y + _HEIGHT / 2)


def _cost(box: Box, taken: Sequence[Box], width: float, height: float) -> float:
    """The area that is covered or outside; any of it costs more than the farthest free place."""
    outside = (box.right - box.left) * (box.bottom - box.top) - box.overlap(Box(0, 0, width, height))
    covered = 2 * outside + sum(box.overlap(other) for other in taken)
    return covered + (_COVERED if covered > 1e-6 else 0.0)


PROMISES = {
    "user": ("differential privacy for a user", "blue", "circle"),
    "asked": ("differential privacy for what a user asked", "green", "diamond"),
    "step": ("a proof for one step only", "orange", "triangle-up"),
    "rule": ("a rule about the output", "vermilion", "square"),
    "none": ("nothing", "grey", "cross"),
    "public": ("no log is read: a rule without data", "grey", "triangle-down"),
}
"""Kinds of proven guarantees, with their colours and shapes."""
_PERCENT = "datum.value === 0 ? '0' : format(datum.value, '.1~%')"
_ROW, _COLUMNS = 17, 6


def tradeoff(summary: Summary) -> Picture:
    """Utility against risk: a point for each release, with intervals."""
    task = summary.main_task
    shown = [each for each in (*summary.baselines[:2], *summary.made) if _both(each, task)]
    without_data = summary.without_data.tasks.get(task)
    level = None if without_data is None else without_data.share
    text = "; ".join([
        *(f"{each.label}: {shown_share(each.tasks[task].share)} kept, risk {shown_share(each.risk)}" for each in shown),
        *([] if level is None else [f"a rule without data: {shown_share(level)}"]),
    ])  # fmt: skip
    title = f"What is kept of {TASK_VIEWS[task].words}, against what the strongest attack gains"
    return Picture("tradeoff", title, text, lambda width: themed(_tradeoff(shown, task, level, width)))


def missing_in_tradeoff(summary: Summary) -> list[ReleaseSummary]:
    """The releases without a point: no task, nothing kept, or an interval as wide as an axis."""
    return [each for each in summary.made if not _both(each, summary.main_task)]


def _both(release: ReleaseSummary, task: str) -> bool:
    kept = release.tasks.get(task)
    return kept is not None and bool(kept.share) and kept.is_finding and release.worst is not None


def _tradeoff(shown: Sequence[ReleaseSummary], task: str, level: float | None, width: int) -> Any:
    import altair as alt

    narrow = width <= NARROW
    inner, height = (width - 62, 340) if narrow else (width - 70, 430)
    top = max([1.0, *(each.tasks[task].share or 0.0 for each in shown)]) * 1.04
    right = 1.04
    points = [_point(each, task) for each in shown]
    room = int(inner * (0.55 if narrow else 0.4) / LETTER)
    labels = [shown_text(each.name if narrow else each.label, room) for each in shown]
    pixels = [(inner * point["risk"] / right, height * (1 - point["kept"] / top)) for point in points]
    lines = [each for point in points for each in _cross(point, inner / right, height / top, height)]
    level = None if level is None or level > top else level
    level_x = float(inner)
    if level is not None:
        under = height * (1 - level / top)
        level_x = free_right(pixels, lines, inner, under)
        lines += [Box(0, under - 1, inner, under + 1), Box(level_x - 8 * LETTER, under - 15, level_x, under)]
    places = label_places(pixels, labels, inner, height, lines)
    for point, label, place in zip(points, labels, places, strict=True):
        point["label"], point["moved"] = label, place.moved
        point["label_x"], point["label_y"] = place.x * right / inner, (1 - place.y / height) * top
    data = alt.Data(values=points)
    words = "Risk: what the strongest attack gains" if narrow else "Risk: what the strongest attack gains on a person"
    x = alt.X("risk:Q", title=words, scale=alt.Scale(domain=[0, right], nice=False), axis=percent_axis(alt))
    y = alt.Y(
        "kept:Q", title=f"{TASK_VIEWS[task].title}: share of what the log itself gives",
        scale=alt.Scale(domain=[0, top], nice=False), axis=percent_axis(alt),
    )  # fmt: skip
    base = alt.Chart(data).encode(x=x, y=y)
    thin = {"strokeWidth": 1.5, "opacity": 0.55, "clip": True}
    across = base.mark_rule(**thin).encode(x=alt.X("risk_low:Q"), x2="risk_high:Q", color=_colours(alt))
    upright = base.mark_rule(**thin).encode(y=alt.Y("kept_low:Q"), y2="kept_high:Q", color=_colours(alt))
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(color=_colours(alt), shape=_shapes(alt))
    leading = base.transform_filter("datum.moved").mark_rule(color=palette.light("rule"), strokeWidth=1)
    leads = leading.encode(x2="label_x:Q", y2="label_y:Q")
    names = [
        base.mark_text(align="left", baseline="middle", fontSize=12, **outline).encode(
            x="label_x:Q", y="label_y:Q", text="label:N"
        )
        for outline in ({"stroke": palette.light("paper"), "strokeWidth": 4}, {})
    ]
    corner = alt.Chart(alt.Data(values=[{"label": "\u2196 better"}]))
    hint = corner.mark_text(align="left", baseline="top", dx=6, dy=6, fontStyle="italic", color=palette.light("soft"))
    better = hint.encode(x=alt.value(0), y=alt.value(0), text="label:N")
    layers = [better, leads, across, upright, *_level(alt, level, level_x, y), dots, *names]
    return alt.layer(*layers).properties(width=inner, height=height)


def free_right(points: Sequence[tuple[float, float]], lines: Sequence[Box], inner: float, under: float) -> float:
    """The right end of the words on the line at `under`: as far right as nothing is covered."""
    taken = [*lines, *(Box(x - 6, y - 6, x + 6, y + 6) for x, y in points)]
    long = 8 * LETTER
    places = [inner - step * long / 2 for step in range(int(2 * inner / long) - 1)]
    free = (each for each in places if not any(Box(each - long, under - 17, each, under).overlap(box) for box in taken))
    return next(free, inner)


def _level(alt: Any, level: float | None, right: float, y: Any) -> list[Any]:
    """A line at the share that a rule without data reaches; its words end at `right`, in pixels."""
    if level is None:
        return []
    base = alt.Chart(alt.Data(values=[{"kept": level, "label": "no data"}])).encode(y=y)
    line = base.mark_rule(color=palette.light("grey"), strokeDash=[5, 4], strokeWidth=1.5)
    words = base.mark_text(align="right", baseline="bottom", dx=-4, dy=-3, fontSize=12, color=palette.light("grey"))
    return [line, words.encode(x=alt.value(right), text="label:N")]


def _point(release: ReleaseSummary, task: str) -> dict[str, Any]:
    kept, worst = release.tasks[task], release.worst
    share, risk = kept.share or 0.0, release.risk
    return {
        "release": release.label,
        "promise": release.promise,
        "kept": share,
        "kept_low": share if kept.low is None else kept.low,
        "kept_high": share if kept.high is None else kept.high,
        "risk": risk,
        "risk_low": risk if worst is None or worst.low is None else min(worst.low, risk),
        "risk_high": risk if worst is None or worst.high is None else worst.high,
    }


def _cross(point: dict[str, Any], across: float, upright: float, height: float) -> tuple[Box, Box]:
    """The two lines of a point's intervals, which no label should cover."""
    x, y = point["risk"] * across, height - point["kept"] * upright
    low, high = height - point["kept_low"] * upright, height - point["kept_high"] * upright
    flat = Box(point["risk_low"] * across, y - 1, point["risk_high"] * across, y + 1)
    return flat, Box(x - 1, min(low, high), x + 1, max(low, high))


def percent_axis(alt: Any, count: int = 5) -> Any:
    """An axis of shares."""
    return alt.Axis(labelExpr=_PERCENT, tickCount=count, domain=False)


def _colours(alt: Any) -> Any:
    kinds = list(PROMISES)
    colours = [palette.light(PROMISES[kind][1]) for kind in kinds]
    return alt.Color("promise:N", scale=alt.Scale(domain=kinds, range=colours), legend=None)


def _shapes(alt: Any) -> Any:
    kinds = list(PROMISES)
    shapes = [PROMISES[kind][2] for kind in kinds]
    return alt.Shape("promise:N", scale=alt.Scale(domain=kinds, range=shapes), legend=None)


def tasks_picture(summary: Summary) -> Picture:
    """Remaining utility of every task, release by release."""
    shown = [*(each for each in summary.baselines[2:] if each.tasks), *summary.made]
    rows = [
        _mark(each, TASK_VIEWS[task].title, *_marked(each, kept), unsure=kept.share is not None)
        for task in TASK_VIEWS
        for each in shown
        for kept in [each.tasks.get(task)]
        if kept is not None
    ]
    title = "What is left of each task, as a share of what the log itself gives"
    panels = [view.title for view in TASK_VIEWS.values()]
    return _multiples("tasks", title, rows, panels, [each.label for each in shown])


def _marked(release: ReleaseSummary, kept: Kept) -> tuple[float | None, float | None, float | None]:
    """Share, low and high; the rule without data at 100 % at most, because it may reach a multiple of the log."""
    if release.promise == "public" and kept.share is not None:
        return min(kept.share, 1.0), None, None
    return (kept.share, kept.low, kept.high) if kept.is_finding else (None, None, None)


def attacks_picture(summary: Summary) -> Picture:
    """Gain of every attack, release by release, the log itself on top."""
    shown = [each for each in (*summary.baselines, *summary.made) if each.attacks]
    attacks = attacks_run(summary)
    rows = [
        _mark(each, ATTACK_VIEWS[name].title, gained.shown, gained.low, gained.high, unsure=True)
        if gained.is_finding
        else _mark(each, ATTACK_VIEWS[name].title, None, None, None, unsure=gained.shown is not None)
        for name in attacks
        for each in shown
        for gained in [each.attacks.get(name)]
        if gained is not None and each.fits(name)
    ]
    panels = [ATTACK_VIEWS[name].title for name in attacks]
    title = "What each attack gains: risk, from 0 to 100 %"
    return _multiples("attacks", title, rows, panels, [each.label for each in shown])


def attacks_run(summary: Summary) -> list[str]:
    """The attacks with a result for a baseline or a release."""
    shown = [*summary.baselines, *summary.made]
    return [name for name in ATTACK_VIEWS if any(_is_run(each, name) for each in shown)]


def _is_run(release: ReleaseSummary, attack: str) -> bool:
    gained = release.attacks.get(attack)
    return gained is not None and gained.shown is not None and release.fits(attack)


def _mark(
    release: ReleaseSummary, panel: str, value: float | None, low: float | None, high: float | None, *, unsure: bool
) -> dict[str, Any]:
    """unsure: without a value there is one, with an interval as wide as the axis."""
    return {
        "release": release.label,
        "promise": release.promise,
        "panel": panel,
        "value": value,
        "none": "?" if unsure else "n/a",
        "low": value if low is None else low,
        "high": value if high is None else high,
    }


def _multiples(
    name: str, title: str, rows: Sequence[dict[str, Any]], panels: Sequence[str], order: Sequence[str]
) -> Picture:
    text = "; ".join(f"{panel}: " + ", ".join(_words(rows, panel)) for panel in panels)
    return Picture(name, title, text, lambda width: themed(_panels(rows, panels, order, width)))


def _words(rows: Iterable[dict[str, Any]], panel: str) -> list[str]:
    return [f"{row['release']} {shown_share(row['value'])}" for row in rows if row["panel"] == panel]


def _panels(rows: Sequence[dict[str, Any]], panels: Sequence[str], order: Sequence[str], width: int) -> Any:
    import altair as alt

    rows_of_panels = math.ceil(len(panels) / _COLUMNS)
    columns, names = (2, 132) if width <= NARROW else (math.ceil(len(panels) / rows_of_panels), 152)
    inner = (width - names - 19 * columns) / columns
    top = max([1.0, *(row["value"] for row in rows if row["value"] is not None)])
    y = alt.Y(
        "release:N",
        sort=list(order),
        title=None,
        axis=alt.Axis(domain=False, grid=True, labelLimit=names, labelFontSize=11),
    )
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, top], nice=False), axis=percent_axis(alt, 2))
    base = alt.Chart(alt.Data(values=list(rows))).encode(y=y)
    valued = base.transform_filter("isValid(datum.value)")
    reach = valued.mark_rule(strokeWidth=1.5, opacity=0.5, clip=True).encode(
        x=alt.X("low:Q"), x2="high:Q", color=_colours(alt)
    )
    dots = valued.mark_point(filled=True, size=46, opacity=1).encode(x=x, color=_colours(alt), shape=_shapes(alt))
    none = base.transform_filter("!isValid(datum.value)").mark_text(
        align="left", fontSize=10, color=palette.light("soft")
    )
    nothing = none.encode(x=alt.datum(0), text="none:N")
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=12, labelFontWeight="bold", labelPadding=4)
    faceted = (reach + dots + nothing).properties(width=inner, height=_ROW * len(order))
    facet = alt.Facet("panel:N", sort=list(panels), header=header)
    whole = faceted.facet(facet=facet, columns=columns, spacing={"row": 14, "column": 18})
    return whole.resolve_axis(x="independent")
