"""Makes text/data/public_phrases.parquet: English words and word pairs with how often books and the web use them.

    pip download --no-deps symspellpy==6.10.1 --dest FOLDER
    python scripts/make_public_phrases.py FOLDER/symspellpy-6.10.1-py3-none-any.whl

The table is kept in the repository and not read from the package: a pool decides what a release may hold, so it must
be the same for everybody who has the same version of querycloak.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querycloak.text.normalisation import normalise
from querycloak.text.spans import Spans

FOLDER = Path(__file__).parents[1] / "src" / "querycloak" / "text" / "data"
LISTS = ("frequency_dictionary_en_82_765.txt", "frequency_bigramdictionary_en_243_342.txt")


def main(wheel: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        lines = [line for name in LISTS for line in archive.read(f"symspellpy/{name}").decode("utf-8-sig").splitlines()]
        licence = next(name for name in archive.namelist() if name.endswith("LICENSE"))
        (FOLDER / "public_phrases.LICENSE").write_bytes(archive.read(licence))
    parted = [line.rsplit(" ", 1) for line in lines if line.strip()]
    phrases = normalise(Spans.of(pa.array([phrase for phrase, _ in parted])))
    counted = pa.table({"phrase": phrases, "count": pa.array([int(count) for _, count in parted])})
    table = counted.group_by("phrase").aggregate([("count", "max")]).rename_columns(["phrase", "count"])
    table = table.filter(pc.greater(pc.utf8_length(table["phrase"]), 0)).sort_by("phrase")
    # Sorted phrases share their beginnings, which this encoding writes once.
    encodings = {"phrase": "DELTA_BYTE_ARRAY", "count": "DELTA_BINARY_PACKED"}
    pq.write_table(
        table,
        FOLDER / "public_phrases.parquet",
        use_dictionary=False,
        column_encoding=encodings,
        compression="zstd",
        compression_level=19,
    )


if __name__ == "__main__":
    main(sys.argv[1])
