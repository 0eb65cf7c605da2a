"""Relevance grades from noisy counts: monotone in the count, and never a difference that noise may explain.

The urls of a query are sorted by count and cut where two neighbours lie further apart than noise explains; urls between
two cuts share a grade. So any two urls of a query with different grades differ beyond noise. Grades run from 1 to
`levels` - 1; 0 stays free for urls that the release does not hold.
"""

from __future__ import annotations

import math
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
    """Grade the clicked urls of each released query by the number of users who clicked."""
    whole("levels", levels, "2 for relevant or not, 5 for grades 1 to 4", least=2, most=100)
    if grades != "users":
        raise ParameterError(
            f"grades {grades!r} need views of results, and this release counts clicks alone; grades='users' works"
        )
    table = _clicks(release)
    margin = _margin(release)
    by_query: dict[str, list[tuple[int, str]]] = {}
    columns = (table[name].to_pylist() for name in ("query", "url", "count"))
    for query, url, count in zip(*columns, strict=True):
        if count is not None:
            by_query.setdefault(query, []).append((count, url))
    rows = []
    for query in sorted(by_query, key=lambda query: (-sum(count for count, _ in by_query[query]), query)):
        ranked = sorted(by_query[query], key=lambda each: (-each[0], each[1]))
        graded = _graded([count for count, _ in ranked], margin, levels)
        rows += [Judgement(query, url, grade, count) for (count, url), grade in zip(ranked, graded, strict=True)]
    return Judgements(tuple(rows), _rule(margin, levels))


def _graded(counts: list[int], margin: float, levels: int) -> list[int]:
    """Return a grade for each count of a falling list: groups cut by noise, each by its mean's share of the first."""
    groups: list[list[int]] = []
    for count in counts:
        if groups and groups[-1][-1] - count <= margin:
            groups[-1].append(count)
        else:
            groups.append([count])
    means = [sum(group) / len(group) for group in groups]
    top = max(means[0], 1.0)
    shares = [max(1, math.ceil((levels - 1) * max(mean, 0.0) / top)) for mean in means]
    return [grade for group, grade in zip(groups, shares, strict=True) for _ in group]


def _margin(release: Release) -> float:
    """The difference of two counts that noise exceeds in 5 % of cases; 0 for exact counts."""
    accuracy = release.reach.get("clicks")
    if accuracy is None or accuracy.margin95 is None:
        raise ParameterError("the card does not say how exact the counts of clicks are; no grade can be given")
    return math.sqrt(2) * accuracy.margin95.high


def _clicks(release: Release) -> pa.Table:
    if "clicks" not in release.tables:
        raise ParameterError(
            f"judgements need a table of clicks, and this release has {', '.join(release.tables)}; "
            "clicks, sessions and k-anonymity release one"
        )
    table = release.table("clicks")
    if "count" not in table.column_names:
        raise ParameterError("judgements need counts, and these clicks have none; release them with counts")
    return table


def _rule(margin: float, levels: int) -> str:
    return (
        f"Grades 1 to {levels - 1} by the published number of users who clicked a url for a query. Urls of a query are "
        f"sorted by count; neighbours at most {margin:.4g} apart (the 95 % margin of a difference of two noisy counts) "
        f"share a grade. A grade is the share of the query's top group, times {levels - 1}, rounded up. Urls that are "
        "not listed are unjudged, not irrelevant."
    )
