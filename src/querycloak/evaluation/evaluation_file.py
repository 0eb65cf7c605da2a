"""An evaluation in a file of its own: private, whole or not at all, and never among what is published."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from querycloak.files.private_file import check_new, private_file
from querycloak.privacy.parameters import path_of, refuse
from querycloak.releases.folder import outside_releases


@dataclass(frozen=True)
class Row:
    """One value of an evaluation. slice: the part of the cases that it is about; None for all of them."""

    release: str
    digest: str | None
    task: str
    measure: str
    slice: str | None
    reading: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    cases: int | None = None
    answered: int | None = None
    difference: float | None = None
    p_value: float | None = None
    why: str | None = None


_TYPES = {"str": pa.string(), "float": pa.float64(), "int": pa.int64()}
SCHEMA = pa.schema(
    [
        pa.field(each.name, _TYPES[str(each.type).removesuffix(" | None")], nullable=str(each.type).endswith("None"))
        for each in fields(Row)
    ]
)
"""The columns of evaluations: the fields of a row, in their order."""


def table_of(rows: Iterable[Row]) -> pa.Table:
    """The rows as one table."""
    return pa.Table.from_pylist([asdict(row) for row in rows], SCHEMA)


WHAT = "the file for the results"
ENDINGS = (".json", ".csv", ".parquet")


def check_evaluation_file(path: str | os.PathLike[str]) -> Path:
    """The file to write, if its ending is known and it lies in no release folder; call it before anything is read."""
    target = path_of("out", path)
    if target.suffix not in ENDINGS:
        refuse("out", f"a file that ends with {', '.join(ENDINGS)}", str(target), "the ending says how it is written")
    outside_releases(target)
    if not target.absolute().parent.is_dir():
        refuse("out", "in a folder that exists", str(target), "make the folder first, or name another")
    check_new(target, WHAT)
    return target


def write_evaluation(table: pa.Table, document: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the table, or the document if it is to be JSON; only its owner may read it, unless it is publishable."""
    target = check_evaluation_file(path)
    with private_file(target, WHAT, mode=0o644 if document.get("publishable") else 0o600) as file:
        if target.suffix == ".json":
            file.write(json.dumps(document, allow_nan=False).encode() + b"\n")
        elif target.suffix == ".csv":
            pyarrow.csv.write_csv(table, file)
        else:
            pq.write_table(table, file)
    return target
