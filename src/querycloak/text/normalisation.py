"""Normal form of a query: two ways of typing it become one text, by one function for every engine and format.

NFKC, lower case, white space and control characters to single blanks, none at the ends; direction marks go.
The ASCII part, nearly all of most logs, is done in one compiled pass; only the other texts go through Unicode's tables.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.text import array_forms
from querycloak.text.compiled import kernel_or
from querycloak.text.spans import Mask, Spans, string_array

DESCRIPTION = "NFKC, lower case, white space and control characters to single blanks, direction marks dropped"
_BLANKS = r"[\pZ\p{Cc}]+"
# What turns the direction of text, or is shown as nothing at all: a terminal or a page would show another text.
_MARKS = r"[\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{206F}\x{FFF9}-\x{FFFB}]"
_HIDDEN = rf"(?:\p{{Cc}}|{_MARKS})+"


def normalise(texts: Spans) -> pa.StringArray:
    """Normalise each text; the bytes must be UTF-8."""
    offsets = np.zeros(len(texts) + 1, np.int32)
    data = np.empty(int(texts.lengths.sum()) + 1, np.uint8)  # one more, for a blank that is then written over
    beyond_ascii = np.empty(len(texts), np.bool_)
    written = _normalise_ascii(texts.data, texts.starts, texts.ends, data, offsets, beyond_ascii, _BECOMES, _IS_BLANK)
    plain = string_array(offsets, data[:written])
    if not beyond_ascii.any():
        return plain
    others = _normalise_unicode(texts.where(beyond_ascii).strings())
    return pc.replace_with_mask(plain, pa.array(beyond_ascii), others)


def _normalise_unicode(texts: pa.StringArray) -> pa.StringArray:
    composed = pc.utf8_normalize(pc.replace_substring_regex(texts, pattern=_MARKS, replacement=""), form="NFKC")
    # Lower case can undo the composed form (a capital whose small letter decomposes): compose once more.
    lower = pc.utf8_normalize(pc.utf8_lower(composed), form="NFKC")
    return pc.utf8_trim(pc.replace_substring_regex(lower, pattern=_BLANKS, replacement=" "), characters=" ")


def without_hidden(texts: Spans, suspects: Mask) -> Spans:
    """The texts without control characters and direction marks; the bytes must be UTF-8.

    `suspects` are those with a byte of `MAY_HIDE`, and perhaps others.
    """
    if not suspects.any():
        return texts
    shown = pc.replace_substring_regex(texts.where(suspects).strings(), pattern=_HIDDEN, replacement="")
    return Spans.of(pc.replace_with_mask(texts.strings(), pa.array(suspects), shown))


# Per byte: whether it is a control character, or one with which such a character or a direction mark may begin.
MAY_HIDE = np.zeros(256, np.bool_)
MAY_HIDE[:32] = MAY_HIDE[[127, 0xC2, 0xD8, 0xE2, 0xEF]] = True
# Per byte: what it becomes (lower case, blanks and control characters to a blank), and whether it is a blank.
_BECOMES = np.arange(256, dtype=np.uint8)
_BECOMES[:33] = _BECOMES[127] = 32
_BECOMES[65:91] += 32
_IS_BLANK = (_BECOMES == 32).astype(np.uint8)


@kernel_or(array_forms.normalise_ascii)
def _normalise_ascii(data, starts, ends, out, offsets, beyond_ascii, becomes, is_blank):  # type: ignore[no-untyped-def]
    position = 0
    for row in range(starts.size):
        first = position
        after_blank, seen = np.uint8(1), np.uint8(0)
        # Without branches: a blank after a blank is written too, and then written over.
        for i in range(starts[row], ends[row]):
            byte = data[i]
            out[position] = becomes[byte]
            blank = is_blank[byte]
            position += 1 - (blank & after_blank)
            after_blank = blank
            seen |= byte
        if after_blank and position > first:
            position -= 1
        beyond_ascii[row] = seen >= 128
        offsets[row + 1] = position
    return position
