"""Numbers that Carpineto and Romano (2015) print, and the counts of their Sections 3.2 and 5 beside those of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from querycloak.reproduction.exhibit import Exhibit, Grid, Verdict, verdict_of
from querycloak.reproduction.workbench import Workbench

AOL_USER = "4417749"
# Table 1: distinct queries and searches by words.
TABLE_1 = {
    1: (2_705_784, 11_909_026), 2: (2_053_326, 7_089_861), 3: (2_088_671, 4_536_990), 4: (1_479_143, 2_568_638),
    5: (1_827_818, 2_793_846),
}  # fmt: skip
# The shares of Table 1 in percent, as printed: some are cut off, not rounded.
TABLE_1_SHARES = {1: (26.64, 41.21), 2: (20.22, 24.53), 3: (20.56, 15.69), 4: (14.56, 8.88), 5: (17.99, 9.66)}
# Table 2: unique n-grams and occurrences, of all and of at least 65 users.
TABLE_2 = {
    1: (3_849_555, 67_567_111, 30_716, 49_346_473),
    2: (7_409_939, 38_668_750, 24_298, 11_761_821),
    3: (8_530_452, 21_679_415, 5_089, 1_838_235),
}
# Table 3: the top ten by mutual information.
TABLE_3 = {
    "bigrams": (
        ("estados unidos", 19.28), ("myasthenia gravis", 19.18), ("bryn mawr", 19.14), ("iwo jima", 19.07),
        ("gwyneth paltrow", 19.07), ("lynard skynard", 19.01), ("alanis morissette", 18.83), ("pina colada", 18.74),
        ("smashing pumpkins", 18.74), ("shiba inu", 18.74),
    ),
    "trigrams": (
        ("priory of sion", 18.64), ("wisin y yandel", 18.36), ("buca di beppo", 18.34), ("tristan and isolde", 17.93),
        ("mitral valve prolapse", 17.77), ("preferencia de idioma", 17.77), ("osama bin laden", 17.70),
        ("bausch & lomb", 17.70), ("plow and hearth", 17.55), ("ku klux klan", 17.44),
    ),
}  # fmt: skip
# Table 4: degrees of sensitive queries of AOL's user 4417749: EQ, AFF at theta .9 and .8.
TABLE_4 = {
    "helpful aids for arthritis": (1, 1, 3), "60 single men": (1, 9, 9), "mature living": (2, 5, 5),
    "hand tremors": (3, 3, 14), "panic disorders": (8, 8, 8), "vascular disease": (9, 19, 39),
    "loneliness": (19, 21, 21),
    "paranoia": (21, 21, 21), "mini strokes": (22, 24, 72), "osteopenia": (61, 61, 61), "thyroid": (329, 471, 491),
    "bipolar": (332, 373, 374),
}  # fmt: skip
# Table 5: distinct queries under each concept; those of the root could not be generalised.
TABLE_5 = {
    "entity": 3_682_195, "physical entity": 0, "thing": 158_027, "object": 1_969_348, "causal agent": 692_302,
    "matter": 246_881, "physical process": 188_357, "abstraction": 0, "psychological feature": 1_019_832,
    "attribute": 590_749, "group": 608_554, "relation": 397_081, "communication": 601_416,
}  # fmt: skip
SAME_CONCEPT = {"process": "physical process", "grouping": "group", "physical_entity": "physical entity"}
GAIN_2, GAIN_10 = 1.0, 10.0
"""Section 4.1: for theta = .9 about 100 % more queries than EQ at k = 2, 1,000 % more at k = 10."""
UNMATCHED_TERMS = 0.5166
"""Section 4.4: the share of terms that match no WordNet concept, a lower bound of WNGEN's NCP."""
NOT_THEIRS = (
    "Our WNGEN is not the authors' algorithm. Theirs adapts He and Naughton (2009) and splits clusters from the top by "
    "information gain, which the paper describes in a paragraph; ours gives each query one concept, its longest phrase "
    "that WordNet knows, and moves it up until k users share it (methods/generalize/generalize.md)."
)
# Section 3.2, of AOL's log: concepts, and distinct queries by what becomes of them.
SECTION_3_2 = {
    "concepts": 60_103, "without concepts": 2_993_219, "expandable": 5_037_881, "expandable, searches": 14_801_973,
}  # fmt: skip
# Section 5, of AOL's log: the largest k at which about 10 % of the queries come out; words of its examples.
TENTH = {"EQ": 3, "AFF 0.9": 80}
SECTION_5 = {"visa, searches": 4_166, "visa, users of the query": 2_168, "2651, users": 6}


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
