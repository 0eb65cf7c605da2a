"""Write the tables of docs/scale.md: `python scripts/make_scale_page.py`.

They come from files in docs/tables, to which benches add rows. Run these to make them anew:

    querycloak synth --users 657426 --out aol-size.tsv
    python -m bench.scale aol-size.tsv
    make bench-peers

Everything else on the page is written by hand.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, TABLES = DOCS / "scale.md", DOCS / "tables"
BLOCK = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
LARGEST_STAGES = 5
Row = dict[str, str]


def page_with_tables(page: str) -> str:
    """The page, with what stands between each pair of markers made anew."""
    return BLOCK.sub(lambda found: found[1] + _lines(_table(found[2])) + found[3], page)


def _table(name: str) -> list[list[str]]:
    file, _, part = name.partition(":")
    rows = _read(TABLES / f"{file}.csv")
    if name == "scale-stages":
        return _stages(rows)
    if file == "peers":
        return _proofs(rows) if part == "proves" else _peers([row for row in rows if row["task"] == part])
    return [[_words(column) for column in rows[0]], *(list(row.values()) for row in rows)]


def _stages(rows: list[Row]) -> list[list[str]]:
    """Of the largest log each method was run on, the stages that took longest, with their shares."""
    largest = {row["method"]: max(int(r["rows"]) for r in rows if r["method"] == row["method"]) for row in rows}
    table = [["method", "rows", "shares of its processor time"]]
    for method, size in largest.items():
        mine = [row for row in rows if row["method"] == method and int(row["rows"]) == size]
        total = sum(float(row["processor_seconds"]) for row in mine)
        first = sorted(mine, key=lambda row: -float(row["processor_seconds"]))[:LARGEST_STAGES]
        shares = [f"{row['stage']}: {float(row['processor_seconds']) / total:.0%}" for row in first]
        table.append([method, f"{size:,}", " · ".join(shares)])
    return table


def _peers(rows: list[Row]) -> list[list[str]]:
    """The tools of one task, size by size; what failed says why in the place of what came out."""
    columns = ("rows", "seconds", "processor_seconds", "rows_a_second", "peak_gb", "released")
    table = [["tool", "version", *map(_words, columns), "load"]]
    for row in rows:
        values = [row["failure"] if column == "released" and row["failure"] else row[column] for column in columns]
        shown = [f"{int(value):,}" if value.isdigit() else value for value in values]
        table.append([row["tool"], row["version"], *shown, row["load"]])
    return table


def _proofs(rows: list[Row]) -> list[list[str]]:
    """What each tool proves of each task, once."""
    told = dict.fromkeys((row["task"], row["tool"], row["proves"]) for row in rows)
    return [["task", "tool", "proves"], *map(list, told)]


def _words(column: str) -> str:
    return column.replace("_", " ").replace("gb", "GB")


def _lines(table: list[list[str]]) -> str:
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "".join(f"{line}\n" for line in (*lines, *("| " + " | ".join(row) + " |" for row in rows)))


def _read(path: Path) -> list[Row]:
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text()))
