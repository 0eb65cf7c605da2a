"""README.md of a release folder: the datasheet for whoever receives it."""

from __future__ import annotations

import json
from typing import Any

from querycloak.privacy.chance.exact import shown_up
from querycloak.privacy.explanation import explain
from querycloak.privacy.guarantee import Guarantee
from querycloak.releases.card import Contents, TableFile
from querycloak.releases.release import Release
from querycloak.releases.tables import LOG_ROWS

DATASHEET = "README.md"


def datasheet_of(contents: Contents) -> str:
    """The whole text."""
    sections = [
        _beginning(contents),
        _tables(contents),
        *([_counts(contents.release)] if any("count" in table.schema.names for table in contents.tables) else []),
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
    "return are written `\\\\`, `\\t`, `\\n` and `\\r`. A missing value is an empty field; in a column that may miss "
    "values an empty text is written `\\e`. Lists are JSON arrays. Quotation marks mean nothing but themselves."
)


def _table(table: TableFile) -> str:
    kind = table.described
    lines = [
        f"**{table.file}** ({table.rows:,} rows): {kind.meaning}. Good for: {kind.good_for}.",
        "",
        "| column | what it is |",
        "|---|---|",
        *(f"| {field.name} | {kind.columns[field.name][1]} |" for field in table.schema),
    ]
    return "\n".join(lines)


def _counts(release: Release) -> str:
    threshold = release.parameters.get("threshold")
    above = f" ({threshold})" if threshold is not None else ""
    texts = {
        "one-draw": f"One draw of noise was added to each count. A row is here if the noisy count exceeded a threshold"
        f"{above}, and that noisy count is the one you see. Near the threshold this selects: rows whose noise was "
        "positive got in, rows whose noise was negative did not. So **published counts near the threshold are too high "
        "on average**; far above it they are right on average. Do not fit a distribution to the lowest counts, and do "
        "not compare a low count with one from another release as if both were measured. A row that is missing is not "
        "a zero: it is a count that did not pass.",
        "fresh-draw": f"One draw of noise decided whether a row is here (above a threshold{above}), a fresh draw made "
        "the count that you see. Counts are right on average given that a row is here, and some lie below the "
        "threshold. A row that is missing is not a zero: it is a count that did not pass.",
        "weighed": "Users shared out weight among their rows, and noise on the weights decided which rows are here. "
        "The count that you see was taken afterwards, with fresh noise of its own (`counting_noise` in card.json is "
        "its standard deviation): right on average, but never below 1, and a user is counted for the first few only "
        "of the rows that are here (`counted_per_user`). So **differences of a few counts mean nothing**, and counts "
        "of what busy people ask are somewhat low. A row that is missing is not a zero: it is one that did not pass.",
        "public-keys": "Every row that could be here is made of public lists, and one draw of noise was added to every "
        f"count, zeros included. A row is here if its noisy count exceeded a threshold{above}; that noisy count is "
        "the one you see. So **counts near the threshold are too high on average, and about one row of each table was "
        "asked for by nobody**. A row that is missing is not a zero: it is a count that did not pass, or one that is "
        "in no public list.",
        "exact": "Counts are as they are in the log, no noise was added to them. A row that is missing is not a zero: "
        "it is one that the rule did not let through.",
        "sampled": "How often each pair comes out in all was computed from the log, without noise. So many times a "
        "user was drawn among those who had it, as likely as their share of it; a count is how often one was. Users "
        "are real, their names are not: what stands under one name was done by one person.",
        "synthetic": "Rows were made up to resemble the log. A single row, or a single user, is nobody: read totals "
        "and distributions, not rows.",
    }
    return "## How to read the counts\n\n" + texts[release.counts]


def _guarantee(release: Release) -> str:
    parts = ["## What is promised to the people behind it", _side_by_side(release)]
    if release.seeded:
        parts.append("**None of this holds here: this release was drawn with a known seed, for a test.**")
    return "\n\n".join([*parts, explain(release.proven), *_composed(release)])


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
    if value is None:
        return "-"
    return shown_up(value) if isinstance(value, float) else str(value)


def _unprotected(release: Release) -> str:
    listed = [f"- {quantity}" for quantity in release.proven.unprotected] or [
        "- nothing that is released, beyond what the numbers above allow"
    ]
    always = [
        "- facts about people in general: that many ask for something is what this release is for",
        "- what was asked by so many that no single person matters, whatever it is about",
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
    if contents.last_look is not None:
        said = contents.last_look.to_json()
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
    return [f"{title}: " + ", ".join(f"`{one}`" for one in said) + ".", ""]


def _citing(contents: Contents) -> str:
    release = contents.release
    first = contents.tables[0]
    return (
        "## How to cite\n\n"
        "Name whoever published this folder and where, and add what makes the result repeatable: "
        f"*{contents.title}, {contents.published.isoformat()}, made with querycloak {release.versions['querycloak']}; "
        f"{first.file} with SHA-256 {first.checksum}*."
    )
