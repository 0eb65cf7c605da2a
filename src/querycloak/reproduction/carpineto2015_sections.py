"""Counts that Carpineto and Romano (2015) print in their text, in Sections 3.2 and 5, beside those of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from querycloak.reproduction.carpineto2015_printed import SECTION_3_2, SECTION_5, TABLE_1, TABLE_2, TENTH
from querycloak.reproduction.exhibit import Exhibit, Grid, Verdict, verdict_of
from querycloak.reproduction.workbench import Workbench

SAME_WITHIN, LIKE_WITHIN = 0.01, 0.1
"""Relative differences up to which a count is the printed one, and up to which it agrees in part."""
TENTH_SHARE = 0.1
DISTINCT = sum(queries for queries, _ in TABLE_1.values())
_WORDS = {
    "concepts": "concepts", "without concepts": "distinct queries without a concept",
    "expandable": "distinct queries left: concepts, and no word of one user",
    "expandable, searches": "searches for these",
}  # fmt: skip


def verdict_of_counts(pairs: Sequence[tuple[float, float]]) -> Verdict:
    """Verdict on counts of the paper's own log, each as (printed, ours)."""
    apart = [abs(ours / printed - 1) for printed, ours in pairs]
    if all(each <= SAME_WITHIN for each in apart):
        return "agrees"
    return "agrees in part" if any(each <= LIKE_WITHIN for each in apart) else "differs"


def section_3_2(bench: Workbench, queries: Mapping[str, int]) -> Exhibit:
    """Numbers of concepts, and of queries that are expanded."""
    rows = [
        {
            "count": words, "printed": SECTION_3_2[name], "share of the printed": _share(name, SECTION_3_2, DISTINCT),
            "ours": queries[name], "our share": _share(name, queries, queries["distinct"]),
        }
        for name, words in _WORDS.items()
    ]  # fmt: skip
    concepts = sum(each[2] for each in TABLE_2.values())
    alone = DISTINCT - SECTION_3_2["without concepts"] - SECTION_3_2["expandable"]
    return Exhibit(
        "Section 3.2", "Queries with concepts",
        "not comparable" if bench.synthetic
        else verdict_of_counts([(SECTION_3_2[name], queries[name]) for name in _WORDS]),
        f"{queries['expandable'] / max(1, queries['distinct']):.0%} of our {queries['distinct']:,} distinct queries "
        f"are expanded, {SECTION_3_2['expandable'] / DISTINCT:.0%} in the paper; "
        f"{queries['with a word of too few users'] / max(1, queries['distinct']):.0%} have a concept and a word of one "
        f"user, {alone / DISTINCT:.0%} in the paper. The printed number of concepts is "
        + ("" if concepts == SECTION_3_2["concepts"] else "not ")
        + "the sum of the frequent n-grams of its Table 2.",
        "A count of the log given agrees if it is within 1 % of the printed one."
        + (" This log is synthetic, so the numbers are another log's." if bench.synthetic else ""),
        ours=Grid.of(rows, f"printed: Section 3.2, and Table 1 for shares; ours: {bench.words}"),
    )  # fmt: skip


def _share(name: str, counts: Mapping[str, int], distinct: int) -> str | None:
    return f"{counts[name] / max(1, distinct):.1%}" if name in ("without concepts", "expandable") else None


def section_5(bench: Workbench, figures: Mapping[str, Any], words: Mapping[str, int]) -> Exhibit:
    """The k at which a tenth of the queries comes out, and the words of the examples."""
    ours = {name: tenth_at(figures["ks"], figures["figure_5a"][name]) for name in TENTH}
    rows: list[dict[str, Any]] = [
        {"figure": f"largest k at which {TENTH_SHARE:.0%} come out, {name}", "printed": k, "ours": ours[name]}
        for name, k in TENTH.items()
    ]
    rows += [{"figure": name, "printed": count, "ours": words[name]} for name, count in SECTION_5.items()]
    higher = ours["AFF 0.9"] > ours["EQ"]
    return Exhibit(
        "Section 5", "The same share of queries at a higher k",
        verdict_of([higher]) if bench.synthetic
        else verdict_of_counts([(row["printed"], row["ours"]) for row in rows]),
        f"The paper releases about {TENTH_SHARE:.0%} of the queries at k = {TENTH['EQ']} by equality and at k = "
        f"{TENTH['AFF 0.9']} by affinity (theta = .9). Here the largest k of our grid that releases as many is "
        f"{ours['EQ']} by equality and {ours['AFF 0.9']} by affinity, which is {'' if higher else 'not '}higher.",
        "Its Section 1 says that about 90 % of the distinct queries have one user; then equality releases 10 % at "
        "k = 2, and fewer at 3. The words of its examples ('visa', and '2651' in Figure 4) can be counted in AOL's "
        "log only.",
        ours=Grid.of(rows, f"printed: Section 5; ours: {bench.words}"),
    )  # fmt: skip


def tenth_at(ks: Sequence[int], curve: Sequence[float]) -> int:
    """The largest k at which a tenth of the queries or more come out; 0 if there is none."""
    return max((k for k, share in zip(ks, curve, strict=True) if share >= TENTH_SHARE), default=0)
