"""The page of `diff --picture`: counts before and after, key by key, for what changed beyond noise (public)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from querycloak.pages import palette
from querycloak.pages.charts import Picture, themed
from querycloak.pages.layout import render, write_page

if TYPE_CHECKING:
    from querycloak.evaluation.release_diff import ReleaseDiff

_LISTED = 50
_KINDS = ("changed", "appeared", "vanished")


def write_diff_page(result: ReleaseDiff, path: Path, *, fdr: float) -> Path:
    """Write a public page with the picture and the strongest changes."""
    strongest = result.strongest
    page = render(
        "diff.html",
        title="Differences of two releases",
        private=False,
        result=result,
        fdr=fdr,
        picture=diff_picture(result) if strongest else None,
        listed=strongest[:_LISTED],
        more=max(len(strongest) - _LISTED, 0),
    )
    return write_page(page, path, private=False)


def diff_picture(result: ReleaseDiff) -> Picture:
    """Counts before and after of each key that changed beyond noise; an absent key has count 0."""
    rows = [
        {"kind": kind, "before": (each.before or 0) + 1, "after": (each.after or 0) + 1}
        for kind in _KINDS
        for each in getattr(result, kind)
    ]
    description = (
        f"{len(result.changed):,} keys changed, {len(result.appeared):,} appeared, {len(result.vanished):,} vanished "
        f"beyond noise, of {result.tested:,}. A point is a key: its count before to the right, after upwards, both "
        "plus 1 on a scale of powers. On the line nothing changed."
    )
    return Picture("differences", "Counts before and after", description, lambda width: themed(_scatter(rows, width)))


def _scatter(rows: list[dict[str, Any]], width: int) -> Any:
    import altair as alt

    most = max(max(row["before"], row["after"]) for row in rows)
    scale = alt.Scale(type="log", domain=[1, max(most * 1.2, 10)], nice=False)
    colours = alt.Scale(domain=list(_KINDS), range=[palette.light(name) for name in ("blue", "orange", "ink")])
    points = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=40, opacity=0.7).encode(
        x=alt.X("before:Q", title="Count before, plus 1", scale=scale),
        y=alt.Y("after:Q", title="Count after, plus 1", scale=scale),
        color=alt.Color("kind:N", scale=colours, legend=alt.Legend(title=None, orient="bottom")),
    )  # fmt: skip
    ends = [{"before": 1, "after": 1}, {"before": max(most * 1.2, 10), "after": max(most * 1.2, 10)}]
    same = alt.Chart(alt.Data(values=ends)).mark_line(strokeDash=[4, 3], color=palette.light("soft"))
    side = min(width - 80, 360)
    return (same.encode(x="before:Q", y="after:Q") + points).properties(width=side, height=side)
