"""Texts, numbers and literals of JSON, found in bytes and compiled: where they end, and whether they are plain.

Odd is what is no JSON, and what is left to a full parser on purpose: surrogates, and numbers beyond 18 digits.
"""

from __future__ import annotations

import numpy as np

from querycloak.text.compiled import inlined, part

ABSENT, OTHER, TEXT, INTEGER, OBJECT, TRUE = 0, 1, 2, 3, 4, 5
"""Kind of value under a name: nothing, another kind (null, a fraction, a list), a text, a whole number, an object, or
`true`, of which no text is kept."""


@inlined
def after_blanks(data, near, at, stop):  # type: ignore[no-untyped-def]
    """The next place that is not white space, and the first text end from there on: of blanks, only spaces are none."""
    while at < stop and (data[at] == 32 or data[at] == 9 or data[at] == 10 or data[at] == 13):
        near += data[at] != 32
        at += 1
    return at, near


@inlined
def string_end(data, text_ends, near, stop):  # type: ignore[no-untyped-def]
    """Place of the closing quote, -1 if the string is odd; the next text end; and True if it has no escapes.

    The opening quote is the text end that `near` is at.
    """
    near += 1
    end, plain = np.int64(text_ends[near]), True
    while end < stop and data[end] == 92:
        end, plain = _escape_end(data, end, stop), False
        if end < 0:
            return end, near, plain
        near += 1
        while text_ends[near] < end:  # a quote or a backslash that was escaped
            near += 1
        end = np.int64(text_ends[near])
    if end >= stop or data[end] != 34:
        return np.int64(-1), near, plain
    return end, near + 1, plain


@part
def _escape_end(data, at, stop):  # type: ignore[no-untyped-def]
    """End of an escape, -1 if it is odd."""
    if at + 1 >= stop:
        return np.int64(-1)
    if data[at + 1] != 117:
        return at + 2 if data[at + 1] in (34, 92, 47, 98, 102, 110, 114, 116) else np.int64(-1)
    code = _hexadecimal(data, at + 2, stop)
    return np.int64(-1) if code < 0 or 0xD800 <= code <= 0xDFFF else at + 6


@part
def _hexadecimal(data, at, stop):  # type: ignore[no-untyped-def]
    """The number of four hexadecimal digits, or -1."""
    if at + 4 > stop:
        return -1
    code = np.int64(0)
    for i in range(at, at + 4):
        byte = np.int64(data[i])
        if 48 <= byte <= 57:
            code = code * 16 + byte - 48
        elif 97 <= (byte | 32) <= 102:
            code = code * 16 + (byte | 32) - 87
        else:
            return -1
    return code


@part
def unescape(data, start, end):  # type: ignore[no-untyped-def]
    """Undo the escapes of a sound string in place; where it then ends. An escape is never shorter than its text."""
    at = out = start
    while at < end:
        byte = data[at]
        if byte != 92:
            data[out] = byte
            at, out = at + 1, out + 1
            continue
        letter = data[at + 1]
        if letter == 117:
            out = _encode(data, out, _hexadecimal(data, at + 2, end))
            at += 6
            continue
        if letter == 98:
            letter = 8
        elif letter == 102:
            letter = 12
        elif letter == 110:
            letter = 10
        elif letter == 114:
            letter = 13
        elif letter == 116:
            letter = 9
        data[out] = letter
        at, out = at + 2, out + 1
    return out


@part
def _encode(data, out, code):  # type: ignore[no-untyped-def]
    """Write a character in UTF-8; where the next one goes."""
    if code < 0x80:
        data[out] = code
        return out + 1
    if code < 0x800:
        data[out], data[out + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return out + 2
    data[out], data[out + 1], data[out + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return out + 3


@part
def scalar_end(data, at, stop):  # type: ignore[no-untyped-def]
    """End of a number or a literal, and its kind; -1 if it is odd."""
    if data[at] == 45 or 48 <= data[at] <= 57:
        return _number_end(data, at, stop)
    return _literal_end(data, at, stop), TRUE if data[at] == 116 else OTHER


@part
def _number_end(data, at, stop):  # type: ignore[no-untyped-def]
    """End of a number, and its kind; -1 if it is none, or may not fit into 64 bits or a double."""
    start, kind = at, INTEGER
    if data[at] == 45:
        at += 1
    first = at
    at = _after_digits(data, at, stop)
    digits = at - first
    if digits < 1 or digits > 18 or (data[first] == 48 and (digits > 1 or first > start)):
        return -1, kind
    if at < stop and data[at] == 46:
        first, kind = at + 1, OTHER
        at = _after_digits(data, first, stop)
        if at == first or at - first > 30:
            return -1, kind
    if at < stop and data[at] | 32 == 101:
        kind, at = OTHER, at + 1
        if at < stop and (data[at] == 43 or data[at] == 45):
            at += 1
        first = at
        at = _after_digits(data, first, stop)
        if at == first or at - first > 2:
            return -1, kind
    return at, kind


@part
def _after_digits(data, at, stop):  # type: ignore[no-untyped-def]
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@part
def _literal_end(data, at, stop):  # type: ignore[no-untyped-def]
    """End of `true`, `false` or `null`, -1 if it is none of them."""
    if at + 4 <= stop:
        if data[at] == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
            return at + 4
        if data[at] == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
            return at + 4
    false = at + 5 <= stop and data[at] == 102 and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115
    return at + 5 if false and data[at + 4] == 101 else -1
