"""Write the tables of docs/evaluation.md: `python scripts/make_evaluation_page.py`.

They come from two files of docs/tables, which benches write:

    python -m bench.release_values --csv docs/tables/values-standard.csv
    python -m bench.added_values --csv docs/tables/added-standard.csv

Everything else on the page is written by hand.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, VALUES = DOCS / "evaluation.md", DOCS / "tables" / "values-standard.csv"
ADDED = DOCS / "tables" / "added-standard.csv"
BLOCK = re.compile(r"(<!-- values (\S+) (\S+)(?: ([^>]+?))? -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = ("release", "all", "of the cases answered", "answered", "original on these", "difference")
SURE = 0.05

Row = dict[str, str]


def page_with_tables(page: str, rows: Sequence[Row], added: Sequence[Row]) -> str:
    """The page, with what stands between each pair of markers made anew; without `added` its tables stay."""

    def block(marked: re.Match[str]) -> str:
        if marked[2] == "added" and not added:
            return marked[0]
        made = added_table(added, marked[3]) if marked[2] == "added" else _block(marked[2], marked[3], marked[4], rows)
        return marked[1] + made + marked[5]

    return BLOCK.sub(block, page)


def added_table(rows: Sequence[Row], epsilon: str) -> str:
    """A line for each measure: the value of no data, and the difference of each release of this epsilon to it."""
    values = {(row["release"], row["task"], row["measure"], row["slice"]): row["value"] for row in rows}
    own = [name for name in _names(rows) if name.endswith(f", {epsilon}")]
    columns = ["original", "k-anonymity", *own]
    lines = [["task, measure", "no data", *map(_shown, columns)]]
    for key in dict.fromkeys((row["task"], row["measure"], row["slice"]) for row in rows):
        nothing = values[("no-data", *key)]
        if any((name, *key) in values for name in own):
            cells = [values.get((name, *key), "") for name in columns]
            added = [f"{float(cell) - float(nothing):+.3g}" if cell else "-" for cell in cells]
            lines.append([", ".join(filter(None, key)), _number(nothing), *added])
    return _markdown(lines)


def _block(task: str, measure: str, part: str | None, rows: Sequence[Row]) -> str:
    if measure == "findings":
        return "".join(f"- {line}\n" for line in FINDINGS[task](rows))
    own = [row for row in rows if row["task"] == task]
    if measure == "figures":
        return _figures(own)
    return _cases([row for row in own if row["measure"] == measure], part or "")


def _cases(rows: Sequence[Row], part: str) -> str:
    """A line for each release: its three readings; then why others have none."""
    lines = [list(HEAD)]
    for name in _names(rows):
        found = {(row["slice"], row["reading"]): row for row in rows if row["release"] == name}
        answered = found.get((part, "answered"))
        if answered is None or not answered["value"]:
            continue
        common, everything = found[part, "common"], found[part, "all"]
        difference = found.get((f"{part},difference".lstrip(","), "common"))
        share = int(answered["answered"]) / int(answered["cases"])
        lines.append([
            _shown(name), _with_interval(everything), f"{int(answered['answered']):,} ({share:.1%})",
            _with_interval(answered),
            "" if name == "original" else _number(common["value"]),
            "" if name == "original" or difference is None else _difference(difference),
        ])  # fmt: skip
    return _markdown(lines) + _reasons(rows, {line[0] for line in lines})


def _figures(rows: Sequence[Row]) -> str:
    """A line for each release, a column for each figure."""
    columns = list(dict.fromkeys((row["measure"], row["slice"]) for row in rows if row["value"]))
    lines = [["release", *(f"{measure}{part and f', {part}'}" for measure, part in columns)]]
    values = {(row["release"], row["measure"], row["slice"]): row["value"] for row in rows if row["reading"] == "all"}
    for name in _names(rows):
        cells = [values.get((name, *column), "") for column in columns]
        if any(cells):
            lines.append([_shown(name), *(_number(cell) if cell else "-" for cell in cells)])
    return _markdown(lines) + _reasons(rows, {line[0] for line in lines})


def _reasons(rows: Sequence[Row], shown: Iterable[str]) -> str:
    """Why the other releases are not in a table."""
    missing: dict[str, list[str]] = {}
    for name in _names(rows):
        if _shown(name) not in shown:
            why = next(row["why"] for row in rows if row["release"] == name and row["why"])
            missing.setdefault(why.partition(";")[0], []).append(_shown(name))
    said = "; ".join(f"{', '.join(names)}: {why}" for why, names in missing.items())
    return f"\nNot there: {said}.\n" if said else ""


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *others = ("| " + " | ".join(line) + " |\n" for line in lines)
    return head + "|---" * len(lines[0]) + "|\n" + "".join(others)


def _shown(name: str) -> str:
    """The method's name; what else a release is called says which of its options is meant."""
    return f"`{name.partition(',')[0]}`"


def _names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["release"] for row in rows))


def _number(text: str) -> str:
    value = float(text)
    return f"{value:.3g}" if abs(value) < 10 else f"{value:,.0f}"


def _with_interval(row: Row) -> str:
    return f"{_number(row['value'])} [{_number(row['low'])}, {_number(row['high'])}]"


def _difference(row: Row) -> str:
    star = "*" if row["p_value"] and float(row["p_value"]) < SURE else ""
    low, high = (f"{float(row[end]):+.3g}" for end in ("low", "high"))
    return f"{float(row['value']):+.3g}{star} [{low}, {high}]"


def _value(rows: Sequence[Row], name: str, task: str, measure: str, part: str, reading: str) -> Row:
    wanted = {"release": name, "task": task, "measure": measure, "slice": part, "reading": reading}
    return next(row for row in rows if all(row[key] == value for key, value in wanted.items()))


def suggestion_findings(rows: Sequence[Row]) -> Iterator[str]:
    """The order that the paper saw: original, then k-anonymity, then differential privacy."""
    names = ("original", "k-anonymity", "clicks", "sessions")
    for measure in ("P@5", "R@5"):
        for reading in ("answered", "all"):
            values = [float(_value(rows, name, "suggestion", measure, "", reading)["value"]) for name in names]
            told = ", ".join(f"{name} {value:.3g}" for name, value in zip(names, values, strict=True))
            orders = {
                "original below k-anonymity": values[0] < values[1],
                "k-anonymity below both others": values[1] < min(values[2:]),
            }
            held = ", ".join(f"{order} {'holds' if holds else 'does **not** hold'}" for order, holds in orders.items())
            yield f"{measure}, *{reading}*: {told}: {held}."
        parts = []
        for name in names[1:]:
            row = _value(rows, name, "suggestion", measure, "difference", "common")
            parts.append(f"{name} {_difference(row)}")
        yield f"{measure}, release minus original on the *common* cases: {'; '.join(parts)}."


def retrieval_findings(rows: Sequence[Row]) -> Iterator[str]:
    """What the paper saw: no significant difference between original and anonymised."""
    tasks = (
        ("retrieval-walk", "difference", "random walk"),
        ("retrieval-feedback", "feedback=own (circular),difference", "implicit feedback, circular as in the paper"),
        ("retrieval-feedback", "difference", "implicit feedback of other users"),
    )
    for task, part, words in tasks:
        told, equal = [], list[str]()
        for name in ("query-pool", "clicks", "sessions"):
            row = _value(rows, name, task, "nDCG@10", part, "common")
            told.append(f"{name} {_difference(row) if row['value'] else row['why']}")
            equal += [name] if row["p_value"] and float(row["p_value"]) >= SURE else []
        held = f"the finding holds for {', '.join(equal)}" if equal else "the finding does **not** hold for any of them"
        yield f"{words}, nDCG@10, release minus original on the *common* cases: {'; '.join(told)}: {held}."
    part = "feedback=own (circular),order=random"
    random = _value(rows, "original", "retrieval-feedback", "nDCG@10", part, "answered")
    right = _value(rows, "original", "retrieval-feedback", "nDCG@10", "feedback=own (circular)", "answered")
    others = _value(rows, "original", "retrieval-feedback", "nDCG@10", "", "answered")
    yield (
        f"the circular reading of the original is {_number(right['value'])}, {_number(others['value'])} with feedback "
        f"of other users, and {_number(random['value'])} in the circular reading with its urls in random order: "
        f"{_larger(right, others, random)}."
    )


def _larger(right: Row, others: Row, random: Row) -> str:
    """Whether the order of urls or the click that judges it adds more to the circular reading."""
    order, click = (float(right["value"]) - float(each["value"]) for each in (random, others))
    more, less = (("order of the log", order), ("click by which it is judged", click))
    if order < click:
        more, less = less, more
    return f"the {more[0]} adds {more[1]:.3g}, the {less[0]} {less[1]:.3g}"


FINDINGS = {"suggestion": suggestion_findings, "retrieval": retrieval_findings}


def read_values(path: Path = VALUES) -> list[Row]:
    """The rows that a bench kept; none if it was not run."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(), read_values(), read_values(ADDED)))
