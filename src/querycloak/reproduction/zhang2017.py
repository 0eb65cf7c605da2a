"""Zhang and Yang, ICTIR 2017: privacy levels, query suggestion from anonymised sessions, and what K costs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from querycloak.evaluation.aggregations import RowLabel, rows_of
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.subjects import Original
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import ORIGINAL, Logs, Subject
from querycloak.evaluation.tasks.suggestion import COSINE_SHARE, Suggestion
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.split import Split
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release
from querycloak.reproduction.exhibit import Chart, Exhibit, Grid, Series, number, order_words, rises, verdict_of
from querycloak.reproduction.workbench import Workbench


def suggestion_runs(
    train: SearchLog, test: SearchLog, releases: Mapping[str, Release], cosine_share: float, *, original: bool = True
) -> dict[str, dict[str, Any]]:
    """For each release: sessions answered, precision and recall on these and on all, and the original's on the same.

    Without the original nothing is compared, which is faster.
    """
    subjects: list[Subject] = [Original(train)] if original else []
    subjects += [Target.of(release, name) for name, release in releases.items()]
    logs = Logs(train, test, tuple(subjects))
    task = Suggestion(cosine_share=cosine_share).prepare(logs)
    found: dict[str, dict[str, Any]] = {}
    first = None
    for subject in subjects:
        scores = list(task.scores(subject))
        first = scores if first is None and original else first
        rows = list(rows_of(RowLabel(subject.name, None, "suggestion"), scores, first or scores, logs.test_users))
        found["Original" if subject.name == ORIGINAL else subject.name] = _told(rows)
    return found


def _told(rows: list[Row]) -> dict[str, Any]:
    whole = {(row.measure, row.reading): row for row in rows if row.slice is None}
    told: dict[str, Any] = {}
    for measure in ("P@5", "R@5"):
        answered, everything, common = (whole[measure, reading] for reading in ("answered", "all", "common"))
        told[measure] = {
            "answered": answered.value, "low": answered.low, "high": answered.high, "all": everything.value,
            "original": common.value, "p_value": common.p_value,
        }  # fmt: skip
        told["sessions"], told["of"] = answered.answered, answered.cases
    return told


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
CROSSING = 5_500
"""Section 5.4: below about as many evaluated sessions, runs with differential privacy do better than k-anonymity."""
OURS_C, OURS_S = "clicks (ours)", "sessions (ours)"
EPSILON, DELTA = 8.0, 2.25e-7
THRESHOLDS, FEW_THRESHOLDS = (5, 10, 15, 20, 30, 40, 50, 60, 80, 100), (5, 10, 20, 40, 80)
SEED = 2017


def zhang2017(bench: Workbench) -> list[Exhibit]:
    """Every table and figure."""
    return [table_4(), table_5(bench), *figures(bench), *illustrations(bench)]


def paper_runs(threshold: int) -> dict[str, Method]:
    """KA(K), DP_C and DP_S as the paper runs them: l = 4, l_s = 1, l_q = 3, b = 1."""
    return {
        "KA": KAnonymity(min_users=threshold + 1, keys="clicks"),
        "DP_C": Clicks(noise=1.0, threshold=threshold, max_keys_per_user=4, variant="paper"),
        "DP_S": Sessions(noise=1.0, threshold=threshold, max_keys_per_user=4, variant="paper"),
    }


def table_4() -> Exhibit:
    """Privacy levels of typical runs: formulas, no data."""
    rows, held = [], []
    for b, threshold, sessions, queries, epsilon, delta in TABLE_4:
        run = Sessions(
            noise=b, threshold=threshold, sessions_per_user=sessions, queries_per_session=queries, no_clicks=True,
            variant="paper",
        )  # fmt: skip
        claimed, proven = run.claimed(), run.proven()
        if claimed is None:
            raise TypeError("the paper variant claims something")
        ours = claimed.numbers
        held.append(abs(ours[0] - epsilon) < 0.005 and abs(ours[1] / delta - 1) < 0.005)
        rows.append(
            {
                "b": b, "K": threshold, "l_s": sessions, "l_q": queries,
                "printed epsilon": epsilon, "printed delta": f"{delta:.2e}",
                "our epsilon": round(ours[0], 2), "our delta": f"{ours[1]:.2e}",
                "proven epsilon": round(proven.numbers[0], 2), "proven delta": f"{proven.numbers[1]:.2e}",
            }
        )  # fmt: skip
    return Exhibit(
        "Table 4", "Privacy levels of typical A_Session runs", verdict_of(held),
        f"{sum(held)} of {len(held)} rows follow from the paper's formula to the digits printed (4.95e-3 is 4.96e-3 "
        "cut off). The proven delta of each part is smaller than claimed. But a DP_S run has two parts, sessions and "
        "clicks, and both read the same users: their budgets add up. The run that the paper reports as (8, 2.25e-7) "
        f"is proven ({number(paper_runs(20)['DP_S'].proven().numbers[0], 0)}, "
        f"{paper_runs(20)['DP_S'].proven().numbers[1]:.2e}).",
        "The paper says that the whole keeps the weaker of the two budgets (Section 3.2.2); composition gives their "
        "sum.",
        ours=Grid.of(rows, "printed: Table 4, rows 1 to 9; ours: the same formula, and what we prove, with no data"),
    )  # fmt: skip


def table_5(bench: Workbench) -> Exhibit:
    """Query suggestion with the four logs, and with our releases at the budget that the paper states."""
    found = bench.step("table_5", lambda: _table_5(bench))
    rows = []
    for name, told in found.items():
        printed = TABLE_5.get(name)
        rows.append(
            {
                "run": name, "printed P@5": printed and printed[0], "printed R@5": printed and printed[1],
                "printed sessions": printed and printed[2],
                **_cells(told),
            }
        )  # fmt: skip
    return Exhibit(
        "Table 5", "Query suggestion results using different query logs", verdict_of(_findings(found)),
        _statement_5(found), _WHY_5,
        ours=Grid.of(rows, f"printed: Table 5, rows 1 to 4, on AOL; ours on {bench.words}"),
        charts=tuple(_bars(measure, place, found) for place, measure in enumerate(("P@5", "R@5"))),
    )  # fmt: skip


_WHY_5 = (
    "Each run is averaged over the sessions that it can answer itself, and these differ: a log that keeps only "
    "frequent queries answers other sessions, easier or harder ones. The column 'original, same sessions' is the fair "
    "pair; beside it stand all test sessions (unanswered ones count 0). The paper does not print lambda; it is .5 "
    "here. How much of a session is predictable is a property of AOL's users that a synthetic log only imitates."
)


def _cells(told: Mapping[str, Any]) -> dict[str, Any]:
    precision, recall = told["P@5"], told["R@5"]
    return {
        "P@5": _four(precision["answered"]), "95 % interval": _interval(precision),
        "R@5": _four(recall["answered"]), "sessions": told["sessions"],
        "R@5, all sessions": _four(recall["all"]), "R@5, original, same sessions": _four(recall["original"]),
    }  # fmt: skip


def _interval(told: Mapping[str, Any]) -> str | None:
    return None if told["low"] is None else f"{told['low']:.4f}\u00a0to\u00a0{told['high']:.4f}"


def _four(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _table_5(bench: Workbench) -> dict[str, Any]:
    train, test = bench.sides(Split(by="user"))
    runs = paper_runs(20)
    runs |= {
        OURS_C: Clicks(epsilon=EPSILON, delta=DELTA),
        OURS_S: Sessions(epsilon=EPSILON, delta=DELTA),
    }
    return suggestion_runs(train, test, _released(train, runs), COSINE_SHARE)


def _released(train: SearchLog, runs: Mapping[str, Method]) -> dict[str, Release]:
    return {
        name: method.release(train, randomness=Randomness(seed=SEED + place))
        for place, (name, method) in enumerate(runs.items())
    }


def _findings(found: Mapping[str, Any]) -> list[bool]:
    """Which of the paper's three findings hold: precision rises, recall rises, evaluated sessions fall."""
    names = list(TABLE_5)
    falling = [-found[name]["sessions"] for name in names]
    return [
        *(rises([found[name][measure]["answered"] for name in names]) for measure in ("P@5", "R@5")),
        rises(falling),
    ]


def _statement_5(found: Mapping[str, Any]) -> str:
    precision = {name: found[name]["P@5"]["answered"] for name in TABLE_5}
    everything = {name: found[name]["R@5"]["all"] for name in TABLE_5}
    sessions = {name: float(found[name]["sessions"]) for name in TABLE_5}
    ours = found[OURS_S]
    return (
        "The paper has, on the sessions that each run answers, Original < KA < DP_C < DP_S in precision and recall, "
        f"and the reverse in sessions answered. Here precision: {order_words(precision)}; sessions answered: "
        f"{order_words(sessions)}. On the sessions that DP_S answers it reaches P@5 "
        f"{number(found['DP_S']['P@5']['answered'])}, the original on the same sessions "
        f"{number(found['DP_S']['P@5']['original'])}. Over all sessions, recall: {order_words(everything)}. Our "
        "sessions at the budget "
        f"that the paper states, (8, 2.25e-7), answer {ours['sessions']:,} sessions where its own run answers "
        f"{found['DP_S']['sessions']:,}, with P@5 {number(ours['P@5']['answered'])} against "
        f"{number(found['DP_S']['P@5']['answered'])}."
    )


def _bars(measure: str, place: int, found: Mapping[str, Any]) -> Chart:
    names = list(found)
    return Chart(
        f"{measure} on the sessions that each run answers", "run", measure,
        (
            Series.over("printed", list(TABLE_5), [row[place] for row in TABLE_5.values()], printed=True),
            Series.over("ours", names, [found[name][measure]["answered"] for name in names]),
            Series.over("original, same sessions", names, [found[name][measure]["original"] for name in names]),
        ),
        kind="bars",
    )  # fmt: skip


def figures(bench: Workbench) -> list[Exhibit]:
    """Figures 1 and 2: everything over the threshold K."""
    thresholds = FEW_THRESHOLDS if bench.quick else THRESHOLDS
    points = {threshold: bench.step(f"threshold_{threshold}", _at(bench, threshold)) for threshold in thresholds}
    return [_figure_1(bench, points), _figure_2(bench, points)]


def _at(bench: Workbench, threshold: int) -> Any:
    def work() -> dict[str, Any]:
        train, test = bench.sides(Split(by="user"))
        released = _released(train, paper_runs(threshold))
        rows = {
            "KA": released["KA"].table("clicks").num_rows,
            "DP_C": released["DP_C"].table("clicks").num_rows,
            "DP_S": released["DP_S"].table("sessions").num_rows,
        }
        return {"rows": rows, "runs": suggestion_runs(train, test, released, COSINE_SHARE, original=False)}

    return work


def _figure_1(bench: Workbench, points: Mapping[int, Any]) -> Exhibit:
    ks = list(points)
    names = {"KA": "KA: click tuples", "DP_C": "DP_C: click tuples", "DP_S": "DP_S: sessions"}
    curves = {name: [points[k]["rows"][name] for k in ks] for name in names}
    held = [all(a >= b for a, b in itertools.pairwise(curve)) for curve in curves.values()]
    rows = [{"K": k, **{names[name]: points[k]["rows"][name] for name in names}} for k in ks]
    return Exhibit(
        "Figure 1", "Data lost: distinct click tuples and sessions over the threshold K", verdict_of(held),
        "The paper's finding, that what comes out falls steeply with K in all three, "
        + ("holds" if all(held) else "holds in part")
        + f" here: from K = {ks[0]} to K = {ks[-1]}, KA falls from {curves['KA'][0]:,} to {curves['KA'][-1]:,} tuples, "
        f"DP_C from {curves['DP_C'][0]:,} to {curves['DP_C'][-1]:,}, DP_S from {curves['DP_S'][0]:,} to "
        f"{curves['DP_S'][-1]:,} sessions.",
        "The paper prints these as drawings without numbers, so that only the shape can be compared.",
        ours=Grid.of(rows, f"ours on {bench.words}; T_gap = 30, l_s = 1, l_q = 3, l = 4, b = 1, as in Section 5.4"),
        charts=(
            Chart(
                "Rows that come out", "K", "rows", tuple(Series.over(names[n], ks, c) for n, c in curves.items()),
                log_y=all(min(curve) > 0 for curve in curves.values()),
            ),
        ),
    )  # fmt: skip


def _figure_2(bench: Workbench, points: Mapping[int, Any]) -> Exhibit:
    ks, names = list(points), ("KA", "DP_C", "DP_S")
    rows = []
    for k in ks:
        for name in names:
            told = points[k]["runs"][name]
            precision, recall = (_four(told[measure]["answered"]) for measure in ("P@5", "R@5"))
            rows.append({"K": k, "run": name, "sessions": told["sessions"], "P@5": precision, "R@5": recall})
    more_with_ka = all(points[k]["runs"]["KA"]["sessions"] >= points[k]["runs"]["DP_S"]["sessions"] for k in ks)
    ahead = _ahead(points, ks)
    return Exhibit(
        "Figure 2", "Query suggestion: utility against the number of evaluated sessions",
        verdict_of([more_with_ka, ahead is not None and bool(ahead[0])]),
        _statement_2(ahead, more_with_ka=more_with_ka),
        f"The paper prints one number of these drawings: the curves cross at around {CROSSING:,} sessions of 18,475 "
        "(Section 5.4). A smaller log has fewer sessions, so the crossing is compared by its existence only.",
        ours=Grid.of(rows, f"ours on {bench.words}; no row of the paper has numbers for this figure"),
        charts=(
            Chart("(a) sessions evaluated over K", "K", "sessions", _lines(points, ks, None), log_y=False),
            Chart("(b) P@5 over sessions evaluated", "sessions evaluated", "P@5", _lines(points, ks, "P@5")),
            Chart("(c) R@5 over sessions evaluated", "sessions evaluated", "R@5", _lines(points, ks, "R@5")),
        ),
    )  # fmt: skip


def _lines(points: Mapping[int, Any], ks: Sequence[int], measure: str | None) -> tuple[Series, ...]:
    lines = []
    for name in ("KA", "DP_C", "DP_S"):
        runs = [points[k]["runs"][name] for k in ks]
        sessions = [run["sessions"] for run in runs]
        ys = sessions if measure is None else [run[measure]["answered"] for run in runs]
        lines.append(Series.over(name, list(ks) if measure is None else sessions, ys))
    return tuple(lines)


def _ahead(points: Mapping[int, Any], ks: Sequence[int]) -> tuple[int, int] | None:
    """In how many comparisons at like numbers of sessions DP_S is ahead of KA; none if there is nothing to compare."""
    curves = {}
    for name in ("KA", "DP_S"):
        runs = [points[k]["runs"][name] for k in ks]
        known = [(run["sessions"], run["P@5"]["answered"]) for run in runs if run["P@5"]["answered"] is not None]
        curves[name] = sorted(known)
    wins = tried = 0
    for sessions, precision in curves["DP_S"]:
        near = [each for each in curves["KA"] if each[0] and 0.5 <= sessions / each[0] <= 2]
        if near:
            closest = min(near, key=lambda each: abs(each[0] - sessions))
            tried, wins = tried + 1, wins + (precision > closest[1])
    return (wins, tried) if tried else None


def _statement_2(ahead: tuple[int, int] | None, *, more_with_ka: bool) -> str:
    first = (
        "As in the paper, at the same K more sessions are evaluated with KA than with DP_S, so that a DP run needs a "
        "much smaller K for as many sessions."
        if more_with_ka
        else "Unlike in the paper, KA does not evaluate more sessions than DP_S at every K."
    )
    if ahead is None:
        return (
            f"{first} No two runs evaluate about as many sessions, so precision cannot be compared at equal sessions."
        )
    return (
        f"{first} The paper finds that up to a number of sessions DP runs are more precise than KA runs that answer as "
        f"many. Here DP_S is ahead in {ahead[0]} of {ahead[1]} comparisons of runs with about as many sessions."
    )


def illustrations(bench: Workbench) -> list[Exhibit]:
    """Tables 1 to 3 measure nothing; of 2 and 3, which show output, we show ours."""
    found = bench.step("examples", lambda: _examples(bench)) if bench.synthetic else None
    both = {"Table 2": "Session output example", "Table 3": "Click-through output example"}
    shown = [
        Exhibit(
            name, title, "not comparable", "An example of output, nothing measured. Ours has the same form.",
            ours=Grid.of(found[name], f"the first rows that our sessions release at (8, 2.25e-7), on {bench.words}"),
        )
        for name, title in both.items()
        if found is not None
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
