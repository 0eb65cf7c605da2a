"""Write the tables of docs/audits.md and docs/attacks.md: `python scripts/make_audit_pages.py`.

They come from the files in docs/tables, which three benches write. Run these to make them anew:

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
BLOCK = re.compile(r"(<!-- (method-audits|risks|small-budgets|figures) -->\n).*?(<!-- end -->)", re.DOTALL)
PAGES = ("audits.md", "attacks.md")
Row = dict[str, str]


def page_with_tables(page: str) -> str:
    """The page, with what stands between each pair of markers made anew."""
    makers = {
        "method-audits": _method_audits,
        "risks": _risks,
        "small-budgets": _small_budgets,
        "figures": _figures,
    }
    return BLOCK.sub(lambda found: found[1] + makers[found[2]]() + found[3], page)


def _method_audits() -> str:
    head = ["method", "claimed", "proven", "measured", "at delta", "runs", "ceiling", "exact bounds", "verdict"]
    names = ("method", "claimed", "proven", "measured", "delta", "runs", "ceiling", "exact", "verdict")
    return _table(head, ([row[name] for name in names] for row in _read("method-audits.csv")))


# Attack, its settings (the first that a release has), and which figure is shown.
SHOWN = {
    "singling-out, 2 random queries": ("singling-out", ("m=2 random",), "risk"),
    "same, 5, those released": ("singling-out", ("m=5 random released",), "risk"),
    "linkage-records, 50 users, recall .85": (
        "linkage-records",
        ("50 users, recall 0.85", "times, 50 users, recall 0.85"),
        "risk",
    ),
    "inference, 5 queries, disease": ("inference", ("m=5 disease",), "risk"),
    "membership, area under the curve": ("membership", ("area under the curve",), "main"),
    "secrets, all kinds": ("secrets", ("all kinds",), "risk"),
}


def _risks() -> str:
    """A line for each release, a column for each attack in one setting."""
    rows = _read("attacks-standard.csv")
    releases = [name for name in dict.fromkeys(row["release"] for row in rows) if not name.endswith(" releases")]
    found = {(row["release"], row["attack"], row["setting"]): row for row in rows}

    def cell(release: str, attack: str, settings: Sequence[str], figure: str) -> str:
        row = next((found[release, attack, each] for each in settings if (release, attack, each) in found), None)
        if row is None or not row[figure]:
            return "n/a"
        return "invalid" if row["why"].startswith("invalid") else _number(row[figure])

    def accounts(release: str) -> str:
        said = [setting for name, attack, setting in found if name == release and attack == "forced-out"]
        return said[0].partition(" account")[0] if said and said[0] else "n/a"

    head = ["release", *SHOWN, "forced-out, accounts for one text"]
    return _table(
        head, ([each, *(cell(each, *shown) for shown in SHOWN.values()), accounts(each)] for each in releases)
    )


def _small_budgets() -> str:
    """Members found beside the most that is proven, by several releases together."""
    rows = [row for row in _read("attacks-standard.csv") if row["release"].endswith(" releases")]
    bounds = {(row["release"], row["setting"]): float(row["main"]) for row in rows}
    head = ["release", "false alarms", "members found", "95 %", "the most that is proven"]
    lines = []
    for row in rows:
        if row["control"] and row["setting"].startswith("FPR"):
            wrong, allowed = float(row["control"]), float(row["setting"].removeprefix("FPR "))
            least, most = (wrong + float(row[end]) * (1 - wrong) for end in ("low", "high"))
            # e^epsilon FPR, delta being too small to show: what is proven at as many false alarms as were seen.
            bound = bounds[row["release"], row["setting"] + ", most by what is proven"] * wrong / allowed
            shown = f"{wrong:.4f}", f"{float(row['main']):.4f}", f"{least:.4f} to {most:.4f}", f"{bound:.4f}"
            lines.append([row["release"], *shown])
    return _table(head, lines)


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
