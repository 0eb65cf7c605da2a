"""Queries to concepts: the golden ten, forms, phrases, and a slow oracle."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.text.english import STOP_WORDS, as_words, written_forms
from querycloak.text.query_concepts import ConceptFinder
from querycloak.text.taxonomy import FOUR, NINETEEN, Taxonomy, topic_concepts, topics_of, widest_sense
from querycloak.text.taxonomy_table import taxonomy_of
from querycloak.text.wordnet import wordnet


@pytest.fixture(scope="module")
def finder() -> ConceptFinder:
    return ConceptFinder(wordnet())


# query, its one concept by default (by a label), what the paper's variant finds in its phrases, why
GOLDEN = [
    ("new apple phones", "phone", ["phone"], "'apple phone' is no noun of WordNet; words go from the left"),
    ("stores offering the new apple phones", "phone", ["store", "phone"], "two phrases, as in the paper; the last one"),
    ("phones apple store new", "store", ["store"], "a list of terms: nothing but the order says what matters"),
    ("honda accord check engine light", "light", ["light"], "honda is unknown, an accord an agreement: the last noun"),
    ("how to get rid of asthma cough", "cough", ["cough"], "the head of the phrase; the rest are stop words"),
    ("water polo rules", "water polo", ["water polo"], "longest first, or trimming from the left would leave 'rules'"),
    ("cheap flights to las vegas", "las vegas", ["flight", "las vegas"], "two words beat one"),
    ("tiger woods wife", "wife", ["wife"], "tiger woods is no noun of WordNet"),
    ("weather channel", "channel", ["channel"], "not in WordNet either: its head"),
    ("helpful aids for arthritis", "arthritis", ["aid", "arthritis"], "lemmatised first: aids are help, no disease"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "label", "phrases", "why"), GOLDEN)
def test_golden_queries(finder: ConceptFinder, query: str, label: str, phrases: list[str], why: str) -> None:
    nouns = wordnet()
    (concept,) = finder.concepts(pa.array([query]))
    assert concept == nouns.concept(label), why
    found = finder.mentions(pa.array([query]))
    assert [nouns.labels[number] for number in found.label] == phrases, why
    said = [query.encode()[a:b].decode() for a, b in zip(found.start, found.end, strict=True)]
    assert all(nouns.base(each) == phrase for each, phrase in zip(said, phrases, strict=True))


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("alzheimer's", "alzheimer's"),
        ("alzheimers disease", "alzheimer's disease"),
        ("court martial", "court-martial"),
        ("t-shirts", "t-shirt"),
        ("secretary of state salary", "secretary of state"),
        ("vitamin c", "vitamin c"),
        ("www.google.com", "google"),
        ("rock 'n' roll", "rock 'n' roll"),
        ("iphone 6", None),  # a bare number is no concept
        ("c", None),
        ("", None),
        ("how to get it", None),
        ("天气 预报", None),
        ("ärger", None),
    ],
)
def test_odd_queries(finder: ConceptFinder, query: str, label: str | None) -> None:
    (concept,) = finder.concepts(pa.array([query, "other"]))[:1]
    assert concept == (-1 if label is None else wordnet().concept(label))


def test_the_domain_decides_the_sense() -> None:
    nouns = wordnet()
    disease = nouns.below(nouns.concept("disease"))
    (concept,) = ConceptFinder(disease).concepts(pa.array(["helpful aids"]))
    assert "aids" in disease.concept_labels(concept)
    assert ConceptFinder(disease).concepts(pa.array(["weather"])).tolist() == [-1]


def test_forms_are_those_that_look_up_leads_back() -> None:
    nouns = wordnet()
    forms = written_forms(nouns)
    for form in (
        "glasses",
        "aids",
        "men",
        "children",
        "species",
        "news",
        "flights",
        "concerti grossi",
        "attorneys general",
    ):
        assert nouns.labels[forms[form]] == (nouns.base(form) or "")
    plain = [form for form in sorted(forms)[::97] if " " not in form and form in nouns]
    differing = [form for form in plain if as_words(nouns.base(form) or "") != as_words(nouns.labels[forms[form]])]
    assert len(plain) > 1_000
    assert len(differing) <= len(plain) // 500  # evenly used forms of two words ("cruses") may go either way


WORDS = ["red", "wine", "red wine", "glass of", "glass of wine", "of", "the", "store", "wines", "42", "x"]
SMALL = taxonomy_of(
    [
        ("r", ["thing"], []),
        ("w", ["wine"], ["r"]),
        ("rw", ["red wine", "red"], ["w"]),
        ("g", ["glass of wine"], ["r"]),
        ("s", ["store", "x"], ["r"]),
    ]
)


def slow_matches(taxonomy: Taxonomy, query: str) -> list[tuple[int, int, int]]:
    """(start, length, label) of every span that is a form of a label and may be a match."""
    forms, words = written_forms(taxonomy), as_words(query).split()

    def bounds(word: str) -> bool:
        return word not in STOP_WORDS and not word.isdigit()

    return [
        (start, end - start, forms[text])
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
        if (text := " ".join(words[start:end])) in forms and bounds(words[start]) and bounds(words[end - 1])
        if len(text) > 1
    ]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=7), st.sampled_from([" ", "  ", " - ", "'s "]))
def test_the_longest_match_wins_and_of_equals_the_last(words: list[str], between: str) -> None:
    query = between.join(words)
    matches = slow_matches(SMALL, query)
    best = max(matches, key=lambda match: (match[1], match[0]), default=None)
    (found,) = ConceptFinder(SMALL).concepts(pa.array([query]))
    assert found == (-1 if best is None else SMALL.senses_of[best[2]][0])


def test_topics_of_the_paper() -> None:
    nouns = wordnet()
    four, nineteen = (topics_of(nouns, topic_concepts(nouns, names)) for names in ("4", "19"))
    abstraction = nouns.under(widest_sense(nouns, "abstraction"))
    assert abstraction.sum() == 39_914
    assert [int((four == number).sum()) for number in range(1, 5)] == [606, 435, 177, 255]
    assert ((four == 0) & abstraction).sum() == 38_441
    assert len(NINETEEN) == len(set(NINETEEN)) == 19
    assert (four[nineteen > 0] > 0).all()  # each is a specialisation of one of the four
    assert {int(four[concept]) for concept in topic_concepts(nouns, NINETEEN)} == {1, 2, 3, 4}
    assert len(FOUR) == 4


def test_names_of_concepts() -> None:
    nouns = wordnet()
    assert nouns.ids[widest_sense(nouns, "abstraction")] == "00002137"  # sense 6
    assert nouns.ids[widest_sense(nouns, "Abstraction#1")] == "05854150"
    assert topic_concepts(SMALL, "children") == SMALL.children_of[SMALL.root].tolist()
    with pytest.raises(ParameterError, match=r"WordNet 3\.0 nouns has no concept 'health care plan b'"):
        widest_sense(nouns, "health care plan b")
    with pytest.raises(ParameterError, match="'sport' has senses 1 to 7"):
        widest_sense(nouns, "sport#8")
