"""The last look before writing: rows that no one should publish are dropped, also if noise let them pass.

It reads nothing but what the mechanism released, so it costs no budget. How many rows it dropped, and the owner's own
patterns, are private: the card says only that it was applied.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.errors import InputError
from querycloak.releases.patterns import BUILT_IN, CANDIDATE

_Places = np.ndarray[Any, np.dtype[np.int64]]
OWNERS_LIST = "owner's list"
# More at once, and RE2's automaton no longer fits its memory: it gets a thousand times slower.
_WORDS_AT_ONCE = 200


@dataclass(frozen=True)
class OutputFilter:
    """The built-in patterns and the owner's own: words or phrases, and regular expressions (RE2 syntax)."""

    words: tuple[str, ...] = field(default=(), repr=False)
    expressions: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(" ".join(unicodedata.normalize("NFKC", w).split()) for w in self.words))
        object.__setattr__(self, "expressions", tuple(self.expressions))
        if not all(self.words):
            raise InputError("a word that shall never be released is empty; remove it")
        for number, expression in enumerate(self.expressions, 1):
            if not _works(expression):
                raise InputError(f"expression {number} is not a regular expression (RE2 syntax); correct or remove it")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> OutputFilter:
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
        return cls(tuple(words), tuple(expressions))

    def to_json(self) -> dict[str, Any]:
        """As it stands on the card."""
        return {"applied": True, "patterns": list(BUILT_IN), "owners_list": bool(self.words or self.expressions)}

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, int]]:
        """The batch without the rows that match, and (private) how many matched which pattern first."""
        found: dict[str, np.ndarray[Any, np.dtype[np.bool_]]] = {}
        for column in _text_columns(batch):
            texts, parents = _flat(column)
            for name, rows in self._matches(texts).items():
                hits = found.setdefault(name, np.zeros(batch.num_rows, np.bool_))
                hits[rows if parents is None else parents[rows]] = True
        drop = np.zeros(batch.num_rows, np.bool_)
        dropped = {}
        for name in (*BUILT_IN, OWNERS_LIST):
            if name in found:
                dropped[name] = int((found[name] & ~drop).sum())
                drop |= found[name]
        kept = batch.filter(pa.array(~drop)) if drop.any() else batch
        return kept, {name: count for name, count in dropped.items() if count}

    def _matches(self, texts: pa.Array) -> dict[str, _Places]:
        """For each pattern the places of the texts that match it."""
        places = _places(texts, [CANDIDATE])
        # Only candidates, a handful in a thousand, are looked at one by one.
        candidates = texts.take(pa.array(places)).to_pylist()
        found = {name: places[_true(map(matches, candidates))] for name, matches in BUILT_IN.items()}
        found[OWNERS_LIST] = np.union1d(_places(texts, self.expressions), self._word_places(texts))
        return {name: rows for name, rows in found.items() if rows.size}

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


def _text_columns(batch: pa.RecordBatch) -> Iterable[pa.Array]:
    # Users' names are made up: one that looks like a card number is none.
    return (batch.column(name) for name in batch.schema.names if name not in ("user", "count", "time"))


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
