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
from querycloak.reproduction.exhibit import (
    EQUAL_WITHIN,
    LEAST_HITS,
    SIGNIFICANT,
    Chart,
    Exhibit,
    Grid,
    Series,
    all_of,
    equivalent,
    four,
    insignificant,
    number,
    verdict_of,
)
from querycloak.reproduction.workbench import AOL_USERS, Workbench

WHOLE = ""
"""Name of the slice of all cases."""


def retrieval_runs(
    train: SearchLog, test: SearchLog, releases: Mapping[str, Release], tasks: Sequence[Task]
) -> dict[str, Any]:
    """By release, task, slice and measure: the mean over cases answered, over all, and the original's on the same."""
    original = Original(train)
    subjects: list[Subject] = [original, *(Target.of(release, name) for name, release in releases.items())]
    logs = Logs(train, test, tuple(subjects))
    runs: dict[str, Any] = {subject.name: {} for subject in subjects}
    for task in tasks:
        prepared = task.prepare(logs)
        first: list[CaseScores] = []
        for subject in subjects:
            scores = [each for each in prepared.scores(subject) if isinstance(each, CaseScores)]
            first = first or scores
            rows = rows_of(RowLabel(subject.name, None, task.name), scores, first, logs.test_users)
            parts: dict[str, Any] = runs[subject.name].setdefault(task.name, {})
            for row in rows:
                part, _, last = (row.slice or "").rpartition(",")
                if DIFFERENCE in (row.slice, last):
                    place = parts.setdefault(part, {}).setdefault(row.measure, {})
                    place |= {"difference": row.value, "low": row.low, "high": row.high, "p_value": row.p_value}
                elif "over=users" not in (row.slice or ""):
                    place = parts.setdefault(row.slice or WHOLE, {}).setdefault(row.measure, {})
                    place |= {row.reading: row.value, "cases": row.cases, "answers": row.answered}
    return runs


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
OWN, OWN_RANDOM = "feedback=own (circular)", "feedback=own (circular),order=random"
PAPER, SCALED, OURS = "as the paper", "as the paper, scaled", "query-pool (ours)"
FAR_BELOW = 10
"""Ratio K / b from which on b counts as far below K."""
SEED = 2016
FOLDS = 5


def zhang2016(bench: Workbench) -> list[Exhibit]:
    """Every table and figure."""
    folds = range(1 if bench.quick else FOLDS)
    results = [bench.step(f"fold_{fold + 1}", _fold(bench, fold)) for fold in folds]
    return [
        table_3(bench),
        _table(bench, "Table 4", "Utilities with random walk", TABLE_4, results, "retrieval-walk", WHOLE),
        _table_5(bench, results),
        figure_1(bench),
        *illustrations(bench),
    ]


def paper_run(noise: float = NOISE, threshold: int = THRESHOLD) -> QueryPool:
    """The algorithm as published, with 100 queries per user: the bound that comes nearest to its stated epsilon."""
    return QueryPool(noise=noise, threshold=threshold, variant="paper")


def scaled_run(users: int) -> QueryPool:
    """The same with noise and threshold in proportion to the log's users: K = 500 is 0.08 % of AOL's."""
    share = users / AOL_USERS
    return paper_run(round(NOISE * share, 3), max(1, round(THRESHOLD * share)))


def _fold(bench: Workbench, fold: int) -> Any:
    def work() -> dict[str, Any]:
        train, test = bench.sides(Split(by="user", folds=FOLDS), fold)
        users = train.engine.fetch(train.rows.agg(users=train.rows.user.nunique()))["users"][0].as_py()
        methods = {PAPER: paper_run(), SCALED: scaled_run(users), OURS: QueryPool(epsilon=EPSILON, delta=1e-7)}
        releases = {
            name: method.release(train, randomness=Randomness(seed=SEED + 10 * fold + place))
            for place, (name, method) in enumerate(methods.items())
        }
        runs = retrieval_runs(train, test, releases, (RetrievalWalk(), RetrievalFeedback()))
        return {
            "runs": runs,
            "queries": {name: each.table("queries").num_rows for name, each in releases.items()},
            "settings": {name: _settings(methods[name]) for name in (PAPER, SCALED)},
        }

    return work


def _settings(method: QueryPool) -> dict[str, Any]:
    """Words on a run for the page: noise, threshold, counted queries and clicks of a user, and the claim."""
    given = method.parameters()
    claimed = method.claimed()
    return {
        "b": method.noise, "K": method.threshold,
        "q_f": given.get("queries_per_user"), "c_f": given.get("clicks_per_user"),
        "claimed epsilon": None if claimed is None else round(claimed.numbers[0], 2),
    }  # fmt: skip


def table_3(bench: Workbench) -> Exhibit:
    """The log's figures beside AOL's."""
    figures = bench.step("table_3", lambda: profile(bench.log).to_json())
    ours = {
        "records": figures["rows_kept"], "users": figures["users"], "distinct queries": figures["distinct_queries"],
        "clicks": figures["clicks"], "clicks per user": round(figures["clicks"] / max(1, figures["users"]), 2),
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
    results: Sequence[Mapping[str, Any]], run: str, task: str, part: str, measure: str, reading: str
) -> float | None:
    values = [each["runs"][run][task][part][measure].get(reading) for each in results]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _table(
    bench: Workbench, name: str, title: str, printed: Mapping[str, Sequence[float]],
    results: Sequence[Mapping[str, Any]], task: str, part: str,
) -> Exhibit:  # fmt: skip
    rows = [{"log": f"{log}, printed", **dict(zip(MEASURES, values, strict=True))} for log, values in printed.items()]
    readings = (
        ("Original, its own cases", ORIGINAL, "answered"), ("Original, on the cases of the next row", PAPER, "common"),
        ("Anonymised as the paper", PAPER, "answered"), ("Anonymised as the paper, all cases", PAPER, "all"),
        ("Original, on the cases of the scaled run", SCALED, "common"),
        ("Scaled to this log's users", SCALED, "answered"), ("Scaled, all cases", SCALED, "all"),
        ("query-pool, ours, its own cases", OURS, "answered"), ("Original, on these", OURS, "common"),
    )  # fmt: skip
    for label, run, reading in readings:
        values = {shown: four(_mean(results, run, task, part, ours, reading)) for shown, ours in MEASURES.items()}
        rows.append({"log": label, **values})
    differences = [each["runs"][SCALED][task][part]["nDCG@10"] for each in results]
    return Exhibit(
        name, title, verdict_of(_findings(differences)),
        _statement(results, task, part), _WHY,
        ours=Grid.of(
            rows,
            f"printed: {name}, rows 1 and 2, on AOL; ours on {bench.words}, {_folds(results)}; {_run_words(results)}",
        ),
        charts=(_bars(rows, f"{title}: nDCG@10"),),
    )  # fmt: skip


def _findings(differences: Sequence[Mapping[str, Any]]) -> list[bool | None]:
    """True if the logs are equivalent in all folds; true if the paper's own test finds no difference in any."""
    return [all_of([judge(each) for each in differences]) for judge in (equivalent, insignificant)]


def _run_words(results: Sequence[Mapping[str, Any]]) -> str:
    """The settings of the two runs as published, for the page."""
    return "; ".join(
        f"{name}: " + ", ".join(f"{key} = {value}" for key, value in results[0]["settings"][name].items())
        for name in (PAPER, SCALED)
    )


_WHY = (
    "K = 500 is 0.08 % of AOL's users; in a smaller log it leaves next to nothing, which is our log's doing and not "
    "the paper's. So K and b are scaled to the log's users, and the verdict is about that run. 'No significant "
    f"difference' is judged by the paper's own test (p < {SIGNIFICANT}, two-tailed) and by two one-sided tests: the "
    f"interval of the difference must lie within {EQUAL_WITHIN}. A small difference may be significant all the same. "
    "The two printed rows are so near each other because both are averaged over queries that the anonymised log still "
    "has: with a high K these are the most frequent ones. Over all cases (unanswered ones count 0) the anonymised log "
    "is far behind. 'Not significant' is not 'equal': the interval of the difference says how much could be hidden. We "
    "test over users; the paper's five folds share training data. A case here is a test search with clicks, and what "
    "was clicked in it is relevant; the paper does not say what it took as relevant."
)


def _folds(results: Sequence[object]) -> str:
    return f"mean of {len(results)} of {FOLDS} folds" if len(results) < FOLDS else f"mean of {FOLDS} folds"


def _statement(results: Sequence[Mapping[str, Any]], task: str, part: str) -> str:
    original = number(_mean(results, ORIGINAL, task, part, "nDCG@10", "all"))
    runs = " ".join(_run_statement(results, run, task, part) for run in (SCALED, PAPER))
    return (
        f"The paper finds no significant difference. {runs} Over all test searches the original reaches {original}. "
        "Neither run is pure differential privacy as claimed: the filter of rare queries has no bounded sensitivity "
        "(methods/query_pool/query_pool.md)."
    )


def _run_statement(results_of_folds: Sequence[Mapping[str, Any]], run: str, task: str, part: str) -> str:
    given, label = results_of_folds[0]["settings"][run], "Scaled" if run == SCALED else "As published"
    results = [each["runs"][run][task][part]["nDCG@10"] for each in results_of_folds]
    known = [each for each in results if each.get("difference") is not None and each.get("low") is not None]
    first = f"{label} (K = {given['K']}, b = {given['b']:g}),"
    if not known:
        return f"{first} the anonymised log answers too few test searches to be compared."
    mean = fmean(each["difference"] for each in known)
    low, high = min(each["low"] for each in known), max(each["high"] for each in known)
    significant = sum(each.get("p_value") is not None and each["p_value"] < SIGNIFICANT for each in results)
    cases, answers = (sum(each[key] for each in results) for key in ("cases", "answers"))
    return (
        f"{first} the anonymised log answers {answers:,} of {cases:,} test searches; on these its nDCG@10 differs from "
        f"the original's by {mean:+.4f} (95 % intervals within {low:+.4f} to {high:+.4f}; p < {SIGNIFICANT} in "
        f"{significant} of {len(results)} folds), and over all it reaches "
        f"{number(_mean(results_of_folds, run, task, part, 'nDCG@10', 'all'))}."
    )


def _bars(rows: Sequence[Mapping[str, Any]], title: str) -> Chart:
    names = [row["log"] for row in rows]
    printed = [row["nDCG@10"] if "printed" in row["log"] else None for row in rows]
    ours = [None if "printed" in row["log"] else row["nDCG@10"] for row in rows]
    series = (Series.over("printed", names, printed, printed=True), Series.over("ours", names, ours))
    return Chart(title, "log", "nDCG@10", series, kind="bars")


def _table_5(bench: Workbench, results: Sequence[Mapping[str, Any]]) -> Exhibit:
    """Implicit feedback: the paper's reading is judged by the very click that it uses."""
    task = "retrieval-feedback"
    made = _table(bench, "Table 5", "Utilities with implicit feedback", TABLE_5, results, task, OWN)
    random, others = (_mean(results, SCALED, task, part, "nDCG@10", "answered") for part in (OWN_RANDOM, WHOLE))
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
    results = {b: bench.step(f"noise_{b}", _at_noise(bench, b, steps)) for b in steps}
    curves = {f"b = {b}": [results[b][str(k)][OWN] for k in steps] for b in steps}
    rows = []
    for b in steps:
        for k in steps:
            result = results[b][str(k)]
            values = {"nDCG@10, as the paper": four(result[OWN]), "nDCG@10, others' clicks": four(result[WHOLE])}
            rows.append(
                {
                    "b": b, "K": k, "b far below K": "yes" if FAR_BELOW * b <= k else "no",
                    "queries out": result["queries"], **values, "answered": result["answers"],
                }
            )  # fmt: skip
    falls, near, far = _shape(results, steps)
    flat = None if near is None or far is None else far < near
    words = {True: "holds", False: "does not hold", None: "cannot be told"}
    ranges = (
        f"the score's largest range over b at one K is {number(far)} where b is at most K/{FAR_BELOW}, and "
        f"{number(near)} elsewhere"
    )
    if far is None:
        ranges = f"no K here has two values of b that are at most K/{FAR_BELOW}"
    return Exhibit(
        "Figure 1", "Noise b, threshold K and nDCG@10", verdict_of([falls, flat]),
        "The paper finds that the score falls as b grows, and that b matters less where it is much smaller than K. The "
        f"first {words[falls]} here, from b = {steps[0]} to b = {steps[-1]} at the smallest K. The second "
        f"{words[flat]}: {ranges}.",
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
        runs = retrieval_runs(train, test, releases, (RetrievalFeedback(),))
        results: dict[str, Any] = {}
        for name, release in releases.items():
            parts = runs[name]["retrieval-feedback"]
            results[name] = {part: parts[part]["nDCG@10"]["answered"] for part in (OWN, WHOLE)}
            results[name] |= {
                "queries": release.table("queries").num_rows,
                "answers": parts[WHOLE]["nDCG@10"]["answers"],
            }
        return results

    return work


def _shape(results: Mapping[int, Any], steps: Sequence[int]) -> tuple[bool | None, float | None, float | None]:
    """True if the score falls with b at the smallest K; its largest ranges over b at one K: near K, and far below.

    None where fewer than 50 searches are answered at both ends, or where fewer than two points have a score.
    """
    first, last = (results[b][str(steps[0])] for b in (steps[0], steps[-1]))
    enough = min(first["answers"], last["answers"]) >= LEAST_HITS
    falls = last[OWN] < first[OWN] if enough and None not in (first[OWN], last[OWN]) else None

    def widest(*, far: bool) -> float | None:
        columns = (
            [
                results[b][str(k)][OWN]
                for b in steps
                if (FAR_BELOW * b <= k) is far and results[b][str(k)][OWN] is not None
            ]
            for k in steps
        )
        return max((max(column) - min(column) for column in columns if len(column) > 1), default=None)

    return falls, widest(far=False), widest(far=True)


def illustrations(bench: Workbench) -> list[Exhibit]:
    """Tables 1 and 2 measure nothing; of 2, which shows output, we show ours."""
    sample = Exhibit(
        "Table 1", "A sample of the AOL query log", "not comparable",
        "Four rows of AOL's log. Nothing is measured, and we print no rows of a person.",
    )  # fmt: skip
    if not bench.synthetic:
        return [sample]
    examples = bench.step("examples", lambda: _examples(bench))
    return [sample, Exhibit(
        "Table 2", "Samples of the anonymised log", "not comparable",
        "An example of output, nothing measured. Ours has the same three parts: queries, clicks, transitions.",
        ours=Grid.of(examples, f"rows of our query-pool at (29.99, 1e-7), on {bench.words}"),
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
