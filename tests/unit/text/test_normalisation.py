"""The oracle is Python's own Unicode tables.

Arrow and Python may follow different versions of Unicode. Both agree on every character that is assigned in
Python's version (the standard never changes how those compose or fold), so the alphabet leaves out the others.
"""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.text.normalisation import _normalise_unicode, normalise
from querycloak.text.spans import Spans
from tests.unit.text.columns import spans_of

# What turns the direction of text around it, or is deprecated and was to.
MARKS = {"\u061c", "\u200e", "\u200f", "\ufff9", "\ufffa", "\ufffb"} | {
    chr(point) for first, last in ((0x202A, 0x202E), (0x2066, 0x206F)) for point in range(first, last + 1)
}
BLANK = {"Zs", "Zl", "Zp", "Cc"}
ASSIGNED = st.characters(exclude_categories=("Cn", "Cs"))
# What is hard: capitals with and without marks, marks alone, blanks of all kinds, compatibility forms.
HARD = st.sampled_from(
    "AÅİΣϴẞK\u0301\u0307\u0308\u0323\u0345ſﬁＡ１½™㌔ﷺ가힣ᄀ\u1161\u11a8\0\t\n\r\x1f\x7f\x85\xa0\u2009\u2028\u3000\u202e"
)
TEXT = st.text(HARD, max_size=8) | st.text(HARD | ASSIGNED, max_size=12)
ASCII = st.text(st.characters(max_codepoint=127), max_size=20)


def slow(text: str) -> str:
    shown = "".join(character for character in text if character not in MARKS)
    composed = unicodedata.normalize("NFKC", shown)
    lower = unicodedata.normalize("NFKC", "".join(map(small_letter, composed)))
    blanked = "".join(" " if unicodedata.category(character) in BLANK else character for character in lower)
    return " ".join(word for word in blanked.split(" ") if word)


def small_letter(character: str) -> str:
    """Unicode's simple mapping: one character to one, whatever stands around it."""
    lower = character.lower()
    return lower if len(lower) == 1 else lower[0]


def normalised(texts: list[str]) -> list[str]:
    column = normalise(spans_of([text.encode() for text in texts], between=b"X"))
    column.validate(full=True)
    result: list[str] = column.to_pylist()
    return result


@given(st.lists(TEXT, max_size=6))
@settings(deadline=None, max_examples=300)
def test_normalisation_is_nfkc_then_lower_case_then_single_blanks(texts: list[str]) -> None:
    assert normalised(texts) == [slow(text) for text in texts]


@given(st.lists(TEXT, max_size=6))
@settings(deadline=None, max_examples=300)
def test_normalisation_is_idempotent(texts: list[str]) -> None:
    once = normalised(texts)
    assert normalised(once) == once


def test_every_assigned_character_by_itself_is_as_the_oracle_says() -> None:
    characters = [chr(point) for point in range(sys.maxunicode + 1)]
    characters = [character for character in characters if unicodedata.category(character) not in {"Cn", "Cs", "Co"}]
    assert normalised(characters) == [slow(character) for character in characters]


@given(st.lists(ASCII, min_size=1, max_size=6))
@settings(deadline=None)
def test_the_ascii_path_equals_the_unicode_path_on_ascii(texts: list[str]) -> None:
    spans = spans_of([text.encode() for text in texts])
    assert normalise(spans).to_pylist() == _normalise_unicode(spans.strings()).to_pylist()


@given(st.lists(ASCII, max_size=4), TEXT)
@settings(deadline=None)
def test_what_stands_beside_a_text_does_not_change_it(texts: list[str], beyond_ascii: str) -> None:
    assert normalised([*texts, beyond_ascii, *texts]) == normalised(texts) + normalised([beyond_ascii]) + normalised(
        texts
    )


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", ""),
        (" \t\r\n", ""),
        ("\u3000\xa0", ""),
        ("New  YORK", "new york"),
        ("Ｇｏｏｇｌｅ　１２３", "google 123"),  # full-width letters, digits and blank
        ("new\xa0york", "new york"),  # no-break space
        ("\u3000北京\u3000天气\u3000", "北京 天气"),  # ideographic space
        ("İstanbul", "istanbul"),  # one letter to one letter: no dot is left over
        ("I\u0307stanbul", "istanbul"),
        ("İ\u0301", "í"),  # the small letter takes the accent that the capital could not
        ("ISPARTA ısparta", "isparta ısparta"),  # a dotless i stays what it is
        ("ΟΔΟΣ", "οδοσ"),  # no final sigma: its place in the word does not matter
        ("ẞ", "ß"),
        ("Å", "å"),  # the sign of the angstrom
        ("E\u0301", "é"),
        ("ﬁsh", "fish"),
        ("a\tb\x0bc\x7fd", "a b c d"),
        ("a\0b", "a b"),
        ("\0é\0", "é"),
        ("a\x85b\u2028c", "a b c"),
        ("´x", "\u0301x"),  # an accent that stands alone is a blank and a mark: the blank goes
    ],
)  # fmt: skip
def test_golden(typed: str, expected: str) -> None:
    assert normalised([typed]) == [expected]


def test_no_texts_at_all() -> None:
    assert normalise(Spans.empty(0)).to_pylist() == []
    assert normalise(Spans.empty(2)).to_pylist() == ["", ""]
