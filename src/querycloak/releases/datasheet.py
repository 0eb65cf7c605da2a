"""README.md of a release folder: the datasheet for the people who receive it."""

from __future__ import annotations

import json
import re
from typing import Any

from querycloak.privacy.explanation import explain
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.exact import shown_up
from querycloak.releases.about_file import TITLES
from querycloak.releases.card import Contents, TableFile
from querycloak.releases.citation import cited_as
from querycloak.releases.front_matter import front_matter
from querycloak.releases.limitations import difference, limitations
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind


def how_to_read(contents: Contents) -> str | None:
    """The section of the datasheet; None where there is nothing to say."""
    release = contents.release
    has_counts = any(_COUNTING & set(table.schema.names) for table in contents.tables)
    if not has_counts and not release.reach:
        return None
    parts = ["## How to read the counts", _made(release)[release.counts]] if has_counts else ["## How to read the rows"]
    if has_counts and release.parameters.get("sequences") == "released":
        parts.append(_PAIRS)
    for table in contents.tables:
        reach = release.reach.get(table.kind)
        if reach is not None:
            what = "count" if _COUNTING & set(table.schema.names) else "row"
            parts.append("\n".join([f"What a {what} of **{table.file}** means:", "", *map(_item, reach.lines())]))
    if any(reach.margin95 is not None and reach.margin95.high > 0 for reach in release.reach.values()):
        parts.append(_DIFFERENCES)
    return "\n\n".join(parts)


_COUNTING = {"count", "viewers", "views", "searches"}
"""Columns of noisy numbers, one of which a table with counts has."""
_PAIRS = (
    "Rows of **sessions** and **reformulations** are here for another reason. Every pair of queries that came out, and "
    "every kind and word of a reformulation, got one draw of noise, whether anybody asked it or not. A row is here if "
    "its noisy count exceeded the cut below, and that noisy count is the one you see. So **their counts near the cut "
    "are too high on average, and a few of their rows may be noise alone**."
)
_DIFFERENCES = (
    "Two counts that differ by less than 1.4 times the margin may be equal in truth. The margin is about noise alone: "
    "it does not include what bounds per user cut off, which always lowers a count."
)


def _item(line: str) -> str:
    return f"- {line}"


def _made(release: Release) -> dict[str, str]:
    """Words for the making of counts, by the keys of `releases.release.COUNTS`."""
    threshold, coin = release.parameters.get("threshold"), release.parameters.get("coin")
    above = f" ({threshold})" if threshold is not None else ""
    luck = f", or equalled it and came out with probability {coin:g}" if coin else ""
    of_clicks = release.parameters.get("count_of") == "clicks"
    return {
        "one-draw": f"One draw of noise was added to each count. A row is here if the noisy count exceeded a threshold"
        f"{above}{luck}, and that noisy count is the one you see. Near the threshold, rows whose noise was "
        "positive are here, and rows whose noise was negative are not. So **published counts near the threshold are "
        "too high on average**; far above it noise does not bias them. Do not fit a distribution to the lowest "
        "counts, and do not compare a low count with one from another release as if both were measured. A row that is "
        "missing is not a zero: it is a count that did not pass.",
        "fresh-draw": f"One draw of noise decided whether a row is here: if the noisy {_deciding(of_clicks)} exceeded "
        f"a threshold{above}{luck}. {_fresh(of_clicks)} A row that is missing is not a zero: it is one that did not "
        "pass.",
        "weighed": "Each user divided a weight among rows, and noise on the weights decided which rows are here. "
        "The count that you see was taken afterwards, with fresh noise of its own (`counting_noise` in card.json is "
        f"its standard deviation): right on average, and {_bounded(of_clicks)}. {_NULL_COUNTS} A row that is missing "
        "is not a zero: it is one that did not pass.",
        "public-keys": f"{_which_could_be_here(release)}, and one draw of noise was added to every count, zeros "
        f"included. A row is here if its noisy count exceeded a threshold{above}; that noisy count is the one you see. "
        "So **counts near the threshold are too high on average, and a few rows may be noise alone**. A row that is "
        "missing is not a zero: it is a count that did not pass, or one that is in no public list.",
        "cells": _ALL_CELLS
        if "cells" in release.tables
        else "Keys were selected first, by noise. Then one draw of noise was added to every cell of a key that "
        "came out (a value of each attribute, or a group of ranks), whether anybody is in it or not. A row is here if "
        "its noisy number exceeded a cut that follows from the noise and the number of cells; that noisy number is the "
        "one you see. So **numbers near the cut are too high on average, and a row may be noise alone**. One person "
        "may be in several cells of a key: cells do not add up to the number of users of the key. A rate of two "
        "numbers has the noise of both: compute its margin from theirs. A row that is missing is not a zero.",
        "exact": "Counts are as they are in the log, no noise was added to them. A row that is missing is not a zero: "
        "it is one that the rule did not let through.",
        "sampled": "The total count of each pair was computed from the log, without noise. For each unit of "
        "that total one of the users who had the pair was drawn, with probability proportional to how often they had "
        "it. A count is the number of times that this user was drawn. Users are real people under other names: all "
        "rows under one name are one person's.",
        "synthetic": "Rows were made up to resemble the log. No row and no user is a real person: use totals and "
        "distributions, not single rows.",
    }


_ALL_CELLS = (
    "One draw of noise was added to both numbers of every cell, whether anybody is in it or not, and all cells are "
    "here. A number that noise took below 0 is null. One person may be in several cells: cells do not add up to the "
    "number of all users. A rate of two numbers has the noise of both: compute its margin from theirs."
)
_NULL_COUNTS = (
    "A count that noise made less than 1 is null (empty in text): the number is small beside the margin of noise, and "
    "it is not known to be one person. So among low counts those that you see are too high on average."
)


def _deciding(of_clicks: bool) -> str:
    return "number of users" if of_clicks else "count"


def _fresh(of_clicks: bool) -> str:
    if of_clicks:
        return (
            f"Then clicks were counted, with a fresh draw of noise: right on average, and {_bounded(of_clicks)}. "
            f"{_NULL_COUNTS}"
        )
    return (
        "A fresh draw made the count that you see. Counts are right on average given that a row is here, and some lie "
        "below the threshold."
    )


def _bounded(of_clicks: bool) -> str:
    """Effect of bounds on counts that are taken after rows were chosen."""
    if of_clicks:
        return "clicks count up to the bounds below only. So counts of what few people click often are low"
    return (
        "a user counts only for the first few of the rows that are here (`counted_per_user`). So counts of what busy "
        "people ask are somewhat low"
    )


def _which_could_be_here(release: Release) -> str:
    """Source of rows under a public list; some tables may go beyond it, above a threshold."""
    beyond = beyond_public_lists(release)
    if not beyond:
        return "Every row that could be here is made of public lists"
    return (
        f"Rows of {' and '.join(beyond)} are what the log has, if enough users share it, and nobody's row is among "
        "them. Every other row that could be here is made of public lists"
    )


def beyond_public_lists(release: Release) -> list[str]:
    """Rows that a release of public lists takes from the log, above a threshold."""
    if release.counts != "public-keys":
        return []
    clicks = ["clicks"] if release.parameters.get("clicks") == "threshold" else []
    return [*(["queries outside the pool"] if release.parameters.get("off_pool") else []), *clicks]


DATASHEET = "README.md"


def datasheet_of(contents: Contents) -> str:
    """The whole text."""
    sections = [
        front_matter(contents),
        _beginning(contents),
        *filter(None, [_about(contents.release)]),
        _tables(contents),
        _not_for(contents),
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
            f"It is not the log: {difference(contents.release)}. "
            "`card.json` says the same for machines, with a checksum of every file; `croissant.json` describes the "
            "tables to tools for data sets.",
        ]
    )


def _about(release: Release) -> str | None:
    """The owner's statements; None if there are none."""
    stated = {name: value for name, value in release.about.items() if name not in ("citation",)}
    if not stated:
        return None
    texts = {name: ", ".join(value) if isinstance(value, list) else str(value) for name, value in stated.items()}
    lines = [f"- {TITLES[name]}: {_code(text)}" for name, text in texts.items() if name in TITLES]
    return "\n".join(["## What its owner says", "", *lines])


def _not_for(contents: Contents) -> str:
    return "\n".join(["## What it is not good for", "", *map(_item, limitations(contents))])


def _under(proven: Guarantee) -> str:
    if proven.kind == "syntactic":
        return "a rule about what comes out of it"
    one_step = "" if proven.covers_release else " that covers one step only"
    return f"a guarantee to the people behind it{one_step}"


def _tables(contents: Contents) -> str:
    parts = ["## What is in it, and what it is good for"]
    for table in contents.tables:
        parts.append(_table(table))
    order_of = "the order of sessions" if contents.release.rows is RowKind.RECORDS else "their order"
    parts.append(
        f"Rows are sorted {contents.tables[0].order}: {order_of} says nothing about the log. "
        'Read them with `querycloak.load("this folder")`, or with any tool that reads '
        + ("Parquet." if contents.tables[0].dialect is None else f"{contents.tables[0].media_type}. {_TEXT}")
    )
    return "\n\n".join(parts)


_TEXT = (
    "The first line names the columns, the text is UTF-8, every line is one row. Fields are quoted where needed, as "
    "spreadsheets and pandas expect it (`keep_default_na=False` keeps queries such as `null`). A text that a "
    "spreadsheet would take for a formula has an apostrophe before it; control characters and direction marks are "
    "written as in `\\u001b`. `querycloak.load` undoes both. A missing value is an empty field. Lists are JSON arrays."
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
    """Number of people behind the log, if the owner states it; delta is compared with it."""
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
        "- facts about people in general: what many people ask for is the purpose of this release",
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
    look = "No output filter ran before writing."
    if contents.output_filter is not None:
        filtered = contents.output_filter.to_json()
        own = " and a list of the owner's" if filtered["owners_list"] else ""
        patterns = f"patterns of {', '.join(filtered['patterns'])}" if filtered["patterns"] else "no built-in pattern"
        if filtered["applied"]:
            look = f"Before writing, rows that match {patterns}{own} were dropped."
    return "\n".join(
        [
            "## How it was made",
            "",
            f"Method `{release.method}`, variant `{release.variant}`.",
            "",
            *_listed("Parameters", release.parameters),
            *_listed("How its owner had the log read", release.log),
            *_listed("Software", release.versions),
            look,
        ]
    )


def _listed(title: str, values: Any) -> list[str]:
    if not values:
        return []
    options = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return [f"{title}: " + ", ".join(map(_code, options)) + ".", ""]


def _code(text: str) -> str:
    """A text as Markdown shows it letter by letter, whatever it holds: between more backticks than stand in it."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text)
    runs = [len(run) for run in re.findall("`+", shown)]
    fence = "`" * (max(runs, default=0) + 1)
    blank = " " if runs else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def _citing(contents: Contents) -> str:
    cited, about = cited_as(contents), contents.release.about
    note = _TO_CITE if not about.get("owner") else _DESCRIBED
    note = "As its owner asks:" if about.get("citation") else note
    return f"## How to cite\n\n{note}\n\n```bibtex\n{cited}\n```"


_DESCRIBED = (
    "`querycloak describe` shows the same entry with the digest of card.json, which has a checksum of every file."
)
_TO_CITE = f"Add who published this folder, and where. {_DESCRIBED}"
