"""Relevance grades from noisy counts: monotone in the count, and never a difference that noise may explain.

users: the urls of a query are sorted by count and cut where two neighbours lie further apart than noise explains; urls
between two cuts share a grade. coec, rate: clicks over expected clicks (Zhang and Jones, 2007) and click rates divided
by the attention of their rank (inverse propensity, Joachims et al., 2017), cut where all urls above lie beyond the
noise of all urls below: noise of their clicks and views, and of the click rates of ranks. So any two urls of a query
with different grades differ beyond noise. Grades run from 1 to `levels` - 1; 0 stays free for urls that the release
does not hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import whole
from querycloak.releases.release import Release

LEVELS = 5
"""Number of relevance levels of TREC's web tracks and of the usual nDCG scales."""


@dataclass(frozen=True)
class Judgement:
    """The grade of one url for one query, and the published count behind it."""

    query: str
    url: str
    grade: int
    count: int


@dataclass(frozen=True)
class Judgements:
    """All judgements of a release, queries by total count and urls by grade, with the rule that made them."""

    rows: tuple[Judgement, ...]
    rule: str

    @property
    def queries(self) -> dict[str, str]:
        """The id of each query: q1, q2, ... in the order of `rows`."""
        return {query: f"q{number}" for number, query in enumerate(dict.fromkeys(r.query for r in self.rows), start=1)}


def judgements(release: Release, grades: str = "users", levels: int = LEVELS) -> Judgements:
    """Grade the clicked urls of each released query; by users who clicked, or by clicks beside views."""
    whole("levels", levels, "2 for relevant or not, 5 for grades 1 to 4", least=2, most=100)
    if grades != "users":
        return _by_views(release, grades, levels)
    table = _clicks(release)
    by_query: dict[str, list[tuple[int, str]]] = {}
    cells = 1
    for (query, url), counts in _sums(table).items():
        by_query.setdefault(query, []).append((sum(counts), url))
        cells = max(cells, len(counts))
    margin = _margin(release) * math.sqrt(2 * cells)
    rows = []
    for query in sorted(by_query, key=lambda query: (-sum(count for count, _ in by_query[query]), query)):
        ranked = sorted(by_query[query], key=lambda each: (-each[0], each[1]))
        graded = _graded([count for count, _ in ranked], margin, levels)
        rows += [Judgement(query, url, grade, count) for (count, url), grade in zip(ranked, graded, strict=True)]
    return Judgements(tuple(rows), _rule(margin, levels))


def _sums(table: pa.Table) -> dict[tuple[str, str], list[int]]:
    """The counts of each pair of query and url: one, or one for each cell of attributes and ranks."""
    name = "count" if "count" in table.column_names else "clickers"
    counts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for query, url, count in zip(*(table[each].to_pylist() for each in ("query", "url", name)), strict=True):
        if count is not None:
            counts[query, url].append(count)
    return counts


@dataclass(frozen=True)
class Attention:
    """Click rate of a group of ranks, with the interval that noise leaves."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ShownCell:
    """Viewers and clickers of a url in one group of ranks, summed over `cells` published cells."""

    attention: Attention
    viewers: int
    clickers: int
    cells: int = 1


@dataclass(frozen=True)
class UrlScore:
    """The score of a url, and the published numbers behind it by group of ranks."""

    url: str
    value: float
    shown: Mapping[str, ShownCell]

    @property
    def clickers(self) -> int:
        """Clickers in all groups of ranks."""
        return sum(each.clickers for each in self.shown.values())


def _by_views(release: Release, grades: str, levels: int) -> Judgements:
    table, attention = _views(release, grades)
    margin = _margin(release)
    shown: dict[str, dict[str, dict[str, ShownCell]]] = defaultdict(lambda: defaultdict(dict))
    columns = (table[name].to_pylist() for name in ("query", "url", "ranks", "viewers", "clickers"))
    for query, url, ranks, viewers, clickers in zip(*columns, strict=True):
        if ranks in attention:
            of_url = shown[query][url]
            before = of_url.get(ranks, ShownCell(attention[ranks], 0, 0, 0))
            sums = before.viewers + viewers, before.clickers + (clickers or 0), before.cells + 1
            of_url[ranks] = ShownCell(attention[ranks], *sums)
    rows = []
    by_views = {
        query: sum(c.viewers for cells in urls.values() for c in cells.values()) for query, urls in shown.items()
    }
    for query in sorted(shown, key=lambda query: (-by_views[query], query)):
        scored = [score(url, cells, margin, grades) for url, cells in shown[query].items()]
        known = sorted((each for each in scored if each is not None), key=lambda each: (-each.value, each.url))
        graded = graded_scores(known, margin, grades, levels)
        rows += [Judgement(query, each.url, g, each.clickers) for each, g in zip(known, graded, strict=True)]
    by_rank = _margin(release, "positions")
    if not rows:
        raise ParameterError(
            f"grades {grades!r}: noise hides the views of every url or the click rate of its ranks (95 % margins: "
            f"{margin:.4g} in clicks, {by_rank:.4g} in positions); take grades='users', or a release with a larger "
            "epsilon or of more users"
        )
    return Judgements(tuple(rows), _VIEW_RULES[grades].format(top=levels - 1, margin=margin, by_rank=by_rank))


def score(url: str, shown: Mapping[str, ShownCell], margin: float, grades: str) -> UrlScore | None:
    """Return the score of a url; None if its views lie within noise.

    coec: sum of clickers / sum of attention x viewers. rate: sum of clickers / attention, over the sum of viewers.
    """
    rates = [each.attention.value for each in shown.values()]
    over = rates if grades == "coec" else [1.0] * len(rates)
    up = [1.0] * len(rates) if grades == "coec" else [1 / rate for rate in rates]
    views = sum(weight * each.viewers for weight, each in zip(over, shown.values(), strict=True))
    noise = sum(2 * each.cells * weight**2 for weight, each in zip(over, shown.values(), strict=True))
    if views <= margin * math.sqrt(noise):
        return None
    clicks = sum(weight * each.clickers for weight, each in zip(up, shown.values(), strict=True))
    return UrlScore(url, clicks / views, shown)


def beyond_noise(one: UrlScore, other: UrlScore, margin: float, grades: str) -> bool:
    """Return whether the first score is higher for all clicks, views and attention within their margins.

    Both scores are ratios; multiplied by both denominators, their difference is linear in the attention of each group
    of ranks (coec) or in its inverse (rate), so its least value lies at an end of each group's interval.
    """
    clicks = [_within(url, "clickers", 1, sign * margin) for url, sign in ((one, -1), (other, 1))]
    views = [_within(url, "viewers", 2, sign * margin) for url, sign in ((one, 1), (other, -1))]
    least = 0.0
    for ranks in one.shown.keys() | other.shown.keys():
        attention = (one.shown.get(ranks) or other.shown[ranks]).attention
        if grades == "coec":
            gain = sum(clicks[0].values()) * views[1].get(ranks, 0.0)
            loss = sum(clicks[1].values()) * views[0].get(ranks, 0.0)
            low, high = attention.low, attention.high
        else:
            gain = clicks[0].get(ranks, 0.0) * sum(views[1].values())
            loss = clicks[1].get(ranks, 0.0) * sum(views[0].values())
            low, high = 1 / attention.high, 1 / attention.low if attention.low else math.inf
        least += (gain - loss) * (low if gain >= loss else high)
    return least > 0


def _within(url: UrlScore, column: str, draws: int, margin: float) -> dict[str, float]:
    """The numbers of a url by group of ranks, moved by the margin of `draws` draws of noise each; 0 at least."""
    return {
        ranks: max(getattr(each, column) + margin * math.sqrt(draws * each.cells), 0.0)
        for ranks, each in url.shown.items()
    }


def graded_scores(scores: list[UrlScore], margin: float, grades: str, levels: int) -> list[int]:
    """Return a grade for each score of a falling list: cut where every score above lies beyond noise of all below."""
    beyond = np.array([[beyond_noise(one, other, margin, grades) for other in scores] for one in scores], bool)
    sizes: list[int] = []
    for cut in range(len(scores)):
        if beyond[:cut, cut:].all():
            sizes.append(0)
        sizes[-1] += 1
    ends = list(accumulate(sizes))
    groups = [scores[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    means = [sum(each.value for each in group) / len(group) for group in groups]
    return _shares(sizes, means, levels)


def _views(release: Release, grades: str) -> tuple[pa.Table, Mapping[str, Attention]]:
    """Viewers and clickers by group of ranks, and the attention of each group by the release's own positions."""
    clicks, positions = release.tables.get("clicks"), release.tables.get("positions")
    if clicks is None or positions is None or "viewers" not in clicks.schema.names:
        raise ParameterError(
            f"grades {grades!r} need views of results by rank, and this release has {', '.join(release.tables)} "
            "without them; the method clicks releases them if it counts views; grades='users' works on clicks"
        )
    table = _clicks(release)
    ranked = release.table("positions").to_pylist()
    margin = _margin(release, "positions")
    attention = {}
    for name in set(table["ranks"].to_pylist()):
        first, last = _ranks(name)
        rate = _attention([row for row in ranked if first <= row["rank"] <= last], margin)
        if rate is not None:
            attention[name] = rate
    return table, attention


def _attention(rows: list[dict[str, Any]], margin: float) -> Attention | None:
    """Clicks over views of these ranks; None if noise hides either."""
    views, clicks = (sum(row[column] or 0 for row in rows) for column in ("views", "clicks"))
    of_clicks, of_views = (margin * math.sqrt(draws * len(rows)) for draws in (1, 2))
    if clicks <= 0 or views <= of_views:
        return None
    low, high = max(clicks - of_clicks, 0.0) / (views + of_views), (clicks + of_clicks) / (views - of_views)
    return Attention(clicks / views, low, high)


def _ranks(name: str) -> tuple[float, float]:
    """The first and last rank of a group such as 3, 4-5 or 11+."""
    first, _, last = name.removesuffix("+").partition("-")
    return int(first), math.inf if name.endswith("+") else int(last or first)


def _graded(counts: list[int], margin: float, levels: int) -> list[int]:
    """Return a grade for each count of a falling list: groups cut by noise, each by its mean's share of the first."""
    groups: list[list[int]] = []
    for count in counts:
        if groups and groups[-1][-1] - count <= margin:
            groups[-1].append(count)
        else:
            groups.append([count])
    means = [sum(group) / len(group) for group in groups]
    return _shares([len(group) for group in groups], means, levels, least=1.0)


def _shares(sizes: list[int], means: list[float], levels: int, least: float = 0.0) -> list[int]:
    """Return the grade of each member of each group: the share of the top group's mean, rounded up."""
    top = max(means[0], least) if means else 0.0
    grades = [max(1, math.ceil((levels - 1) * max(mean, 0.0) / top)) if top else 1 for mean in means]
    return [grade for size, grade in zip(sizes, grades, strict=True) for _ in range(size)]


def _margin(release: Release, kind: str = "clicks") -> float:
    """The distance from the truth that noise of one count exceeds in 5 % of cases; 0 for exact counts."""
    accuracy = release.reach.get(kind)
    if accuracy is None or accuracy.margin95 is None:
        raise ParameterError(f"the card does not say how exact the counts of {kind} are; no grade can be given")
    return float(accuracy.margin95.high)


def _clicks(release: Release) -> pa.Table:
    if "clicks" not in release.tables:
        raise ParameterError(
            f"judgements need a table of clicks, and this release has {', '.join(release.tables)}; "
            "clicks, sessions and k-anonymity release one"
        )
    table = release.table("clicks")
    if not {"count", "clickers"} & set(table.column_names):
        raise ParameterError("judgements need counts, and these clicks have none; release them with counts")
    if not table.num_rows:
        raise ParameterError(
            "judgements need clicks, and the table of clicks of this release has no rows; a release with a larger "
            "epsilon or of more users has some"
        )
    return table


def _rule(margin: float, levels: int) -> str:
    return (
        f"Grades 1 to {levels - 1} by the published number of users who clicked a url for a query. Urls of a query are "
        f"sorted by count; neighbours at most {margin:.4g} apart (the 95 % margin of a difference of two noisy counts) "
        f"share a grade. A grade is the share of the query's top group, times {levels - 1}, rounded up. Urls that are "
        "not listed are unjudged, not irrelevant."
    )


_NOT_BY_NOISE = (
    "Clickers have a 95 % margin of {margin:.4g}, clicks by rank one of {by_rank:.4g}. Urls whose views lie within "
    "noise are not graded. Urls of a query share a grade unless all urls above are better than all urls below for "
    "every value within these margins. A grade is the share of the query's top group, times {top}, rounded up. Urls "
    "that are not listed are unjudged, not irrelevant."
)
_VIEW_RULES = {
    "coec": (
        "Grades 1 to {top} by clicks over expected clicks: clickers of a url for a query, divided by the sum over "
        f"groups of ranks of viewers times the click rate of these ranks in table positions. {_NOT_BY_NOISE}"
    ),
    "rate": (
        "Grades 1 to {top} by rank-corrected click rates: clickers of a url for a query in each group of ranks, "
        "divided by the click rate of these ranks in table positions, summed and divided by all viewers. "
        f"{_NOT_BY_NOISE}"
    ),
}
