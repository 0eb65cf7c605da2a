r"""Texts of people in files that spreadsheets and terminals open: the one rule of all text outputs.

1. Characters that a terminal obeys (control characters, direction marks, line separators) are written \uXXXX; a
   backslash before such a form is written \u005c.
2. A text that a spreadsheet would compute gets an apostrophe in front: after blanks, quotes and apostrophes it begins
   with =, +, - or @, half or full width.

Both are undone exactly by `original_text`. All other texts stay as they are.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_OBEYED = "\\x00-\\x1f\\x7f-{0}9f{1}{0}061c{1}{0}200e{1}{0}200f{1}{0}2028{1}-{0}202e{1}{0}2066{1}-{0}2069{1}"
_ESCAPED = r"\\u[0-9a-f]{4}"
_BLANK = " {0}a0{1}{0}2000{1}-{0}200a{1}{0}3000{1}\"'"
_FORMULA = "[=+\\-@{0}ff1d{1}{0}ff0b{1}{0}ff0d{1}{0}ff20{1}]"


def _arrow(pattern: str) -> str:
    return pattern.replace("{0}", "\\x{").replace("{1}", "}")


def _python(pattern: str) -> str:
    return re.sub(r"\{0\}([0-9a-f]+)\{1\}", lambda code: f"\\u{code[1]:0>4}", pattern)


_TO_ESCAPE = re.compile(_python(f"[{_OBEYED}]|\\\\(?=u[0-9a-f]{{4}})"))
_TO_ESCAPE_IN_JSON = re.compile(_python(f"[{_OBEYED}]"))
_TO_RESTORE = re.compile(_ESCAPED)
_COMPUTED = re.compile(_python(f"[{_BLANK}]*{_FORMULA}"))
_ARROW_TO_ESCAPE = _arrow(f"[{_OBEYED}]|{_ESCAPED}")
_ARROW_COMPUTED = _arrow(f"^([{_BLANK}]*{_FORMULA})")
_ARROW_GUARDED = _arrow(f"^'([{_BLANK}]*{_FORMULA})")


def safe_text(text: str) -> str:
    """The text as files hold it."""
    escaped = escaped_text(text)
    return f"'{escaped}" if _COMPUTED.match(escaped) else escaped


def escaped_text(text: str) -> str:
    """The text after the first rule alone."""
    return _TO_ESCAPE.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def escaped_json(document: str) -> str:
    """A JSON text after the first rule: it stands for the same value."""
    return _TO_ESCAPE_IN_JSON.sub(lambda character: f"\\u{ord(character[0]):04x}", document)


def original_text(text: str) -> str:
    """The text of which `safe_text` made this one."""
    whole = text[1:] if text.startswith("'") and _COMPUTED.match(text[1:]) else text
    return _TO_RESTORE.sub(lambda escape: chr(int(escape[0][2:], 16)), whole)


def safe_texts(texts: pa.Array) -> pa.Array:
    """The texts as files hold them; None stays None."""
    odd = pc.match_substring_regex(texts, _ARROW_TO_ESCAPE).fill_null(False)
    if pc.any(odd).as_py():  # few rows, so they are looked at one by one
        escaped = [escaped_text(text) for text in texts.filter(odd).to_pylist()]
        texts = pc.replace_with_mask(texts, odd, pa.array(escaped, texts.type))
    return pc.replace_substring_regex(texts, pattern=_ARROW_COMPUTED, replacement=r"'\1")


def original_texts(texts: pa.Array) -> pa.Array:
    """The texts of which `safe_texts` made these."""
    plain = pc.replace_substring_regex(texts, pattern=_ARROW_GUARDED, replacement=r"\1")
    odd = pc.match_substring_regex(texts, _ESCAPED).fill_null(False)
    if not pc.any(odd).as_py():
        return plain
    restored = [original_text(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(restored, plain.type))
