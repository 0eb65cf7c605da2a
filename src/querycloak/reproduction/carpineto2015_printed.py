"""Numbers that Carpineto and Romano (2015) print."""

from __future__ import annotations

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
