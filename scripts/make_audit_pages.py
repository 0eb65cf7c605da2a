"""Write the tables of docs/audits.md and docs/attacks.md: `python scripts/make_audit_pages.py`.

They come from the files in docs/tables, which two benches write. Run these to make them anew:

    python -m bench.method_audits --csv docs/tables/method-audits.csv
    python -m bench.release_audits --csv docs/tables/attacks-standard.csv

Everything else on the pages is written by hand.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
TABLES = DOCS / "tables"
BLOCK = re.compile(r"(<!-- (method-audits|figures) -->\n).*?(<!-- end -->)", re.DOTALL)
PAGES = ("audits.md", "attacks.md")
Row = dict[str, str]


def page_with_tables(page: str) -> str:
    """The page, with what stands between each pair of markers made anew."""
    makers = {"method-audits": _method_audits, "figures": _figures}
    return BLOCK.sub(lambda found: found[1] + makers[found[2]]() + found[3], page)


def _method_audits() -> str:
    head = ["method", "claimed", "proven", "measured", "at delta", "runs", "ceiling", "exact bounds", "verdict"]
    names = ("method", "claimed", "proven", "measured", "delta", "runs", "ceiling", "exact", "verdict")
    return _table(head, ([row[name] for name in names] for row in _read("method-audits.csv")))


def _figures() -> str:
    head = ["attack", "setting", "release", "main", "control", "baseline", "risk", "95 %", "targets"]
    rows = [row for row in _read("attacks-standard.csv") if row["risk"]]
    order = list(dict.fromkeys((row["attack"], row["setting"]) for row in rows))
    rows.sort(key=lambda row: order.index((row["attack"], row["setting"])))
    return _table(
        head,
        (
            [
                row["attack"], row["setting"], row["release"],
                *(_number(row[name]) for name in ("main", "control", "baseline", "risk")),
                f"{_number(row['low'])} to {_number(row['high'])}", f"{int(row['targets']):,}",
            ]
            for row in rows
            if row["attack"] not in ("forced-out", "leaks")
        ),
    )  # fmt: skip


def _number(text: str) -> str:
    """Three digits, without the 0 that all shares begin with."""
    value = float(text)
    return f"{value:.3f}" if value >= 0.9995 else f"{value:.3f}".removeprefix("0")


def _read(name: str) -> list[Row]:
    with (TABLES / name).open(newline="") as opened:
        return list(csv.DictReader(opened))


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    shown = ["| " + " | ".join(line) + " |\n" for line in (head, *lines)]
    return "".join([shown[0], "|" + "---|" * len(head) + "\n", *shown[1:]])


def main() -> None:
    """Write the pages."""
    for name in PAGES:
        page = DOCS / name
        page.write_text(page_with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
