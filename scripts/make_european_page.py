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
    DOCS / "pictures" / "european-rules.png",
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


def draw(rows: Sequence[Row]) -> None:
    """Share of searches that come out against the secrets that come out."""
    import altair as alt

    figures: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["figure"] in ("searches", "secrets") and row["part"] in ("kept", "leaked") and row["value"]:
            figures.setdefault(row["release"], {})[row["figure"]] = float(row["value"])
    rules = ("dma-2024", "dma-2026", "ddg-2026", "bare records")
    points = [
        {"release": name, "kind": "rule" if name.startswith(rules) else "guarantee", **values}
        for name, values in figures.items()
        if len(values) == 2
    ]
    base = alt.Chart(alt.Data(values=points)).encode(
        x=alt.X("secrets:Q", title="planted secrets that come out (risk)"),
        y=alt.Y("searches:Q", title="share of searches that come out"),
    )
    dots = base.mark_circle(size=90).encode(color=alt.Color("kind:N", title=None))
    texts = base.mark_text(align="left", dx=8, fontSize=10).encode(text="release:N")
    (dots + texts).properties(width=620, height=380).save(str(PICTURE), scale_factor=1.5)


def main() -> None:
    """Read the figures; write page and picture."""
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    PAGE.write_text(page_with_tables(PAGE.read_text(), rows))
    draw(rows)


if __name__ == "__main__":
    main()
