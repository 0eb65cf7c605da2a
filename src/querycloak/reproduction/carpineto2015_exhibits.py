"""Carpineto and Romano 2015: rare queries that queries like them protect, beside plain k-anonymity and WordNet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.reproduction.carpineto2015_figures import affinity_figures, affinity_tables
from querycloak.reproduction.exhibit import Chart, Exhibit, Grid, Series, verdict_of
from querycloak.reproduction.workbench import Workbench

CITATION = (
    "C. Carpineto and G. Romano, K-theta-affinity privacy: releasing infrequent query refinements safely, Information "
    "Processing and Management 51, 2015"
)
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
_SAME = {"process": "physical process", "grouping": "group", "physical_entity": "physical entity"}
GAIN_2, GAIN_10 = 1.0, 10.0
"""Section 4.1: for theta = .9 about 100 % more queries than EQ at k = 2, 1,000 % more at k = 10."""
UNMATCHED_TERMS = 0.5166
"""Section 4.4: the share of terms that match no WordNet concept, a lower bound of WNGEN's NCP."""
NOT_THEIRS = (
    "Our WNGEN is not the authors' algorithm. Theirs adapts He and Naughton (2009) and splits clusters from the top by "
    "information gain, which the paper describes in a paragraph; ours gives each query one concept, its longest phrase "
    "that WordNet knows, and moves it up until k users share it (methods/generalize/generalize.md)."
)


def carpineto2015(bench: Workbench) -> list[Exhibit]:
    """Every table and figure."""
    tables = bench.step("tables", lambda: affinity_tables(bench.log))
    figures = bench.step("figures", lambda: _figures(bench))
    return [
        table_1(bench, tables["table_1"]),
        table_2(bench, tables["table_2"]),
        table_3(bench, tables["table_3"]),
        table_4(bench, figures),
        table_5(bench, tables["table_5"]),
        figure_4(),
        *figure_5(bench, figures),
        figure_6(bench, figures),
        figure_7(bench, figures),
        *illustrations(),
    ]


def _figures(bench: Workbench) -> dict[str, Any]:
    labels, user = None, bench.user
    if bench.truth is not None and (bench.truth / "sensitive.parquet").exists():
        labels = pq.read_table(bench.truth / "sensitive.parquet")
    elif not bench.synthetic and user is None:
        user = AOL_USER
    if labels is None and user == AOL_USER:  # what the paper itself calls sensitive
        labels = pa.table({"user": [AOL_USER] * len(TABLE_4), "query": list(TABLE_4)})
    figures = affinity_figures(bench.log, sensitive=labels, user=user).to_json()
    return figures | {"labelled": labels is not None and bench.truth is not None, "person": user}


def table_1(bench: Workbench, rows: Sequence[Mapping[str, int]]) -> Exhibit:
    """Words per query."""
    ours = [sum(row[name] for row in rows) for name in ("queries", "searches")]
    shown, apart = [], 0.0
    for row in rows:
        printed = [share / 100 for share in TABLE_1_SHARES[row["words"]]]
        shares = [printed[0], row["queries"] / ours[0], printed[1], row["searches"] / ours[1]]
        apart = max(apart, abs(shares[0] - shares[1]), abs(shares[2] - shares[3]))
        shown.append(
            {
                "words": "5+" if row["words"] == 5 else str(row["words"]),
                "printed, distinct": f"{shares[0]:.2%}", "ours, distinct": f"{shares[1]:.2%}",
                "printed, searches": f"{shares[2]:.2%}", "ours, searches": f"{shares[3]:.2%}",
            }
        )  # fmt: skip
    return Exhibit(
        "Table 1", "Distribution of query length",
        "not comparable" if bench.synthetic
        else "agrees" if apart < 0.03 else "agrees in part" if apart < 0.1 else "differs",
        f"The largest difference to AOL's shares is {apart:.1%}.",
        "The synthetic log is made to have AOL's shares, so that it cannot contradict them." if bench.synthetic else "",
        ours=Grid.of(shown, f"printed: Table 1, rows 1 to 5; ours: {bench.words}, {ours[0]:,} distinct queries"),
    )  # fmt: skip


def table_2(bench: Workbench, rows: Sequence[Mapping[str, int]]) -> Exhibit:
    """n-grams, all and frequent."""
    names = {1: "unigrams", 2: "bigrams", 3: "trigrams"}
    shown = []
    for row in rows:
        printed = TABLE_2[row["length"]]
        ours = [row[name] for name in ("unique", "occurrences", "frequent_unique", "frequent_occurrences")]
        for what, printed_one, mine in zip(
            ("unique", "with repetitions", "frequent, unique", "frequent, with repetitions"), printed, ours, strict=True
        ):
            shown.append({"n-grams": names[row["length"]], "counted": what, "printed": printed_one, "ours": mine})
    shares = [row["frequent_occurrences"] / max(1, row["occurrences"]) for row in rows]
    theirs = [each[3] / each[1] for each in TABLE_2.values()]
    near = all(abs(a - b) < 0.15 for a, b in zip(shares, theirs, strict=True))
    return Exhibit(
        "Table 2", "n-gram statistics", "agrees in part" if near else "not comparable",
        f"Of all occurrences, frequent n-grams (of 0.01 % of the users) are {shares[0]:.0%}, {shares[1]:.0%} and "
        f"{shares[2]:.0%} here, {theirs[0]:.0%}, {theirs[1]:.0%} and {theirs[2]:.0%} in the paper.",
        "In a smaller log 0.01 % of the users are fewer people: two at least, 65 in AOL's.",
        ours=Grid.of(shown, f"printed: Table 2; ours: {bench.words}"),
    )  # fmt: skip


def table_3(bench: Workbench, concepts: Mapping[str, Sequence[Mapping[str, Any]]]) -> Exhibit:
    """Concepts with the most mutual information."""
    shown = []
    for place in range(10):
        row: dict[str, Any] = {}
        for kind in ("bigrams", "trigrams"):
            words, score = TABLE_3[kind][place]
            ours = concepts[kind][place] if place < len(concepts[kind]) else None
            row |= {
                f"printed {kind}": f"{words} ({score})",
                f"our {kind}": ours and f"{ours['words']} ({ours['score']:.2f})",
            }
        shown.append(row)
    same = [ours["words"] in dict(TABLE_3[kind]) for kind in TABLE_3 for ours in concepts[kind]]
    return Exhibit(
        "Table 3", "Top ten bigrams and trigrams by mutual information",
        verdict_of(same) if not bench.synthetic else "not comparable",
        f"{sum(same)} of our {len(same)} are among the paper's twenty."
        + (" The words of a synthetic log are not AOL's, so only the form can be compared." if bench.synthetic else ""),
        "Weights follow the paper's equations 2 and 3; they fit its printed scores only if P is the share among all "
        "n-grams of that length.",
        ours=Grid.of(shown, f"printed: Table 3, rows 1 to 10; ours: {bench.words}"),
    )  # fmt: skip


def table_4(bench: Workbench, figures: Mapping[str, Any]) -> Exhibit:
    """Degrees of one user's sensitive queries."""
    methods = [name for name in ("EQ", "AFF 0.9", "AFF 0.8") if name in figures["figure_5a"]]
    shown: list[dict[str, Any]] = []
    same = []
    for row in figures["table_4"]:
        printed = TABLE_4.get(row["query"])
        shown.append(
            {"query": row["query"], **{name: row[name] for name in methods}, "printed": printed and str(printed)}
        )
        same.append(
            printed is not None and all(row[name] == value for name, value in zip(methods, printed, strict=True))
        )
    listed = {row["query"] for row in shown}
    if not bench.synthetic:
        shown += [
            {"query": query, **dict.fromkeys(methods), "printed": str(each)}
            for query, each in TABLE_4.items()
            if query not in listed
        ]
    ordered = all(row["EQ"] <= row["AFF 0.9"] <= row["AFF 0.8"] for row in figures["table_4"] if row["EQ"] >= 2)
    who = f"user {figures['person']}" if figures["person"] and not bench.synthetic else "one synthetic user"
    return Exhibit(
        "Table 4", "Anonymity degree of one user's sensitive queries",
        "not comparable" if bench.synthetic or not same else "agrees" if all(same)
        else "agrees in part" if any(same) else "differs",
        f"{len(figures['table_4'])} queries of {who} have a degree of 2 or more under some policy; in the paper 12 of "
        f"AOL's user 4417749. {sum(same)} rows are exactly as printed. As in the paper, degrees "
        + ("never fall" if ordered else "sometimes fall") + " from EQ to theta .9 to .8.",
        "Another person can be named; without labels all queries of that person count. The paper cuts subgraphs at "
        "2,000 vertices, so that its degrees at theta .8 are lower bounds; ours are exact."
        + (" This log is synthetic, and so is the person." if bench.synthetic else ""),
        ours=Grid.of(shown, f"printed: Table 4, rows 1 to 12, as (EQ, AFF .9, AFF .8); ours: {bench.words}"),
    )  # fmt: skip


def table_5(bench: Workbench, rows: Sequence[Mapping[str, Any]]) -> Exhibit:
    """Distribution of queries over WordNet's upper concepts."""
    total, theirs = sum(row["queries"] for row in rows), sum(TABLE_5.values())
    shown: list[dict[str, Any]] = []
    ours_of: dict[str, float] = {}
    for row in rows:
        name = _SAME.get(row["concept"], row["concept"])
        printed = TABLE_5.get(name)
        # "thing" is two concepts of WordNet's upper levels, and the paper's list has it once.
        ours_of[name] = ours_of.get(name, 0.0) + row["queries"] / max(1, total)
        again = any(each["concept"].strip() == name for each in shown)
        printed = None if again else printed
        shown.append({"concept": "  " * (row["level"] - 1) + name, "printed": printed,
                      "share of the printed": None if printed is None else f"{printed / theirs:.1%}",
                      "ours": row["queries"], "our share": f"{row['queries'] / max(1, total):.1%}"})  # fmt: skip
    shared = [name for name in TABLE_5 if name in ours_of and TABLE_5[name]]
    matched = {name: TABLE_5[name] / theirs for name in shared}
    correlation = float(np.corrcoef([matched[name] for name in shared], [ours_of[name] for name in shared])[0, 1])
    return Exhibit(
        "Table 5", "A high-level partition of the log by WordNet",
        verdict_of([correlation > 0.8, ours_of["entity"] < 0.5]),
        f"{ours_of['entity']:.0%} of our distinct queries match no concept, {TABLE_5['entity'] / theirs:.0%} in the "
        f"paper. The shares of the concepts that both list correlate by {correlation:.2f}.",
        "The paper assigns a query by its own algorithm, to WordNet 'as of April 2013'; ours takes the concept of the "
        "longest phrase that WordNet 3.0 knows, by its first parent. The paper's list lacks some concepts of that "
        "level.",
        ours=Grid.of(shown, f"printed: Table 5; ours: {bench.words}, {total:,} distinct queries"),
    )  # fmt: skip


def figure_4() -> Exhibit:
    """The example of Section 3.2 and Figure 4: arithmetic on its printed weights, which no log can contradict."""
    weights = {"cell": 14.32, "phone": 15.33, "case": 13.24, "nokia": 11.35, "cell phone": 10.8, "phone case": 6.95}
    short = [name for name in weights if name != "nokia"]
    dot = sum(weights[name] ** 2 for name in short)
    cosine = float(dot / np.sqrt(dot * (dot + weights["nokia"] ** 2)))
    rows = [{"concept": name, "printed weight": weight} for name, weight in weights.items()]
    return Exhibit(
        "Figure 4", "The graph around 'cell phone case'", "not comparable",
        f"From the printed weights, the cosine of 'cell phone case' and 'nokia 2651 cell phone case' is {cosine:.4f}; "
        "the paper prints 0.92: its arithmetic is right, and nothing here is measured. The graph itself, 21 queries, "
        "is AOL's.",
        ours=Grid.of(rows, "printed: Section 3.2"),
    )  # fmt: skip


def _curves(curves: Mapping[str, Sequence[float]], ks: Sequence[int], title: str, y: str) -> Chart:
    lines = tuple(Series.over(name, list(ks), list(curve)) for name, curve in curves.items())
    return Chart(title, "k", y, lines, log_x=True)


def _at(figures: Mapping[str, Any], figure: str, name: str, k: int) -> float:
    return float(figures[figure][name][list(figures["ks"]).index(k)])


def figure_5(bench: Workbench, figures: Mapping[str, Any]) -> list[Exhibit]:
    """Shares of released queries over k: of all, and of one user."""
    ks = figures["ks"]
    gains = {
        k: _at(figures, "figure_5a", "AFF 0.9", k) / max(1e-9, _at(figures, "figure_5a", "EQ", k)) - 1 for k in (2, 10)
    }
    curves = [figures["figure_5a"][name] for name in ("EQ", "AFF 0.9", "AFF 0.8")]
    above = all(e <= a <= b for k, e, a, b in zip(ks, *curves, strict=True) if k > 1)
    grows = gains[10] > gains[2]
    rows = [
        {"k": k, **{name: round(curve[place], 4) for name, curve in figures["figure_5a"].items()}}
        for place, k in enumerate(ks)
    ]
    first = Exhibit(
        "Figure 5 (a)", "Share of queries released over k", verdict_of([above, grows, 0.5 < gains[2] < 2]),
        f"As in the paper, affinity releases more than equality at every k from 2 on ({'yes' if above else 'no'}; at "
        f"k = 1 equality releases all and affinity {curves[1][0]:.0%}, because every word needs two users) and the "
        f"gain grows with k ({'yes' if grows else 'no'}): {gains[2]:+.0%} at k = 2 and {gains[10]:+.0%} at k = 10 for "
        "theta = .9, where the paper has about +100 % and +1,000 %.",
        "The paper samples 5,000 queries and cuts subgraphs at 2,000 vertices; here all queries count and degrees are "
        "exact."
        + (" Synthetic people refine head queries more regularly than real ones do." if bench.synthetic else ""),
        ours=Grid.of(rows, f"printed: Section 4.1, the two gains; ours: {bench.words}"),
        charts=(_curves(figures["figure_5a"], ks, "Released, all queries", "share of queries"),),
    )  # fmt: skip
    if not figures["figure_5b"]:
        missing = "No such user is in this log.", "Another person can be named."
        return [first, Exhibit("Figure 5 (b)", "The same for one user", "not reproduced", *missing)]
    own = [figures["figure_5b"][name] for name in ("EQ", "AFF 0.9", "AFF 0.8")]
    ordered = all(e <= a <= b for k, e, a, b in zip(ks, *own, strict=True) if k > 1)
    second = Exhibit(
        "Figure 5 (b)", "The same for one user", "agrees in part" if ordered else "differs",
        "Of one user's queries, too, affinity releases "
        + ("at least as many as equality, and a lower theta at least as many as a higher one." if ordered
           else "fewer than equality at some k, or a lower theta fewer than a higher one."),
        "In the paper it is AOL's user 4417749 with 224 distinct queries. It draws curves without numbers.",
        charts=(_curves(figures["figure_5b"], ks, "Released, one user's queries", "share of queries"),),
    )  # fmt: skip
    return [first, second]


def figure_6(bench: Workbench, figures: Mapping[str, Any]) -> Exhibit:
    """F_beta of releasing only what is not sensitive."""
    if not figures["figure_6"] or not figures["labelled"]:
        return Exhibit(
            "Figure 6", "F_beta on labelled queries", "not reproduced", "This log has no labels of what is sensitive.",
            "The authors' labels of 5,000 queries are not public. A synthetic log has labels.",
        )  # fmt: skip
    ks = figures["ks"]
    claims = {}
    for beta in ("beta 1", "beta 0.1"):
        equal, high, low = (figures["figure_6"][beta][name] for name in ("EQ", "AFF 0.9", "AFF 0.8"))
        places = [place for place, k in enumerate(ks) if k > 1]
        claims[f"AFF above EQ at every k, {beta}"] = all(high[p] >= equal[p] for p in places)
        claims[f"theta .8 above .9, {beta}"] = all(low[p] >= high[p] for p in places)
    leaked = {name: curve[list(ks).index(10)] for name, curve in figures["sensitive_released"].items()}
    return Exhibit(
        "Figure 6", "F_beta on queries with sensitivity labels", verdict_of(list(claims.values())),
        f"{_kept(claims)} What F_beta hides: at k = 10 these shares of the planted "
        "secrets come out: " + ", ".join(f"{name} {share:.2%}" for name, share in leaked.items()) + ".",
        "The paper's 5,000 queries were labelled by colleagues of its authors; ours are secrets planted in a synthetic "
        "log, which are far rarer than what people would call sensitive.",
        ours=Grid.of(
            [{"k": k, **{f"{name}, {beta}": round(curve[p], 4) for beta, curves in figures["figure_6"].items() for name, curve in curves.items()}} for p, k in enumerate(ks)],  # noqa: E501
            f"ours: {bench.words}; the paper draws curves without numbers",
        ),
        charts=tuple(_curves(curves, ks, f"F_beta, {beta}", "F_beta") for beta, curves in figures["figure_6"].items()),
    )  # fmt: skip


def _kept(claims: Mapping[str, bool]) -> str:
    """Sentence on the findings of a paper that hold."""
    right, wrong = ("; ".join(words for words, is_so in claims.items() if is_so is which) for which in (True, False))
    return f"Holds: {right or 'nothing'}." + (f" Does not hold: {wrong}." if wrong else "")


def figure_7(bench: Workbench, figures: Mapping[str, Any]) -> Exhibit:
    """Information lost, NCP."""
    ks, curves = figures["ks"], figures["figure_7"]
    low = list(ks).index(2)
    crossing = next(
        (k for k, a, w in zip(ks, curves["AFF 0.9"], curves["WNGEN"], strict=True) if k > 1 and a > w), None
    )
    claims = {
        "affinity loses no more than equality at any k": all(
            a <= e for a, e in zip(curves["AFF 0.9"][low:], curves["EQ"][low:], strict=True)
        ),
        "affinity loses less than WNGEN at k = 2": curves["AFF 0.9"][low] < curves["WNGEN"][low],
        "for large k it loses more": crossing is not None,
    }
    rows = [{"k": k, **{name: round(curve[place], 4) for name, curve in curves.items()}} for place, k in enumerate(ks)]
    return Exhibit(
        "Figure 7", "Normalized certainty penalty over k", verdict_of(list(claims.values())),
        f"{_kept(claims)} Affinity crosses WNGEN {'at k = ' + str(crossing) if crossing else 'nowhere'} here. WNGEN's "
        f"NCP is {curves['WNGEN'][low]:.3f} at k = 2; the paper has about 0.7. {NOT_THEIRS}",
        f"In AOL's log {UNMATCHED_TERMS:.1%} of the terms match no concept, which no generalisation can lose less "
        "than.",
        ours=Grid.of(rows, f"printed: Section 4.4.2 (about 0.7 for WNGEN, k = 2 to 6); ours: {bench.words}"),
        charts=(_curves(curves, ks, "NCP (lower is better)", "NCP"),),
    )  # fmt: skip


def illustrations() -> list[Exhibit]:
    """Figures that measure nothing."""
    titles = {
        "Figure 1": "Queries with 'tiger woods'",
        "Figure 2": "The scheme of the method",
        "Figure 3": "Generalised cores",
    }
    return [
        Exhibit(name, title, "not comparable", "An illustration; nothing is measured.")
        for name, title in titles.items()
    ]
