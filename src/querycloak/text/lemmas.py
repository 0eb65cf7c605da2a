"""The base forms that an English noun may have, by the rules and exceptions of WordNet's own look-up.

The rules are those of Morphy, the look-up of WordNet (its manual page morphy(7WN)): irregular forms stand in a
list, the others lose an ending. A form counts only if the taxonomy knows it; who asks decides which one wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# What an ending becomes. "boxful" is one box's fill, so "boxesful" loses its ending before "ful".
_ENDINGS = (
    ("s", ""),
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
)
_SHORTEST = 3


def base_forms(word: str, exceptions: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Every base form that a noun may have by the exceptions or by the rules, the word itself not among them."""
    if word in exceptions:
        yield from (form for form in exceptions[word] if form != word)
        return
    stem, tail = (word[:-3], "ful") if word.endswith("ful") else (word, "")
    if len(stem) < _SHORTEST or stem.endswith("ss"):
        return
    for ending, becomes in _ENDINGS:
        if stem.endswith(ending) and len(stem) > len(ending):
            yield stem[: len(stem) - len(ending)] + becomes + tail
