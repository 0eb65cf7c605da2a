"""How to read the counts of a release: how they were made, and what they are worth."""

from __future__ import annotations

from querycloak.releases.card import Contents
from querycloak.releases.release import Release


def how_to_read(contents: Contents) -> str | None:
    """The section of the datasheet; None where there is nothing to say."""
    release = contents.release
    has_counts = any("count" in table.schema.names for table in contents.tables)
    if not has_counts and not release.reach:
        return None
    parts = ["## How to read the counts", _made(release)[release.counts]] if has_counts else ["## How to read the rows"]
    for table in contents.tables:
        reach = release.reach.get(table.kind)
        if reach is not None:
            what = "count" if "count" in table.schema.names else "row"
            parts.append("\n".join([f"What a {what} of **{table.file}** means:", "", *map(_item, reach.lines())]))
    if any(reach.margin95 is not None and reach.margin95.high > 0 for reach in release.reach.values()):
        parts.append(_DIFFERENCES)
    return "\n\n".join(parts)


_DIFFERENCES = (
    "Two counts that differ by less than 1.4 times the margin may be equal in truth. The margin is about noise alone: "
    "it does not include what bounds per user cut off, which always lowers a count."
)


def _item(line: str) -> str:
    return f"- {line}"


def _made(release: Release) -> dict[str, str]:
    """How counts were made, by the words of `releases.release.COUNTS`."""
    threshold, coin = release.parameters.get("threshold"), release.parameters.get("coin")
    above = f" ({threshold})" if threshold is not None else ""
    luck = f", or equalled it and a coin decided for it (with probability {coin:g})" if coin else ""
    of_clicks = release.parameters.get("count_of") == "clicks"
    return {
        "one-draw": f"One draw of noise was added to each count. A row is here if the noisy count exceeded a threshold"
        f"{above}{luck}, and that noisy count is the one you see. Near the threshold, rows whose noise was "
        "positive are here, and rows whose noise was negative are not. So **published counts near the threshold are "
        "too high on average**; far above it they are right on average. Do not fit a distribution to the lowest "
        "counts, and do not compare a low count with one from another release as if both were measured. A row that is "
        "missing is not a zero: it is a count that did not pass.",
        "fresh-draw": f"One draw of noise decided whether a row is here: if the noisy {_deciding(of_clicks)} exceeded "
        f"a threshold{above}{luck}. {_fresh(of_clicks)} A row that is missing is not a zero: it is one that did not "
        "pass.",
        "weighed": "Each user divided a weight among rows, and noise on the weights decided which rows are here. "
        "The count that you see was taken afterwards, with fresh noise of its own (`counting_noise` in card.json is "
        f"its standard deviation): right on average, but never below 1, and {_bounded(of_clicks)}. A row that is "
        "missing is not a zero: it is one that did not pass.",
        "public-keys": f"{_which_could_be_here(release)}, and one draw of noise was added to every count, zeros "
        f"included. A row is here if its noisy count exceeded a threshold{above}; that noisy count is the one you see. "
        "So **counts near the threshold are too high on average, and a few rows may be noise alone**. A row that is "
        "missing is not a zero: it is a count that did not pass, or one that is in no public list.",
        "exact": "Counts are as they are in the log, no noise was added to them. A row that is missing is not a zero: "
        "it is one that the rule did not let through.",
        "sampled": "How often each pair comes out in all was computed from the log, without noise. Each time a "
        "user was drawn among those who had the pair, with a chance in proportion to how often. A count says how often "
        "this user was drawn. Users are real people under other names: all rows under one name are one person's.",
        "synthetic": "Rows were made up to resemble the log. No row and no user is a real person: use totals and "
        "distributions, not single rows.",
    }


def _deciding(of_clicks: bool) -> str:
    return "number of users" if of_clicks else "count"


def _fresh(of_clicks: bool) -> str:
    if of_clicks:
        return (
            "Then clicks were counted, with a fresh draw of noise: right on average, but never below 1, and "
            f"{_bounded(of_clicks)}."
        )
    return (
        "A fresh draw made the count that you see. Counts are right on average given that a row is here, and some lie "
        "below the threshold."
    )


def _bounded(of_clicks: bool) -> str:
    """What bounds do to counts that are taken after rows were chosen."""
    if of_clicks:
        return "clicks count up to the bounds below only. So counts of what few people click often are low"
    return (
        "a user counts only for the first few of the rows that are here (`counted_per_user`). So counts of what busy "
        "people ask are somewhat low"
    )


def _which_could_be_here(release: Release) -> str:
    """Where rows come from that a public list decides; some tables may go beyond it, above a threshold."""
    clicks = ["clicks"] if release.parameters.get("clicks") == "threshold" else []
    beyond = [*(["queries outside the pool"] if release.parameters.get("off_pool") else []), *clicks]
    if not beyond:
        return "Every row that could be here is made of public lists"
    return (
        f"Rows of {' and '.join(beyond)} are what the log has, if enough users share it, and nobody's row is among "
        "them. Every other row that could be here is made of public lists"
    )
