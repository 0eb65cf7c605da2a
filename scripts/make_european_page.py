"""Write the tables and the picture of docs/european-rules.md anew from docs/tables/european-rules.csv.

The figures come from `python -m bench.european_rules --csv docs/tables/european-rules.csv`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, TABLE, PICTURE = (
    DOCS / "european-rules.md",
    DOCS / "tables" / "european-rules.csv",
    DOCS / "pictures" / "european-rules.svg",
)
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOT_MEASURED = "n/a"
Row = dict[str, str]


def page_with_tables(page: str, rows: Sequence[Row]) -> str:
    """The page, with the table between each pair of markers made anew."""
    return BLOCK.sub(
        lambda block: block[1] + _table([row for row in rows if row["part"] in _PARTS[block[2]]]) + block[3], page
    )


_PARTS = {"study": ("kept", "useful", "leaked"), "sensitivity": ("sensitivity",), "recipient": ("recipient",)}


def _table(rows: Sequence[Row]) -> str:
    figures = list(dict.fromkeys(row["figure"] for row in rows))
    cells = {(row["release"], row["figure"]): _cell(row) for row in rows}
    lines = [["release", *figures], ["---"] * (len(figures) + 1)]
    for release in dict.fromkeys(row["release"] for row in rows):
        lines.append([release, *(cells.get((release, figure), NOT_MEASURED) for figure in figures)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(row: Row) -> str:
    """A figure, and its 95 % interval if it has one."""
    if not row["value"]:
        return NOT_MEASURED
    interval = f" ({_number(row['low'])} to {_number(row['high'])})" if row["low"] and row["high"] else ""
    return _number(row["value"]) + interval


def _number(text: str) -> str:
    return f"{float(text):.3f}".removeprefix("0") if 0 <= float(text) < 1 else f"{float(text):.3f}"


_PANELS = {"searches": "searches kept", "secrets": "secrets leaked", "known visit": "visits found"}
"""Figures of the picture, and what they are called there."""
_RULES = ("dma-2024", "dma-2026", "ddg-2026", "bare records")


def draw(rows: Sequence[Row]) -> None:
    """A line for each release: what it keeps beside what it leaks, with intervals."""
    import altair as alt

    shown = [row for row in rows if row["figure"] in _PANELS and row["part"] in ("kept", "leaked") and row["value"]]
    releases = list(dict.fromkeys(row["release"] for row in shown))
    points = [
        {
            "release": row["release"],
            "kind": "rule" if row["release"].startswith(_RULES) else "guarantee",
            "panel": _PANELS[row["figure"]],
            **{name: float(row[name] or row["value"]) for name in ("value", "low", "high")},
        }
        for row in shown
    ]
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=4))
    y = alt.Y("release:N", title=None, sort=releases)
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(range=["#0072b2", "#c94f00"]))
    base = alt.Chart(alt.Data(values=points)).encode(y=y, color=colour)
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, shape=alt.Shape("kind:N", title=None))
    spans = base.mark_rule().encode(x=alt.X("low:Q"), x2="high:Q")
    panel = (spans + dots).properties(width=170, height=22 * len(releases))
    whole = panel.facet(column=alt.Column("panel:N", title=None, sort=list(_PANELS.values())))
    whole.configure_view(stroke=None).save(str(PICTURE))


def main() -> None:
    """Read the figures; write page and picture."""
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    PAGE.write_text(page_with_tables(PAGE.read_text(), rows))
    draw(rows)


if __name__ == "__main__":
    main()
