"""An evaluation in a file of its own: private, whole or not at all, and never among what is published."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from querycloak.errors import ResourceError
from querycloak.privacy.parameters import refuse
from querycloak.releases.card import CARD

ENDINGS = (".json", ".csv", ".parquet")


def check_evaluation_file(path: str | os.PathLike[str]) -> Path:
    """The file to write, if its ending is known and it lies in no release folder; call it before anything is read."""
    target = Path(path)
    if target.suffix not in ENDINGS:
        refuse("out", f"a file that ends with {', '.join(ENDINGS)}", str(target), "the ending says how it is written")
    for folder in target.resolve().parents:
        if (folder / CARD).is_file():
            private = "an evaluation is private and a release is not; name another place"
            refuse("out", "outside of release folders", str(target), private)
    if not target.absolute().parent.is_dir():
        refuse("out", "in a folder that exists", str(target), "make the folder first, or name another")
    return target


def write_evaluation(table: pa.Table, document: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the table, or the document if it is to be JSON; only its owner may read it."""
    target = check_evaluation_file(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    problem = ""
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            if target.suffix == ".json":
                file.write(json.dumps(document, allow_nan=False).encode() + b"\n")
            elif target.suffix == ".csv":
                pyarrow.csv.write_csv(table, file)
            else:
                pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    finally:
        beside.unlink(missing_ok=True)
    if problem:
        where = str(target.absolute().parent)
        raise ResourceError(f"the evaluation cannot be written into {where!r}: {problem}; name another place")
    return target
