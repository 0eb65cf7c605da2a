"""From pieces to texts, slips of typing included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.synthetic.heavy_tails import Ints
from querycloak.synthetic.queries import AFTER, CORE, PLACES, Queries
from querycloak.synthetic.world import World

_BLANK = ord(" ")


def texts_of(world: World, queries: Queries) -> pa.Array:
    """The text of each query."""
    columns = []
    for place in range(PLACES):
        piece = queries.pieces[:, place]
        text = world.texts.take(pa.array(piece))
        within = queries.glued if CORE < place <= AFTER else np.zeros(len(piece), np.bool_)
        blank = pc.if_else(pa.array((piece > 0) & ~within), " ", "")
        columns += [blank, text]
    joined = pc.utf8_ltrim_whitespace(pc.binary_join_element_wise(*columns, ""))
    return slipped(joined, queries.slip)


def slipped(texts: pa.Array, slip: Ints) -> pa.Array:
    """The texts with a letter left out or two swapped where there is a slip, by its number."""
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].copy()
    offsets = offsets - offsets[0]
    lengths = np.diff(offsets)
    rows = np.flatnonzero((slip > 0) & (lengths > 4))
    place = offsets[rows] + 1 + slip[rows] % (lengths[rows] - 2)
    inside = (letters[place] != _BLANK) & (letters[place + 1] != _BLANK)
    rows, place = rows[inside], place[inside]
    swapped = slip[rows] // 64 % 2 == 0
    pairs = place[swapped]
    letters[pairs], letters[pairs + 1] = letters[pairs + 1].copy(), letters[pairs].copy()
    kept = np.ones(len(letters), np.bool_)
    kept[place[~swapped]] = False
    shorter = np.zeros(len(texts), np.int64)
    shorter[rows[~swapped]] = 1
    starts = np.concatenate([[0], np.cumsum(lengths - shorter)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(starts), pa.py_buffer(letters[kept]))
