"""Public priors: the same points on both engines, from a key's text and a public list alone."""

from __future__ import annotations

import random

import pyarrow as pa

from querycloak.engines import Engine
from querycloak.methods.keys.contribution_bounding import first_keys
from querycloak.methods.keys.public_priors import MOST_POINTS, with_prior
from querycloak.methods.keys.weighted_selection import _weighed
from querycloak.text.english import public_phrases

# Two points for each word after the first, one for each that the list does not have, three for a digit, 8 at most.
POINTS = {
    "weather": 0,
    "zzyqx": 1,
    "weather forecast": 2,
    "zzyqx forecast": 3,
    "weather forecast today": 4,
    "weather 2006": 6,
    "one two three four five six": MOST_POINTS,
}


def contributions(engine: Engine) -> pa.Table:
    rows = [(f"u{user}", text, place) for user in range(3) for place, text in enumerate(POINTS)]
    users, texts, places = zip(*rows, strict=True)
    return engine.upload(pa.table({"user": users, "query": texts, "earliest": places}))


def test_the_words_of_the_test_are_in_the_list() -> None:
    known = set(public_phrases()["phrase"].to_pylist())
    assert {"weather", "forecast", "today"} <= known
    assert not {"zzyqx", "2006"} & known


def test_points_follow_from_the_text(engine: Engine) -> None:
    rows = engine.fetch(with_prior(engine, contributions(engine), "query")).to_pylist()
    assert len(rows) == 3 * len(POINTS)
    assert {row["query"]: row["prior"] for row in rows} == POINTS


def points_of(text: str, known: set[str]) -> int:
    """The rule, one word after another."""
    words = text.split(" ")
    unknown = sum(word not in known for word in words)
    return min(MOST_POINTS, 2 * (len(words) - 1) + unknown + 3 * any(digit in text for digit in "0123456789"))


def test_long_texts_have_the_points_that_their_words_would_give(engine: Engine) -> None:
    """Texts of five words or more are not looked at: nothing that they could hold changes their points."""
    phrases = public_phrases()["phrase"].to_pylist()
    known = {phrase for phrase in phrases if " " not in phrase}
    draw = random.Random(7)
    words = [*draw.sample(sorted(known), 200), "zzyqx", "2006", "", "x1"]
    texts = sorted({" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(2_000)} - {""})
    held = engine.upload(pa.table({"user": ["u"] * len(texts), "query": texts, "earliest": range(len(texts))}))
    rows = engine.fetch(with_prior(engine, held, "query")).to_pylist()
    assert {row["query"]: row["prior"] for row in rows} == {text: points_of(text, known) for text in texts}


def test_sequences_have_the_points_of_their_queries(engine: Engine) -> None:
    """As sequences.py writes them: one character for their number, then they, parted by U+001F."""
    points = {"2weather\x1fforecast": 2, "2weather\x1f2006": 6, "3weather\x1fforecast\x1ftoday": 4}
    held = engine.upload(pa.table({"user": ["u"] * 3, "queries": list(points), "earliest": [0, 1, 2]}))
    rows = engine.fetch(with_prior(engine, held, "queries")).to_pylist()
    assert {row["queries"]: row["prior"] for row in rows} == points


def test_likely_keys_are_kept_first(engine: Engine) -> None:
    held = with_prior(engine, contributions(engine), "query")
    kept = engine.fetch(first_keys(held, ("query",), 3)).to_pylist()
    # Of equal points the earlier one.
    assert {row["query"] for row in kept} == {"weather", "zzyqx", "weather forecast"}


def test_likely_keys_get_more_weight(engine: Engine) -> None:
    held = with_prior(engine, contributions(engine), "query").mutate(known=1024)
    held = held.mutate(known=held.known.cast("int64"))
    rows = engine.fetch(_weighed(held)).to_pylist()
    weights = {row["query"]: row["weight"] for row in rows if row["user"] == "u0"}
    assert weights["weather"] > weights["zzyqx"] > weights["weather forecast"] > weights["weather 2006"] >= 1
    # Two points halve the interest.
    assert abs(weights["weather"] - 2 * weights["weather forecast"]) <= 2
    assert sum(weight**2 for weight in weights.values()) <= 256**2
