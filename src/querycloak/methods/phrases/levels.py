"""From queries to tokens, for both engines alike, and to levels of keys: runs of tokens (phrases.md, *Keys*)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.engines import Engine
from querycloak.language.word_model import BEGIN, END
from querycloak.text.word_boundaries import words_of

KEY = ("phrase",)
MOST_WORDS = 32
"""Queries of more words have no tokens: a rule on each text, so that no text can fill the memory."""
_CUT = pa.schema([("query", pa.string()), ("words", pa.string())])
_PLAIN = "^[a-z0-9]+( [a-z0-9]+)*$"
"""Texts that are their own words."""


class CutWords:
    """Batches of queries to queries with their words, blanks between; only where these differ from the query."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Cut batch after batch."""
        for batch in batches:
            queries = batch.column(0).cast(pa.string())
            others = queries.filter(pc.invert(pc.match_substring_regex(queries, _PLAIN)))
            words = pa.array([" ".join(words_of(query)) for query in others.to_pylist()], pa.string())
            cut = pa.record_batch([others, words], schema=_CUT)
            yield cut.filter(pc.not_equal(others, words))


def with_tokens(engine: Engine, uses: ir.Table) -> ir.Table:
    """Rows with a query as rows with its tokens (`tokens`); rows without words are left out."""
    differing = engine.stage(engine.mapped(uses.select("query").distinct(), CutWords(), _CUT))
    cut = differing.select(cut_query=differing["query"], cut_words=differing.words)
    joined = uses.left_join(cut, uses["query"] == cut.cut_query)
    joined = joined.mutate(words=joined.cut_words.coalesce(joined["query"]))
    number = (joined.words.length() - joined.words.replace(" ", "").length()).cast("int64") + 1
    kept = joined.filter((joined.words != "") & (number <= MOST_WORDS))
    tokens = f"{BEGIN} " + kept.words + f" {END}"
    return kept.mutate(tokens=tokens).drop("words", "cut_query", "cut_words", "query")


def number_of_levels(longest: int) -> int:
    """The number of levels for keys of up to this many words."""
    return max(2, longest)


def level_of(words: int, marks: int, longest: int) -> int:
    """The level of keys with this many words and marks."""
    return min(words + (marks > 0), number_of_levels(longest))


def uses_of_words(engine: Engine, searches: ir.Table, beside: Sequence[str] = ()) -> ir.Table:
    """user, tokens, columns beside them and earliest of each user's queries, once; computed now and kept.

    searches: user, query, these columns and earliest.
    """
    cut = with_tokens(engine, searches)
    return engine.stage(cut.group_by(["user", "tokens", *beside]).agg(earliest=cut.earliest.min()))


def contributions(
    engine: Engine,
    uses: ir.Table,
    level: int,
    longest: int,
    before: ir.Table | None,
    private: Sequence[str] = (),
) -> ir.Table:
    """user, phrase, private attributes and earliest: the candidates of a level that each user holds.

    before: what came out below the level, with its attributes.
    """
    texts = uses.select("tokens", *private).distinct()
    keys = engine.stage(candidates(texts, level, longest, before, private))
    mine = uses.inner_join(keys, ["tokens", *private])
    return mine.group_by(["user", *KEY, *private]).agg(earliest=mine.earliest.min())


def candidates(
    texts: ir.Table, level: int, longest: int, before: ir.Table | None, private: Sequence[str] = ()
) -> ir.Table:
    """tokens, phrase and private attributes: the keys of a level in each text; None: whatever came out before.

    texts: tokens and private attributes; a run counts as out where it came out with the same attributes.
    """
    placed = _placed(texts, private)
    if level == 1:
        words = placed.filter((placed.place > 0) & (placed.place < placed.number - 1))
        return words.select("tokens", *private, phrase=_run(words, 1)).distinct()
    windows = _windows(placed, level - 1)
    if before is not None:
        known = before.select(*private, phrase=before.phrase)
        kept = windows.semi_join(known, [*KEY, *private])
        marks = windows.filter(windows.phrase.isin([BEGIN, END]))
        windows = kept.union(marks) if level == 2 else kept
    last = longest + 2 if level == number_of_levels(longest) else level + 1
    runs = [_runs(windows, level, length, private) for length in range(level, last + 1)]
    keys = runs[0]
    for more in runs[1:]:
        keys = keys.union(more)
    keys = keys.mutate(marks=keys.begins.cast("int64") + keys.ends.cast("int64"))
    words = keys.length - keys.marks
    of_level = (words >= 1) & (words <= longest) & (_level(words, keys.marks, longest) == level)
    return keys.filter(of_level).select("tokens", "phrase", *private).distinct()


def runs_among(texts: ir.Table, longest: int, private: Sequence[str], released: ir.Table | None = None) -> ir.Table:
    """tokens, private attributes, phrase: the keys of every level in each text; of released ones all their columns."""
    placed = _placed(texts, private)
    keys = ibis.union(*(_keys_of_length(placed, length, longest, private) for length in range(1, longest + 3)))
    return (keys if released is None else keys.inner_join(released, [*KEY, *private])).distinct()


def _keys_of_length(placed: ir.Table, length: int, longest: int, private: Sequence[str]) -> ir.Table:
    runs = _windows(placed, length)
    marks = (runs.place == 0).cast("int64") + (runs.place + length == runs.number).cast("int64")
    words = length - marks
    return runs.filter((words >= 1) & (words <= longest)).select("tokens", "phrase", *private)


def _level(words: ir.IntegerValue, marks: ir.IntegerValue, longest: int) -> ir.IntegerValue:
    """`level_of`, in the engine."""
    return ibis.least(words + (marks > 0).cast("int64"), ibis.literal(number_of_levels(longest), "int64"))


def _placed(texts: ir.Table, private: Sequence[str]) -> ir.Table:
    """A row for each token of a text: its place and the number of tokens."""
    split = texts.select("tokens", *private, parts=texts.tokens.split(" "))
    split = split.mutate(number=split.parts.length().cast("int64"))
    rows = split.select("tokens", *private, "parts", "number", place=ibis.range(0, split.number).unnest())
    return rows.mutate(place=rows.place.cast("int64"))


def _windows(placed: ir.Table, length: int) -> ir.Table:
    """The runs of this many tokens: tokens, private attributes, parts, number, place, phrase."""
    rows = placed.filter(placed.place + length <= placed.number)
    return rows.mutate(phrase=_run(rows, length))


def _run(rows: ir.Table, length: int) -> ir.StringValue:
    """This many tokens from a place on, blanks between."""
    text = rows.parts[rows.place]
    for offset in range(1, length):
        text = text + " " + rows.parts[rows.place + offset]
    return text


def _runs(windows: ir.Table, level: int, length: int, private: Sequence[str]) -> ir.Table:
    """The runs of this many tokens all of whose windows are there, with begins, ends and length."""
    rows = windows.select("tokens", *private, "parts", "number", "place")
    for offset in range(1, length - level + 2):
        next_ones = windows.select("tokens", *private, place=windows.place - offset)
        rows = rows.semi_join(next_ones, ["tokens", *private, "place"])
    return rows.select(
        "tokens",
        *private,
        phrase=_run(rows, length),
        begins=rows.place == 0,
        ends=rows.place + length == rows.number,
        length=ibis.literal(length, "int64"),
    )


def keys_per_user(engine: Engine, uses: ir.Table, longest: int, most: Sequence[int]) -> list[dict[int, int]]:
    """For each level the number of users with 1, 2, ... keys in their queries, repeats included (private).

    Users of more than `most` count as users of `most`, by level.
    """
    words = (uses.tokens.length() - uses.tokens.replace(" ", "").length()).cast("int64") - 1
    sized = uses.select("user", words=words)
    numbers = {f"n{level}": _keys_in_query(sized.words, level, longest) for level, _ in enumerate(most, 1)}
    counted = sized.mutate(**numbers)
    users = engine.stage(counted.group_by("user").agg(**{name: counted[name].sum().cast("int64") for name in numbers}))
    return [
        _users_of(engine, users.select(keys=users[name].clip(upper=bound)))
        for name, bound in zip(numbers, most, strict=True)
    ]


def _users_of(engine: Engine, numbers: ir.Table) -> dict[int, int]:
    counted = engine.fetch(numbers.group_by("keys").agg(users=numbers.count()))
    by_keys = zip(counted["keys"].to_pylist(), counted["users"].to_pylist(), strict=True)
    return {keys: users for keys, users in by_keys if keys}


def _keys_in_query(words: ir.IntegerValue, level: int, longest: int) -> ir.IntegerValue:
    """The number of a level's keys in a query of this many words, equal ones apart."""
    number = ibis.literal(0, "int64")
    for length in range(1, longest + 1):
        if level_of(length, 0, longest) == level:
            number = number + (words - (length - 1)).clip(lower=0)
        if level_of(length, 1, longest) == level:
            number = number + 2 * (words >= length).cast("int64") + (words == length).cast("int64")
    return number
