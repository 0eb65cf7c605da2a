"""Reformulations: kinds of change from a query to the next one of its session, with their words; for any engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.types as ir

ADDED, DROPPED, REPLACED, SAME, NEW = KINDS = ("added", "dropped", "replaced", "same", "new")
"""Kinds of reformulation. The next query has all words and more; only some of them; some and others; the same; none."""
OF_WORDS = (ADDED, DROPPED, REPLACED)
"""Kinds that name words: those added, those dropped, and those that took the place of others."""
MOST_WORDS = 32
"""Number of words of a query that are compared, the first ones."""
ALL_WORDS = ""
"""Stands for a kind as a whole."""


def reformulations(steps: ir.Table) -> ir.Table:
    """user, kind, word and earliest, once each: the kinds as a whole, then the words of kinds that name words.

    steps: as `sequences.session_steps` has them.
    """
    import ibis  # not above: guarantees and help load KINDS, and no engine

    named = _with_kinds(steps)
    # Kinds as a whole come before all words, whenever they were first seen.
    whole = named.select("user", "kind", word=ibis.literal(ALL_WORDS), number=ibis.literal(-1, "int64"))
    of_words = named.filter(named.other & (named.after == (named.kind != DROPPED)) & named.kind.isin(OF_WORDS))
    of_words = of_words.select("user", "kind", "word", "number").filter(of_words.word != ALL_WORDS)
    cells = whole.union(of_words)
    return cells.group_by(["user", "kind", "word"]).agg(earliest=cells.number.min())


def kinds_of_steps(steps: ir.Table) -> ir.Table:
    """user, number and kind of every step that follows another; steps: as for `reformulations`."""
    return _with_kinds(steps).select("user", "number", "kind").distinct()


def _with_kinds(steps: ir.Table) -> ir.Table:
    """The words of moves, as `_words_of_moves` has them, with the kind of each move."""
    import ibis

    words = _words_of_moves(steps.filter(steps.before.notnull()))
    each = ibis.window(group_by=[words.user, words.number])
    more, fewer, shared = (
        flag.cast("int64").max().over(each) > 0
        for flag in (words.after & words.other, ~words.after & words.other, ~words.other)
    )
    kind = ibis.cases(
        (~more & ~fewer, SAME), (more & ~fewer, ADDED), (~more & fewer, DROPPED), (~shared, NEW), else_=REPLACED
    )
    return words.mutate(kind=kind)


def _words_of_moves(moves: ir.Table) -> ir.Table:
    """user, number, word, after (it is of the next query) and other (the other query of the move lacks it)."""
    import ibis

    first, second = (query.split(" ")[:MOST_WORDS] for query in (moves.before, moves.query))
    moves = moves.select("user", number=moves.number.cast("int64"), first=first, second=second)
    sides = [
        moves.select("user", "number", word=moves[one].unnest(), against=moves[another], after=ibis.literal(after))
        for one, another, after in (("first", "second", False), ("second", "first", True))
    ]
    words = sides[0].union(sides[1])
    return words.mutate(other=~words.against.contains(words.word)).drop("against")
