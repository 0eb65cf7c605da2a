"""Baselines of an audit: the log itself, the log under other names, and plain k-anonymity.

Owners of the rows of a seeded release are computed from the log, in memory only, and never published.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.audit_data import AuditData
from querycloak.evaluation.target import Target, in_pieces
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.eu_records.count import session_records
from querycloak.methods.eu_records.method import EuRecords
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.keyed_digest import renamed
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import Stream, batches_of

ORIGINAL, PSEUDONYMS, K_ANONYMITY = "original", "pseudonyms", "k-anonymity"
MIN_USERS = 5
_COLUMNS = ("user", "query", "url", "time")


def log_baselines(knowledge: AuditData) -> Iterator[Target]:
    """The three, one after another: each is made when its turn comes."""
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
    """The same where a name is a session's; None of a release of another method."""
    if release.method != EuRecords.name or release.options is None:
        return None
    method = EuRecords(**release.options)
    return session_records(log, method.attributes or log.attributes, method.numbers).owners(log, Randomness(seed))
