"""The written forms under which the labels of a taxonomy are found in queries.

Each label is found as it is written and with an inflected last word ("water polos"), or first word where that one is
the head ("sons of god", "attorneys general"): the forms that `lemmas.base_forms` would lead back to it, made once, so
that a query needs a look-up and no rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from querycloak.text.taxonomy import Taxonomy

_BETWEEN_WORDS = re.compile(r"[^a-z0-9\u0080-\U0010ffff]+")
_ENDINGS_WITH_ES = ("s", "x", "z", "ch", "sh")
_SHORTEST = 3
_AFTER_THE_HEAD = frozenset({"of", "in", "at", "on", "for", "to", "de", "general"})


def as_words(text: str) -> str:
    """Lower-case text with single blanks between words; apostrophes go, all other signs part words."""
    if text.replace(" ", "").isalnum():
        return text
    return _BETWEEN_WORDS.sub(" ", text.replace("'", "").replace("\u2019", "")).strip()


def written_forms(taxonomy: Taxonomy) -> dict[str, int]:
    """Every form -> the number of the label it stands for.

    Where several labels have a form, the one used most in tagged text wins ("glasses" is "glass"), and where they
    are even the one of which it is an inflection ("aids" is "aid").
    """
    irregular = _irregular(taxonomy.exceptions)
    tagged = np.add.reduceat(taxonomy.sense_counts, taxonomy.senses_of.starts[:-1]).tolist()
    found: dict[str, int] = {}
    words = [as_words(label) for label in taxonomy.labels]
    for number, label in enumerate(words):
        for form in _inflected(label, irregular, taxonomy.exceptions):
            if form not in found or tagged[number] > tagged[found[form]]:
                found[form] = number
    for number, form in enumerate(words):  # the labels themselves, after their inflections
        if form and (form not in found or tagged[number] > tagged[found[form]]):
            found[form] = number
    return found


def _irregular(exceptions: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Base form -> its irregular forms."""
    forms: dict[str, list[str]] = {}
    for form, bases in exceptions.items():
        for base in bases:
            forms.setdefault(base, []).append(form)
    return forms


def _inflected(
    label: str, irregular: Mapping[str, list[str]], exceptions: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    yield from irregular.get(label, ())
    start, blank, last = label.rpartition(" ")
    for form in _plurals(last, irregular, exceptions):
        yield start + blank + form
    if blank:
        first, _, rest = label.partition(" ")
        if rest.partition(" ")[0] in _AFTER_THE_HEAD:
            for form in _plurals(first, irregular, exceptions):
                yield f"{form} {rest}"


def _plurals(word: str, irregular: Mapping[str, list[str]], exceptions: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    """The forms that the rules of look-up lead back to this word; an irregular form follows its exception alone."""
    made = [form for form in irregular.get(word, ()) if " " not in form and form != word]
    if word and not word.endswith("s"):  # what ends in "ss" is no plural
        made.append(word + "s")
    if word.endswith(_ENDINGS_WITH_ES):
        made.append(word + "es")
    if word.endswith("man") and len(word) > _SHORTEST:
        made.append(word[:-3] + "men")
    if word.endswith("y") and len(word) > 1:
        made.append(word[:-1] + "ies")
    return [form for form in made if len(form) >= _SHORTEST and (form not in exceptions or word in exceptions[form])]
