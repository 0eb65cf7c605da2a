"""Write the tables of docs/internet-scale.md: `python scripts/make_internet_scale_page.py`.

They come from docs/tables/internet-scale.csv, which `python -m bench.internet_scale` writes, and docs/tables/scale.csv.
Everything else on the page is written by hand.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, TABLES = DOCS / "internet-scale.md", DOCS / "tables"
BLOCK = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
ROWS, USERS = 10**10, 10**9
MIN_USERS, AT_ONCE, PEELED, WORDNET, GRAMS = 5, 1 << 24, 1 << 23, 82_115, 220
"""k of the runs; bounds of the code; n-grams of an average user of AOL's log."""
MEGA, GIGA, TERA = 1e6, 1e9, 1e12
Row = dict[str, str]


@dataclass(frozen=True)
class Runs:
    """One method at several sizes, the smallest first."""

    method: str
    rows: list[Row]

    def numbers(self, column: str) -> list[float]:
        """Of one column, size by size."""
        return [float(row[column]) for row in self.rows]

    def slope(self, column: str, first: int = 0, last: int = -1) -> float:
        """How much it grows for each row of the log, from one size to another."""
        sizes, values = self.numbers("rows"), self.numbers(column)
        return (values[last] - values[first]) / (sizes[last] - sizes[first])

    def foretold(self, column: str) -> float:
        """What the line through the two smaller sizes says of the largest."""
        sizes, values = self.numbers("rows"), self.numbers(column)
        return values[1] + self.slope(column, 0, 1) * (sizes[2] - sizes[1])

    @property
    def bytes_fetched(self) -> float:
        """Of one row that comes to the driver."""
        return self.numbers("fetched_bytes")[-1] / max(1.0, self.numbers("fetched_rows")[-1])

    @property
    def streamed(self) -> float:
        """Rows that pass the driver for each row of the log."""
        return self.numbers("streamed_rows")[-1] / self.numbers("rows")[-1]


@cache
def runs() -> dict[str, Runs]:
    """Every method that was measured at three sizes."""
    rows = _read(TABLES / "internet-scale.csv")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = [Runs(each, [row for row in rows if row["method"] == each]) for each in methods]
    return {each.method: each for each in found if len(each.rows) == 3}


def keys_released(method: str) -> float:
    """At 10^10 rows: as many as at AOL's size, and more by the power that took it there from a million rows."""
    rows = [row for row in _read(TABLES / "scale.csv") if row["method"] == method]
    small, large = (min(rows, key=_size), max(rows, key=_size))
    if small is large:
        return float(large["released"]) * ROWS / _size(large)
    power = math.log(float(large["released"]) / float(small["released"])) / math.log(_size(large) / _size(small))
    return float(large["released"]) * float((ROWS / _size(large)) ** power)


def _size(row: Row) -> int:
    return int(row["rows"])


def _released(each: Runs) -> float:
    return keys_released(each.method) * each.bytes_fetched


def _rounds(each: Runs) -> float:
    return AT_ONCE * each.bytes_fetched + _released(each)


DRIVER: dict[str, tuple[str, Callable[[Runs], float]]] = {
    "k-anonymity": ("keys released x bytes of a row", _released),
    "clicks --max-keys-per-user 4": ("keys that may pass x bytes of a row", _released),
    "clicks": ("2^24 totals at a time and keys released, x bytes of a row", _rounds),
    "sessions": ("2^24 totals at a time and keys released, x bytes of a row", _rounds),
    "query-pool": ("the public list: at most 2^24 rows", lambda each: AT_ONCE * each.bytes_fetched),
    "optimal": ("2^24 totals at a time and keys released, x bytes of a row", _rounds),
    "semantic": ("52 bytes for each search, 36 for each user", lambda each: 52 * each.streamed * ROWS + 36 * USERS),
    "affinity": (
        "2^23 x 40 bytes, 10,000 concepts for each n-gram of a user x 100 bytes",
        lambda _: PEELED * 40 + 10_000 * GRAMS * 100,
    ),
    "generalize": ("82,115 (k - 1) x 20 bytes", lambda _: WORDNET * (MIN_USERS - 1) * 20),
}
"""What may come to the driver at once, in words and at 10^10 rows."""


def shuffled() -> list[list[str]]:
    """Measured bytes, the line, and how far it is off."""
    head = ["method", "shuffles", "MB shuffled", "bytes for each row", "foretold for the largest, MB", "off by"]
    table = [head]
    for each in runs().values():
        written, sizes = each.numbers("shuffled_bytes"), each.numbers("rows")
        foretold = each.foretold("shuffled_bytes")
        table.append(
            [
                f"`{each.method}`",
                _three(each.numbers("shuffles"), ".0f"),
                _three([value / MEGA for value in written], ".1f"),
                _three([value / size for value, size in zip(written, sizes, strict=True)], ".1f"),
                f"{foretold / MEGA:.1f}",
                f"{foretold / written[-1] - 1:+.1%}",
            ]
        )
    return table


def driver() -> list[list[str]]:
    """What came to the driver, beside the formula."""
    table = [["method", "rows fetched", "KB fetched", "rows streamed", "formula", "GB at 10^10 rows"]]
    for each in runs().values():
        words, formula = DRIVER[each.method]
        kilobytes = [value / 1e3 for value in each.numbers("fetched_bytes")]
        streamed = each.numbers("streamed_rows")
        table.append(
            [
                f"`{each.method}`",
                _three(each.numbers("fetched_rows"), ",.0f"),
                _three(kilobytes, ",.0f"),
                _three(streamed, ",.0f") if any(streamed) else "none",
                words,
                f"{formula(each) / GIGA:,.2f}",
            ]
        )
    return table


def cost() -> list[list[str]]:
    """Everything at 10^10 rows and 10^9 users."""
    table = [
        ["method", "TB shuffled", "shuffles", "driver GB", "core hours, of short runs", "core hours, one machine's rate", "rows through the driver"]  # noqa: E501
    ]  # fmt: skip
    for each in runs().values():
        table.append(
            [
                f"`{each.method}`",
                f"{each.slope('shuffled_bytes') * ROWS / TERA:,.2f}",
                f"{max(each.numbers('shuffles')):.0f}",
                f"{DRIVER[each.method][1](each) / GIGA:,.2f}",
                f"{each.numbers('processor_seconds')[-1] / each.numbers('rows')[-1] * ROWS / 3600:,.0f}",
                _hours_on_one_machine(each.method),
                f"{each.streamed * ROWS:.1e}" if each.streamed else "what is released",
            ]
        )
    return table


def _hours_on_one_machine(method: str) -> str:
    rows = [row for row in _read(TABLES / "scale.csv") if row["method"] == method]
    if not rows:
        return "not measured"
    largest = max(rows, key=_size)
    return f"{float(largest['processor_seconds']) / _size(largest) * ROWS / 3600:,.0f}"


TABLE = {"shuffled": shuffled, "driver": driver, "cost": cost}


def page_with_tables(page: str) -> str:
    """The page, with what stands between each pair of markers made anew."""
    return BLOCK.sub(lambda found: found[1] + _lines(TABLE[found[2]]()) + found[3], page)


def _three(values: list[float], form: str) -> str:
    return " · ".join(f"{value:{form}}" for value in values)


def _lines(table: list[list[str]]) -> str:
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "".join(f"{line}\n" for line in (*lines, *("| " + " | ".join(row) + " |" for row in rows)))


@cache
def _read(path: Path) -> list[Row]:
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text()))
