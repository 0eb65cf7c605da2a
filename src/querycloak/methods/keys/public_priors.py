"""Probability that a key is shared, from its text and public knowledge alone: length, digits, rare words.

Order and weights of a user's keys may depend on their text at no cost (privacy/calibration/selection.md).
"""

from __future__ import annotations

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.engines import Engine
from querycloak.text.english import public_phrases

MOST_POINTS = 8
_WORD, _UNKNOWN_WORD, _DIGIT = 2, 1, 3
# A text of more words is hopeless whatever they are: its points are known without a look at any of them. So a text is
# never multiplied by its words, of which 64 KiB hold 32,000.
_MOST_WORDS = MOST_POINTS // _WORD


def with_prior(engine: Engine, contributions: ir.Table, column: str) -> ir.Table:
    """The contributions with a column `prior`, from 0 (many people may share the text) to 8 (hardly anybody)."""
    texts = contributions.select(text=contributions[column]).distinct()
    # A sequence is one character for how many queries it has, then the queries, parted by U+001F (sessions.md).
    plain = texts.text.substr(1).replace("\x1f", " ") if column == "queries" else texts.text
    blanks = (plain.length() - plain.replace(" ", "").length()).cast("int64")
    texts = texts.mutate(plain=plain, words=blanks + 1)
    short = texts.filter(texts.words <= _MOST_WORDS)
    words = short.select("text", "words", digits=short.plain.re_search("[0-9]"), word=short.plain.split(" ").unnest())
    known = words.left_join(engine.upload(_known_words()), "word")
    counted = known.group_by(["text", "words", "digits"]).agg(unknown=known.known.isnull().sum())
    points = (counted.words - 1) * _WORD + counted.unknown * _UNKNOWN_WORD + counted.digits.cast("int64") * _DIGIT
    scored = counted.select(scored=counted.text, prior=ibis.least(points, MOST_POINTS).cast("int64"))
    # What is not scored is long.
    joined = contributions.left_join(scored, contributions[column] == scored.scored).drop("scored")
    return joined.mutate(prior=joined.prior.fill_null(MOST_POINTS))


def _known_words() -> pa.Table:
    phrases = public_phrases()
    single = pc.invert(pc.match_substring(phrases["phrase"], " "))
    words = phrases.filter(single).select(["phrase"]).rename_columns(["word"])
    return words.append_column("known", pc.greater(pc.utf8_length(words["word"]), 0))
