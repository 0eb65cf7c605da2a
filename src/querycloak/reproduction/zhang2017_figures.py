"""Zhang and Yang (ICTIR 2017), Figures 1 and 2: runs over the threshold K, and how each does at query suggestion."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from querycloak.evaluation.aggregations import RowLabel, rows_of
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.graphs import Graphs
from querycloak.evaluation.numbered_logs import GAP_MINUTES, Steps
from querycloak.evaluation.rank_measures import RANK_MEASURES, scores
from querycloak.evaluation.similar_queries import click_index, followers, suggested
from querycloak.evaluation.subjects import Original
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import ORIGINAL, CaseScores, Logs, Subject
from querycloak.evaluation.tasks.suggestion import MOST, KnownPrefixes, PreparedSuggestion, Suggestion
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.split import Split
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release
from querycloak.reproduction.exhibit import LEAST_HITS, Chart, Exhibit, Grid, Measured, Series, all_of, four, verdict_of
from querycloak.reproduction.workbench import Workbench

_NAMES = ("P@5", "R@5")
_MICROSECONDS = 60_000_000


@dataclass(frozen=True)
class LiteralSuggestion(Suggestion):
    """Query suggestion as the paper writes it: every search is a step, and what follows may be the same query.

    Section 5.2 leaves neither out. People ask a query again when they turn a page or come back, so the query itself is
    then the best suggestion. The task `suggestion` leaves both out: suggesting what was just typed helps nobody.
    """

    def prepare(self, logs: Logs) -> LiterallyPrepared:
        """The prefixes of all sessions of TEST with two searches or more."""
        return LiterallyPrepared(self, logs.graphs)


class LiterallyPrepared(PreparedSuggestion):
    """The task for one TEST."""

    def __init__(self, task: Suggestion, graphs: Graphs) -> None:
        self._task, self._graphs = task, graphs
        self._cases = literal_prefixes(every_step(graphs), graphs.logs.queries)
        self._asked, self._which = np.unique(self._cases.query, return_inverse=True)

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """Five suggestions, the query itself first if it has clicks: its cosine with itself is 1."""
        logs, clicks = self._graphs.logs, self._graphs.clicks(subject)
        index, follow = click_index(clicks, logs.urls, None), followers(self._graphs.later(subject))
        lists = suggested(self._asked, index, follow, self._task.cosine_share, MOST, logs.engine.threads)
        clicked = np.diff(clicks.starts)[self._asked] > 0
        lists = np.where(clicked[:, None], np.column_stack([self._asked, lists[:, : MOST - 1]]), lists)
        shown = lists[self._which].astype(np.int32)
        for name, values in scores(_NAMES, self._cases.hits(shown)).items():
            values[shown[:, 0] < 0] = np.nan
            yield CaseScores(RANK_MEASURES[name], values, self._cases.user, units=self._cases.session)


def every_step(graphs: Graphs) -> Steps:
    """All searches of TEST, repeats too; a session begins with a user, or after a gap."""
    rows = graphs.logs.test.rows.select("user", "time", "query").distinct()
    table = graphs.logs.engine.fetch(rows.order_by(["user", "time", "query"]))
    user, query = (table[name].to_numpy() for name in ("user", "query"))
    time = table["time"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    begins = np.ones(len(user), np.bool_)
    begins[1:] = (user[1:] != user[:-1]) | (np.diff(time) > GAP_MINUTES * _MICROSECONDS)
    return Steps(user, query, begins)


def literal_prefixes(steps: Steps, queries: int) -> KnownPrefixes:
    """All proper prefixes; true are the later queries of the session, the same one among them."""
    cases = KnownPrefixes.of(steps, queries)
    at = np.searchsorted(cases.keys, cases.session * queries + cases.query)
    again = cases.last[at] > cases.place if len(at) else np.zeros(0, np.bool_)
    return replace(cases, true=cases.true + again)


CROSSING, EVALUATED = 5_500, 18_475
"""Section 5.4: up to about as many of all evaluated sessions, runs with differential privacy do better than KA."""
THRESHOLDS, FEW_THRESHOLDS = (5, 10, 15, 20, 30, 40, 50, 60, 80, 100), (5, 10, 20, 40, 80)
SEED = 2017


def suggestion_runs(
    train: SearchLog,
    test: SearchLog,
    releases: Mapping[str, Release],
    *,
    original: bool = True,
    literal: bool = False,
) -> dict[str, dict[str, Any]]:
    """By release: sessions answered, precision and recall on these and on all, and the original's on the same.

    Without the original nothing is compared, which is faster. literal: repeats are kept, the query itself is allowed.
    """
    subjects: list[Subject] = [Original(train)] if original else []
    subjects += [Target.of(release, name) for name, release in releases.items()]
    logs = Logs(train, test, tuple(subjects))
    task = (LiteralSuggestion if literal else Suggestion)().prepare(logs)
    runs: dict[str, dict[str, Any]] = {}
    first = None
    for subject in subjects:
        scores = list(task.scores(subject))
        first = scores if first is None and original else first
        rows = list(rows_of(RowLabel(subject.name, None, "suggestion"), scores, first or scores, logs.test_users))
        runs["Original" if subject.name == ORIGINAL else subject.name] = _result(rows) | _hits(scores)
    return runs


def _result(rows: list[Row]) -> dict[str, Any]:
    whole = {(row.measure, row.reading): row for row in rows if row.slice is None}
    result: dict[str, Any] = {}
    for measure in ("P@5", "R@5"):
        answered, everything, common = (whole[measure, reading] for reading in ("answered", "all", "common"))
        result[measure] = {
            "answered": answered.value, "low": answered.low, "high": answered.high, "all": everything.value,
            "original": common.value, "p_value": common.p_value,
        }  # fmt: skip
        result["sessions"], result["of"] = answered.answered, answered.cases
    return result


def _hits(scores: Sequence[Any]) -> dict[str, int]:
    """The number of suggestions that were asked later, and of prefixes that were answered."""
    precision = next(each for each in scores if isinstance(each, CaseScores) and each.measure.name == "P@5")
    answered = precision.scores[~np.isnan(precision.scores)]
    return {"hits": round(float(answered.sum()) * MOST), "prefixes": answered.size}


def measured(run: Mapping[str, Any], measure: str) -> Measured:
    """A run's mean over what it answers, with its interval and hits."""
    mean = run[measure]
    return Measured(mean["answered"], mean["low"], mean["high"], run["hits"])


def paper_runs(threshold: int) -> dict[str, Method]:
    """KA(K), DP_C and DP_S as the paper runs them: l = 4, l_s = 1, l_q = 3, b = 1."""
    return {
        "KA": KAnonymity(min_users=threshold + 1, keys="clicks"),
        "DP_C": Clicks(noise=1.0, threshold=threshold, max_keys_per_user=4, variant="paper"),
        "DP_S": Sessions(noise=1.0, threshold=threshold, max_keys_per_user=4, variant="paper"),
    }


def released(train: SearchLog, runs: Mapping[str, Method]) -> dict[str, Release]:
    """Every run's release of TRAIN, each by a seed of its own."""
    return {
        name: method.release(train, randomness=Randomness(seed=SEED + place))
        for place, (name, method) in enumerate(runs.items())
    }


def figures(bench: Workbench) -> list[Exhibit]:
    """Figures 1 and 2: everything over the threshold K."""
    thresholds = FEW_THRESHOLDS if bench.quick else THRESHOLDS
    points = {threshold: bench.step(f"threshold_{threshold}", _at(bench, threshold)) for threshold in thresholds}
    return [_figure_1(bench, points), _figure_2(bench, points)]


def _at(bench: Workbench, threshold: int) -> Any:
    def work() -> dict[str, Any]:
        train, test = bench.sides(Split(by="user"))
        releases = released(train, paper_runs(threshold))
        tables = {"KA": "clicks", "DP_C": "clicks", "DP_S": "sessions"}
        rows = {name: releases[name].table(table).num_rows for name, table in tables.items()}
        return {"rows": rows, "runs": suggestion_runs(train, test, releases, original=False)}

    return work


def _figure_1(bench: Workbench, points: Mapping[int, Any]) -> Exhibit:
    ks = list(points)
    names = {"KA": "KA: click tuples", "DP_C": "DP_C: click tuples", "DP_S": "DP_S: sessions"}
    curves = {name: [points[k]["rows"][name] for k in ks] for name in names}
    falls = [all(a >= b for a, b in itertools.pairwise(curve)) for curve in curves.values()]
    rows = [{"K": k, **{names[name]: points[k]["rows"][name] for name in names}} for k in ks]
    return Exhibit(
        "Figure 1", "Data lost: distinct click tuples and sessions over the threshold K", verdict_of(falls),
        "The paper's finding, that what comes out falls steeply with K in all three, "
        + ("holds" if all(falls) else "holds in part")
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
            run = points[k]["runs"][name]
            precision, recall = (four(run[measure]["answered"]) for measure in ("P@5", "R@5"))
            rows.append(
                {
                    "K": k, "run": name, "sessions released": points[k]["rows"]["DP_S"] if name == "DP_S" else None,
                    "sessions evaluated": run["sessions"], "hits": run["hits"], "prefixes": run["prefixes"],
                    "P@5": precision, "R@5": recall,
                }
            )  # fmt: skip
    more_with_ka = all(points[k]["runs"]["KA"]["sessions"] >= points[k]["runs"]["DP_S"]["sessions"] for k in ks)
    empty = [k for k in ks if points[k]["rows"]["DP_S"] == 0]
    return Exhibit(
        "Figure 2", "Query suggestion: utility against the number of evaluated sessions",
        verdict_of([more_with_ka, _crossing(points, ks)]),
        _statement_2(points, ks, empty, more_with_ka=more_with_ka),
        f"The paper prints one number of these drawings: the curves cross at around {CROSSING:,} of {EVALUATED:,} "
        "sessions (Section 5.4). Here runs that evaluate up to that share of all test sessions are compared, and those "
        f"beyond it. A comparison with fewer than {LEAST_HITS} hits on either side, or in which an interval contains "
        "the other value, tells nothing.",
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


def _compared(points: Mapping[int, Any], ks: Sequence[int]) -> list[tuple[float, bool | None]]:
    """By DP_S run: the share of sessions it evaluates, and True if KA with about as many sessions is below it."""
    runs = {name: [points[k]["runs"][name] for k in ks] for name in ("KA", "DP_S")}
    compared = []
    for run in runs["DP_S"]:
        near = [each for each in runs["KA"] if each["sessions"] and 0.5 <= run["sessions"] / each["sessions"] <= 2]
        if run["sessions"] and near:
            closest = min(near, key=lambda each: abs(each["sessions"] - run["sessions"]))
            below = measured(closest, "P@5").below(measured(run, "P@5"))
            compared.append((run["sessions"] / run["of"], below))
    return compared


def _crossing(points: Mapping[int, Any], ks: Sequence[int]) -> bool | None:
    """True if DP_S is ahead up to the paper's share of sessions, and KA beyond it; None if either cannot be told."""
    compared = _compared(points, ks)
    few = [ahead for share, ahead in compared if share <= CROSSING / EVALUATED]
    many = [None if ahead is None else not ahead for share, ahead in compared if share > CROSSING / EVALUATED]
    return all_of([all_of(few) if few else None, all_of(many) if many else None])


def _statement_2(points: Mapping[int, Any], ks: Sequence[int], empty: Sequence[int], *, more_with_ka: bool) -> str:
    first = (
        "As in the paper, at the same K more sessions are evaluated with KA than with DP_S, so that a DP run needs a "
        "much smaller K for as many sessions."
        if more_with_ka
        else "Unlike in the paper, KA does not evaluate more sessions than DP_S at every K."
    )
    compared = [ahead for _, ahead in _compared(points, ks)]
    hits = [points[k]["runs"][name]["hits"] for k in ks for name in ("KA", "DP_S")]
    ahead, behind = compared.count(True), compared.count(False)
    second = (
        " The paper finds DP runs more precise than KA runs that answer as many sessions, up to a crossing, and less "
        f"precise beyond it. Of {len(compared)} comparisons of runs with about as many sessions DP_S is ahead in "
        f"{ahead} and behind in {behind}; {len(compared) - ahead - behind} cannot tell. Runs have {min(hits)} to "
        f"{max(hits)} hits."
    )
    if not empty:
        return first + second
    which = ", ".join(map(str, empty))
    return f"{first}{second} At K = {which} DP_S releases no session: its row is DP_C, drawn anew."
