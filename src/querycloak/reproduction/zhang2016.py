"""Zhang, Yang and Singh, SIGIR 2016: web search with an anonymised log, by a random walk and by implicit feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from querycloak.evaluation.aggregations import DIFFERENCE, RowLabel, rows_of
from querycloak.evaluation.subjects import Original
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import ORIGINAL, CaseScores, Logs, Subject, Task
from querycloak.evaluation.tasks.retrieval import RetrievalWalk
from querycloak.evaluation.tasks.retrieval_feedback import RetrievalFeedback
from querycloak.logs.profile import profile
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.split import Split
from querycloak.methods.query_pool.method import QueryPool
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release
from querycloak.reproduction.exhibit import Chart, Exhibit, Grid, Series, number, verdict_of
from querycloak.reproduction.workbench import AOL_USERS, Workbench

WHOLE = ""
"""How the slice of all cases is called here."""


def retrieval_runs(
    train: SearchLog, test: SearchLog, releases: Mapping[str, Release], tasks: Sequence[Task]
) -> dict[str, Any]:
    """By release, task, slice and measure: the mean over cases answered, over all, and the original's on the same."""
    original = Original(train)
    subjects: list[Subject] = [original, *(Target.of(release, name) for name, release in releases.items())]
    logs = Logs(train, test, tuple(subjects))
    found: dict[str, Any] = {subject.name: {} for subject in subjects}
    for task in tasks:
        prepared = task.prepare(logs)
        first: list[CaseScores] = []
        for subject in subjects:
            scores = [each for each in prepared.scores(subject) if isinstance(each, CaseScores)]
            first = first or scores
            rows = rows_of(RowLabel(subject.name, None, task.name), scores, first, logs.test_users)
            told: dict[str, Any] = found[subject.name].setdefault(task.name, {})
            for row in rows:
                part, _, last = (row.slice or "").rpartition(",")
                if DIFFERENCE in (row.slice, last):
                    place = told.setdefault(part, {}).setdefault(row.measure, {})
                    place |= {"difference": row.value, "low": row.low, "high": row.high, "p_value": row.p_value}
                elif "over=users" not in (row.slice or ""):
                    place = told.setdefault(row.slice or WHOLE, {}).setdefault(row.measure, {})
                    place |= {row.reading: row.value, "cases": row.cases, "answers": row.answered}
    return found


CITATION = (
    "S. Zhang, H. Yang and L. Singh, Anonymizing query logs by differential privacy, SIGIR 2016, "
    "doi:10.1145/2911451.2914732"
)
MEASURES = {"nDCG@10": "nDCG@10", "P@5": "P@5", "P@10": "P@10", "MAP": "AP"}
"""The paper's names, and ours."""
# Tables 4 and 5: nDCG@10, P@5, P@10, MAP.
TABLE_4 = {"Original": (0.6658, 0.1484, 0.0779, 0.6395), "Anonymized": (0.6675, 0.1486, 0.0777, 0.6424)}
TABLE_5 = {"Original": (0.6919, 0.1535, 0.0796, 0.6725), "Anonymized": (0.6897, 0.1527, 0.0790, 0.6711)}
# Table 3: AOL's log.
TABLE_3 = {
    "records": 36_389_567, "users": AOL_USERS, "distinct queries": 10_154_742, "clicks": 19_442_629,
    "clicks per user": 29.57,
}  # fmt: skip
NOISE, THRESHOLD, EPSILON = 10.0, 500, 29.99
"""Section 6.1: the run of Tables 4 and 5."""
GRID, SMALL_GRID = (10, 50, 100, 200, 350, 500), (10, 100, 500)
SIGNIFICANT = 0.01
OWN, OWN_RANDOM = "feedback=own (circular)", "feedback=own (circular),order=random"
PAPER, OURS = "as the paper", "query-pool (ours)"
SEED = 2016
FOLDS = 5


def zhang2016(bench: Workbench) -> list[Exhibit]:
    """Every table and figure."""
    folds = range(1 if bench.quick else FOLDS)
    found = [bench.step(f"fold_{fold + 1}", _fold(bench, fold)) for fold in folds]
    return [
        table_3(bench),
        _table(bench, "Table 4", "Utilities with random walk", TABLE_4, found, "retrieval-walk", WHOLE),
        _table_5(bench, found),
        figure_1(bench),
        *illustrations(bench),
    ]


def paper_run(noise: float = NOISE, threshold: int = THRESHOLD) -> QueryPool:
    """The algorithm as published; 100 queries of a user count, which comes nearest to its epsilon: it does not say."""
    return QueryPool(noise=noise, threshold=threshold, variant="paper")


def _fold(bench: Workbench, fold: int) -> Any:
    def work() -> dict[str, Any]:
        train, test = bench.sides(Split(by="user", folds=FOLDS), fold)
        methods = {PAPER: paper_run(), OURS: QueryPool(epsilon=EPSILON, delta=1e-7)}
        releases = {
            name: method.release(train, randomness=Randomness(seed=SEED + 10 * fold + place))
            for place, (name, method) in enumerate(methods.items())
        }
        told = retrieval_runs(train, test, releases, (RetrievalWalk(), RetrievalFeedback()))
        return {"runs": told, "queries": {name: each.table("queries").num_rows for name, each in releases.items()}}

    return work


def table_3(bench: Workbench) -> Exhibit:
    """The log's figures beside AOL's."""
    found = bench.step("table_3", lambda: profile(bench.log).to_json())
    ours = {
        "records": found["rows_kept"], "users": found["users"], "distinct queries": found["distinct_queries"],
        "clicks": found["clicks"], "clicks per user": round(found["clicks"] / max(1, found["users"]), 2),
    }  # fmt: skip
    same = all(abs(ours[name] / value - 1) < 0.01 for name, value in TABLE_3.items())
    rows = [{"figure": name, "printed": value, "ours": ours[name]} for name, value in TABLE_3.items()]
    return Exhibit(
        "Table 3", "Statistics of the AOL query log", "agrees" if same else "not comparable",
        "The log given has AOL's figures." if same else
        f"This is not AOL's log but {bench.words}: {ours['users'] / AOL_USERS:.1%} of its users, "
        f"{ours['clicks per user']} clicks per user where AOL has 29.57.",
        ours=Grid.of(rows, f"printed: Table 3; ours: {bench.words}"),
    )  # fmt: skip


def _mean(
    found: Sequence[Mapping[str, Any]], run: str, task: str, part: str, measure: str, reading: str
) -> float | None:
    values = [each["runs"][run][task][part][measure].get(reading) for each in found]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _table(
    bench: Workbench, name: str, title: str, printed: Mapping[str, Sequence[float]], found: Sequence[Mapping[str, Any]],
    task: str, part: str,
) -> Exhibit:  # fmt: skip
    rows = [{"log": f"{log}, printed", **dict(zip(MEASURES, values, strict=True))} for log, values in printed.items()]
    readings = (
        ("Original, its own cases", ORIGINAL, "answered"), ("Original, on the cases of the next row", PAPER, "common"),
        ("Anonymised as the paper", PAPER, "answered"), ("Anonymised as the paper, all cases", PAPER, "all"),
        ("query-pool, ours, its own cases", OURS, "answered"), ("Original, on these", OURS, "common"),
    )  # fmt: skip
    for label, run, reading in readings:
        values = {shown: _round(_mean(found, run, task, part, ours, reading)) for shown, ours in MEASURES.items()}
        rows.append({"log": label, **values})
    difference = [each["runs"][PAPER][task][part]["nDCG@10"] for each in found]
    significant = sum(each.get("p_value") is not None and each["p_value"] < SIGNIFICANT for each in difference)
    small = [abs(each["difference"]) < 0.02 for each in difference if each.get("difference") is not None]
    return Exhibit(
        name, title, verdict_of([not significant, bool(small) and all(small)]),
        _statement(found, difference, significant, task, part), _WHY,
        ours=Grid.of(rows, f"printed: {name}, rows 1 and 2, on AOL; ours on {bench.words}, {_folds(found)}"),
        charts=(_bars(rows, f"{title}: nDCG@10"),),
    )  # fmt: skip


_WHY = (
    "The two printed rows are so near each other because both are averaged over queries that the anonymised log still "
    "has: with K = 500 these are the most frequent ones. Over all cases (unanswered ones count 0) the anonymised log "
    "is far behind. 'Not significant' is not 'equal': the interval of the difference says how much could be hidden. We "
    "test over users; the paper's five folds share training data. A case here is a test search with clicks, and what "
    "was clicked in it is relevant; the paper does not say what it took as relevant."
)


def _folds(found: Sequence[object]) -> str:
    return f"mean of {len(found)} of {FOLDS} folds" if len(found) < FOLDS else f"mean of {FOLDS} folds"


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _statement(
    found: Sequence[Mapping[str, Any]], differences: Sequence[Mapping[str, Any]], significant: int, task: str, part: str
) -> str:
    known = [each for each in differences if each.get("difference") is not None]
    if not known:
        return "The anonymised log answers no test search here, so that there is nothing to compare."
    mean = fmean(each["difference"] for each in known)
    low, high = min(each["low"] for each in known), max(each["high"] for each in known)
    cases = sum(each["runs"][PAPER][task][part]["nDCG@10"]["cases"] for each in found)
    answers = sum(each["runs"][PAPER][task][part]["nDCG@10"]["answers"] for each in found)
    return (
        "The paper finds no significant difference. On the same cases, the anonymised log's nDCG@10 differs from the "
        f"original's by {mean:+.4f} (95 % intervals within {low:+.4f} to {high:+.4f}); p < {SIGNIFICANT} in "
        f"{significant} of {len(differences)} folds. It answers {answers:,} of {cases:,} test searches, and over all "
        f"of them reaches {number(_mean(found, PAPER, task, part, 'nDCG@10', 'all'))} where the original reaches "
        f"{number(_mean(found, ORIGINAL, task, part, 'nDCG@10', 'all'))}. It is not pure differential privacy as "
        "claimed: its filter of rare queries has no bounded sensitivity (methods/query_pool/query_pool.md)."
    )


def _bars(rows: Sequence[Mapping[str, Any]], title: str) -> Chart:
    names = [row["log"] for row in rows]
    printed = [row["nDCG@10"] if "printed" in row["log"] else None for row in rows]
    ours = [None if "printed" in row["log"] else row["nDCG@10"] for row in rows]
    series = (Series.over("printed", names, printed, printed=True), Series.over("ours", names, ours))
    return Chart(title, "log", "nDCG@10", series, kind="bars")


def _table_5(bench: Workbench, found: Sequence[Mapping[str, Any]]) -> Exhibit:
    """Implicit feedback: the paper's reading is judged by the very click that it uses."""
    task = "retrieval-feedback"
    made = _table(bench, "Table 5", "Utilities with implicit feedback", TABLE_5, found, task, OWN)
    random, others = (_mean(found, PAPER, task, part, "nDCG@10", "answered") for part in (OWN_RANDOM, WHOLE))
    circular = (
        " The experiment is circular: the click that moves a url up is the click by which the order is judged. With "
        f"the anonymised log's urls in random order it still reaches {number(random)}; with clicks of other test users "
        f"in place of the user's own it reaches {number(others)}."
    )  # fmt: skip
    return Exhibit(
        made.name, made.title, made.verdict, made.statement + circular, made.why, ours=made.ours, charts=made.charts
    )


def figure_1(bench: Workbench) -> Exhibit:
    """nDCG@10 of implicit feedback over noise b and threshold K."""
    steps = SMALL_GRID if bench.quick else GRID
    found = {b: bench.step(f"noise_{b}", _at_noise(bench, b, steps)) for b in steps}
    curves = {f"b = {b}": [found[b][str(k)][OWN] for k in steps] for b in steps}
    rows = []
    for b in steps:
        for k in steps:
            told = found[b][str(k)]
            values = {"nDCG@10, as the paper": _round(told[OWN]), "nDCG@10, others' clicks": _round(told[WHOLE])}
            rows.append({"b": b, "K": k, "queries out": told["queries"], **values, "answered": told["answers"]})
    falls, flat = _shape(found, steps)
    return Exhibit(
        "Figure 1", "Noise b, threshold K and nDCG@10", verdict_of([falls, flat]),
        "The paper finds that the score falls as b grows, and that b matters less where it is much smaller than K. "
        "Here "
        + ("the score falls" if falls else "the score does not fall")
        + f" from b = {steps[0]} to b = {steps[-1]} at the smallest K, and its range over b at K = {steps[-1]} is "
        + ("smaller than" if flat else "not smaller than") + f" at K = {steps[0]}.",
        "The paper draws a surface without numbers. Each point averages over the searches that a release answers, and "
        "those change with b and K.",
        ours=Grid.of(rows, f"ours on {bench.words}, fold 1 of 5; the paper has no numbers for this figure"),
        charts=(Chart("nDCG@10, implicit feedback", "K", "nDCG@10", tuple(
            Series.over(name, list(steps), curve) for name, curve in curves.items()), log_x=True),),
    )  # fmt: skip


def _at_noise(bench: Workbench, noise: int, thresholds: Sequence[int]) -> Any:
    def work() -> dict[str, Any]:
        train, test = bench.sides(Split(by="user", folds=FOLDS))
        releases = {
            str(threshold): paper_run(float(noise), threshold).release(train, randomness=Randomness(seed=SEED))
            for threshold in thresholds
        }
        told = retrieval_runs(train, test, releases, (RetrievalFeedback(),))
        found: dict[str, Any] = {}
        for name, release in releases.items():
            parts = told[name]["retrieval-feedback"]
            found[name] = {part: parts[part]["nDCG@10"]["answered"] for part in (OWN, WHOLE)}
            found[name] |= {"queries": release.table("queries").num_rows, "answers": parts[WHOLE]["nDCG@10"]["answers"]}
        return found

    return work


def _shape(found: Mapping[int, Any], steps: Sequence[int]) -> tuple[bool, bool]:
    """Whether the score falls with b at the smallest K, and whether it varies less over b at the largest."""
    columns = {k: [found[b][str(k)][OWN] for b in steps if found[b][str(k)][OWN] is not None] for k in steps}
    least, most = columns[steps[0]], columns[steps[-1]]
    falls = len(least) > 1 and least[-1] < least[0]
    spread = [max(column) - min(column) if column else 0.0 for column in (least, most)]
    return falls, spread[1] < spread[0]


def illustrations(bench: Workbench) -> list[Exhibit]:
    """Tables 1 and 2 measure nothing; of 2, which shows output, we show ours."""
    sample = Exhibit(
        "Table 1", "A sample of the AOL query log", "not comparable",
        "Four rows of AOL's log. Nothing is measured, and we print no rows of a person.",
    )  # fmt: skip
    if not bench.synthetic:
        return [sample]
    found = bench.step("examples", lambda: _examples(bench))
    return [sample, Exhibit(
        "Table 2", "Samples of the anonymised log", "not comparable",
        "An example of output, nothing measured. Ours has the same three parts: queries, clicks, transitions.",
        ours=Grid.of(found, f"rows of our query-pool at (29.99, 1e-7), on {bench.words}"),
    )]  # fmt: skip


def _examples(bench: Workbench) -> list[dict[str, Any]]:
    release = QueryPool(epsilon=EPSILON, delta=1e-7).release(bench.log, randomness=Randomness(seed=SEED))
    rows = []
    for part, second in (("queries", None), ("clicks", "url"), ("transitions", "next_query")):
        for row in release.table(part).slice(0, 3).to_pylist() if part in release.tables else []:
            rows.append(
                {
                    "part": part,
                    "query": row["query"],
                    "url or next query": second and row[second],
                    "count": row["count"],
                }
            )
    return rows
