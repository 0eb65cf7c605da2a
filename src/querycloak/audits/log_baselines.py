"""Baselines of an audit: the log itself, the log under other names, and plain k-anonymity."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from querycloak.audits.knowledge import AuditData
from querycloak.audits.owners import owners_under_seed
from querycloak.evaluation.target import Target
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Stream

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
