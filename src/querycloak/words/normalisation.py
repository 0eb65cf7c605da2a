"""What makes two ways of typing one query the same text, by one function for every engine and format.

NFKC, lower case, white space and control characters to single blanks, none at the ends. The ASCII part,
nearly all of most logs, is done in one compiled pass; only the other texts go through Unicode's tables.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from querycloak.words.spans import Spans, string_array

DESCRIPTION = "NFKC, lower case, white space and control characters to single blanks"
_BLANKS = r"[\pZ\p{Cc}]+"


def normalise(texts: Spans) -> pa.StringArray:
    """Normalise each text; the bytes must be UTF-8."""
    offsets = np.zeros(len(texts) + 1, np.int32)
    data = np.empty(int(texts.lengths.sum()), np.uint8)
    beyond_ascii = np.zeros(len(texts), np.bool_)
    written = _normalise_ascii(texts.data, texts.starts, texts.ends, data, offsets, beyond_ascii)
    plain = string_array(offsets, data[:written])
    if not beyond_ascii.any():
        return plain
    others = _normalise_unicode(texts.where(beyond_ascii).strings())
    return pc.replace_with_mask(plain, pa.array(beyond_ascii), others)


def _normalise_unicode(texts: pa.StringArray) -> pa.StringArray:
    composed = pc.utf8_normalize(texts, form="NFKC")
    # Lower case can undo the composed form (a capital whose small letter decomposes): compose once more.
    lower = pc.utf8_normalize(pc.utf8_lower(composed), form="NFKC")
    return pc.utf8_trim(pc.replace_substring_regex(lower, pattern=_BLANKS, replacement=" "), characters=" ")


@njit(cache=True, nogil=True)
def _normalise_ascii(data, starts, ends, out, offsets, beyond_ascii):  # type: ignore[no-untyped-def]
    position = 0
    for row in range(starts.size):
        first = position
        after_blank = True
        for i in range(starts[row], ends[row]):
            byte = data[i]
            if byte <= 32 or byte == 127:
                if not after_blank:
                    out[position] = 32
                    position += 1
                after_blank = True
                continue
            if byte >= 128:
                beyond_ascii[row] = True
            elif 65 <= byte <= 90:
                byte += 32
            out[position] = byte
            position += 1
            after_blank = False
        if after_blank and position > first:
            position -= 1
        offsets[row + 1] = position
    return position
