"""Pictures of the page to sign, all public: released counts by day, week or month, and the meaning of the guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from querycloak.logs.choices import PERIODS, Choices
from querycloak.methods.keys.attributes import period_axis
from querycloak.pages import palette
from querycloak.pages.charts import NARROW, Picture, themed
from querycloak.pages.comparison_pictures import percent_axis
from querycloak.privacy.accounting.gaussian_filter import FALSE_ALARMS, GaussianCost
from querycloak.privacy.explanation import at_most, caught_at_most
from querycloak.releases.tables import whole_table

if TYPE_CHECKING:
    from querycloak.evaluation.description import Description
    from querycloak.releases.release import Release


SERIES = 6
"""Series with the largest counts that are drawn."""
_NUMBERS = ("count", "viewers", "users")
_BESIDE = ("clickers", "searches")
_LONGEST = 34
_OF_TWO_DRAWS = 1.42
"""Margin of `viewers`, a sum of two noisy numbers, in margins of one."""


def period_picture(release: Release, described: Description) -> Picture | None:
    """The series with the largest counts; None if no table has a period, or no margin is known."""
    for kind, table in release.tables.items():
        period = next((name for name in PERIODS if name in table.schema.names), None)
        number = next((name for name in _NUMBERS if name in table.schema.names), None)
        margin = described.tables[kind].reach.margin95
        if period is None or number is None or margin is None or not described.tables[kind].rows:
            continue
        rows = whole_table(kind, table).to_pylist()
        wide = margin.high * (_OF_TWO_DRAWS if number == "viewers" else 1.0)
        names = [name for name in table.schema.names if name != period and name not in (*_NUMBERS, *_BESIDE)]
        series = _largest(rows, names, period, number)
        if series:
            return _picture(series, kind, period, number, round(wide), _periods(release, period, series))
    return None


def _periods(release: Release, period: str, series: dict[str, list[tuple[str, int]]]) -> Sequence[str]:
    """All periods of the log by its card, those without a row included; the released ones if the card has no dates."""
    since, until = (release.log.get(name) for name in ("since", "until"))
    if since is None or until is None:
        return sorted({at for points in series.values() for at, _ in points})
    return period_axis(period, Choices(datetime.fromisoformat(str(since)), datetime.fromisoformat(str(until)))).values


def _largest(
    rows: Sequence[dict[str, Any]], names: Sequence[str], period: str, number: str
) -> dict[str, list[tuple[str, int]]]:
    """The series with the largest sums, by name: (period, count) in order of time, without nulls."""
    series: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
    for row in rows:
        if row[number] is not None:
            series.setdefault(tuple(row[name] for name in names), []).append((row[period], row[number]))
    largest = sorted(series.items(), key=lambda each: -sum(count for _, count in each[1]))[:SERIES]
    named: dict[str, list[tuple[str, int]]] = {}
    for key, points in largest:
        name = _shortened(", ".join(str(part) for part in key))
        named[name if name not in named else f"{name} ({len(named) + 1})"] = sorted(points)
    return named


def _shortened(text: str) -> str:
    text = text or "all"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _picture(
    series: dict[str, list[tuple[str, int]]], kind: str, period: str, number: str, margin: int, periods: Sequence[str]
) -> Picture:
    rows = [_row(name, at, dict(points).get(at), margin) for name, points in series.items() for at in periods]
    count = itemgetter(1)
    ends = [(min(points, key=count), max(points, key=count), name, points) for name, points in series.items()]
    text = "; ".join(
        f"{name}: {len(points)} of {len(periods)}, from {low[1]:,} ({low[0]}) to {high[1]:,} ({high[0]})"
        for low, high, name, points in ends
    )
    description = (
        f"Released {number} by {period} of the largest series of {kind}. Bars are margins: noise moves a number by at "
        f"most {margin:,} with probability 95 %. No number came out for a {period} without a dot. {text}."
    )
    title = f"{number.capitalize()} by {period}, with their margins"
    return Picture("periods", title, description, lambda width: themed(_chart(rows, list(series), periods, width)))


def _row(name: str, at: str, count: int | None, margin: int) -> dict[str, Any]:
    """A point and its margin; nulls where no number came out, which interrupt the line."""
    low, high = (None, None) if count is None else (max(count - margin, 0), count + margin)
    return {"series": name, "period": at, "count": count, "low": low, "high": high}


def _chart(rows: Sequence[dict[str, Any]], names: Sequence[str], periods: Sequence[str], width: int) -> Any:
    import altair as alt

    columns = 1 if width <= NARROW else 3
    inner = (width - 62 * columns) / columns
    step = max(1, -(-len(periods) // max(1, int(inner // 90))))
    x = alt.X(
        "period:O",
        title=None,
        scale=alt.Scale(domain=list(periods)),
        axis=alt.Axis(values=list(periods[::step]), labelAngle=0, labelOverlap=False, grid=False),
    )
    y = alt.Y("count:Q", title=None, scale=alt.Scale(domainMin=0), axis=alt.Axis(tickCount=3, domain=False))
    base = alt.Chart(alt.Data(values=list(rows))).encode(x=x)
    lines = base.mark_line(strokeWidth=1.5, color=palette.light("blue"), opacity=0.5).encode(y=y)
    margins = base.mark_rule(strokeWidth=2, color=palette.light("blue"), opacity=0.5).encode(
        y=alt.Y("low:Q"), y2="high:Q"
    )
    dots = base.mark_point(filled=True, size=30, opacity=1, color=palette.light("blue")).encode(y=y)
    header = alt.Header(title=None, labelAnchor="start", labelFontWeight="bold", labelPadding=4)
    panel = (lines + margins + dots).properties(width=inner, height=110)
    facet = alt.Facet("series:N", sort=list(names), header=header)
    whole = panel.facet(facet=facet, columns=columns, spacing={"row": 12, "column": 14})
    return whole.resolve_scale(y="independent").resolve_axis(x="independent")


_STEPS = 100


def trade_off_picture(release: Release) -> Picture | None:
    """The most that any test for one person's presence detects, by its false alarms (accounting/filter.md, claim 3).

    None where the card bounds no squared loss, or where the unit is not a whole user that is there or not.
    """
    if not release.gaussian_dp or release.proven.neighbours != "add-remove-user":
        return None
    cost = GaussianCost.from_json(release.gaussian_dp)
    shares = sorted({*FALSE_ALARMS, *(step / _STEPS for step in range(1, _STEPS))})
    curve = [
        {
            "false_alarms": share,
            "detected": min(cost.detected_at_most(share), caught_at_most(share, *release.proven.numbers)),
            "guess": share,
        }
        for share in [0.0001, *shares]
    ]
    few = next(row["detected"] for row in curve if row["false_alarms"] == 0.01)
    by_budget = at_most(caught_at_most(0.01, *release.proven.numbers))
    beside = f" By epsilon and delta alone it would be {by_budget}." if at_most(few) != by_budget else ""
    most = at_most(few) if at_most(few).startswith("at most") else f"up to {at_most(few)}"
    description = (
        "The upper line bounds every test of whether one given person was in the log: with 1 % false positives it "
        f"detects {most} of those who were.{beside} The lower line is guessing."
    )
    title = "The most that any test can detect"
    return Picture("trade-off", title, description, lambda width: themed(_trade_off(curve, width)))


def _trade_off(curve: list[dict[str, float]], width: int) -> Any:
    import altair as alt

    whole = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("false_alarms:Q", title="False alarms among people who were not", scale=whole, axis=percent_axis(alt))
    base = alt.Chart(alt.Data(values=curve)).encode(x=x)
    y = alt.Y("detected:Q", title="Detected of those who were", scale=whole, axis=percent_axis(alt))
    bound = base.mark_line(strokeWidth=2, color=palette.light("blue")).encode(y=y)
    guess = base.mark_line(strokeWidth=1, strokeDash=[4, 3], color=palette.light("soft")).encode(y="guess:Q")
    side = min(width - 80, 320)
    return (bound + guess).properties(width=side, height=side * 0.75)
