"""Words of a query by the boundaries of Unicode (UAX 29), decided on each text alone.

Letters, digits, underscores and combining marks make a word; so do an apostrophe, full stop or colon between letters
and a comma, semicolon or full stop between digits. Everything else separates words. Han characters and Kana are words
by themselves, because their scripts write no blanks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

RULE = "Unicode word boundaries (UAX 29); Han characters and Kana one by one"
"""The rule as cards state it."""
_CUT = (
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""Han, Hiragana and Katakana after NFKC."""
_BETWEEN_LETTERS = ":.'\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027"
_BETWEEN_DIGITS = ",;.'\u037e\u0589\u060c\u060d\u066c\u07f8\u2018\u2019\u2024\u2044"


def words_of(text: str) -> list[str]:
    """Return the words of a normalised text, in order."""
    return _pattern().findall(text)


def joined(words: Iterable[str]) -> str:
    """Return words as people type them: single blanks, but none between two characters that are cut one by one."""
    text = ""
    for word in words:
        text += word if not text or (_is_cut(text[-1]) and _is_cut(word[0])) else f" {word}"
    return text


def _is_cut(character: str) -> bool:
    return _cut().match(character) is not None


@lru_cache(maxsize=1)
def _cut() -> re.Pattern[str]:
    return re.compile(f"[{_CUT}]")


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    marks = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in _ranges_of_marks())
    plain = rf"(?:(?![{_CUT}])[\w{marks}])"
    letter = rf"(?:(?![{_CUT}])[^\W\d_]|[{marks}])"
    between_letters = rf"(?<=[^\W\d_])[{re.escape(_BETWEEN_LETTERS)}](?={letter})"
    between_digits = rf"(?<=\d)[{re.escape(_BETWEEN_DIGITS)}](?=\d)"
    return re.compile(rf"[{_CUT}]|{plain}(?:{plain}|{between_letters}|{between_digits})*")


def _ranges_of_marks() -> list[tuple[str, str]]:
    """Return the ranges of combining marks and of the joiner, which extend the letter before them."""
    marks = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")]
    ranges: list[tuple[str, str]] = [("\u200d", "\u200d")]
    start = previous = marks[0]
    for code in [*marks[1:], -1]:
        if code != previous + 1:
            ranges.append((chr(start), chr(previous)))
            start = code
        previous = code
    return ranges
