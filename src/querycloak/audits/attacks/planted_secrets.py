"""Secrets: the share of sensitive queries, by kind, that stand in the release word for word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querycloak.audits.attack import Finding, Share
from querycloak.audits.audit_data import AuditData
from querycloak.errors import InputError
from querycloak.evaluation.target import Target
from querycloak.text.normalisation import normalise
from querycloak.text.spans import Spans

NO_TRUTH = "which queries are secrets is not known; give the truth, such as LOG.truth of a synthetic log"
ALL = "all kinds"


class PlantedSecrets:
    """A secret is out if its text stands in a table. Secrets of the control are out if others asked the same text."""

    name: ClassVar[str] = "secrets"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """Needs the truth about the log."""
        return None if knowledge.truth is not None else NO_TRUTH

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Each kind, and all of them together."""
        if knowledge.truth is None:
            return
        secrets = secrets_of(knowledge.truth, normalised=knowledge.train.source.choices.normalise)
        texts = pc.unique(secrets["query"].combine_chunks())
        out = np.zeros(len(texts), np.bool_)
        for released in release.texts():
            places = pc.unique(pc.drop_null(pc.index_in(released, texts)))
            out[places.to_numpy()] = True
        secret_out = out[pc.index_in(secrets["query"], texts).to_numpy()]
        sides = [_true(pc.is_in(secrets["user"], users)) for users in (knowledge.train_users, knowledge.control_users)]
        kinds = secrets["kind"].to_numpy(zero_copy_only=False)
        for kind in [ALL, *sorted(set(kinds.tolist()))]:
            own = np.ones(len(kinds), np.bool_) if kind == ALL else kinds == kind
            main, control = (Share.of(int((secret_out & side & own).sum()), int((side & own).sum())) for side in sides)
            yield Finding.of(kind, main, control, 0.0)


def secrets_of(truth: Path, *, normalised: bool) -> pa.Table:
    """user, query and kind of every secret, each of a user's once, its text as the log's texts are."""
    try:
        table = pq.read_table(truth / "sensitive.parquet", columns=["user", "query", "kind"])
    except (OSError, pa.ArrowException):
        table = None
    if table is None:
        raise InputError(f"sensitive.parquet of {str(truth)!r} cannot be read; it must hold user, query and kind")
    query = table["query"].combine_chunks()
    texts = normalise(Spans.of(query)) if normalised else query
    plain = pa.table({"user": table["user"].cast(pa.string()), "query": texts, "kind": table["kind"]})
    return plain.group_by(["user", "query", "kind"]).aggregate([])


def _true(flags: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(flags.to_numpy(), np.bool_)
