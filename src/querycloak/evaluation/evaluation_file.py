"""An evaluation in a file of its own: private, whole or not at all, and never among what is published."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from querycloak.files.private_file import check_new, private_file
from querycloak.privacy.parameters import path_of, refuse
from querycloak.releases.private_place import outside_releases

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
    """Write the table, or the document if it is to be JSON; only its owner may read it."""
    target = check_evaluation_file(path)
    with private_file(target, WHAT) as file:
        if target.suffix == ".json":
            file.write(json.dumps(document, allow_nan=False).encode() + b"\n")
        elif target.suffix == ".csv":
            pyarrow.csv.write_csv(table, file)
        else:
            pq.write_table(table, file)
    return target
