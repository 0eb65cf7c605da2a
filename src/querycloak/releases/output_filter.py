"""The output filter: rows that nobody should publish are dropped before writing, also if noise let them pass.

It reads only rows that the mechanism released, so it costs no budget. The number of dropped rows and the owner's own
patterns are private: the card states only which patterns were looked for.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.errors import InputError
from querycloak.privacy.parameters import one_of

# Coarse and linear: what it does not match cannot match any pattern below, and nearly no text matches it.
CANDIDATE = r"@|%40|[0-9](?:[ ().+/_,%-]{0,4}[0-9]){7}"

_BETWEEN_GROUPS = r"(?:%20|[ ._,/-]{1,2})"
_NUMBER_GROUPS = re.compile(f"[0-9]+(?:{_BETWEEN_GROUPS}[0-9]+)*")
_BOOK = ("978", "979")
_SHORTEST_CARD, _LONGEST_CARD, _SHORTEST_GROUP = 13, 19, 3

_SOCIAL_SECURITY = re.compile(
    r"""(?<![0-9])(?<![0-9]-)                            # not the middle of a longer number
        (?!000|666|9)[0-9]{3} ([- .]) (?!00)[0-9]{2} \1 (?!0000)[0-9]{4}
        (?!-?[0-9])
      | (?:\bssn|social[ ]security) [^0-9]{0,20} [0-9]{9} (?![0-9])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_EMAIL = re.compile(r"[\w.%+'-]+(?:@|%40)(?:[\w-]+\.)+[^\W\d_]{2,}", re.IGNORECASE)
_INTERNATIONAL = re.compile(
    r"""(?<![\w+]) (?: \+[ ]?[1-9] | 00[1-9][0-9]{0,2}[ ./(-] )  # +44..., 0044 ...
        (?:[ ]?[().\-/]{0,2}[ ]?[0-9]){7,14}
        (?![0-9])
    """,
    re.VERBOSE,
)
_AMERICAN = re.compile(
    r"""(?<![0-9])(?<![0-9][-.])                          # (415) 555-2671, 1-415-555-2671, 4155552671
        (?:1[ .-]?)? (?: \([2-9][0-9]{2}\)[ ]? | [2-9][0-9]{2}[ .-]? ) [2-9][0-9]{2} [ .-]? [0-9]{4}
        (?![0-9])(?![-.][0-9])
    """,
    re.VERBOSE,
)


def is_card_number(text: str) -> bool:
    """Say if 13 to 19 digits, in groups of three or more, pass the check of payment cards and are no product number."""
    return any(_luhn(digits) and not _is_product(digits) for digits in _runs(text))


def _runs(text: str) -> Iterator[str]:
    """The digits of each run of groups that is as long as a card number: an expiry date may follow it."""
    for number in _NUMBER_GROUPS.finditer(text):
        groups = re.split(_BETWEEN_GROUPS, number[0])
        for first in range(len(groups)):
            digits = ""
            for group in groups[first:]:
                digits += group
                if len(group) < _SHORTEST_GROUP or len(digits) > _LONGEST_CARD:
                    break
                if len(digits) >= _SHORTEST_CARD:
                    yield digits


def _luhn(digits: str) -> bool:
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0


def _is_product(digits: str) -> bool:
    """Say if 13 digits are an article number (EAN-13, ISBN-13): cards of 13 digits are no longer issued."""
    if len(digits) != 13 or digits.startswith(_BOOK):
        return len(digits) == 13
    return sum(int(digit) * (1, 3)[place % 2] for place, digit in enumerate(digits)) % 10 == 0


def is_social_security_number(text: str) -> bool:
    """True if it holds nine digits written as the United States write them, or named as such."""
    return _SOCIAL_SECURITY.search(text) is not None


def is_email_address(text: str) -> bool:
    """True if it holds an address, also one escaped inside a url."""
    return _EMAIL.search(text) is not None


def is_telephone_number(text: str) -> bool:
    """True if it holds a number with its country's code, or one of North America."""
    if _INTERNATIONAL.search(text):
        return True
    return "isbn" not in text.lower() and _AMERICAN.search(text) is not None


BUILT_IN: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "payment card numbers": is_card_number,
        "US social-security numbers": is_social_security_number,
        "e-mail addresses": is_email_address,
        "telephone numbers": is_telephone_number,
    }
)


SHORT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "cards": "payment card numbers",
        "social-security": "US social-security numbers",
        "emails": "e-mail addresses",
        "telephones": "telephone numbers",
    }
)
"""The patterns as `--filter` names them."""
IN_IDENTIFIERS = ("e-mail addresses",)
"""Patterns for columns of identifiers, such as urls: long numbers are product numbers there."""
_IDENTIFIERS = ("url",)

_Places = np.ndarray[Any, np.dtype[np.int64]]
OWNERS_LIST = "owner's list"
# More at once, and RE2's automaton no longer fits its memory: it gets a thousand times slower.
_WORDS_AT_ONCE = 200


@dataclass(frozen=True)
class OutputFilter:
    """The built-in patterns and the owner's own: words or phrases, and regular expressions (RE2 syntax).

    patterns: the built-in ones that are looked for, by short name (`SHORT_NAMES`); empty for none of them.
    """

    words: tuple[str, ...] = field(default=(), repr=False)
    expressions: tuple[str, ...] = field(default=(), repr=False)
    patterns: tuple[str, ...] = tuple(SHORT_NAMES)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(" ".join(unicodedata.normalize("NFKC", w).split()) for w in self.words))
        object.__setattr__(self, "expressions", tuple(self.expressions))
        object.__setattr__(self, "patterns", tuple(self.patterns))
        for pattern in self.patterns:
            one_of("filter", pattern, (*SHORT_NAMES, "off"), "off for none of them, or several with commas")
        if not all(self.words):
            raise InputError("a word that shall never be released is empty; remove it")
        for number, expression in enumerate(self.expressions, 1):
            if not _works(expression):
                raise InputError(f"expression {number} is not a regular expression (RE2 syntax); correct or remove it")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], patterns: Iterable[str] = tuple(SHORT_NAMES)) -> OutputFilter:
        """Read the owner's list: a word or phrase a line, or /a regular expression/; # begins a comment."""
        words, expressions = [], []
        for number, line in enumerate(_lines(Path(path)), 1):
            text = line.strip()
            if len(text) > 2 and text.startswith("/") and text.endswith("/"):
                if not _works(text[1:-1]):
                    raise InputError(
                        f"line {number} of {str(path)!r} is not a regular expression (RE2 syntax); correct or remove it"
                    )
                expressions.append(text[1:-1])
            elif text and not text.startswith("#"):
                words.append(text)
        return cls(tuple(words), tuple(expressions), tuple(patterns))

    def to_json(self) -> dict[str, Any]:
        """Return the filter as the card states it."""
        own = bool(self.words or self.expressions)
        return {"applied": bool(self.patterns) or own, "patterns": list(self._built_in), "owners_list": own}

    @property
    def _built_in(self) -> dict[str, Callable[[str], bool]]:
        chosen = {SHORT_NAMES[name] for name in self.patterns}
        return {name: matches for name, matches in BUILT_IN.items() if name in chosen}

    def apply(
        self, batch: pa.RecordBatch, on_dropped: Callable[[pa.RecordBatch], None] | None = None
    ) -> tuple[pa.RecordBatch, dict[str, int]]:
        """Return the batch without matching rows, and (private) how many rows matched which pattern first.

        on_dropped: gets the rows that were dropped (private).
        """
        hits_of: dict[str, np.ndarray[Any, np.dtype[np.bool_]]] = {}
        for column, values in _text_columns(batch):
            texts, parents = _flat(values)
            for name, rows in self._matches(texts, identifiers=column in _IDENTIFIERS).items():
                hits = hits_of.setdefault(name, np.zeros(batch.num_rows, np.bool_))
                hits[rows if parents is None else parents[rows]] = True
        drop = np.zeros(batch.num_rows, np.bool_)
        dropped = {}
        for name in (*BUILT_IN, OWNERS_LIST):
            if name in hits_of:
                dropped[name] = int((hits_of[name] & ~drop).sum())
                drop |= hits_of[name]
        if on_dropped is not None and drop.any():
            on_dropped(batch.filter(pa.array(drop)))
        kept = batch.filter(pa.array(~drop)) if drop.any() else batch
        return kept, {name: count for name, count in dropped.items() if count}

    def _matches(self, texts: pa.Array, *, identifiers: bool) -> dict[str, _Places]:
        """Return for each pattern the places of the texts that match it."""
        places = _places(texts, [CANDIDATE])
        # Only candidates, a handful in a thousand, are looked at one by one.
        candidates = texts.take(pa.array(places)).to_pylist()
        looked_for = {
            name: matches for name, matches in self._built_in.items() if not identifiers or name in IN_IDENTIFIERS
        }
        matched = {name: places[_true(map(matches, candidates))] for name, matches in looked_for.items()}
        matched[OWNERS_LIST] = np.union1d(_places(texts, self.expressions), self._word_places(texts))
        return {name: rows for name, rows in matched.items() if rows.size}

    def _word_places(self, texts: pa.Array) -> _Places:
        chunks = [self.words[first : first + _WORDS_AT_ONCE] for first in range(0, len(self.words), _WORDS_AT_ONCE)]
        places = _places(texts, [f"(?i)(?:{'|'.join(map(_anywhere, chunk))})" for chunk in chunks])
        candidates = texts.take(pa.array(places)).to_pylist()
        whole: _Places = places[_true(self._whole_words.search(text) is not None for text in candidates)]
        return whole

    @cached_property
    def _whole_words(self) -> re.Pattern[str]:
        return re.compile("|".join(map(whole_words, self.words)), re.IGNORECASE)


def whole_words(phrase: str) -> str:
    """The regular expression of a phrase as whole words.

    Scripts without capitals mostly run words together, or glue articles to them: there it matches anywhere.
    """
    before = r"(?<![^\W_])" if _has_edge(phrase[0]) else ""
    after = r"(?![^\W_])" if _has_edge(phrase[-1]) else ""
    return before + r"\s+".join(map(re.escape, phrase.split())) + after


def _has_edge(char: str) -> bool:
    return unicodedata.category(char) in ("Lu", "Ll", "Lt", "Nd")


def _anywhere(phrase: str) -> str:
    """A phrase for RE2, which knows no look-around."""
    quoted = ("".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in word) for word in phrase.split())
    return r"\s+".join(quoted)


def _lines(path: Path) -> list[str]:
    problem = ""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    raise InputError(f"the list {str(path)!r} cannot be read: {problem}; give a text file, a word or /pattern/ a line")


def _works(pattern: str) -> bool:
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return False
    return True


def _text_columns(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    # Users' names are made up: one that looks like a card number is none.
    names = set(batch.schema.names)
    ours = {"user", "session", "day"} if {"session", "clicked"} <= names else {"user"}
    for field_ in batch.schema:
        if field_.name not in ours and (pa.types.is_string(field_.type) or pa.types.is_list(field_.type)):
            yield field_.name, batch.column(field_.name)


def _flat(column: pa.Array) -> tuple[pa.Array, _Places | None]:
    if pa.types.is_list(column.type):
        return column.flatten(), pc.list_parent_indices(column).to_numpy()
    return column, None


def _places(texts: pa.Array, patterns: Iterable[str]) -> _Places:
    hit: np.ndarray[Any, np.dtype[np.bool_]] = np.zeros(len(texts), np.bool_)
    for pattern in patterns:
        matched = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
        hit |= matched.to_numpy(zero_copy_only=False)
    return np.flatnonzero(hit)


def _true(answers: Iterable[bool]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.fromiter(answers, np.bool_)
