"""How to read the counts of a release: how they were made, and what they are worth."""

from __future__ import annotations

from querycloak.releases.card import Contents
from querycloak.releases.release import Release


def how_to_read(contents: Contents) -> str:
    """The section of the datasheet."""
    release = contents.release
    parts = ["## How to read the counts", _made(release)[release.counts]]
    for table in contents.tables:
        reach = release.reach.get(table.kind)
        if reach is not None:
            parts.append("\n".join([f"What a count of **{table.file}** is worth:", "", *map(_item, reach.lines())]))
    if any(reach.margin95 is not None and reach.margin95.high > 0 for reach in release.reach.values()):
        parts.append(_DIFFERENCES)
    return "\n\n".join(parts)


_DIFFERENCES = (
    "Two counts that differ by less than 1.4 times the margin may be equal in truth. The margin is about noise alone: "
    "what bounds per user cut off comes on top, and always lowers a count."
)


def _item(line: str) -> str:
    return f"- {line}"


def _made(release: Release) -> dict[str, str]:
    """How counts were made, by the words of `releases.release.COUNTS`."""
    threshold = release.parameters.get("threshold")
    above = f" ({threshold})" if threshold is not None else ""
    return {
        "one-draw": f"One draw of noise was added to each count. A row is here if the noisy count exceeded a threshold"
        f"{above}, and that noisy count is the one you see. Near the threshold this selects: rows whose noise was "
        "positive got in, rows whose noise was negative did not. So **published counts near the threshold are too high "
        "on average**; far above it they are right on average. Do not fit a distribution to the lowest counts, and do "
        "not compare a low count with one from another release as if both were measured. A row that is missing is not "
        "a zero: it is a count that did not pass.",
        "fresh-draw": f"One draw of noise decided whether a row is here (above a threshold{above}), a fresh draw made "
        "the count that you see. Counts are right on average given that a row is here, and some lie below the "
        "threshold. A row that is missing is not a zero: it is a count that did not pass.",
        "weighed": "Each user divided a weight among rows, and noise on the weights decided which rows are here. "
        "The count that you see was taken afterwards, with fresh noise of its own (`counting_noise` in card.json is "
        "its standard deviation): right on average, but never below 1, and a user counts only for the first few "
        "of the rows that are here (`counted_per_user`). So counts of what busy people ask are somewhat low. A row "
        "that is missing is not a zero: it is one that did not pass.",
        "public-keys": "Every row that could be here is made of public lists, and one draw of noise was added to every "
        f"count, zeros included. A row is here if its noisy count exceeded a threshold{above}; that noisy count is "
        "the one you see. So **counts near the threshold are too high on average, and a few rows may be nobody's**. A "
        "row that is missing is not a zero: it is a count that did not pass, or one that is in no public list.",
        "exact": "Counts are as they are in the log, no noise was added to them. A row that is missing is not a zero: "
        "it is one that the rule did not let through.",
        "sampled": "How often each pair comes out in all was computed from the log, without noise. Each time a "
        "user was drawn among those who had the pair, with a chance in proportion to how often. A count says how often "
        "this user was drawn. Users are real people under other names: what stands under one name, one person did.",
        "synthetic": "Rows were made up to resemble the log. A single row, or a single user, is nobody: read totals "
        "and distributions, not rows.",
    }
