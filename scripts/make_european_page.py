"""Write the tables and the picture of docs/european-rules.md anew from the tables of figures.

The figures come from `python -m bench.european_rules --users 20000 --targets 2000 --csv
docs/tables/european-rules.csv`, those of a smaller log from `--users 3000 --parts kept,leaked --csv
docs/tables/european-rules-3000.csv`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, TABLE, PICTURE = (
    DOCS / "european-rules.md",
    DOCS / "tables" / "european-rules.csv",
    DOCS / "pictures" / "european-rules.svg",
)
SIZES = tuple(DOCS / "tables" / f"european-rules-{users}.csv" for users in (3_000, 100_000))
"""Tables of logs of other sizes; one that is not there is left out."""
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOT_MEASURED = "n/a"
Row = dict[str, str]
STUDY = (
    "distinct queries", "searches", "completion", "language", "ranking", "click model", "secrets", "regurgitated",
    "known visit", "sessions linked", "disease inferred",
)  # fmt: skip
"""Figures of the first table, in its order; the file has the others, too."""
BANDS = ("completion", "language", "ranking")
"""Figures that are shown by head, torso and tail."""
_OWN = re.compile(r"(\d+) users and (.*)")
_THRESHOLD = re.compile(r"(min_term_users|min_group_users) (\d+)$")


def page_with_tables(page: str, rows: Sequence[Row], sizes: Sequence[Sequence[Row]] = ()) -> str:
    """The page, with the table between each pair of markers made anew."""
    tables = {
        "study": lambda: _table(_of(rows, "kept", "useful", "leaked"), STUDY),
        "sizes": lambda: _table(_by_size([*sizes, rows])),
        "bands": lambda: _table(_of(rows, "bands"), [f"{name}, {band}" for name in BANDS for band in _BANDS]),
        "recipient": lambda: _table([_by_own_users(row) for row in _of(rows, "recipient")]),
        "sensitivity": lambda: _table(_of(_with_shares(rows), "sensitivity")),
    }
    return BLOCK.sub(lambda block: block[1] + tables[block[2]]() + block[3], page)


_BANDS = ("head", "torso", "tail")


def _of(rows: Sequence[Row], *parts: str) -> list[Row]:
    return [row for row in rows if row["part"] in parts]


def _by_own_users(row: Row) -> Row:
    """A recipient's row: by release, with a column for each size of the recipient's own log."""
    match = _OWN.fullmatch(row["release"])
    users, release = (match[1], match[2]) if match else ("", row["release"])
    return {**row, "release": release, "figure": f"{int(users):,} own users"}


def _by_size(tables: Sequence[Sequence[Row]]) -> list[Row]:
    """Searches that each release keeps and visits that are found in it, with a column for each size of the log."""
    sized = sorted(((_log_users(rows), rows) for rows in tables if rows), key=itemgetter(0))
    return [
        {**row, "figure": f"{figure}, {users:,} users"}
        for figure in _SIZED
        for users, rows in sized
        for row in _of(rows, "kept", "leaked")
        if row["figure"] == figure
    ]


_SIZED = ("searches", "known visit", "secrets")


def _log_users(rows: Sequence[Row]) -> int:
    """Number of users of the released log."""
    return next((int(row["value"]) for row in rows if row["part"] == "log"), 0)


def _with_shares(rows: Sequence[Row]) -> list[Row]:
    """Rows of thresholds, each with its share of the log's users."""
    return [{**row, "release": _with_share(row["release"], _log_users(rows))} for row in rows]


def _with_share(release: str, users: int) -> str:
    match = _THRESHOLD.search(release)
    return release if match is None else f"{release} ({int(match[2]) / users:.2%} of users)"


def _table(rows: Sequence[Row], figures: Sequence[str] | None = None) -> str:
    known = list(dict.fromkeys(row["figure"] for row in rows))
    columns = known if figures is None else [figure for figure in figures if figure in known]
    cells = {(row["release"], row["figure"]): _cell(row) for row in rows}
    lines = [["release", *columns], ["---"] * (len(columns) + 1)]
    for release in dict.fromkeys(row["release"] for row in rows):
        lines.append([release, *(cells.get((release, figure), NOT_MEASURED) for figure in columns)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(row: Row) -> str:
    """A figure, and its 95 % interval if it has one."""
    if not row["value"]:
        return NOT_MEASURED
    interval = f" ({_number(row['low'])} to {_number(row['high'])})" if row["low"] and row["high"] else ""
    return _number(row["value"]) + interval


def _number(text: str) -> str:
    """Three digits after the point, without the 0 before it."""
    shown = f"{round(float(text), 3) + 0.0:.3f}"
    return shown.replace("0.", ".", 1) if shown.startswith(("0.", "-0.")) else shown


_PANELS = {
    "searches": "searches kept",
    "completion": "completion, of the log's own",
    "secrets": "secrets, gain",
    "known visit": "visits found",
}
"""Figures of the picture, and what they are called there."""
_RULES = ("dma-2024", "dma-2026", "ddg-2026", "bare records")
_LOG = "original"


def _points(rows: Sequence[Row]) -> list[dict[str, object]]:
    """What is drawn; completion as a share of what the log itself completes."""
    whole = next((float(row["value"]) for row in rows if (row["release"], row["figure"]) == (_LOG, "completion")), 1.0)
    released = dict.fromkeys(row["release"] for row in rows if row["part"] == "kept")
    return [
        {
            "release": row["release"],
            "kind": "rule" if row["release"].startswith(_RULES) else "guarantee",
            "panel": _PANELS[row["figure"]],
            **{
                name: float(row[name] or row["value"]) / (whole if row["figure"] == "completion" else 1.0)
                for name in ("value", "low", "high")
            },
        }
        for row in _of(rows, "kept", "useful", "leaked")
        if row["figure"] in _PANELS and row["release"] in released and row["value"]
    ]


def draw(rows: Sequence[Row]) -> None:
    """A line for each release: what it keeps, what it is good for and what it leaks, with intervals."""
    import altair as alt

    points = _points(rows)
    releases = list(dict.fromkeys(str(point["release"]) for point in points))
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=4))
    y = alt.Y("release:N", title=None, sort=releases)
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(range=["#0072b2", "#c94f00"]))
    base = alt.Chart(alt.Data(values=points)).encode(y=y, color=colour)
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, shape=alt.Shape("kind:N", legend=None))
    spans = base.mark_rule().encode(x=alt.X("low:Q"), x2="high:Q")
    panel = (spans + dots).properties(width=170, height=22 * len(releases))
    whole = panel.facet(column=alt.Column("panel:N", title=None, sort=list(_PANELS.values())))
    whole.configure_view(stroke=None).save(str(PICTURE))


def read(path: Path) -> list[Row]:
    """The rows of a table of figures; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Read the figures; write page and picture."""
    rows = read(TABLE)
    PAGE.write_text(page_with_tables(PAGE.read_text(), rows, [read(path) for path in SIZES]))
    draw(rows)


if __name__ == "__main__":
    main()
