"""`python -m bench.european_rules`: the EU's rules for search data beside releases with a guarantee, on one log.

What each keeps (queries, searches), what it is good for (tasks of `evaluate`) and what it leaks (attacks of `audit
release`), then how each assumed number of a rule matters. The log is synthetic, in the rules' schema: results shown and
clicked, country and device. `--log` takes a log of your own, such as AOL's (with `--attributes ''`: it has none).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import pyarrow as pa

import querycloak as qc
from bench.query_bands import BANDS, banded
from querycloak.audits.attack import Finding
from querycloak.audits.attack_registry import attacks_named
from querycloak.audits.knowledge import AuditData
from querycloak.audits.log_baselines import owners_under_seed
from querycloak.evaluation.subjects import QUERIES, table_of
from querycloak.evaluation.target import Target, rows_of_records
from querycloak.evaluation.task import Task
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.eu_records.count import session_records
from querycloak.methods.method import Method
from querycloak.methods.registry import METHODS
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import whole_table

DELTA, SEED = 1e-6, 1
TARGETS = 3_000
EPSILONS = (8.0, 3.0, 1.0)
BARE: dict[str, Any] = {
    "min_term_users": 1,
    "max_words": 1_000,
    "max_digits": 1_000,
    "min_group_users": 1,
    "latency_days": 0,
}
USEFUL = {
    "completion": ("completion", "Success@10"),
    "language": ("language", "expressible"),
    "suggestion": ("suggestion", "R@5"),
    "ranking": ("ranking", "tau-b"),
    "click model": ("click-model", "perplexity"),
}
"""Figures of use: task and measure; of a click model less is better."""
LEAKED = {
    "known visit": ("known-visit", "m=2 right"),
    "known visit, attributes": ("known-visit", "m=2 and attributes right"),
    "sessions linked": ("linkage-sessions", "50 users, recall 0.5"),
    "disease inferred": ("inference", "m=5 disease"),
    "secrets": ("secrets", "all kinds"),
    "regurgitated": ("regurgitation", "completed, all kinds"),
}
"""Figures of harm: attack and setting; the risk, 0 for no gain over public knowledge."""
SENSITIVE: Sequence[tuple[str, str, Sequence[Any]]] = (
    ("dma-2026", "min_term_users", (2, 10, 50, 200, 1_000)),
    ("dma-2026", "min_group_users", (100, 1_000, 5_000, 29_000)),
    ("dma-2026", "mini_session", (1, 2, 5, 10)),
    ("ddg-2026", "min_term_users", (1, 2, 5, 50)),
    ("dma-2026", "max_words", (3, 10, 20)),
    ("dma-2026", "max_digits", (0, 8, 20)),
    ("dma-2026", "times", ("day", "week", "month")),
    ("dma-2026", "gap_minutes", (5, 30, 120)),
    ("ddg-2026", "linked", ("visit", "day", "user")),
)
"""Rule, assumed (or, group size, quoted) number, and the values that are tried."""
_ALWAYS = ("known visit", "secrets")
VARIED = {option: _ALWAYS for _, option, _ in SENSITIVE} | {
    "min_term_users": (*_ALWAYS, "sessions linked"),
    "min_group_users": (*_ALWAYS, "known visit, attributes"),
    "mini_session": (*_ALWAYS, "sessions linked"),
}
"""Figures of harm that are measured while a number varies."""
_OF_THE_RULE = tuple(dict.fromkeys(figure for figures in VARIED.values() for figure in figures))
OWN_USERS = (0, 30, 300, 3_000)
RECIPIENTS = ("dma-2024", "dma-2026", "dma-2026, scaled", "ddg-2026", "queries, epsilon 3", "queries, epsilon 8")
"""Releases that a recipient adds to a log of their own."""
COLUMNS = ("part", "release", "figure", "value", "low", "high")
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of a split, and where the truth is, if anybody knows it."""

    train: SearchLog
    test: SearchLog
    truth: Path | None

    @cached_property
    def query_counts(self) -> ir.Table:
        """Number of searches of each query of TRAIN."""
        log = self.train
        return log.engine.stage(log.searches.group_by("query").agg(n=log.searches.count()))


def study_releases(attributes: Sequence[str], scaled: Mapping[str, int]) -> Iterator[tuple[str, Method]]:
    """Every release of the study by its name; scaled: thresholds as the same share of this log's users."""
    by = ",".join(attributes) or None
    yield "dma-2024", qc.KAnonymity(preset="dma-2024", by=by) if by else qc.KAnonymity(preset="dma")
    yield "dma-2026", qc.EuRecords(preset="dma-2026", by=by)
    yield (
        "dma-2026, scaled",
        qc.EuRecords(
            preset="dma-2026", by=by, min_term_users=scaled["min_term_users"], min_group_users=scaled["min_group_users"]
        ),
    )
    yield "ddg-2026", qc.EuRecords(preset="ddg-2026", by=by)
    yield "bare records", qc.EuRecords(preset="dma-2026", by=by, **BARE)
    for epsilon in EPSILONS:
        yield f"queries, epsilon {epsilon:g}", qc.Queries(epsilon=epsilon, delta=DELTA, by=by)
        yield f"clicks, epsilon {epsilon:g}", qc.Clicks(epsilon=epsilon, delta=DELTA, by=by)
        yield f"phrases, epsilon {epsilon:g}", qc.Phrases(epsilon=epsilon, delta=DELTA, queries=True)
        yield f"synthetic, epsilon {epsilon:g}", qc.Synthetic(epsilon=epsilon, delta=DELTA)


def scaled_numbers(users: int, population: int) -> dict[str, int]:
    """Thresholds of dma-2026 as the same share of `users` as they are of a population; 2 at least."""
    rule = qc.EuRecords(preset="dma-2026").numbers
    return {name: max(2, round(rule[name] * users / population)) for name in ("min_term_users", "min_group_users")}


def made(name: str, method: Method, log: SearchLog) -> Target:
    """A release with a known seed, and whose rows are whose; nothing is published."""
    if isinstance(method, qc.EuRecords):
        return records_made(name, method, log)
    release = method.release(log, randomness=Randomness(SEED))
    return Target.of(release, name, owners=owners_under_seed(release, log, SEED))


def records_made(name: str, method: qc.EuRecords, log: SearchLog) -> Target:
    """The same for records, which are counted once for rows and owners."""
    records = session_records(log, method.attributes or log.attributes, method.numbers)
    table = whole_table("log", records.named(log, Randomness(SEED)))
    return Target(
        name=name,
        tables={"log": rows_of_records(table)},
        cells={"log": table},
        rows=RowKind.RECORDS,
        method=method.name,
        parameters=method.parameters(),
        owners=records.owners(log, Randomness(SEED)),
    )


def kept(sides: Sides, release: Target) -> Iterator[Row]:
    """Shares of all different queries, and of all searches, that stand in a release word for word."""
    log, searches = sides.train, sides.query_counts
    texts = pa.chunked_array([part.unique() for part in release.texts()], pa.string()).unique()
    out = searches.semi_join(log.engine.upload(pa.table({"query": texts})), "query")
    numbers = [
        log.engine.fetch(each.agg(queries=each.count(), searches=each.n.sum())).to_pylist()[0]
        for each in (out, searches)
    ]
    for figure, name in (("distinct queries", "queries"), ("searches", "searches")):
        share = (numbers[0][name] or 0) / numbers[1][name]
        yield {"part": "kept", "release": release.name, "figure": figure, "value": share}


def useful(sides: Sides, releases: Sequence[Target]) -> Iterator[Row]:
    """Figures of the tasks, of the log itself and of no data, too; then by band of queries."""
    tasks = banded([task for task, _ in USEFUL.values()])
    rows = evaluated(sides, releases, tasks)
    for part, bands in (("useful", (None,)), ("bands", BANDS)):
        for figure, (task, measure) in USEFUL.items():
            for band in bands:
                for row in rows:
                    if (row["task"], row["measure"], row["slice"]) == (task, measure, band):
                        label = figure if band is None else f"{figure}, {band}"
                        yield {"part": part, "figure": label, **{name: row[name] for name in _SHOWN}}


_SHOWN = ("release", "value", "low", "high")


def evaluated(sides: Sides, releases: Sequence[Target], tasks: Sequence[str | Task]) -> list[Row]:
    """Figures over all cases, and over all of a slice."""
    rows = qc.evaluate(sides.train, sides.test, releases, tasks).table.to_pylist()
    return [row for row in rows if row["reading"] == "all"]


def leaked(release: Target, knowledge: AuditData, figures: Sequence[str]) -> Iterator[Row]:
    """Risks by the attacks; an attack ends with the last setting that is asked for."""
    for attack in dict.fromkeys(LEAKED[figure][0] for figure in figures):
        wanted = {LEAKED[figure][1]: figure for figure in figures if LEAKED[figure][0] == attack}
        for finding in _findings(attack, release, knowledge):
            if finding.setting in wanted:
                values = {"value": finding.risk, "low": finding.low, "high": finding.high}
                yield {"part": "leaked", "release": release.name, "figure": wanted.pop(finding.setting), **values}
            if not wanted:
                break


def _findings(name: str, release: Target, knowledge: AuditData) -> Iterator[Finding]:
    """Findings of an attack; none on a release that it does not apply to."""
    attack = attacks_named([name])[0]
    if attack.unsupported_reason(release, knowledge) is None:
        yield from attack.run(release, knowledge)


def sensitivity(sides: Sides, knowledge: AuditData, attributes: Sequence[str]) -> Iterator[Row]:
    """What one number of a rule changes, the others as the rule has them."""
    by = ",".join(attributes) or None
    done: dict[str, list[Row]] = {}
    for preset, option, values in SENSITIVE:
        for value in values:
            method = METHODS["eu-records"](**{"preset": preset, "by": by, option: value})
            key = repr({**method.parameters(), "preset": "", "quoted": "", "assumed": "", "chosen": ""})
            if key not in done:
                release = made("release", method, sides.train)
                figures = VARIED[option] if method.parameters()["chosen"] else _OF_THE_RULE
                done[key] = [*kept(sides, release), *leaked(release, knowledge, figures)]
            name = f"{preset}, {option} {value}"
            yield from ({**row, "part": "sensitivity", "release": name} for row in done[key])


def recipients(sides: Sides, releases: Sequence[Target]) -> Iterator[Row]:
    """Completion by somebody who has a log of some users, alone and with a release."""
    log = sides.train
    users = log.engine.fetch(log.rows.select("user").distinct().order_by("user"))["user"]
    mixed: list[Target] = []
    for number in (each for each in OWN_USERS if each <= len(users)):
        chosen = log.engine.upload(pa.table({"user": users.slice(0, number)}))
        searches = log.searches.semi_join(chosen, "user")
        own = log.engine.fetch(searches.group_by("query").agg(count=searches.count()))
        for release in (None, *releases):
            parts = [own] if release is None else [own, table_of(release, QUERIES).select(["query", "count"])]
            whole = pa.concat_tables(
                [part.cast(pa.schema([("query", pa.string()), ("count", pa.int64())])) for part in parts]
            )
            summed = whole.group_by("query").aggregate([("count", "sum")]).rename_columns(["query", "count"])
            if summed.num_rows:
                mixed.append(
                    Target(
                        name=f"{number} users and {release.name if release else 'nothing'}", tables={"queries": summed}
                    )
                )
    names = {each.name for each in mixed}
    for row in evaluated(sides, mixed, ["completion"]):
        if (row["measure"], row["slice"]) == ("Success@10", None) and row["release"] in names:
            yield {"part": "recipient", "figure": "completion", **{name: row[name] for name in _SHOWN}}


def study(
    sides: Sides,
    attributes: Sequence[str],
    population: int,
    parts: Sequence[str],
    only: Sequence[str] = ("",),
    figures: Sequence[str] = tuple(LEAKED),
    targets: int = TARGETS,
) -> Iterator[Row]:
    """The rows of all parts asked for; only: how names of releases begin; targets: people who are attacked, at most."""
    sides.train.stage()
    knowledge = AuditData(sides.train, sides.test, truth=sides.truth, targets=targets)
    users = len(knowledge.train_users)
    yield {"part": "log", "release": "train", "figure": "users", "value": users}
    releases = []
    for name, method in study_releases(attributes, scaled_numbers(users, population)):
        if not name.startswith(tuple(only)) or not {"kept", "useful", "leaked", "recipient"} & set(parts):
            continue
        release = made(name, method, sides.train)
        releases.append(release)
        yield from kept(sides, release) if "kept" in parts else ()
        yield from leaked(release, knowledge, figures) if "leaked" in parts else ()
    yield from useful(sides, releases) if "useful" in parts else ()
    few = [each for each in releases if each.name in RECIPIENTS]
    yield from recipients(sides, few) if "recipient" in parts else ()
    yield from sensitivity(sides, knowledge, attributes) if "sensitivity" in parts else ()


def opened(folder: Path, log: Path | None, users: int, *, views: bool) -> tuple[Path, Path | None]:
    """A folder with both sides of a split, and the truth."""
    source, truth = log, None
    if source is None:
        source, truth = folder / "log.parquet", folder / "log.parquet.truth"
        qc.synthesize(source, users, seed=SEED, views=views, attributes=("country", "device"))
    with qc.read(source, all_columns=True) as whole:
        qc.split(whole, folder / "split", by="user")
    return folder / "split", truth


def main() -> None:
    """Release by every rule, evaluate, attack, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.european_rules", description=__doc__)
    parser.add_argument("--users", type=int, default=20_000, help="users of the synthetic log")
    parser.add_argument(
        "--clicks-only", action="store_true", help="synthetic log without results that nobody clicked: far fewer rows"
    )
    parser.add_argument("--log", type=Path, help="a log of your own, in place of the synthetic one")
    parser.add_argument("--attributes", default="country,device", help="its attributes, with commas; empty for none")
    parser.add_argument("--split", type=Path, help="a folder of `querycloak split`, in place of a log")
    parser.add_argument("--truth", type=Path, help="with it, the truth of its log")
    parser.add_argument(
        "--population", type=int, default=300_000_000, help="users of the rule's search engine (assumed)"
    )
    parser.add_argument("--parts", default="kept,useful,leaked,recipient,sensitivity")
    parser.add_argument("--only", default="", help="releases whose names begin with one of these, with semicolons")
    parser.add_argument("--figures", default=";".join(LEAKED), help="figures of harm, with semicolons")
    parser.add_argument("--targets", type=int, default=TARGETS, help="people of each side who are attacked, at most")
    parser.add_argument("--threads", type=int, help="threads of the engine; all cores if not given")
    parser.add_argument("--csv", type=Path, help="where the figures are kept, such as docs/tables/european-rules.csv")
    given = parser.parse_args()
    attributes = [each for each in given.attributes.split(",") if each]
    with tempfile.TemporaryDirectory() as place:
        split, truth = given.split, given.truth
        if split is None:
            split, truth = opened(Path(place), given.log, given.users, views=not given.clicks_only)
        engine = qc.connect("duckdb", threads=given.threads)
        sides = [qc.read(split / f"{side}.parquet", attributes=attributes, engine=engine) for side in ("train", "test")]
        parts, only = given.parts.split(","), given.only.split(";")
        both = Sides(sides[0], sides[1], truth)
        figures = given.figures.split(";")
        write(study(both, attributes, given.population, parts, only, figures, given.targets), given.csv)
        engine.close()


def write(rows: Iterator[Row], path: Path | None) -> None:
    """Print rows as they come; keep them in a file."""
    with contextlib.ExitStack() as stack:
        targets = [sys.stdout, *([] if path is None else [stack.enter_context(path.open("w", newline=""))])]
        writers = [csv.DictWriter(target, COLUMNS, lineterminator="\n") for target in targets]
        for writer in writers:
            writer.writeheader()
        for row in rows:
            values = {
                name: f"{row[name]:.6g}" if isinstance(row.get(name), float) else row.get(name) for name in COLUMNS
            }
            for writer, target in zip(writers, targets, strict=True):
                writer.writerow(values)
                target.flush()


if __name__ == "__main__":
    main()
