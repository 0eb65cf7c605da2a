"""README.md of a release folder: the datasheet for the people who receive it."""

from __future__ import annotations

import json
import re
from typing import Any

from querycloak.privacy.explanation import explain
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.exact import shown_up
from querycloak.releases.card import Contents, TableFile
from querycloak.releases.citation import citation
from querycloak.releases.count_words import how_to_read
from querycloak.releases.release import Release
from querycloak.releases.tables import LOG_ROWS

DATASHEET = "README.md"


def datasheet_of(contents: Contents) -> str:
    """The whole text."""
    sections = [
        _beginning(contents),
        _tables(contents),
        *filter(None, [how_to_read(contents)]),
        _guarantee(contents.release),
        _unprotected(contents.release),
        _making(contents),
        _citing(contents),
    ]
    return "\n\n".join(sections) + "\n"


def _beginning(contents: Contents) -> str:
    warnings = [f"> **{warning}**" for warning in contents.warnings]
    return "\n\n".join(
        [
            f"# A {contents.title}",
            *warnings,
            f"This folder holds what a search log gives when it is released under {_under(contents.release.proven)}. "
            f"It is not the log: {LOG_ROWS[contents.release.rows].changed}. "
            "`card.json` says the same for machines, with a checksum of every file; `croissant.json` describes the "
            "tables to tools for data sets.",
        ]
    )


def _under(proven: Guarantee) -> str:
    if proven.kind == "syntactic":
        return "a rule about what comes out of it"
    one_step = "" if proven.covers_release else " that covers one step only"
    return f"a guarantee to the people behind it{one_step}"


def _tables(contents: Contents) -> str:
    parts = ["## What is in it, and what it is good for"]
    for table in contents.tables:
        parts.append(_table(table))
    parts.append(
        f"Rows are sorted {contents.tables[0].order}: their order says nothing about the log. "
        'Read them with `querycloak.load("this folder")`, or with any tool that reads '
        + ("Parquet." if contents.tables[0].file.endswith(".parquet") else "tab-separated text. " + _TSV)
    )
    return "\n\n".join(parts)


_TSV = (
    "The first line names the columns, the text is UTF-8. In columns of text a backslash, tab, newline and carriage "
    "return are written `\\\\`, `\\t`, `\\n` and `\\r`; a text that begins with `=`, `+`, `-` or `@` has a backslash "
    "before it, because a spreadsheet would take it for a formula. A missing value is an empty field; in a column that "
    "may miss values an empty text is written `\\e`. Lists are JSON arrays. Quotation marks are plain characters."
)


def _table(table: TableFile) -> str:
    kind = table.described
    good_for = f"Good for: {kind.good_for}." if table.rows else "No row came out, so it is good for nothing."
    rows = "1 row" if table.rows == 1 else f"{table.rows:,} rows"
    lines = [
        f"**{table.file}** ({rows}): {kind.meaning}. {good_for}",
        "",
        "| column | what it is |",
        "|---|---|",
        *(f"| {field.name} | {kind.columns[field.name][1]} |" for field in table.schema),
    ]
    return "\n".join(lines)


def _guarantee(release: Release) -> str:
    parts = ["## What is promised to the people behind it", _side_by_side(release)]
    if release.seeded:
        parts.append("**None of this holds here: this release was drawn with a known seed, for a test.**")
    return "\n\n".join([*parts, *_people(release), explain(release.proven), *_composed(release)])


def _people(release: Release) -> list[str]:
    """How many people are behind the log, if the owner says: what delta is compared with."""
    if release.population_size is None:
        return []
    number = f"Its owner gives the number of people behind the log as {release.population_size:,}"
    if release.proven.delta is None or not release.proven.covers_release:
        return [f"{number}."]
    return [f"{number}: delta must be far below one divided by that, which is {1 / release.population_size:.2g}."]


def _composed(release: Release) -> list[str]:
    tighter = release.composition.get("privacy_loss_distribution", {})
    if not tighter.get("below_the_sum"):
        return []
    what = "release" if release.proven.covers_release else "step"
    return [
        f"Composed by privacy-loss distributions, the same {what} is also within epsilon {tighter['epsilon']:g} at "
        f"delta {shown_up(tighter['delta'])}."
    ]


def _side_by_side(release: Release) -> str:
    rows = [("kind", "kind"), ("counts for each", "unit"), ("neighbouring logs", "neighbours")]
    rows += [(name, name) for name in ("epsilon", "delta", "k")]
    lines = ["| | proven | claimed by the method's authors |", "|---|---|---|"]
    for title, name in rows:
        proven, claimed = _cell(release.proven, name), _cell(release.claimed, name)
        if (proven, claimed) != ("-", "-"):
            lines.append(f"| {title} | {proven} | {claimed} |")
    return "\n".join(lines)


def _cell(guarantee: Guarantee | None, name: str) -> str:
    value = getattr(guarantee, name) if guarantee is not None else None
    if guarantee is None or value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return shown_up(value) if guarantee.covers_release else "none for the whole release"


def _unprotected(release: Release) -> str:
    listed = [f"- {quantity}" for quantity in release.proven.unprotected] or [
        "- nothing that is released, beyond what the numbers above allow"
    ]
    always = [
        "- facts about people in general: that many ask for something is what this release is for",
        "- what many people asked: no single one of them makes a difference, so it comes out, sensitive or not",
    ]
    alone = "It was not accounted: other releases of the same log may exist, and what they tell adds to this one."
    if release.accounting.charge is not None:
        alone = _CHARGED.get(release.proven.kind, _ADDED_UP)
    return "\n".join(["## What is not protected", "", *listed, *always, "", alone])


_ADDED_UP = "It was charged to a ledger that adds up the releases about the same people and refuses to exceed a limit."
_CHARGED = {
    "syntactic": "It was recorded in a ledger of the releases about the same people. A rule about the output bounds "
    "nothing, so nothing was added up for it, and **no limit holds it back**.",
    "sampling-only": "It was charged, for one of its steps only, to a ledger that adds up the releases about the same "
    "people and refuses to exceed a limit: **no limit covers what the rest of it tells**.",
}


def _making(contents: Contents) -> str:
    release = contents.release
    look = "No last look was taken before writing."
    if contents.output_filter is not None:
        said = contents.output_filter.to_json()
        own = " and a list of the owner's" if said["owners_list"] else ""
        look = f"Before writing, rows that match patterns of {', '.join(said['patterns'])}{own} were dropped."
    return "\n".join(
        [
            "## How it was made",
            "",
            f"Method `{release.method}`, variant `{release.variant}`.",
            "",
            *_listed("Parameters", release.parameters),
            *_listed("The log, as its owner had it read", release.log),
            *_listed("Software", release.versions),
            look,
        ]
    )


def _listed(title: str, values: Any) -> list[str]:
    if not values:
        return []
    said = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return [f"{title}: " + ", ".join(map(_code, said)) + ".", ""]


def _code(text: str) -> str:
    """A text as Markdown shows it letter by letter, whatever it holds: between more backticks than stand in it."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text)
    runs = [len(run) for run in re.findall("`+", shown)]
    fence = "`" * (max(runs, default=0) + 1)
    blank = " " if runs else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def _citing(contents: Contents) -> str:
    first = contents.tables[0]
    cited = citation(contents.release, contents.published, (first.file, first.checksum))
    return (
        "## How to cite\n\n"
        "Add who published this folder, and where. `querycloak describe` shows the same entry with the digest of "
        f"card.json, which has a checksum of every file.\n\n```bibtex\n{cited}\n```"
    )
