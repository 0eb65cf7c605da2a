"""Write tables and pictures of docs/synthetic-release.md: `python scripts/make_synthetic_release_page.py`.

They come from files of docs/tables, which `python -m bench.made_up_logs` writes; the page has the commands. Everything
else on the page is written by hand.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "synthetic-release.md"
PICTURE, SHARES = (DOCS / "pictures" / f"synthetic-{name}.svg" for name in ("release", "shares"))
TABLES = DOCS / "tables"
SIZES = {users: TABLES / f"made-up-{users}.csv" for users in (1_000, 5_000, 20_000, 100_000, 657_426)}
"""Tables of logs of these many users; one that is not there is left out."""
TUNING = TABLES / "made-up-shares-tuning.csv"
JUDGED = sorted(TABLES.glob("made-up-shares-judged-*.csv"))
"""A table for each log that judges divisions of the budget."""
EPSILONS = ("1", "3", "8")
BLOCK = re.compile(r"(<!-- made-up (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
SHAPES = (
    "sessions per user", "searches per session", "hour of the week", "clicks per search", "rank", "words per query",
)  # fmt: skip
TASKS = ("bits per query", "expressible queries", "completion RR@10", "completion Success@10")
"""Figures of tasks that are given for every size."""
OTHERS = ("synthetic", "optimal", "queries")
"""Methods of the table of other methods, which is made on the log of 20,000 users."""
OF_SIZES = (*SHAPES, "completion RR@10")
OF_SHARES = ("bits per query", "expressible queries", "completion RR@10", "ranking tau-b", "volume of queries",
             "volume of clicks", "frequent pairs, recall", "clicks per search")  # fmt: skip
"""Figures of the pictures."""
COLOURS = ("#000000", "#0072b2", "#c94f00", "#009e73", "#cc79a7", "#999999")

Row = dict[str, str]
Figures = Mapping[tuple[str, str], Row]
Point = dict[str, str | int | float]


def read(path: Path) -> dict[tuple[str, str], Row]:
    """Figures of a table by release and name; none if there is no such file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {(row["release"], row["figure"]): row for row in csv.DictReader(file)}


def page_with_tables(page: str, sizes: Mapping[int, Figures], tuning: Figures, judged: Sequence[Figures]) -> str:
    """The page, with what stands between each pair of markers made anew."""
    blocks: Mapping[str, Callable[[], str]] = {
        "shapes": lambda: _by_size(sizes, SHAPES),
        "tasks": lambda: _by_size(sizes, TASKS),
        "others": lambda: _by_method(sizes[20_000]),
        "tuning": lambda: _by_shares(tuning, ("shapes", "tasks"), intervals=False),
        "judged": lambda: _by_shares(over_logs(judged), ("tasks",), intervals=True),
    }
    return BLOCK.sub(lambda block: block[1] + blocks[block[2]]() + block[3], page)


def over_logs(logs: Sequence[Figures]) -> Figures:
    """The mean of each figure over logs, with the least and the most in place of an interval."""
    means: dict[tuple[str, str], Row] = {}
    for place, row in logs[0].items() if logs else ():
        values = [float(figures[place]["value"]) for figures in logs]
        spread = {"low": str(min(values)), "high": str(max(values))}
        means[place] = {**row, "value": str(sum(values) / len(values)), **spread}
    return means


def _by_method(figures: Figures) -> str:
    """A line for each figure of a task, a column for the original, no data, and each method at each epsilon."""
    names = list(dict.fromkeys(row["figure"] for row in figures.values() if row["part"] == "tasks"))
    columns = ["original", "no-data", *(f"{method}, epsilon {epsilon}" for epsilon in EPSILONS for method in OTHERS)]
    lines = [["measure", *(column.replace(", epsilon", "").replace("-", " ") for column in columns)]]
    lines += [[name, *(_cell(figures.get((column, name))) for column in columns)] for name in names]
    return _markdown(lines)


def _by_size(sizes: Mapping[int, Figures], names: Sequence[str]) -> str:
    """A line for each size and epsilon, beside what the original and no data reach where a task has them."""
    lines = [["users", "release", *names]]
    for users, figures in sizes.items():
        for release in ("original", "no-data", *(f"synthetic, epsilon {epsilon}" for epsilon in EPSILONS)):
            cells = [_cell(figures.get((release, name))) for name in names]
            if any(cell != "-" for cell in cells):
                lines.append([f"{users:,}", release, *cells])
    return _markdown(lines)


def _by_shares(figures: Figures, parts: Sequence[str], *, intervals: bool) -> str:
    """A line for each figure of these parts and epsilon, a column for each division of the budget."""
    names = list(dict.fromkeys(row["figure"] for row in figures.values() if row["part"] in parts))
    splits = list(dict.fromkeys(name.split(", epsilon ")[0] for name, _ in figures if ", epsilon " in name))
    lines = [["figure", "epsilon", *splits]]
    for name in names:
        for epsilon in EPSILONS:
            rows = [figures.get((f"{split}, epsilon {epsilon}", name)) for split in splits]
            if any(rows):
                lines.append([name, epsilon, *(_cell(row, interval=intervals) for row in rows)])
    return _markdown(lines)


def _cell(row: Row | None, *, interval: bool = False) -> str:
    """A figure; its interval, if asked for and there is one."""
    if row is None or not row["value"]:
        return "-"
    span = f" ({_number(row['low'])} to {_number(row['high'])})" if interval and row["low"] and row["high"] else ""
    return _number(row["value"]) + span


def _number(text: str) -> str:
    """One digit after the point from 10 on, else three, without the 0 before it."""
    value = float(text)
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}".replace("0.", ".", 1)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rest))


def points_of_sizes(sizes: Mapping[int, Figures]) -> list[Point]:
    """Each figure by users of the log, a line for each epsilon."""
    return [
        {"at": users, "line": f"epsilon {epsilon}", "figure": name, "value": float(row["value"])}
        for name in OF_SIZES
        for users, figures in sizes.items()
        for epsilon in EPSILONS
        if (row := figures.get((f"synthetic, epsilon {epsilon}", name))) is not None and row["value"]
    ]


def points_of_shares(figures: Figures) -> list[Point]:
    """Each figure by epsilon, a line for each division of the budget."""
    named = [(release.partition(", epsilon "), figure) for release, figure in figures]
    return [
        {
            "at": int(epsilon),
            "line": split,
            "figure": name,
            "value": float(figures[split + apart + epsilon, name]["value"]),
        }
        for (split, apart, epsilon), name in named
        if apart and name in OF_SHARES
    ]


def draw(points: Sequence[Point], title: str, path: Path) -> None:
    """A panel for each figure."""
    import altair as alt

    panels = list(dict.fromkeys(str(point["figure"]) for point in points))
    lines = list(dict.fromkeys(str(point["line"]) for point in points))
    places = sorted({int(point["at"]) for point in points})
    axis = alt.Axis(values=places, format="~s", grid=False)
    base = alt.Chart(alt.Data(values=list(points))).encode(
        x=alt.X("at:Q", title=title, scale=alt.Scale(type="log", nice=False), axis=axis),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4)),
        color=alt.Color("line:N", title=None, sort=lines, scale=alt.Scale(range=list(COLOURS))),
        shape=alt.Shape("line:N", legend=None, sort=lines),
    )
    panel = (base.mark_line() + base.mark_point(filled=True, size=50, opacity=1)).properties(width=170, height=110)
    whole = panel.facet(facet=alt.Facet("figure:N", title=None, sort=panels), columns=4)
    whole.resolve_scale(y="independent").configure_legend(orient="top").save(str(path))


def main() -> None:
    """Read the figures; write page and pictures."""
    sizes = {users: figures for users, path in SIZES.items() if (figures := read(path))}
    tuning = read(TUNING)
    PAGE.write_text(page_with_tables(PAGE.read_text(), sizes, tuning, [read(path) for path in JUDGED]))
    draw(points_of_shares(tuning), "epsilon", SHARES)
    if len(sizes) > 1:
        draw(points_of_sizes(sizes), "users of the log", PICTURE)


if __name__ == "__main__":
    main()
