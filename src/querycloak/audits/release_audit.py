"""The audit of releases: every attack on every release, with the log itself and plain k-anonymity beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.attack import LEARNING, NEEDS, Attack, Finding, PooledAttack, attacks_named
from querycloak.audits.audit_data import TARGETS, AuditData
from querycloak.errors import InputError, ResourceError
from querycloak.evaluation.aggregations import repeats
from querycloak.evaluation.target import Target, in_pieces, named_apart
from querycloak.evaluation.task import K_ANONYMITY, ORIGINAL, PSEUDONYMS
from querycloak.logs.searchlog import OnStep, SearchLog, check_log
from querycloak.methods.eu_records.count import session_records
from querycloak.methods.eu_records.method import EuRecords
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.keyed_digest import renamed
from querycloak.privacy.parameters import of_kind, refuse
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import Stream, batches_of
from querycloak.sentence import Sentence
from querycloak.shown_in_notebooks import ShownInNotebooks

COLUMNS = {
    "release": pa.string(), "digest": pa.string(), "attack": pa.string(), "setting": pa.string(),
    "main": pa.float64(), "control": pa.float64(), "baseline": pa.float64(),
    "risk": pa.float64(), "low": pa.float64(), "high": pa.float64(), "targets": pa.int64(), "why": pa.string(),
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class ReleaseAudit(ShownInNotebooks):
    """Findings of all attacks: true figures, hence private. `alarms` are sentences on events that must not happen."""

    rows: tuple[dict[str, Any], ...]
    alarms: tuple[str, ...]

    def __repr__(self) -> str:
        attacks = {row["attack"] for row in self.rows}
        return f"<ReleaseAudit: {len(self.rows):,} rows, {len(attacks)} attacks, {len(self.alarms)} alarms (private)>"

    def to_json(self) -> dict[str, Any]:
        """The values that `audit release --json` prints."""
        return {"private": True, "results": list(self.rows)}

    def table(self) -> pa.Table:
        """The rows as a table."""
        return pa.Table.from_pylist(list(self.rows), pa.schema(list(COLUMNS.items())))


def audit_release(
    train: SearchLog,
    releases: Sequence[str | os.PathLike[str] | Target],
    *,
    control: SearchLog,
    truth: str | os.PathLike[str] | None = None,
    other_period: SearchLog | None = None,
    attacks: Sequence[str | Attack] | None = None,
    baselines: bool = True,
    targets: int = TARGETS,
    seed: int = 1,
    on_step: OnStep | None = None,
) -> ReleaseAudit:
    """Attack releases that were made from `train`; `control` is a log of other people of the same kind.

    attacks: names, or attacks of your own; all built-in ones if not given.
    """
    check_log(train, "train")
    check_log(control, "control")
    if other_period is not None:
        check_log(other_period, "other_period")
    given = [releases] if isinstance(releases, str | os.PathLike | Target) else releases
    of_kind("release", given, Sequence, "folders of releases", "name at least one")
    chosen = check_attacks(attacks, truth=truth, other_period=other_period)
    named = [each if isinstance(each, Target) else Target.in_folder(each) for each in given]
    attacked = named_apart(named, ORIGINAL, PSEUDONYMS, K_ANONYMITY)
    train.stage()
    knowledge = AuditData(
        train,
        control,
        truth=None if truth is None else Path(truth),
        other_period=other_period,
        targets=targets,
        seed=seed,
    )
    for release in attacked:
        _check_origin(release, train)
    results = [
        *_one_by_one(attacked, chosen, knowledge, baselines=baselines, on_step=on_step),
        *_together(attacked, chosen, knowledge),
    ]
    return ReleaseAudit(
        tuple(row for result in results for row in result.rows),
        tuple(alarm for result in results for alarm in result.alarms),
    )


def _one_by_one(
    attacked: Sequence[Target],
    chosen: Sequence[Attack],
    knowledge: AuditData,
    *,
    baselines: bool,
    on_step: OnStep | None,
) -> Iterator[ReleaseAudit]:
    """Findings of every attack on every release, after those on the baselines."""
    done, steps = 0, len(chosen) * (len(attacked) + 3 * baselines)
    for release in chain(log_baselines(knowledge) if baselines else (), attacked):
        for attack in chosen:
            if on_step is not None:
                on_step(f"{attack.name}, {release.name}", done / steps)
            done += 1
            yield attacked_by(attack, release, knowledge)


def attacked_by(attack: Attack, release: Target, knowledge: AuditData) -> ReleaseAudit:
    """Findings of one attack on one release."""
    return _audit_of(attack, release, _findings(attack, release, knowledge))


def _together(attacked: Sequence[Target], chosen: Sequence[Attack], knowledge: AuditData) -> Iterator[ReleaseAudit]:
    """Findings of attacks that judge several releases of one kind together."""
    by_name = {release.name: release for release in attacked}
    kinds = {name: (each.method, each.variant, each.parameters) for name, each in by_name.items() if each.method}
    for name, names in repeats(kinds).items():
        releases = [by_name[each] for each in names]
        for attack in chosen:
            if isinstance(attack, PooledAttack) and attack.unsupported_reason(releases[0], knowledge) is None:
                findings = attack.run_on_several(releases, knowledge)
                yield _audit_of(attack, replace(releases[0], name=name, digest=None), findings)


def _audit_of(attack: Attack, release: Target, findings: Iterable[Finding]) -> ReleaseAudit:
    listed = list(findings)
    alarms = tuple(finding.alarm for finding in listed if finding.alarm)
    return ReleaseAudit(tuple(row_of(release, attack.name, finding) for finding in listed), alarms)


def _findings(attack: Attack, release: Target, knowledge: AuditData) -> Iterable[Finding]:
    why = attack.unsupported_reason(release, knowledge)
    return attack.run(release, knowledge) if why is None else [Finding.missing(why)]


def row_of(release: Target, attack: str, finding: Finding) -> dict[str, Any]:
    """A finding as a row."""
    values = {each.name: getattr(finding, each.name) for each in fields(finding) if each.name != "alarm"}
    whole = {"release": release.name, "digest": release.digest, "attack": attack, **values}
    return {name: whole[name] for name in COLUMNS}


def check_attacks(attacks: Sequence[str | Attack] | None, **given: object) -> list[Attack]:
    """The attacks by name, all if None; refuses a named attack that lacks its input or its extra."""
    if attacks is None:
        return attacks_named()
    checked: list[Attack] = []
    of_kind("attack", attacks, Sequence, "names of attacks", "leave it out for all")
    for each in attacks:
        if not isinstance(each, str):
            if not hasattr(each, "run"):
                of_kind("attack", each, str, "the name of an attack", "leave it out for all")
            checked.append(each)
            continue
        checked += attacks_named([each])
        needed = NEEDS.get(each)
        if needed is not None and given.get(needed) is None:
            refuse(needed, f"what the attack {each} needs", None, "or leave that attack out")
        if each in LEARNING and find_spec("sklearn") is None:
            raise ResourceError(f"the attack {each} needs scikit-learn; install 'querycloak[audit]', or leave it out")
    return checked


def _check_origin(release: Target, train: SearchLog) -> None:
    """Refuse a release of another log: any such release would look safe."""
    if not release.rows.is_verbatim or release.rows is RowKind.COMPOSED or release.counts == "public-keys":
        return
    texts = pa.chunked_array([part.unique() for part in release.texts()], pa.string()).unique()
    asked = train.engine.upload(pa.table({"query": texts}))
    missing = train.engine.fetch(asked.anti_join(train.rows, "query").count().as_table())[0][0].as_py()
    if missing:
        raise InputError(
            Sentence(
                "{missing:,} of {number:,} queries of the release {name!r} are not in TRAIN: it was made from another "
                "log, or the log was read in another way ({normalise}, {since} ...); give what it was made from",
                missing=missing,
                number=len(texts),
                name=release.name,
            )
        )


MIN_USERS = 5
_COLUMNS = ("user", "query", "url", "time")


def log_baselines(knowledge: AuditData) -> Iterator[Target]:
    """The log itself, the log under other names and plain k-anonymity, each made when its turn comes."""
    yield original(knowledge)
    yield pseudonyms(knowledge)
    yield k_anonymity(knowledge)


def original(knowledge: AuditData) -> Target:
    """The log as it is, names and all."""
    log = knowledge.train
    rows = log.rows.select(*_COLUMNS)
    users = knowledge.train_users
    return Target(
        name=ORIGINAL,
        tables={"log": Stream(rows.schema().to_pyarrow(), lambda: log.engine.stream(rows))},
        owners=pa.table({"name": users, "user": users}),
    )


def pseudonyms(knowledge: AuditData) -> Target:
    """The log under other names, everything else unchanged: what AOL did in 2006."""
    log, users = knowledge.train, knowledge.train_users
    numbers = knowledge.random("pseudonyms").permutation(len(users))
    owners = pa.table({"name": pa.array([f"person-{number}" for number in numbers.tolist()]), "user": users})
    rows = log.rows.inner_join(log.engine.upload(owners), "user")
    rows = log.engine.stage(rows.select(user=rows.name, query=rows.query, url=rows.url, time=rows.time))
    return Target(
        name=PSEUDONYMS,
        tables={"log": Stream(rows.schema().to_pyarrow(), lambda: log.engine.stream(rows))},
        owners=owners,
    )


def k_anonymity(knowledge: AuditData) -> Target:
    """Rows, queries and clicks that five users share."""
    log, seed = knowledge.train, int(knowledge.random("k-anonymity").integers(1 << 31))
    # With a known seed whose row is whose can be computed once more; nothing of this is ever published.
    released = {
        keys: KAnonymity(min_users=MIN_USERS, keys=keys).release(log, randomness=Randomness(seed))
        for keys in ("log", "queries", "clicks")
    }
    one = released["log"]
    return Target(
        name=K_ANONYMITY,
        tables={keys: release.table(keys) for keys, release in released.items()},
        method=one.method,
        parameters=one.parameters,
        proven=one.proven,
        owners=owners_under_seed(one, log, seed),
    )


def owners_under_seed(release: Release, log: SearchLog, seed: int) -> pa.Table | None:
    """name and user of each person with rows in a release that was drawn with this seed.

    Methods draw the key of their names first, so that it can be drawn once more. None where names are no users of the
    log: they were made up, drawn in another way, or there are none.
    """
    if "log" not in release.tables or not release.rows.is_personal:
        return None
    if release.rows is RowKind.RECORDS:
        return _owners_of_sessions(release, log, seed)
    users = log.rows.select("user").distinct()
    named = renamed(users.mutate(owner=users.user), Randomness(seed))
    owners = log.engine.fetch(named.select(name=named.user, user=named.owner))
    names = pa.chunked_array(
        [
            rows["user"].unique()
            for rows in in_pieces(batch.select(["user"]) for batch in batches_of(release.tables["log"]))
        ],
        pa.string(),
    ).unique()
    known = pc.all(pc.is_in(names, owners["name"].combine_chunks())).as_py()
    return owners if known else None


def _owners_of_sessions(release: Release, log: SearchLog, seed: int) -> pa.Table | None:
    """name and user of each session in a release that was drawn with this seed; None for another method."""
    if release.method != EuRecords.name or release.options is None:
        return None
    method = EuRecords(**release.options)
    return session_records(log, method.attributes or log.attributes, method.numbers).owners(log, Randomness(seed))
