"""A picture of a guarantee: the most that any test for one person detects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from querycloak.pages import palette
from querycloak.pages.charts import Picture, themed
from querycloak.pages.comparison_pictures import percent_axis
from querycloak.privacy.accounting.gaussian_filter import FALSE_ALARMS, GaussianCost
from querycloak.privacy.explanation import at_most, caught_at_most

if TYPE_CHECKING:
    from querycloak.releases.release import Release

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
    title = "The most that anybody can detect"
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
