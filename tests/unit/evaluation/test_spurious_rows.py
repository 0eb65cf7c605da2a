"""A release of a public list may hold nothing but noise: it is evaluated, and so are the others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.errors import InputError
from tests.logs import aol, write
from tests.unit.releases.making import a_release


def test_a_release_of_spurious_rows_does_not_end_the_others(tmp_path: Path) -> None:
    rows = [(f"u{i}", "12:00:00", f"query {i % 3}", "1", f"http://{i % 3}.example/") for i in range(30)]
    others = [(f"v{i}", "12:00:00", f"query {i % 3}", "1", f"http://{i % 3}.example/") for i in range(9)]
    spurious = pa.table({"query": ["nobody asked this"], "count": [9]})
    found = pa.table({"query": ["query 1"], "count": [9]})
    with (
        qc.read(write(tmp_path / "train.tsv", aol(rows))) as train,
        qc.read(write(tmp_path / "test.tsv", aol(others))) as test,
    ):
        noise = a_release(tables={"queries": spurious}, method="query-pool", counts="public-keys")
        good = a_release(tables={"queries": found})
        evaluated = qc.evaluate(train, test, {"noise": noise, "good": good}, tasks=["completion"])
        assert {"noise", "good"} <= {row.release for row in evaluated.rows}
        with pytest.raises(InputError, match="was made of another log"):
            qc.evaluate(train, test, {"foreign": a_release(tables={"queries": spurious})}, tasks=["completion"])
