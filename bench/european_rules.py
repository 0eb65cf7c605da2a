"""`python -m bench.european_rules`: the EU's rules for search data beside releases with a guarantee, on one log.

What each keeps (queries, searches), what it is good for (tasks of `evaluate`) and what it leaks (attacks of `audit
release`), then how each assumed number of a rule matters. The log is synthetic, in the rules' schema: results shown and
clicked, country and device. `--log` takes a log of your own, such as AOL's; it says what that log lacks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

import querycloak as qc
from bench.figure_file import FigureFile, Row
from bench.query_bands import judged_in_bands
from bench.study_logs import ATTRIBUTES, SEED, Sides, sides_of, split_of, whole_log
from querycloak.audits.attack import Finding, attacks_named
from querycloak.audits.audit_data import AuditData
from querycloak.audits.release_audit import owners_under_seed
from querycloak.engines import Engine
from querycloak.errors import QuerycloakError
from querycloak.evaluation.subjects import QUERIES, NoData, Original, table_of
from querycloak.evaluation.target import Target, rows_of_records
from querycloak.evaluation.task import Logs, Subject
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.eu_records.count import session_records
from querycloak.methods.method import Method
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import whole_table

DELTA = 1e-6
TARGETS, JUDGES = 2_000, 2_000
POPULATION = 300_000_000
PARTS = ("kept", "leaked", "useful", "recipient", "sensitivity")
KEPT = ("distinct queries", "searches")
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
OWN_USERS = (0, 30, 300, 3_000)
RECIPIENTS = ("dma-2024", "dma-2026", "dma-2026, scaled", "ddg-2026", "queries, epsilon 3", "queries, epsilon 8")
"""Releases that a recipient adds to a log of their own."""


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
    for figure, name in zip(KEPT, ("queries", "searches"), strict=True):
        share = (numbers[0][name] or 0) / numbers[1][name]
        yield {"part": "kept", "release": release.name, "figure": figure, "value": share}


def useful(sides: Sides, subjects: Sequence[Subject], figures: Sequence[str]) -> Iterator[Row]:
    """Figures of the tasks by the users who judge, over all queries and by band; empty where a task does not apply."""
    logs = Logs(sides.train, sides.judges, tuple(subjects))
    for figure in figures:
        for subject, scored in judged_in_bands(logs, *USEFUL[figure]):
            for band, (value, low, high) in scored.items():
                part, label = ("useful", figure) if band is None else ("bands", f"{figure}, {band}")
                yield {"part": part, "release": subject, "figure": label, "value": value, "low": low, "high": high}


def leaked(release: Target, knowledge: AuditData, figures: Sequence[str]) -> Iterator[Row]:
    """Risks by the attacks, empty where one does not apply; an attack ends with the last setting that is asked for."""
    for attack in dict.fromkeys(LEAKED[figure][0] for figure in figures):
        wanted = {LEAKED[figure][1]: figure for figure in figures if LEAKED[figure][0] == attack}
        for finding in _findings(attack, release, knowledge):
            if finding.setting in wanted:
                values = {"value": finding.risk, "low": finding.low, "high": finding.high}
                yield {"part": "leaked", "release": release.name, "figure": wanted.pop(finding.setting), **values}
            if not wanted:
                break
        for figure in wanted.values():
            yield {"part": "leaked", "release": release.name, "figure": figure, "value": None}


def _findings(name: str, release: Target, knowledge: AuditData) -> Iterator[Finding]:
    """Findings of an attack; none on a release that it does not apply to."""
    attack = attacks_named([name])[0]
    if attack.unsupported_reason(release, knowledge) is None:
        yield from attack.run(release, knowledge)


def variants(by: str | None) -> Iterator[tuple[str, qc.EuRecords, Sequence[str]]]:
    """Name, rule with one number changed, and figures of harm to measure."""
    for preset, option, values in SENSITIVE:
        for value in values:
            method = qc.EuRecords(**{"preset": preset, "by": by, option: value})
            yield f"{preset}, {option} {value}", method, VARIED[option]


def recipients(sides: Sides, release: Target | None) -> Iterator[Row]:
    """Completion by somebody who has a log of some users, alone (without a release) or with a release."""
    log = sides.train
    users = log.engine.fetch(log.rows.select("user").distinct().order_by("user"))["user"]
    added = [] if release is None else [table_of(release, QUERIES).select(["query", "count"])]
    mixed: list[Target] = []
    for number in (each for each in OWN_USERS if each <= len(users)):
        searches = log.searches.semi_join(log.engine.upload(pa.table({"user": users.slice(0, number)})), "user")
        own = log.engine.fetch(searches.group_by("query").agg(count=searches.count()))
        whole = pa.concat_tables([part.cast(_COUNTED) for part in (own, *added)])
        summed = whole.group_by("query").aggregate([("count", "sum")]).rename_columns(["query", "count"])
        name = f"{number} users and {release.name if release else NOTHING}"
        mixed += [Target(name=name, tables={"queries": summed})] if summed.num_rows else []
    for row in useful(sides, mixed, ["completion"]):
        if row["part"] == "useful":
            yield {**row, "part": "recipient"}


_COUNTED = pa.schema([("query", pa.string()), ("count", pa.int64())])
NOTHING = "nothing"


@dataclass(frozen=True)
class Study:
    """Releases and figures asked for; what the file of figures has already is not measured again.

    only: beginnings of names of releases. targets: people who are attacked, at most.
    """

    sides: Sides
    attributes: Sequence[str]
    figures: FigureFile
    parts: Sequence[str] = PARTS
    only: Sequence[str] = ("",)
    harms: Sequence[str] = tuple(LEAKED)
    uses: Sequence[str] = tuple(USEFUL)
    targets: int = TARGETS
    population: int = POPULATION

    def run(self) -> None:
        """Measure one release after the other."""
        self.sides.train.stage()
        self.figures.add(self.sides.sizes())
        users = int(self.figures.value("log", "train", "users"))
        for name, method in study_releases(self.attributes, scaled_numbers(users, self.population)):
            if name.startswith(tuple(self.only)):
                self._release(name, method, self.parts, self.harms)
        if "useful" in self.parts:
            for baseline in (Original(self.sides.train), NoData(self.sides.train)):
                if baseline.name.startswith(tuple(self.only)):
                    lacking = self.figures.lacking("useful", baseline.name, self.uses)
                    self.figures.add(useful(self.sides, [baseline], lacking))
        if "recipient" in self.parts and NOTHING.startswith(tuple(self.only)) and self._recipient_lacks(NOTHING):
            self.figures.add(recipients(self.sides, None))
        if "sensitivity" in self.parts:
            self._vary()

    @cached_property
    def knowledge(self) -> AuditData:
        """Data of the attacks."""
        return AuditData(self.sides.train, self.sides.test, truth=self.sides.truth, targets=self.targets)

    def _release(self, name: str, method: Method, parts: Sequence[str], harms: Sequence[str]) -> None:
        """Every figure of one release that is asked for and lacking."""
        kept_ones = self.figures.lacking("kept", name, KEPT) if "kept" in parts else []
        harms = self.figures.lacking("leaked", name, harms) if "leaked" in parts else []
        uses = self.figures.lacking("useful", name, self.uses) if "useful" in parts else []
        mixed = "recipient" in parts and name in RECIPIENTS and self._recipient_lacks(name)
        if not kept_ones and not harms and not uses and not mixed:
            return
        release = made(name, method, self.sides.train)
        self.figures.add(kept(self.sides, release) if kept_ones else ())
        self.figures.add(leaked(release, self.knowledge, harms) if harms else ())
        self.figures.add(useful(self.sides, [release], uses) if uses else ())
        self.figures.add(recipients(self.sides, release) if mixed else ())

    def _recipient_lacks(self, name: str) -> bool:
        return bool(self.figures.lacking("recipient", f"{OWN_USERS[1]} users and {name}", ["completion"]))

    def _vary(self) -> None:
        """What one number of a rule changes, the others as the rule has them; of the rule itself, its own figures."""
        for name, method, harms in variants(",".join(self.attributes) or None):
            if not name.startswith(tuple(self.only)):
                continue
            chosen = [each for each in harms if each in self.harms]
            lacking = self.figures.lacking("sensitivity", name, [*KEPT, *chosen])
            if lacking and not method.parameters()["chosen"]:
                self._release(str(method.preset), method, ("kept", "leaked"), chosen)
                own = self.figures.rows_of(str(method.preset), ("kept", "leaked"))
                rows: Iterable[Row] = [row for row in own if row["figure"] in lacking]
            elif lacking:
                release = made(name, method, self.sides.train)
                rows = [*kept(self.sides, release), *leaked(release, self.knowledge, chosen)]
            else:
                continue
            self.figures.add({**row, "part": "sensitivity", "release": name} for row in rows)


def options() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="python -m bench.european_rules", description=__doc__)
    parser.add_argument("--users", type=int, default=20_000, help="users of the synthetic log")
    parser.add_argument(
        "--clicks-only", action="store_true", help="synthetic log without results that nobody clicked: far fewer rows"
    )
    parser.add_argument("--log", type=Path, help="a log of your own, in place of the synthetic one")
    parser.add_argument("--attributes", help="its attributes, with commas; none if not given")
    parser.add_argument("--whole", action="store_true", help="release the whole of --log, not a side: part kept alone")
    parser.add_argument("--split", type=Path, help="a folder of `querycloak split`, in place of a log")
    parser.add_argument("--truth", type=Path, help="with it, the truth of its log")
    parser.add_argument("--population", type=int, default=POPULATION, help="users of the rule's engine (assumed)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"parts of the study, with commas: {', '.join(PARTS)}")
    parser.add_argument("--only", default="", help="releases whose names begin with one of these, with semicolons")
    parser.add_argument("--figures", default=";".join(LEAKED), help="figures of harm, with semicolons")
    parser.add_argument("--uses", default=";".join(USEFUL), help="figures of use, with semicolons")
    parser.add_argument("--targets", type=int, default=TARGETS, help="people of each side who are attacked, at most")
    parser.add_argument("--judges", type=int, default=JUDGES, help="people of TEST by whose searches use is measured")
    parser.add_argument("--threads", type=int, help="threads of the engine; all cores if not given")
    parser.add_argument("--csv", type=Path, help="file of figures; those that it has already are not measured again")
    return parser


def main() -> None:
    """Release by every rule, evaluate, attack, write."""
    parser = options()
    given = parser.parse_args()
    attributes = ATTRIBUTES if given.attributes is None and given.log is None else (given.attributes or "").split(",")
    attributes = [each for each in attributes if each]
    engine = qc.connect("duckdb", threads=given.threads)
    with tempfile.TemporaryDirectory() as place:
        try:
            sides = _sides(given, Path(place), attributes, engine)
            for sentence in sides.missing():
                print(sentence, file=sys.stderr)
            parts = ["kept"] if given.whole else given.parts.split(",")
            only, harms, uses = (each.split(";") for each in (given.only, given.figures, given.uses))
            numbers = {"targets": given.targets, "population": given.population}
            Study(sides, attributes, FigureFile(given.csv), parts, only, harms, uses, **numbers).run()
        except QuerycloakError as error:
            parser.exit(2, f"{error}\n")
    engine.close()


def _sides(given: argparse.Namespace, place: Path, attributes: Sequence[str], engine: Engine) -> Sides:
    if given.whole:
        return whole_log(given.log, attributes, engine)
    split, truth = given.split, given.truth
    if split is None:
        split, truth = split_of(place, given.log, given.users, views=not given.clicks_only)
    return sides_of(split, truth, given.judges, place, attributes, engine)


if __name__ == "__main__":
    main()
