"""Page of a reproduced paper: printed figures beside ours, with one statement for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from querycloak.pages import palette
from querycloak.pages.charts import Picture, themed
from querycloak.pages.layout import render
from querycloak.reproduction.exhibit import Cell, Chart, Exhibit, Grid, Reproduced, Series

_PRINTED = "grey"
_COLOURS = ("blue", "vermilion", "green", "purple", "orange")
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4])
_MEANINGS = {
    "agrees": "what the paper prints or finds holds here",
    "agrees in part": "some of it holds",
    "differs": "it does not hold here",
    "cannot tell": "too few cases here to say",
    "cannot hold": "the paper's own definitions rule its numbers out",
    "not comparable": "there is nothing to compare, or not on this log",
    "not reproduced": "something is missing for it",
}


def reproduction_page(made: Reproduced) -> str:
    """The page, self-contained."""
    return render(
        "reproduction.html",
        title=f"{made.key}, reproduced",
        private=made.private,
        paper=made,
        headline=headline(made),
        tally=[(verdict, count, _MEANINGS[verdict]) for verdict, count in _tally(made).items()],
        exhibits=[_shown(place, each) for place, each in enumerate(made.exhibits)],
    )


def headline(made: Reproduced) -> str:
    """The result in one sentence."""
    tally = _tally(made)
    compared = sum(count for verdict, count in tally.items() if verdict not in ("not comparable", "not reproduced"))
    parts = [f"{tally[each]} {words[tally[each] > 1]}" for each, words in _WORDS.items() if tally.get(each)]
    return f"Of {compared} tables and figures that can be compared, {', '.join(parts) or 'none is decided'}."


_WORDS = {
    "agrees": ("agrees", "agree"),
    "agrees in part": ("agrees in part", "agree in part"),
    "differs": ("differs", "differ"),
    "cannot tell": ("cannot be told",) * 2,
    "cannot hold": ("cannot hold by the paper's own definitions",) * 2,
}


def _tally(made: Reproduced) -> dict[str, int]:
    counted: Counter[str] = Counter(exhibit.verdict for exhibit in made.exhibits)
    return {verdict: counted[verdict] for verdict in _MEANINGS if counted[verdict]}


def _shown(place: int, exhibit: Exhibit) -> dict[str, Any]:
    pictures = [
        Picture(f"picture-{place}-{number}", f"{exhibit.name}: {chart.title}", description(chart), _drawing(chart))
        for number, chart in enumerate(exhibit.charts)
        if any(series.points for series in chart.series)
    ]
    return {
        "id": exhibit.name.lower().replace(" ", "-").replace("(", "").replace(")", ""),
        "exhibit": exhibit,
        "pictures": list(zip(pictures, [chart.title for chart in exhibit.charts], strict=False)),
        "ours": None if exhibit.ours is None else _table(exhibit.ours),
    }


def _table(grid: Grid) -> dict[str, Any]:
    numeric = [all(isinstance(row[i], (int, float, type(None))) for row in grid.rows) for i in range(len(grid.columns))]
    return {
        "columns": list(zip(grid.columns, numeric, strict=True)),
        "rows": [
            [(cell_text(cell), is_number) for cell, is_number in zip(row, numeric, strict=True)] for row in grid.rows
        ],
        "source": grid.source,
        "long": len(grid.rows) > 12,
    }


def cell_text(cell: Cell) -> str:
    """A value of a table for people."""
    if cell is None:
        return "\u2013"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.0f}" if cell.is_integer() and abs(cell) >= 1000 else f"{cell:.4g}"


def description(chart: Chart) -> str:
    """The chart in words: each series from its first to its last point."""
    texts = []
    for series in chart.series:
        if series.points:
            first, last = series.points[0], series.points[-1]
            texts.append(f"{series.name}: {last[1]:.4g}" if len(series.points) == 1 else
                        f"{series.name}: from {first[1]:.4g} at {first[0]} to {last[1]:.4g} at {last[0]}")  # fmt: skip
    return f"{chart.y} over {chart.x}. {'; '.join(texts)}."


def _drawing(chart: Chart) -> Any:
    return lambda width: themed(_bars(chart, width) if chart.kind == "bars" else _lines(chart, width))


def _rows(series: Sequence[Series]) -> list[dict[str, Any]]:
    return [{"series": each.name, "x": x, "y": y} for each in series for x, y in each.points]


def _scales(series: Sequence[Series]) -> tuple[list[str], list[str], list[list[int]], list[str]]:
    """Names, colours, dashes and shapes; the paper's values are grey. Dashes and shapes distinguish five series."""
    names, colours, dashes, shapes = [], [], [], []
    ours = 0
    for each in series:
        names.append(each.name)
        if each.printed:
            colours.append(palette.light(_PRINTED))
        else:
            colours.append(palette.light(_COLOURS[ours % len(_COLOURS)]))
            ours += 1
        dashes.append(_DASHES[(len(names) - 1) % len(_DASHES)])
        shapes.append(_SHAPES[(len(names) - 1) % len(_SHAPES)])
    return names, colours, dashes, shapes


def _legend(width: int) -> Any:
    import altair as alt

    columns = 1 if width < 500 else 2
    return alt.Legend(orient="bottom", columns=columns, labelLimit=(width - 60) // columns, symbolStrokeWidth=0)


def _lines(chart: Chart, width: int) -> Any:
    import altair as alt

    series = [each for each in chart.series if each.points]
    names, colours, dashes, shapes = _scales(series)
    floor = chart.log_y and all(y > 0 for each in series for _, y in each.points)
    base = alt.Chart(alt.Data(values=_rows(series))).encode(
        x=alt.X("x:Q", title=chart.x, scale=alt.Scale(type="log" if chart.log_x else "linear", nice=False, zero=False),
                axis=alt.Axis(grid=False, tickCount=5, format=",.3~r")),
        y=alt.Y("y:Q", title=chart.y, scale=alt.Scale(type="log" if floor else "linear", zero=not floor),
                axis=alt.Axis(tickCount=5, format=",.3~r")),
        color=alt.Color("series:N", title=None, sort=names, scale=alt.Scale(domain=names, range=colours),
                        legend=_legend(width)),
        strokeDash=alt.StrokeDash("series:N", title=None, sort=names, scale=alt.Scale(domain=names, range=dashes)),
        shape=alt.Shape("series:N", title=None, sort=names, scale=alt.Scale(domain=names, range=shapes)),
    )  # fmt: skip
    drawn = base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=46)
    return drawn.properties(width=max(200, width - 90), height=240)


def _bars(chart: Chart, width: int) -> Any:
    import altair as alt

    series = [each for each in chart.series if each.points]
    names, colours, _, _ = _scales(series)
    order = list(dict.fromkeys(x for each in series for x, _ in each.points))
    base = alt.Chart(alt.Data(values=_rows(series))).encode(
        y=alt.Y("x:N", title=None, sort=order, axis=alt.Axis(labelLimit=120 if width < 500 else 260, domain=False)),
        yOffset=alt.YOffset("series:N", sort=names),
        x=alt.X("y:Q", title=chart.y, axis=alt.Axis(tickCount=4, format=",.3~r")),
        color=alt.Color("series:N", title=None, sort=names, scale=alt.Scale(domain=names, range=colours),
                        legend=_legend(width)),
    )  # fmt: skip
    labels = base.mark_text(align="left", dx=4, fontSize=11).encode(text=alt.Text("y:Q", format=".3~g"))
    room = 210 if width < 500 else 340
    height = max(14 * len(names), 22) * len(order) + 10 * len(order)
    return (base.mark_bar() + labels).properties(width=max(120, width - room), height=height)
