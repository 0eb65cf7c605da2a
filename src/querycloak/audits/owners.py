"""Owners of the rows of a seeded release, for audits: in memory only, never published."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.evaluation.target import in_pieces
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.eu_records.count import session_records
from querycloak.methods.eu_records.method import EuRecords
from querycloak.methods.pseudonyms import renamed
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import batches_of


def owners_under_seed(release: Release, log: SearchLog, seed: int) -> pa.Table | None:
    """name and user of everybody whose rows stand in a release that was drawn with this seed.

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
