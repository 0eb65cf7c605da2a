"""English: stop words, words and word pairs that everybody knows, base forms and inflected forms of nouns.

Base forms follow Morphy, the look-up of WordNet (its manual page morphy(7WN)): irregular forms stand in a list, the
others lose an ending. A form counts only if the taxonomy knows it. Inflected forms are those that Morphy leads back to
a label, made once, so that a query needs a look-up and no rules: the label with an inflected last word ("water
polos"), or first word where that one is the head ("sons of god", "attorneys general").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.text.taxonomy import Taxonomy

_STOP_WORDS = """
a about above across after again against all almost along already also although always am among an and another any
anybody anyone anything anyway are around as at away back be became because become been before behind being below
beside besides between beyond both but by came can cannot come could did do does doing done down during each either
else enough etc ever every everybody everyone everything except few find for from further gave get gets getting give
given gives go goes going gone got had has have having he hence her here hers herself him himself his how however i
if im in inside instead into is it its itself ive just keep kept know let lets like made make makes making many may
maybe me might more most mostly much must my myself near need needs neither never no nobody none nor not nothing now
of off often on once one ones only onto or other others ought our ours ourselves out over own per perhaps please
quite rather really rid said same say see seem seemed seems seen several shall she should since so some somebody
someone something still such take taken takes than that the their theirs them themselves then thence there these
they this those though through throughout thus to together too took toward towards under unless until up upon us use
used using very via vs want wants was we well went were what whatever when whence where wherever whether which while
who whoever whole whom whose why will with within without would www yet you your yours yourself com net org http
https html offering selling looking
"""
_SIGNS = "& - + / | , . : ; ! ? ' \" ( )"

STOP_WORDS = frozenset([*_STOP_WORDS.split(), *_SIGNS.split()])
"""Words that name no concept of their own: they part phrases, and no match begins or ends with one."""


@lru_cache(maxsize=1)
def public_phrases() -> pa.Table:
    """phrase and count: 82,834 words and 242,342 pairs of words, sorted by phrase, each once.

    From the dictionaries of symspellpy (MIT, licence beside the table; counts from Google Books Ngrams), normalised as
    queries are. `scripts/make_public_phrases.py` makes the table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (files("querycloak.text") / "data" / "public_phrases.parquet").open("rb") as file:
        # Threads of Arrow's that still hold the file when Python ends abort it.
        return pq.read_table(pa.BufferReader(file.read()), use_threads=False, pre_buffer=False)


@lru_cache(maxsize=1)
def public_queries() -> pa.Table:
    """query and weight: public phrases without stop words, sorted, by which prefixes are completed without any log.

    A pair of words has a tenth of its count: printed text is full of pairs, and many queries are a word. The tenth was
    tuned on a synthetic log.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    phrases = public_phrases()
    words = pc.split_pattern(phrases["phrase"].combine_chunks(), " ")
    stops = pc.is_in(words.flatten(), value_set=pa.array(sorted(STOP_WORDS))).to_numpy(zero_copy_only=False)
    numbers = pc.list_value_length(words).to_numpy(zero_copy_only=False)
    kept = ~np.logical_or.reduceat(stops, np.cumsum(numbers) - numbers)
    weights = phrases["count"].to_numpy() * np.where(numbers > 1, 0.1, 1.0)
    return pa.table({"query": phrases["phrase"], "weight": weights}).filter(pa.array(kept))


_BETWEEN_WORDS = re.compile(r"[^a-z0-9\u0080-\U0010ffff]+")
_ENDINGS_WITH_ES = ("s", "x", "z", "ch", "sh")
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
    senses: dict[str, int] = {}
    words = [as_words(label) for label in taxonomy.labels]
    for number, label in enumerate(words):
        for form in _inflected(label, irregular, taxonomy.exceptions):
            if form not in senses or tagged[number] > tagged[senses[form]]:
                senses[form] = number
    for number, form in enumerate(words):  # the labels themselves, after their inflections
        if form and (form not in senses or tagged[number] > tagged[senses[form]]):
            senses[form] = number
    return senses


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
