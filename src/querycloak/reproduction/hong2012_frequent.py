"""F-UMP of Hong et al. (EDBT 2012): Tables 5 and 6, Figure 3 and Section 6.3, ours beside what is printed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from querycloak.reproduction.exhibit import Chart, Exhibit, Grid, Series, four, rises
from querycloak.reproduction.hong2012_tables import FREQUENT, PROOF, SIZES, SUPPORTS, TABLE_6
from querycloak.reproduction.workbench import Workbench

USERS = 2_500
CANNOT = " ".join(PROOF)


def how_solved(seconds: float) -> str:
    """The solvers behind `best` and its bound, with the time that HiGHS has for each program."""
    return (
        "Best is the better of our search and of HiGHS, and the bound the smaller of both; all exhibits take them from "
        f"the same solutions. HiGHS is stopped after {seconds:g} s of each program, by the clock: with more time, or "
        "on a machine with less other work, its counts are larger and its bounds smaller. Our search exchanges rows "
        "from HiGHS's counts, too."
    )


_NESTED = (
    "Table 6 also contradicts itself: pairs that are frequent at a larger support are frequent at a smaller one, so "
    "the least sum of distances cannot grow with the support; in four of its six columns it does."
)


_RECALLS = (
    "The text says that over 80 % are retained; the table's last entry is 73 %. Its entries .8873 (1/1000) and .9116 "
    "(1/250) are no shares of the 127 and 34 pairs that the others of their rows are shares of."
)


def source(bench: Workbench, printed: str) -> str:
    """Source of the numbers of a grid."""
    return f"printed: {printed}; ours: {USERS:,} users drawn from {bench.words}"


def tables_5_and_6(bench: Workbench, rows: Sequence[Mapping[str, Any]]) -> list[Exhibit]:
    """Frequent pairs, F-UMP, at (2, 0.5): sizes are the same shares of what can be had."""
    why = (
        "The printed output sizes, 3,000 to 8,000, cannot be had (Table 4), so each became the same share of the "
        f"largest output that we reach. {CANNOT}"
    )
    few = "because most counts are below 1 and become 0"
    short = "for an output that is shorter than asked, which whole counts must not be"
    made = []
    for name, what, key, floored, printed, because in (
        ("Table 5", "Recall of frequent pairs", "recall", "floored_recall", "claimed_recall", few),
        (
            "Table 6",
            "Sum of support distances of frequent pairs",
            "distance",
            "floored_distance",
            "claimed_distance",
            short,
        ),
    ):
        shown = [
            {
                "support": f"1/{round(1 / row['support'])}", "printed |O|": row["claimed_size"],
                "printed": row[printed],
                "our |O|": row["size"], "frequent pairs": row["frequent_pairs"],
                "LP + floor (paper)": four(row.get(floored)), "best": four(row.get(key)),
                **({"no choice has less than": four(row.get("distance_at_least"))} if key == "distance" else {}),
            }
            for row in rows
        ]  # fmt: skip
        known = [row for row in rows if key in row]
        means = {
            each: float(np.mean([row[each] for row in known])) if known else 0.0 for each in (key, floored, printed)
        }
        made.append(
            Exhibit(
                name, f"{what} (F-UMP, e^eps = 2, delta = 0.5)", "cannot hold",
                f"Printed on average {means[printed]:.3f}. The best whole counts reach {means[key]:.3f}; with the "
                f"paper's way, the linear program rounded down, {means[floored]:.3f}, {because}."
                + (f" {_grows_with_size(known)}" if key == "distance" else ""),
                f"{why} {_NESTED if key == 'distance' else _RECALLS}",
                ours=Grid.of(shown, source(bench, f"{name}, rows by support, columns by |O|")),
                charts=(_at_support(rows, what, key, floored, printed),),
            )
        )  # fmt: skip
    return made


def _grows_with_size(rows: Sequence[Mapping[str, Any]]) -> str:
    """Sentence on Section 6.3's finding that at one support the distance grows with the size of the output."""
    curves = [[row["distance"] for row in rows if row["support"] == support] for support in SUPPORTS]
    growing = sum(all(a <= b + 1e-9 for a, b in itertools.pairwise(curve)) for curve in curves if curve)
    return (
        "The paper finds that at one support the sum never falls as the output grows; here that is so at "
        f"{growing} of {sum(map(bool, curves))} supports."
    )


def _at_support(rows: Sequence[Mapping[str, Any]], what: str, key: str, floored: str, printed: str) -> Chart:
    some = [row for row in rows if round(1 / row["support"]) == 500]
    sizes = [row["claimed_size"] for row in some]
    series = (
        Series.over("printed", sizes, [row[printed] for row in some], printed=True),
        Series.over("best", sizes, [row.get(key) for row in some]),
        Series.over("LP + floor (paper)", sizes, [row.get(floored) for row in some]),
    )
    return Chart(f"{what}, support 1/500", "printed |O|", what.lower(), series)


def precision(bench: Workbench, rows: Sequence[Mapping[str, Any]]) -> Exhibit:
    """Section 6.3's sentence on precision."""
    known = [row for row in rows if "precision" in row]
    supports = sorted({row["support"] for row in known}, reverse=True)
    shown = [
        {
            "support": f"1/{round(1 / support)}", "printed": 1.0,
            "ours, least": round(min(values), 4), "ours, greatest": round(max(values), 4),
        }
        for support in supports
        for values in [[row["precision"] for row in known if row["support"] == support]]
    ]  # fmt: skip
    mean = float(np.mean([row["precision"] for row in known])) if known else 1.0
    return Exhibit(
        "Section 6.3", "Precision of frequent pairs (F-UMP)", "agrees" if mean == 1 else "differs",
        f"The paper says that precision is always 1. Here it is {mean:.2f} on average over {len(known)} settings.",
        "Its argument is that a pair which is frequent only in the output could be given fewer rows. But the number of "
        "rows is fixed, and what is taken from one pair must go to others, which become frequent in the same way: with "
        "|O| rows every pair of one row has a share of 1/|O|.",
        ours=Grid.of(shown, source(bench, "Section 6.3, one sentence")),
    )  # fmt: skip


def figure_3c(bench: Workbench, rows: Sequence[Mapping[str, Any]]) -> Exhibit:
    """The average distance over support, against the paper's own Tables 5 and 6."""
    sizes = sorted({row["claimed_size"] for row in rows})
    printed = {
        size: [TABLE_6[place][SIZES.index(size)] / FREQUENT[place] for place in range(len(SUPPORTS))] for size in sizes
    }
    ours = {size: [row.get("average_distance") for row in rows if row["claimed_size"] == size] for size in sizes}
    shown = [
        {
            "printed |O|": size, "support": f"1/{round(1 / support)}",
            "from Tables 5 and 6": round(printed[size][place], 5), "ours": four(ours[size][place]),
        }
        for size in sizes
        for place, support in enumerate(SUPPORTS)
    ]  # fmt: skip
    rising = sum(rises(values) for values in printed.values())
    here = sum(rises(values) for values in ours.values())
    lines = [
        Series.over(f"from Tables 5 and 6, |O| {sizes[0]:,}", list(SUPPORTS), printed[sizes[0]], printed=True),
        Series.over(f"ours, |O| {sizes[0]:,}", list(SUPPORTS), ours[sizes[0]]),
        Series.over(f"ours, |O| {sizes[-1]:,}", list(SUPPORTS), ours[sizes[-1]]),
    ]
    return Exhibit(
        "Figure 3 (c)", "Average support distance over support", "cannot hold" if rising == len(sizes) else "differs",
        "The paper draws an average distance that falls as the support grows. Its own Table 6, divided by the numbers "
        f"of frequent pairs that follow from Table 5 (127, 105, 70, 34 and 15), grows in {rising} of {len(sizes)} "
        f"columns. Ours grows in {here} of {len(sizes)}.",
        "A larger support leaves fewer and larger shares, and each of these is further off.",
        ours=Grid.of(shown, source(bench, "Tables 5 and 6; the figure has no numbers")),
        charts=(Chart("Average support distance", "support", "average distance", tuple(lines), log_x=True),),
    )  # fmt: skip


def figure_3(bench: Workbench, rows: Sequence[Mapping[str, Any]]) -> Exhibit:
    """Recall and distances over (epsilon, delta)."""
    some = {each: [row for row in rows if row["exp_epsilon"] == each] for each in (1.1, 1.4, 2.3)}

    def chart(title: str, key: str) -> Chart:
        lines = [
            Series.over(f"e^eps = {e}", [r["delta"] for r in each], [r.get(key) for r in each])
            for e, each in some.items()
        ]
        return Chart(title, "delta", key, tuple(lines), log_x=True)

    feasible = [row for row in rows if row["feasible"]]
    grows = grows_with_limit(feasible)
    falls = grows_with_limit([{**row, "recall": -row["distance"]} for row in feasible if "distance" in row])
    shown = [
        {
            "e^eps": row["exp_epsilon"], "delta": row["delta"], "our |O|": row["size"],
            "feasible": "yes" if row["feasible"] else "no",
            "recall": four(row.get("recall")), "sum of distances": four(row.get("distance")),
        }
        for row in rows
    ]  # fmt: skip
    return Exhibit(
        "Figure 3 (a, b)", "F-UMP over (epsilon, delta)",
        "agrees in part" if grows or falls else "differs",
        "The paper draws recall rising and distances falling with epsilon up to log 1/(1-delta), and flat beyond. At "
        f"the share of the largest output that its |O| = 3,000 stands for, only {len(feasible)} of {len(rows)} "
        "settings can release that many rows at all; among these recall "
        f"{'never falls' if grows else 'sometimes falls'}, and the sum of distances "
        f"{'never grows' if falls else 'sometimes grows'}, as min(epsilon, log 1/(1-delta)) grows.",
        f"An output of 3,000 rows is infeasible at every setting of the paper. {CANNOT}",
        ours=Grid.of(shown, source(bench, "a drawing without numbers")),
        charts=(chart("(a) recall", "recall"), chart("(b) sum of support distances", "distance")),
    )  # fmt: skip


def grows_with_limit(rows: Sequence[Mapping[str, Any]]) -> bool:
    """True if recall never falls as min(epsilon, log 1/(1-delta)) grows."""
    ordered = sorted(
        (min(math.log(r["exp_epsilon"]), -math.log1p(-r["delta"])), float(r["recall"])) for r in rows if "recall" in r
    )
    return all(a[1] <= b[1] + 1e-9 for a, b in itertools.pairwise(ordered))
