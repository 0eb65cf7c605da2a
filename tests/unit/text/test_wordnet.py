"""The shipped nouns of WordNet 3.0: counts, senses, base forms, licence, and the script that wrote them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from querycloak.text.english import base_forms
from querycloak.text.wordnet import LICENCE, TABLE, wordnet

SCRIPT = Path(__file__).parents[3] / "scripts/make_wordnet.py"


def test_counts_are_those_of_wordnet_3() -> None:
    """Concepts and labels as wnstats(7WN) prints them; the rest counted in data.noun by `grep` and `awk`."""
    nouns = wordnet()
    assert len(nouns) == len(nouns.ids) == 82_115  # noun synsets
    assert len(nouns.labels) == 117_798  # distinct nouns, in lower case
    assert len(nouns.senses_of.values) == len(nouns.labels_of.values) == 146_312  # word-sense pairs
    assert len(nouns.parents_of.values) == 84_427  # hypernyms 75,850, instance hypernyms 8,577
    assert (nouns.parents_of.lengths == 0).sum() == 1
    assert nouns.shown(nouns.root) == "entity"
    assert nouns.depths.min() == 0
    assert nouns.depths.max() == 19
    assert round(float((nouns.parents_of.lengths > 1).mean()), 3) == 0.027


@pytest.mark.parametrize(
    ("label", "sense", "size", "identifier"),
    [
        ("disease", 1, 606, "14070360"),
        ("scientific discipline", 1, 435, "05999797"),
        ("sport", 1, 177, "00523513"),
        ("social event", 1, 255, "07288639"),
        ("abstraction", 1, 93, "05854150"),
        ("abstraction", 6, 39_914, "00002137"),
    ],
)
def test_sizes_of_the_domains_that_papers_use(label: str, sense: int, size: int, identifier: str) -> None:
    nouns = wordnet()
    concept = nouns.concept(label, sense)
    assert nouns.ids[concept] == identifier
    assert len(nouns.descendants(concept)) == size
    domain = nouns.below(concept)
    assert len(domain) == size
    assert domain.ids[domain.root] == identifier
    assert label in domain.concept_labels(domain.root)
    assert len(nouns.labels_under(concept)) == len(domain.labels_of.values)


def test_senses_stand_in_wordnets_order_with_their_counts() -> None:
    nouns = wordnet()
    assert [nouns.ids[each] for each in nouns.concepts("glass")] == [
        "14881303", "03438257", "13767239", "03333129", "03754295", "03688832", "03438661",
    ]  # fmt: skip
    assert nouns.counts("glass").tolist() == [22, 12, 4, 1, 0, 0, 0]
    assert nouns.concept_labels(nouns.concept("scientific discipline")) == ["science", "scientific discipline"]
    assert nouns.concepts("weather channel").tolist() == []
    assert nouns.counts("weather channel").tolist() == []
    for label, concept, count in nouns.labels_under(nouns.concept("sport")):
        assert count == nouns.counts(label)[nouns.concepts(label).tolist().index(concept)]


@pytest.mark.parametrize(
    ("phrase", "base"),
    [
        ("flights", "flight"),
        ("women", "woman"),  # an ending of its own
        ("children", "child"),  # an exception
        ("concerti grossi", "concerto grosso"),  # an exception of two words
        ("water polos", "water polo"),
        ("attorneys general", "attorney general"),  # word by word
        ("boxesful", "boxful"),
        ("aids", "aid"),  # the help is usual, the disease is not: 25 tagged uses against none
        ("species", "species"),  # and not the coins called specie
        ("news", "news"),
        ("glasses", "glass"),
        ("las vegas", "las vegas"),
        ("us", "us"),  # too short to be a plural
        ("glass", "glass"),  # no plural of "glas"
        ("weather channel", None),
        ("tiger woods", None),
        ("", None),
    ],
)
def test_base_forms_of_nouns(phrase: str, base: str | None) -> None:
    nouns = wordnet()
    assert nouns.base(phrase) == base
    assert (phrase in nouns) == (base is not None)


def test_every_reading_of_a_form_is_offered() -> None:
    assert wordnet().bases("aids") == ["aid", "aids"]
    assert wordnet().bases("shingles") == ["shingle", "shingles"]
    assert wordnet().known(["maps", "zzyzx", "honda accord"]).tolist() == [True, False, False]
    assert 3 not in wordnet()


def test_rules_of_morphy() -> None:
    for word, forms in [
        ("boxes", {"box", "boxe"}),
        ("churches", {"church", "churche"}),
        ("wishes", {"wish", "wishe"}),
        ("buses", {"bus", "buse"}),
        ("waltzes", {"waltz", "waltze"}),
        ("ponies", {"pony", "ponie"}),
        ("firemen", {"fireman"}),
        ("spoonsful", {"spoonful"}),
        ("ss", set()),
        ("moss", set()),
        ("s", set()),
        ("men", set()),  # by its rule nothing would be left but "man", which is an exception's work
        ("house", set()),
    ]:
        assert set(base_forms(word, {})) == forms, word
    assert list(base_forms("men", {"men": ("man",)})) == ["man"]
    assert list(base_forms("data", {"data": ("data", "datum")})) == ["datum"]


def test_a_query_of_many_plurals_ends() -> None:
    assert wordnet().base(" ".join(["classes"] * 5_000)) is None


def test_the_licence_is_beside_the_table() -> None:
    text = (files("querycloak.text") / LICENCE).read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in text
    assert "Permission to use, copy, modify and distribute this software" in text
    assert (files("querycloak.text") / TABLE).read_bytes()[:2] == b"PK"


def test_wordnet_loads_without_arrow_pandas_or_numba() -> None:
    code = (
        "import sys; from querycloak.text.wordnet import wordnet; wordnet().base('maps'); "
        "print([m for m in ('pyarrow', 'pandas', 'numba', 'duckdb', 'ibis') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The script, on a dictionary of four nouns

LICENCE_LINES = "  1 Some licence  \n  2   \n  3 of two lines  \n"
DATA = (
    "00000100 03 n 01 entity 0 000 | all  \n"
    "00000200 05 n 02 Sea_cow 0 manatee 0 001 @ 00000100 n 0000 | swims  \n"
    "00000300 18 n 02 Manatee 0 manatee 1 002 @i 00000200 n 0000 ~ 00000100 n 0000 | one of them  \n"
)
INDEX = "entity n 1 1 ~ 1 0 00000100  \nmanatee n 2 1 @ 2 1 00000300 00000200  \nsea_cow n 1 1 @ 1 0 00000200  \n"
SENSES = (
    "entity%1:03:00:: 00000100 1 11\nmanatee%1:05:00:: 00000200 2 1\nmanatee%1:18:00:: 00000300 1 4\n"
    "manatee%2:18:00:: 00000300 1 9\nsea_cow%1:05:00:: 00000200 1 0\n"
)


def write_dictionary(folder: Path) -> Path:
    folder.mkdir()
    (folder / "data.noun").write_text(LICENCE_LINES + DATA)
    (folder / "index.noun").write_text(LICENCE_LINES + INDEX)
    (folder / "index.sense").write_text(SENSES)
    (folder / "noun.exc").write_text("sea_kine sea_cow\nmanati manatee\n")
    return folder


def test_the_script_writes_the_same_bytes_again(tmp_path: Path) -> None:
    dictionary = write_dictionary(tmp_path / "dict")
    digests = []
    for name in ("one", "two"):
        subprocess.run([sys.executable, str(SCRIPT), str(dictionary), "--out", str(tmp_path / name)], check=True)
        digests.append(hashlib.sha256((tmp_path / name / Path(TABLE).name).read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    assert (tmp_path / "one" / Path(LICENCE).name).read_text() == "Some licence\n\nof two lines\n"


def test_what_the_script_writes_is_what_is_read(tmp_path: Path) -> None:
    from querycloak.text.wordnet import _unpacked

    dictionary = write_dictionary(tmp_path / "dict")
    subprocess.run([sys.executable, str(SCRIPT), str(dictionary), "--out", str(tmp_path)], check=True)
    with np.load(tmp_path / Path(TABLE).name) as arrays:
        made = _unpacked(arrays)
    assert list(made.ids) == ["00000100", "00000200", "00000300"]
    assert [made.concept_labels(each) for each in range(3)] == [["entity"], ["sea cow", "manatee"], ["manatee"]]
    assert made.concepts("manatee").tolist() == [2, 1]
    assert made.counts("manatee").tolist() == [4, 1]
    assert [made.parents(each).tolist() for each in range(3)] == [[], [0], [1]]
    assert made.base("sea kine") == "sea cow"
