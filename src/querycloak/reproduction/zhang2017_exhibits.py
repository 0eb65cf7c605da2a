"""Zhang and Yang, ICTIR 2017: privacy levels, query suggestion from anonymised sessions, and what K costs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from querycloak.logs.split import Split
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.reproduction.exhibit import (
    LEAST_HITS,
    Chart,
    Exhibit,
    Grid,
    Series,
    all_of,
    four,
    number,
    order_words,
    verdict_of,
)
from querycloak.reproduction.workbench import Workbench
from querycloak.reproduction.zhang2017_figures import (
    SEED,
    figures,
    measured,
    paper_runs,
    released,
    suggestion_runs,
)

CITATION = (
    "S. Zhang and G. H. Yang, Deriving differentially private session logs for query suggestion, ICTIR 2017, "
    "doi:10.1145/3121050.3121076"
)
# Table 4, row by row: b, K, l_s, l_q; epsilon and delta as printed.
TABLE_4 = (
    (1, 10, 1, 3, 8.00, 4.95e-3),
    (1, 20, 1, 3, 8.00, 2.25e-7),
    (1, 30, 1, 3, 8.00, 1.02e-11),
    (3, 20, 1, 3, 2.67, 9.66e-3),
    (3, 30, 1, 3, 2.67, 3.44e-4),
    (1, 20, 1, 4, 22.00, 6.79e-4),
    (2, 30, 1, 4, 11.00, 4.12e-4),
    (1, 20, 2, 3, 16.00, 2.46e-5),
    (2, 30, 2, 3, 8.00, 6.68e-5),
)
# Table 5: precision and recall at 5, sessions evaluated.
TABLE_5 = {
    "Original": (0.0421, 0.1402, 18_475),
    "KA": (0.0693, 0.2312, 9_494),
    "DP_C": (0.1133, 0.3891, 4_144),
    "DP_S": (0.1139, 0.3911, 4_119),
}
OURS_C, OURS_S = "clicks (ours)", "sessions (ours)"
OURS_PROVEN = "sessions (ours), at what is proven of DP_S"
EPSILON, DELTA = 8.0, 2.25e-7


def zhang2017(bench: Workbench) -> list[Exhibit]:
    """Every table and figure."""
    return [table_4(), doubled(), table_5(bench), literal(bench), *figures(bench), *illustrations(bench)]


def doubled() -> Exhibit:
    """Section 5.4's sentence on twice as many records, against the paper's own Table 4."""
    one, two = (next(row for row in TABLE_4 if row[:4] == (1, 20, sessions, 3)) for sessions in (1, 2))
    times = two[5] / one[5]
    rows = [
        {"b": b, "K": k, "l_s": sessions, "l_q": queries, "delta": f"{delta:.2e}"}
        for b, k, sessions, queries, _, delta in (one, two)
    ]
    return Exhibit(
        "Section 5.4", "Twice as many records of a user", "cannot hold",
        "The paper says that delta is linear in the sensitivity, so that twice as many records of a user double it. In "
        f"its own Table 4 delta grows {times:.0f} times from l_s = 1 to l_s = 2.",
        "The sensitivity stands in the exponent, too: delta = D/2 e^((D - K)/b).",
        ours=Grid.of(rows, "printed: Table 4, rows 2 and 8"),
    )  # fmt: skip


def table_4() -> Exhibit:
    """Privacy levels of typical runs: formulas, no data."""
    rows, follows = [], []
    for b, threshold, sessions, queries, epsilon, delta in TABLE_4:
        run = Sessions(
            noise=b, threshold=threshold, sessions_per_user=sessions, queries_per_session=queries, no_clicks=True,
            variant="paper",
        )  # fmt: skip
        claimed, proven = run.claimed(), run.proven()
        if claimed is None:
            raise TypeError("the paper variant claims something")
        ours = claimed.numbers
        follows.append(abs(ours[0] - epsilon) < 0.005 and abs(ours[1] / delta - 1) < 0.005)
        rows.append(
            {
                "b": b, "K": threshold, "l_s": sessions, "l_q": queries,
                "printed epsilon": epsilon, "printed delta": f"{delta:.2e}",
                "our epsilon": round(ours[0], 2), "our delta": f"{ours[1]:.2e}",
                "proven epsilon": round(proven.numbers[0], 2), "proven delta": f"{proven.numbers[1]:.2e}",
            }
        )  # fmt: skip
    return Exhibit(
        "Table 4", "Privacy levels of typical A_Session runs", verdict_of(follows),
        f"{sum(follows)} of {len(follows)} rows follow from the paper's formula to the digits printed (4.95e-3 is "
        "4.96e-3 cut off). The proven delta of each part is smaller than claimed. But a DP_S run has two parts, "
        "sessions and clicks, and both read the same users: their budgets add up. The run that the paper reports as "
        f"(8, 2.25e-7) is proven ({number(paper_runs(20)['DP_S'].proven().numbers[0], 0)}, "
        f"{paper_runs(20)['DP_S'].proven().numbers[1]:.2e}).",
        "The paper says that the whole keeps the weaker of the two budgets (Section 3.2.2); composition gives their "
        "sum.",
        ours=Grid.of(rows, "printed: Table 4, rows 1 to 9; ours: the same formula, and what we prove, with no data"),
    )  # fmt: skip


def table_5(bench: Workbench) -> Exhibit:
    """Query suggestion with the four logs, and with our releases at the budget that the paper states."""
    results = bench.step("table_5_runs", lambda: _table_5(bench))
    rows = []
    for name, result in results.items():
        printed = TABLE_5.get(name)
        rows.append(
            {
                "run": name, "printed P@5": printed and printed[0], "printed R@5": printed and printed[1],
                "printed sessions": printed and printed[2],
                **_cells(result),
            }
        )  # fmt: skip
    return Exhibit(
        "Table 5", "Query suggestion results using different query logs", verdict_of(_findings(results)),
        _statement_5(results), _WHY_5,
        ours=Grid.of(rows, f"printed: Table 5, rows 1 to 4, on AOL; ours on {bench.words}"),
        charts=tuple(_bars(measure, place, results) for place, measure in enumerate(("P@5", "R@5"))),
    )  # fmt: skip


_WHY_5 = (
    f"A comparison with fewer than {LEAST_HITS} hits on either side, or in which an interval contains the other "
    "value, tells nothing. Each run is averaged over the sessions that it can answer itself, and these differ: a "
    "log that keeps only frequent queries answers other sessions, easier or harder ones. The column 'original, "
    "same sessions' is the fair pair; beside it stand all test sessions (unanswered ones count 0). The paper does "
    "not print lambda; it is .5 here. How much of a session is predictable is a property of AOL's users that a "
    "synthetic log only imitates."
)


def literal(bench: Workbench) -> Exhibit:
    """Table 5 as the paper is written: repeats kept, the query itself allowed."""
    results = bench.step("table_5_as_written", lambda: _table_5(bench, literal=True))
    rows = [
        {"run": name, "printed P@5": printed[0], "printed R@5": printed[1], **_cells(results[name])}
        for name, printed in TABLE_5.items()
    ]
    ours = {name: results[name]["P@5"]["answered"] for name in TABLE_5}
    sessions = {name: float(results[name]["sessions"]) for name in TABLE_5}
    return Exhibit(
        "Table 5 (as written)", "Query suggestion with repeats kept and the query itself allowed",
        verdict_of(_findings(results)),
        f"The original's P@5 is {number(ours['Original'])}, where the paper prints {TABLE_5['Original'][0]}. The "
        f"order: {order_words(ours)}; the paper has the reverse. Sessions answered: {order_words(sessions)}, of which "
        "the paper has DP_S < DP_C < KA < Original. Hits: "
        + ", ".join(f"{name} {results[name]['hits']:,}" for name in TABLE_5) + ".",
        "The paper neither removes repeats of a query from sessions nor keeps a query from being suggested after "
        "itself. Read like this, most hits are the query itself, asked again; such a suggestion helps nobody, so our "
        "own task leaves both out.",
        ours=Grid.of(rows, f"printed: Table 5, on AOL; ours on {bench.words}"),
    )  # fmt: skip


def _cells(result: Mapping[str, Any]) -> dict[str, Any]:
    precision, recall = result["P@5"], result["R@5"]
    return {
        "hits": result["hits"], "prefixes": result["prefixes"],
        "P@5": four(precision["answered"]), "95 % interval": _interval(precision),
        "R@5": four(recall["answered"]), "sessions": result["sessions"],
        "R@5, all sessions": four(recall["all"]), "R@5, original, same sessions": four(recall["original"]),
    }  # fmt: skip


def _interval(interval: Mapping[str, Any]) -> str | None:
    return None if interval["low"] is None else f"{interval['low']:.4f}\u00a0to\u00a0{interval['high']:.4f}"


def _table_5(bench: Workbench, *, literal: bool = False) -> dict[str, Any]:
    train, test = bench.sides(Split(by="user"))
    runs = paper_runs(20)
    if literal:
        return suggestion_runs(train, test, released(train, runs), literal=True)
    runs |= {
        OURS_C: Clicks(epsilon=EPSILON, delta=DELTA),
        OURS_S: Sessions(epsilon=EPSILON, delta=DELTA),
    }
    epsilon, delta = runs["DP_S"].proven().numbers
    runs[OURS_PROVEN] = Sessions(epsilon=epsilon, delta=delta)
    return suggestion_runs(train, test, released(train, runs))


def _findings(results: Mapping[str, Any]) -> list[bool | None]:
    """Truth of the paper's three findings: precision rises, recall rises, evaluated sessions fall.

    The paper calls the numbers of sessions of DP_C and DP_S similar, so no order of these two is asked for.
    """
    sessions = {name: results[name]["sessions"] for name in TABLE_5}
    pairs = list(itertools.pairwise(results[name] for name in TABLE_5))
    return [
        *(all_of([measured(a, measure).below(measured(b, measure)) for a, b in pairs]) for measure in ("P@5", "R@5")),
        sessions["Original"] > sessions["KA"] > max(sessions["DP_C"], sessions["DP_S"]),
    ]


def _statement_5(results: Mapping[str, Any]) -> str:
    precision = {name: results[name]["P@5"]["answered"] for name in TABLE_5}
    everything = {name: results[name]["R@5"]["all"] for name in TABLE_5}
    sessions = {name: float(results[name]["sessions"]) for name in TABLE_5}
    ours = results[OURS_S]
    hits = ", ".join(f"{name} {results[name]['hits']:,}" for name in TABLE_5)
    return (
        "The paper has, on the sessions that each run answers, Original < KA < DP_C < DP_S in precision and recall, "
        "and the reverse in sessions answered, of which DP_C and DP_S have a similar number. Here precision: "
        f"{order_words(precision)}; sessions answered: "
        f"{order_words(sessions)}. Hits: {hits}. On the sessions that DP_S answers it reaches P@5 "
        f"{number(results['DP_S']['P@5']['answered'])}, the original on the same sessions "
        f"{number(results['DP_S']['P@5']['original'])}. Over all sessions, recall: {order_words(everything)}. Our "
        "sessions at the budget "
        f"that the paper states, (8, 2.25e-7), answer {ours['sessions']:,} sessions where its own run answers "
        f"{results['DP_S']['sessions']:,}, with P@5 {number(ours['P@5']['answered'])} against "
        f"{number(results['DP_S']['P@5']['answered'])}."
    )


def _bars(measure: str, place: int, results: Mapping[str, Any]) -> Chart:
    names = list(results)
    return Chart(
        f"{measure} on the sessions that each run answers", "run", measure,
        (
            Series.over("printed", list(TABLE_5), [row[place] for row in TABLE_5.values()], printed=True),
            Series.over("ours", names, [results[name][measure]["answered"] for name in names]),
            Series.over("original, same sessions", names, [results[name][measure]["original"] for name in names]),
        ),
        kind="bars",
    )  # fmt: skip


def illustrations(bench: Workbench) -> list[Exhibit]:
    """Tables 1 to 3 measure nothing; of 2 and 3, which show output, we show ours."""
    examples = bench.step("examples", lambda: _examples(bench)) if bench.synthetic else None
    both = {"Table 2": "Session output example", "Table 3": "Click-through output example"}
    shown = [
        Exhibit(
            name, title, "not comparable", "An example of output, nothing measured. Ours has the same form.",
            ours=Grid.of(examples[name], f"the first rows that our sessions release at (8, 2.25e-7), on {bench.words}"),
        )
        for name, title in both.items()
        if examples is not None
    ]  # fmt: skip
    toy = Exhibit(
        "Table 1", "Toy example for differential privacy", "not comparable",
        "A sum of apples with and without Carol (11 and 9), to explain noise. Nothing is measured.",
    )  # fmt: skip
    return [toy, *shown]


def _examples(bench: Workbench) -> dict[str, Any]:
    release = Sessions(epsilon=EPSILON, delta=DELTA).release(bench.log, randomness=Randomness(seed=SEED))
    sessions, clicks = (release.table(name).slice(0, 4).to_pylist() for name in ("sessions", "clicks"))
    return {
        "Table 2": [{"session": " > ".join(row["queries"]), "count": row["count"]} for row in sessions],
        "Table 3": [{"query": row["query"], "clicked url": row["url"], "count": row["count"]} for row in clicks],
    }
