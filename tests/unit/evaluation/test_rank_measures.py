"""Measures of ranked lists: pytrec_eval on whole runs says the same as ours on the ranks of what is relevant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from querycloak.evaluation.rank_measures import DEPTH, RANK_MEASURES, Hits, scores

THEIR_NAMES = {
    "P@5": "P_5", "P@10": "P_10", "R@5": "recall_5", "nDCG@10": "ndcg_cut_10", "AP": "map", "Success@10": "success_10",
}  # fmt: skip

# A case: in which order the documents stand (none retrieved is possible), and which are relevant.
cases = st.lists(
    st.tuples(st.lists(st.integers(0, 30), unique=True, max_size=25), st.sets(st.integers(0, 40), min_size=1)),
    min_size=1,
    max_size=12,
)


def hits_of(given: list[tuple[list[int], set[int]]]) -> Hits:
    pairs = [
        (case, rank) for case, (run, relevant) in enumerate(given) for rank, doc in enumerate(run, 1) if doc in relevant
    ]
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return Hits.of_pairs(found[:, 0], found[:, 1], np.array([len(relevant) for _, relevant in given]))


@given(cases)
def test_as_pytrec_eval_on_whole_runs_without_ties(given: list[tuple[list[int], set[int]]]) -> None:
    ours = scores(list(RANK_MEASURES), hits_of(given))
    judged = {str(case): {f"d{doc}": 1 for doc in relevant} for case, (_, relevant) in enumerate(given)}
    runs = {
        str(case): {f"d{doc}": float(100 - place) for place, doc in enumerate(run)}
        for case, (run, _) in enumerate(given)
    }
    theirs = pytrec_eval.RelevanceEvaluator(judged, set(THEIR_NAMES.values())).evaluate(runs)
    for name, their in THEIR_NAMES.items():
        expected = [theirs.get(str(case), {}).get(their, 0.0) for case in range(len(given))]
        assert ours[name] == pytest.approx(expected, abs=1e-12), name
    cut = {case: dict(list(run.items())[:10]) for case, run in runs.items()}
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(cut)
    expected = [theirs.get(str(case), {}).get("recip_rank", 0.0) for case in range(len(given))]
    assert ours["RR@10"] == pytest.approx(expected, abs=1e-12)


def test_by_hand() -> None:
    # Two relevant, at ranks 2 and 12; one of three at rank 1; nothing found.
    hits = Hits.of_pairs(np.array([0, 0, 1]), np.array([12, 2, 1]), np.array([2, 3, 1]))
    found = {name: measure(hits).tolist() for name, measure in RANK_MEASURES.items()}
    ideal = 1 + 1 / math.log2(3)
    assert found["P@5"] == [0.2, 0.2, 0.0]
    assert found["P@10"] == [0.1, 0.1, 0.0]
    assert found["R@5"] == pytest.approx([1 / 2, 1 / 3, 0.0])
    assert found["nDCG@10"] == pytest.approx([1 / math.log2(3) / ideal, 1 / (ideal + 1 / 2), 0.0])
    assert found["AP"] == pytest.approx([(1 / 2 + 2 / 12) / 2, 1 / 3, 0.0])
    assert found["RR@10"] == [0.5, 1.0, 0.0]
    assert found["Success@10"] == [1.0, 1.0, 0.0]


def test_what_lies_beyond_the_depth_is_not_found() -> None:
    hits = Hits.of_pairs(np.array([0, 1]), np.array([DEPTH, DEPTH + 1]), np.array([1, 1]))
    assert scores(["AP"], hits)["AP"].tolist() == pytest.approx([1 / DEPTH, 0.0])


def test_many_patterns_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("querycloak.evaluation.rank_measures._PATTERNS_AT_ONCE", 3)
    rank = np.arange(1, 21)
    hits = Hits.of_pairs(np.arange(20), rank, np.ones(20, np.int64))
    assert scores(["AP"], hits)["AP"] == pytest.approx(1 / rank)


def test_many_hits_need_more_than_one_number() -> None:
    ranks = np.array([1, 100, 200, 300, 400, 500, 600, 700, 800, 900])
    hits = Hits.of_pairs(np.repeat([0, 1], 10), np.concatenate([ranks, ranks]), np.array([10, 2000]))
    precision = (np.arange(1, 11) / ranks).sum()
    assert scores(["AP"], hits)["AP"] == pytest.approx([precision / 10, precision / 2000])


def test_no_cases() -> None:
    nothing: Any = np.empty(0, np.int64)
    assert scores(["AP"], Hits.of_pairs(nothing, nothing, nothing))["AP"].size == 0
