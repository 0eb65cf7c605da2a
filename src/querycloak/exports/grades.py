"""Relevance grades from noisy counts: monotone in the count, and never a difference that noise may explain.

users: the urls of a query are sorted by count and cut where two neighbours lie further apart than noise explains; urls
between two cuts share a grade. coec, rate: clicks over expected clicks (Zhang and Jones, 2007) and click rates divided
by the attention of their rank (inverse propensity, Joachims et al., 2017), cut where the intervals of all urls above
lie beyond those of all urls below. So any two urls of a query with different grades differ beyond noise. Grades run
from 1 to `levels` - 1; 0 stays free for urls that the release does not hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import whole
from querycloak.releases.release import Release

__all__ = ["Judgement", "Judgements", "judgements"]

LEVELS = 5
"""As many as TREC's web tracks and the usual nDCG scales have."""


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
class _Shown:
    """Clickers and viewers of a url in one cell, and how much attention its rank gets."""

    attention: float
    viewers: int
    clickers: int


@dataclass(frozen=True)
class UrlScore:
    """A score with the interval that noise leaves; `clickers` is the published number behind it."""

    url: str
    value: float
    low: float
    high: float
    clickers: int


def _by_views(release: Release, grades: str, levels: int) -> Judgements:
    table, attention = _views(release, grades)
    margin = _margin(release)
    cells: dict[str, dict[str, list[_Shown]]] = defaultdict(lambda: defaultdict(list))
    columns = (table[name].to_pylist() for name in ("query", "url", "ranks", "viewers", "clickers"))
    for query, url, ranks, viewers, clickers in zip(*columns, strict=True):
        if attention.get(ranks):
            cells[query][url].append(_Shown(attention[ranks], viewers, clickers or 0))
    rows = []
    by_views = {query: sum(each.viewers for shown in urls.values() for each in shown) for query, urls in cells.items()}
    for query in sorted(cells, key=lambda query: (-by_views[query], query)):
        scored = [score(url, shown, margin, grades) for url, shown in cells[query].items()]
        known = sorted((each for each in scored if each is not None), key=lambda each: (-each.value, each.url))
        graded = graded_scores(known, levels)
        rows += [Judgement(query, each.url, g, each.clickers) for each, g in zip(known, graded, strict=True)]
    return Judgements(tuple(rows), _VIEW_RULES[grades].format(top=levels - 1, margin=margin))


def score(url: str, shown: list[_Shown], margin: float, grades: str) -> UrlScore | None:
    """Return the score of a url; None if its views lie within noise.

    coec: sum of clickers / sum of attention x viewers. rate: sum of clickers / attention, over the sum of viewers.
    """
    over = [each.attention if grades == "coec" else 1.0 for each in shown]
    up = [1.0 if grades == "coec" else 1 / each.attention for each in shown]
    clicks = sum(weight * each.clickers for weight, each in zip(up, shown, strict=True))
    views = sum(weight * each.viewers for weight, each in zip(over, shown, strict=True))
    of_clicks, of_views = (margin * math.sqrt(factor * sum(w * w for w in ws)) for factor, ws in ((1, up), (2, over)))
    if views <= of_views:
        return None
    low, high = max(clicks - of_clicks, 0.0) / (views + of_views), (clicks + of_clicks) / (views - of_views)
    return UrlScore(url, clicks / views, low, high, sum(each.clickers for each in shown))


def graded_scores(scores: list[UrlScore], levels: int) -> list[int]:
    """Return a grade for each score of a falling list: cut where every interval above lies beyond all below."""
    groups: list[list[UrlScore]] = []
    highest_below = list(_highest_below(scores))
    lowest = math.inf
    for number, each in enumerate(scores):
        highest = max(highest_below[number], each.high)
        if groups and lowest <= highest:
            groups[-1].append(each)
        else:
            groups.append([each])
        lowest = min(lowest, each.low)
    means = [sum(each.value for each in group) / len(group) for group in groups]
    return _shares([len(group) for group in groups], means, levels)


def _highest_below(scores: list[UrlScore]) -> Iterator[float]:
    """The highest upper end among the scores after each."""
    highest = [-math.inf]
    for each in reversed(scores):
        highest.append(max(highest[-1], each.high))
    yield from reversed(highest[:-1])


def _views(release: Release, grades: str) -> tuple[pa.Table, Mapping[str, float]]:
    """Viewers and clickers by group of ranks, and the attention of each group by the release's own positions."""
    clicks, positions = release.tables.get("clicks"), release.tables.get("positions")
    if clicks is None or positions is None or "viewers" not in clicks.schema.names:
        raise ParameterError(
            f"grades {grades!r} need views of results by rank, and this release has {', '.join(release.tables)} "
            "without them; the method clicks releases them if it counts views; grades='users' works on clicks"
        )
    table = release.table("clicks")
    ranked = release.table("positions").to_pylist()
    attention = {}
    for name in set(table["ranks"].to_pylist()):
        first, last = _ranks(name)
        inside = [row for row in ranked if first <= row["rank"] <= last]
        views, clicked = (sum(row[column] or 0 for row in inside) for column in ("views", "clicks"))
        attention[name] = clicked / views if views and clicked > 0 else 0.0
    return table, attention


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


def _margin(release: Release) -> float:
    """The distance from the truth that noise of one count exceeds in 5 % of cases; 0 for exact counts."""
    accuracy = release.reach.get("clicks")
    if accuracy is None or accuracy.margin95 is None:
        raise ParameterError("the card does not say how exact the counts of clicks are; no grade can be given")
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
    return table


def _rule(margin: float, levels: int) -> str:
    return (
        f"Grades 1 to {levels - 1} by the published number of users who clicked a url for a query. Urls of a query are "
        f"sorted by count; neighbours at most {margin:.4g} apart (the 95 % margin of a difference of two noisy counts) "
        f"share a grade. A grade is the share of the query's top group, times {levels - 1}, rounded up. Urls that are "
        "not listed are unjudged, not irrelevant."
    )


_NOT_BY_NOISE = (
    "Every number has a 95 % margin of {margin:.4g}. Urls whose views lie within noise are not graded. Urls of a query "
    "share a grade unless the intervals of all urls above lie beyond those of all urls below. A grade is the share of "
    "the query's top group, times {top}, rounded up. Urls that are not listed are unjudged, not irrelevant."
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
