"""English words and word pairs that everybody knows, with how often books and the web use them.

From the dictionaries of symspellpy (MIT, licence beside the table; counts from Google Books Ngrams), normalised as
queries are. `scripts/make_public_phrases.py` makes the table.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import pyarrow as pa
import pyarrow.parquet as pq

NAME = "english"


@lru_cache(maxsize=1)
def public_phrases() -> pa.Table:
    """phrase and count: 82,834 words and 242,342 pairs of words, sorted by phrase, each once."""
    with (files("querycloak.text") / "data" / "public_phrases.parquet").open("rb") as file:
        # Threads of Arrow's that still hold the file when Python ends abort it.
        return pq.read_table(pa.BufferReader(file.read()), use_threads=False, pre_buffer=False)
