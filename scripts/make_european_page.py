"""Make docs/european-rules.md of its template and of the tables of figures, and its picture.

The figures come from `python -m bench.european_rules --csv docs/tables/european-rules.csv`, those of logs of other
sizes from the commands on the page. In the template (european_rules.template.md) `<!-- name -->` stands for a table,
and `{{figure | release | form}}` for a figure: `%` and `.2` show a value, `% ..` and `.2 ..` a value and its
interval, `% to` and `.2 to` the interval alone, `n` a whole number. `100000: figure` is of the log of 100,000 users.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEMPLATE = Path(__file__).with_name("european_rules.template.md")
PAGE, TABLE, PICTURE = (
    DOCS / "european-rules.md",
    DOCS / "tables" / "european-rules.csv",
    DOCS / "pictures" / "european-rules.svg",
)
SIZES = {users: DOCS / "tables" / f"european-rules-{users}.csv" for users in (3_000, 100_000, 657_426)}
"""Tables of logs of other sizes, by users of the log; one that is not there is left out."""
CLICKED = 20_000
CLICKED_TABLE = DOCS / "tables" / "european-rules-20000-clicked.csv"
"""Figures of the same searches without results that nobody clicked."""
BLOCK = re.compile(r"<!-- (\w+) -->\n")
FIELD = re.compile(r"\{\{(?:(\d+): )?([^|{}]+) \| ([^|{}]+) \| ([^|{}]+)\}\}")
NOT_APPLICABLE, NOT_RUN = "n/a", "-"
_OF_RECORDS = ("known visit", "sessions linked", "disease inferred", "click model")
_WITHOUT: Mapping[str, tuple[str, ...]] = {
    "dma-2024": _OF_RECORDS,
    "clicks": _OF_RECORDS,
    "queries": (*_OF_RECORDS, "ranking"),
    "phrases": (*_OF_RECORDS, "ranking"),
    "synthetic": ("known visit", "sessions linked", "click model"),
    "ddg-2026": ("sessions linked",),
    "original": ("distinct queries", "searches", "secrets", "regurgitated", *_OF_RECORDS),
    "no-data": ("distinct queries", "searches", "secrets", "regurgitated", *_OF_RECORDS),
    "nothing": ("0 own users",),
}
"""Beginnings of names of releases, and of figures that do not apply to them."""
Row = dict[str, str]
STUDY = (
    "distinct queries", "searches", "completion", "language", "ranking", "click model", "secrets", "regurgitated",
    "known visit", "sessions linked", "disease inferred",
)  # fmt: skip
"""Figures of the large table, in its order; the file has the others, too."""
SUMMARY = ("searches", "completion", "language", "known visit", "secrets")
SUMMARISED = (
    "dma-2024", "dma-2026", "dma-2026, scaled", "ddg-2026", "queries, epsilon 8", "clicks, epsilon 8",
    "phrases, epsilon 8", "synthetic, epsilon 8", "original",
)  # fmt: skip
"""Columns and rows of the first table."""
VARIED = ("distinct queries", "searches", "known visit", "secrets", "sessions linked")
"""Figures of varied numbers on that log."""
BANDS = ("completion", "language", "ranking")
"""Figures that are shown by head, torso and tail."""
_OWN = re.compile(r"(\d+) users and (.*)")
_THRESHOLD = re.compile(r"(min_term_users|min_group_users) (\d+)$")


def page_of(template: str, rows: Sequence[Row], sizes: Mapping[int, Sequence[Row]], clicked: Sequence[Row] = ()) -> str:
    """The page: the template with its tables and figures."""
    tables = {
        "summary": lambda: _table(_of(rows, "kept", "useful", "leaked"), SUMMARY, SUMMARISED),
        "study": lambda: _table(_of(rows, "kept", "useful", "leaked"), STUDY),
        "sizes": lambda: _table(_by_size([*sizes.values(), rows])),
        "bands": lambda: _table(_of(rows, "bands"), [f"{name}, {band}" for name in BANDS for band in _BANDS]),
        "recipient": lambda: _table([_by_own_users(row) for row in _of(rows, "recipient")]),
        "sensitivity": lambda: _table(_of(_with_shares(rows), "sensitivity")),
        "clicked": lambda: _table(_of(clicked, "sensitivity"), VARIED),
    }
    numbered = {0: rows, CLICKED: clicked, **sizes}
    keyed = {size: {(row["figure"], row["release"]): row for row in some} for size, some in numbered.items()}
    page = BLOCK.sub(lambda block: tables[block[1]](), template)
    return FIELD.sub(lambda field: _shown(keyed[int(field[1] or 0)][field[2], field[3]], field[4]), page)


def _shown(row: Row, form: str) -> str:
    """A figure of the table in the form that a sentence asks for."""
    kind, _, rest = form.partition(" ")
    if kind == "n":
        return f"{float(row['value']):,.0f}"
    value, low, high = (_percent(row[name]) if kind == "%" else _decimals(row[name]) for name in _NUMBERS)
    unit = " %" * (kind == "%")
    interval = f"{low} to {high}{unit}"
    return {"": f"{value}{unit}", "to": interval, "..": f"{value}{unit} ({interval})"}[rest]


_NUMBERS = ("value", "low", "high")


def _percent(text: str) -> str:
    """A share in percent with one digit after the point, two below .1 %."""
    share = 100 * float(text or "nan")
    return "0" if share < 0.005 else f"{share:.2f}" if share < 0.1 else f"{share:.1f}"


def _decimals(text: str) -> str:
    """Two digits after the point, three below .01; without the 0 before the point."""
    value = float(text or "nan")
    shown = f"{value:.3f}" if value >= 1 or 0.0005 <= value < 0.01 else f"{value:.2f}" if value >= 0.0005 else "0"
    return shown.removeprefix("0") or "0"


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


def _table(rows: Sequence[Row], figures: Sequence[str] | None = None, releases: Sequence[str] | None = None) -> str:
    known = list(dict.fromkeys(row["figure"] for row in rows))
    columns = known if figures is None else [figure for figure in figures if figure in known]
    cells = {(row["release"], row["figure"]): _cell(row) for row in rows}
    lines = [["release", *columns], ["---"] * (len(columns) + 1)]
    for release in releases or dict.fromkeys(row["release"] for row in rows):
        lines.append([release, *(cells.get((release, figure), _absent(release, figure)) for figure in columns)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _absent(release: str, figure: str) -> str:
    """Mark of a figure that the table has not: it does not apply, or it was not measured."""
    lacking = [figures for name, figures in _WITHOUT.items() if release.startswith(name)]
    return NOT_APPLICABLE if lacking and figure.startswith(lacking[0]) else NOT_RUN


def _cell(row: Row) -> str:
    """A figure, and its 95 % interval if it has one."""
    if not row["value"]:
        return NOT_APPLICABLE
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
    shape = alt.Shape("kind:N", legend=None, scale=alt.Scale(range=["circle", "square"]))
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, shape=shape)
    spans = base.mark_rule().encode(x=alt.X("low:Q"), x2="high:Q")
    panel = (spans + dots).properties(width=150, height=20 * len(releases))
    whole = panel.facet(facet=alt.Facet("panel:N", title=None, sort=list(_PANELS.values())), columns=2)
    whole = whole.configure_view(stroke=None).configure_axis(labelFontSize=12)
    whole = whole.configure_header(labelFontSize=13).configure_legend(orient="top", labelFontSize=12)
    whole.save(str(PICTURE))


def read(path: Path) -> list[Row]:
    """The rows of a table of figures; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Read the figures; write page and picture."""
    rows = read(TABLE)
    sizes = {users: read(path) for users, path in SIZES.items()}
    PAGE.write_text(page_of(TEMPLATE.read_text(), rows, sizes, read(CLICKED_TABLE)))
    draw(rows)


if __name__ == "__main__":
    main()
