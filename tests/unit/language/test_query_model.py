"""The model of a release: probabilities that add up, completions that beat counts, samples that follow the law."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.language.character_model import LETTERS, _trigrams, character_bits
from querycloak.language.query_model import QueryModel, public_completions
from querycloak.language.word_model import BEGIN, END, LEAST_NOVELTY, VOCABULARY, WordModel, grams_of, novelty
from querycloak.releases.release_model import model_of, model_of_queries
from querycloak.text.english import STOP_WORDS, public_queries
from querycloak.text.word_boundaries import joined, words_of
from tests.commands import in_process
from tests.unit.releases.making import SESSIONS, a_release

COUNTS = {"cheap flights": 30.0, "cheap hotels": 20.0, "weather": 50.0, "flights to rome": 10.0, "hotels in rome": 5.0}


def model() -> QueryModel:
    return QueryModel(COUNTS, grams_of(((query.split(), count) for query, count in COUNTS.items()), 3))


def test_characters_are_a_law() -> None:
    law = _trigrams()
    assert law.sum(-1) == pytest.approx(1)
    assert law.min() > 0
    assert character_bits("the weather") < character_bits("xqz wvkjtq")
    assert math.isfinite(character_bits("天气 \U0001f600"))
    assert len(set(LETTERS)) == len(LETTERS)


def test_next_words_are_a_law() -> None:
    """After any context, known words, the end and the spelling of unknown words add up to 1."""
    words = model().words
    unknown = "zebra"
    for before in ([BEGIN], [BEGIN, "cheap"], [BEGIN, "cheap", "flights"], [BEGIN, "unheard"]):
        listed = sum(words.probability(word, before) for word in (*words.words, END))
        spelled = words.probability(unknown, before) * 2 ** character_bits(unknown)
        assert listed + spelled == pytest.approx(1)


def test_new_words_follow_zipfs_law() -> None:
    """The mass of all ranks below the known ones, summed; at least a twentieth; 0.64 after 100 words."""
    masses = [1 / rank for rank in range(1, VOCABULARY + 1)]
    for words in (1, 2, 100, 10_000):
        assert novelty(words) == pytest.approx(sum(masses[words:]) / sum(masses), abs=0.01)
    assert novelty(0) == novelty(1)
    assert novelty(100) == pytest.approx(0.64, abs=0.005)
    assert novelty(10_000) == pytest.approx(0.32, abs=0.005)
    assert novelty(VOCABULARY) == novelty(10 * VOCABULARY) == LEAST_NOVELTY


def test_a_small_release_costs_little() -> None:
    """A query that a release of one word cannot express costs about what it costs without a release."""
    small = QueryModel({"weather": 9.0}, grams_of([(["weather"], 9.0)], 3))
    assert small.bits("zebra crossing") < character_bits("zebra crossing") + 0.2


def test_whole_queries_without_words() -> None:
    """A release of whole queries that no word spells: the rest of the probability belongs to characters."""
    only = QueryModel({"?!": 3.0, "...": 1.0}, {})
    rest = novelty(0)
    assert only.probability("?!") == pytest.approx((1 - rest) * 3 / 4 + rest * 2 ** -character_bits("?!"))
    assert only.ranked(5)[:2] == ["?!", "..."]
    assert set(only.sample(20, seed=1)) <= {"?!", "..."}


def test_witten_and_bell_by_hand() -> None:
    """Context (a): b twice, the end once; two types, so 2/5 go to the shorter context, whose b has 2 of 6."""
    small = WordModel({("a",): 3.0, ("b",): 2.0, (END,): 1.0, ("a", "b"): 2.0, ("a", END): 1.0})
    shorter = (1 - novelty(2)) * 2 / 6
    assert small.probability("b", ["a"]) == pytest.approx((1 - 2 / 5) * 2 / 3 + 2 / 5 * shorter)


def test_words_without_a_count_above_0_are_not_there() -> None:
    """Nor is the mark of the beginning a word that follows others."""
    plain = {("a",): 3.0, (END,): 1.0, ("a", END): 1.0}
    more = WordModel({**plain, ("b",): -1.0, ("a", "b"): 0.0, ("c", END): math.nan, (BEGIN,): 9.0})
    assert more.words == ("a",)
    for before in ([BEGIN], [BEGIN, "a"], [BEGIN, "b"]):
        for word in ("a", "b", END):
            assert more.probability(word, before) == WordModel(plain).probability(word, before)


def test_words_alone_by_hand() -> None:
    """Without whole queries, words have all that characters leave; a text that joins words otherwise has none of it."""
    alone = QueryModel({}, {("a",): 3.0, (END,): 1.0})
    known, new = 1 - novelty(1), novelty(1)
    by_words = known * (known * 3 / 4) * (known * 1 / 4)
    assert alone.probability("a") == pytest.approx(by_words + new * 2 ** -character_bits("a"))
    assert alone.bits("a ?") == pytest.approx(character_bits("a ?") - math.log2(new))


def test_words_above_a_share() -> None:
    """Those of which some context gives the share, by weight: an oracle over all contexts."""
    words = model().words
    before = [BEGIN, "cheap"]
    for least in (0.5, 0.2, 0.1, 0.03, 0.01, 0.001):
        weight, expected = 1.0, set()
        for context in ((BEGIN, "cheap"), ("cheap",), ()):
            law = words.contexts[context]
            expected |= {word for word, share in law.share_of.items() if weight * (1 - law.shorter) * share >= least}
            weight *= law.shorter
        assert dict(words.above(before, least)) == {word: words.probability(word, before) for word in expected}


def test_spelled_queries_have_the_probability_of_their_words() -> None:
    known = model()
    spelled = known._spelled(2.0**-12, 1000)
    assert "flights to rome" in spelled
    for query, chance in spelled.items():
        by_words = 2 ** known.words.logarithm(words_of(query))
        assert chance == pytest.approx(0.9 * (1 - novelty(7)) * by_words)
        assert chance >= 2.0**-12


def test_every_text_has_a_probability_and_released_ones_more() -> None:
    known = model()
    assert known.probability("weather") > known.probability("cheap rome") > known.probability("zebra crossing") > 0
    total = sum(known.probability(query) for query in COUNTS)
    assert 0.1 * (1 - novelty(7)) < total < 1
    assert known.expresses("cheap rome")
    assert not known.expresses("cheap zebra")


@given(st.text(max_size=30))
def test_bits_are_finite_for_any_text(text: str) -> None:
    assert math.isfinite(model().bits(text))


def test_completions_fall_and_fit() -> None:
    completions = model().complete("cheap ", 10)
    assert [each.query for each in completions[:2]] == ["cheap flights", "cheap hotels"]
    assert "cheap flights to rome" in [each.query for each in completions]  # no released query
    scores = [each.score for each in completions]
    assert scores == sorted(scores, reverse=True)
    assert all(each.query.startswith("cheap ") for each in completions)
    assert all(each.score == pytest.approx(model().probability(each.query)) for each in completions)
    assert model().complete("zzzq") == []


def test_released_queries_come_first_then_words_then_public_text() -> None:
    known = QueryModel({"cheap": 9.0}, {("chess",): 5.0, ("the",): 90.0, ("cheap",): 9.0, ("chesterfield",): 7.0})
    completions = known.complete("che", 6)
    assert [each.query for each in completions[:3]] == ["cheap", "chesterfield", "chess"]
    assert [each.source for each in completions] == ["released", "words", "words", *["public"] * 3]
    public = [each.query for each in completions[3:]]
    assert public == [query for query in public_completions("che", 6) if query not in {"cheap", "chess"}][:3]
    scores = [each.score for each in completions]
    assert scores == sorted(scores, reverse=True)
    assert "the" not in [each.query for each in known.complete("th", 10) if each.source == "words"]  # a stop word
    assert known.complete("", 2)[0].query == "cheap"  # nothing typed yet
    assert known.ranked(10)[:3] == ["cheap", "chesterfield", "chess"]


def test_words_that_are_typed_stay_even_if_unknown() -> None:
    (first, *_) = model().complete("zzzq wea")
    assert (first.query, first.source) == ("zzzq weather", "words")
    assert all(each.query.startswith("zzzq wea") for each in model().complete("zzzq wea"))


def test_no_completion_is_empty() -> None:
    assert "" not in [each.query for each in model().complete("", 1000)]
    assert "" not in model().ranked(100)


def test_queries_without_words_leave_words_alone() -> None:
    """A frequent query of signs is a whole query alone: words are as probable as without it."""
    signs = model_of_queries({"?!": 1e9, "weather": 1.0})
    assert signs.words.counts == model_of_queries({"weather": 1.0}).words.counts
    assert signs.bits("?!") == pytest.approx(-math.log2(0.1 * (1 - novelty(1))), abs=0.01)
    assert {word for query in signs.sample(200, seed=1) for word in query.split()} == {"?!", "weather"}


def test_long_words_cost_what_their_characters_cost() -> None:
    """Probabilities of words fall without end, so that all words together have at most 1."""
    word = "\u0e01" * 60
    assert character_bits(word) > 1100
    assert model().bits(word) >= character_bits(word)
    assert model().bits(word) == pytest.approx(character_bits(word) - math.log2(novelty(7)))


def test_public_completions_are_the_most_frequent_without_stop_words() -> None:
    queries = public_queries()
    assert queries["query"].to_pylist() == sorted(queries["query"].to_pylist())
    assert not {word for query in queries["query"].to_pylist() for word in query.split()} & STOP_WORDS
    weights = dict(zip(queries["query"].to_pylist(), queries["weight"].to_pylist(), strict=True))
    fitting = sorted((query for query in weights if query.startswith("wea")), key=lambda query: -weights[query])
    assert public_completions("wea", 5) == fitting[:5]
    assert "weather" in fitting[:5]


def test_samples_follow_the_model() -> None:
    samples = model().sample(4000, seed=3)
    assert samples == model().sample(4000, seed=3)
    counts = Counter(samples)
    assert counts["weather"] / 4000 == pytest.approx(model().probability("weather") / (1 - novelty(7)), rel=0.15)
    assert all(set(words_of(query)) <= set(model().words.words) for query in counts)


def test_drawn_words_follow_contexts_by_their_weights() -> None:
    """The shortest context has what the longer ones leave: nothing is spelled."""
    few = {query: count / 20 for query, count in COUNTS.items()}  # so that longer contexts leave much
    words, before, random = model_of_queries(few).words, [BEGIN, "cheap"], np.random.default_rng(4)
    weight, law = 1.0, dict.fromkeys((*words.words, END), 0.0)
    for context in ((BEGIN, "cheap"), ("cheap",), ()):
        continuations = words.contexts[context]
        own = weight * (1 - continuations.shorter if context else 1.0)
        for word, share in continuations.share_of.items():
            law[word] += own * share
        weight *= continuations.shorter
    assert sum(law.values()) == pytest.approx(1)
    drawn = Counter(words.draw(before, random) for _ in range(20_000))
    for word, share in law.items():
        assert drawn[word] / 20_000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 20_000))


def test_samples_end_where_no_end_came_out() -> None:
    assert QueryModel({}, {("a",): 3.0}).sample(2, seed=1) == [" ".join("a" * 8)] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("how to boil an egg", ["how", "to", "boil", "an", "egg"]),
        ("www.example.com", ["www.example.com"]),
        ("don't stop", ["don't", "stop"]),
        ("3,000 meters + 2.5%", ["3,000", "meters", "2.5"]),
        ("c++ r&b", ["c", "r", "b"]),
        ("天气 预报", ["天", "气", "预", "报"]),
        ("東京タワー tokyo", ["東", "京", "タ", "ワ", "ー", "tokyo"]),
        ("हिन्दी गाने", ["हिन्दी", "गाने"]),
        ("a_b 1st", ["a_b", "1st"]),
        ("", []),
        ("?!", []),
    ],
)
def test_words_by_unicode_boundaries(text: str, words: list[str]) -> None:
    """Expected words by UAX 29's rules WB5 to WB13b; Han and Kana one by one."""
    assert words_of(text) == words


def test_words_are_joined_as_they_are_typed() -> None:
    assert joined(["天", "气", "tokyo"]) == "天气 tokyo"
    assert joined(["how", "to"]) == "how to"


def test_models_of_releases() -> None:
    phrases = pa.table(
        {
            "phrase": ["cheap", "cheap flights", "flights"],
            "words": pa.array([1, 2, 1], pa.int32()),
            "begins": [False, True, False],
            "ends": [False, True, False],
            "count": pa.array([9, 4, None], pa.int64()),
        }
    )
    assert phrases.num_rows == 3
    small = model_of(a_release())
    assert small.probability("weather") > small.probability("maps") > small.probability("zebra crossing")
    with pytest.raises(ParameterError, match="a model needs phrases, queries, clicks or a log"):
        model_of(a_release(tables={"sessions": SESSIONS}))


def test_the_command(tmp_path: Path) -> None:
    a_release().save(tmp_path / "release")
    done = in_process("complete", tmp_path / "release", "WEA", "--json")
    (first, *_) = json.loads(done.stdout)["completions"]
    assert (first["query"], first["source"]) == ("weather", "released")
    assert "weather" in in_process("complete", tmp_path / "release", "w").stdout
    assert "no completion" in in_process("complete", tmp_path / "release", "zzzq").stdout
