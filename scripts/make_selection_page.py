"""Write the tables of docs/selection.md: `python scripts/make_selection_page.py`.

They come from the files in docs/tables, which three benches write. Run these to make them anew:

    python -m bench.yields LOG --csv docs/tables/yields-NAME.csv
    python -m bench.selection --log LOG --csv docs/tables/field-NAME.csv
    python -m bench.auto_choice NAME=LOG ... --csv docs/tables/auto-choice.csv

Everything else on the page is written by hand.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, TABLES = DOCS / "selection.md", DOCS / "tables"
BLOCK = re.compile(r"(<!-- (yields|field) (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
AUTO_BLOCK = re.compile(r"(<!-- auto -->\n).*?(<!-- end -->)", re.DOTALL)
STANDARD = {(1.0, 1e-6): "(1, 1e-6)", (3.0, math.exp(-10)): "(3, e^-10)", (8.0, 2.25e-7): "(8, 2.25e-7)"}
LIMIT = "limit"
OURS = ("laplace", "gaussian", "weighted", "multi-round", "auto")

Row = dict[str, str]
Budget = tuple[float, float]


def page_with_tables(page: str) -> str:
    """The page, with what stands between each pair of markers made anew."""
    page = BLOCK.sub(lambda found: found[1] + _table(found[2], found[3], found[4]) + found[5], page)
    return AUTO_BLOCK.sub(lambda found: found[1] + _auto_table() + found[2], page)


def _auto_table() -> str:
    """For every log, table and budget: `auto` as a share of the best fixed choice, for keys and for volume."""
    rows = _read(TABLES / "auto-choice.csv")
    budgets = list(dict.fromkeys(_budget(row) for row in rows))
    lines = [["log", "table", *(f"{_budget_words(each)}: {what}" for each in budgets for what in ("keys", "volume"))]]
    lines.append(["---"] * len(lines[0]))
    for place in dict.fromkeys((row["log"], row["table"]) for row in rows):
        found = {(_budget(row), row["measure"]): row for row in rows if (row["log"], row["table"]) == place}
        lines.append(
            [*place, *(_auto_cell(found.get((each, what))) for each in budgets for what in ("keys", "volume"))]
        )
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _auto_cell(row: Row | None) -> str:
    """Share of the best, two standard errors of it, and which choice was the best."""
    if row is None:
        return ""
    if not float(row["fixed"]):
        return "nothing comes out"
    keys = f"{float(row['auto']):,.0f} of {float(row['fixed']):,.0f}, " if row["measure"] == "keys" else ""
    return f"{keys}{float(row['ratio']):.0%} ± {float(row['two_errors']):.0%} (`{row['best']}`)"


def _table(kind: str, log: str, table: str) -> str:
    rows = [row for row in _read(TABLES / f"{kind}-{log}.csv") if row["table"] == table]
    name, cell = ("selection", _yield_cell) if kind == "yields" else ("algorithm", _field_cells(rows))
    budgets = list(dict.fromkeys(_budget(row) for row in rows))
    names = list(dict.fromkeys(row[name] for row in rows))
    found = {(row[name], _budget(row)): cell(row) for row in rows}
    head = [name, *(_budget_words(budget) for budget in budgets)]
    lines = [head, ["---"] * len(head)]
    lines += [[_shown(each), *(found.get((each, budget), "") for budget in budgets)] for each in names]
    return (
        "".join("| " + " | ".join(line) + " |\n" for line in lines)
        .replace("| --- |", "|---|")
        .replace(" --- |", "---|")
    )


def _read(path: Path) -> list[Row]:
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


def _budget(row: Row) -> Budget:
    return float(row["epsilon"]), float(row["delta"])


def _budget_words(budget: Budget) -> str:
    return STANDARD.get(budget) or f"paper's own: ({budget[0]:g}, {_delta(budget[1])})"


def _delta(delta: float) -> str:
    return f"{delta:.3g}".replace("e-0", "e-")


def _shown(name: str) -> str:
    """Names of ours as options are typed."""
    own = name.partition(",")[0]
    return name.replace(own, f"`{own}`") if own in OURS else name


def _yield_cell(row: Row) -> str:
    """Keys (times the paper's); volume; error (relative)."""
    keys = int(row["keys"])
    if not keys:
        return "0"
    times = f" ({float(row['factor']):.1f} x)" if row["factor"] else ""
    if row["median_error"] == "nan":  # nobody holds any of them
        return f"{keys:,}{times}"
    error = f"{float(row['median_error']):g} ({float(row['median_relative_error']):.0%})"
    return f"{keys:,}{times}; {float(row['volume']):.2%}; {error}"


def _field_cells(rows: list[Row]) -> Callable[[Row], str]:
    """Keys (share of the limit); volume; two standard errors. The most keys of a column in bold, the limit apart."""
    limits = {_budget(row): float(row["keys"]) for row in rows if row["algorithm"] == LIMIT}
    best: dict[Budget, float] = {}
    for row in rows:
        if row["algorithm"] != LIMIT:
            best[_budget(row)] = max(best.get(_budget(row), 0.0), float(row["keys"]))

    def cell(row: Row) -> str:
        keys, budget = float(row["keys"]), _budget(row)
        errors = 2 * float(row.get("error") or 0), 200 * float(row.get("volume_error") or 0)
        number = f"{keys:,.0f}" + (f" ± {errors[0]:.{int(errors[0] < 10)}f}" if errors[0] else "")
        if row["algorithm"] != LIMIT and keys and keys == best[budget]:
            number = f"**{number}**"
        share = f" ({keys / limits[budget]:.0%})" if limits.get(budget) and row["algorithm"] != LIMIT else ""
        volume = f"{float(row['volume']):.2%}" + (f" ± {errors[1]:.2f}" if errors[1] else "")
        return f"{number}{share}; {volume}"

    return cell


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text()))
