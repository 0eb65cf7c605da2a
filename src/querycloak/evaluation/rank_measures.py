"""Measures of ranked lists, named as ir_measures writes them and computed by pytrec_eval.

What they say of a case depends on the ranks of what is relevant, and on how many are: cases that agree in both are
handed over once. Ranks are settled before: ties were broken by text, and the scores handed over are all different.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.task import Measure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Runs are cut here, as trec_eval's usually are.
DEPTH = 1000
_PATTERNS_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class Hits:
    """Ranks of relevant results in each case, from 1 and ascending, and the number of relevant results.

    The ranks of case i are `ranks[starts[i]:starts[i + 1]]`.
    """

    ranks: Ints
    starts: Ints
    relevant: Ints

    @classmethod
    def of_pairs(cls, case: NDArray[np.integer], rank: NDArray[np.integer], relevant: NDArray[np.integer]) -> Hits:
        """Cases and ranks of relevant results, in any order; ranks below 1 or beyond the depth are left out."""
        hit = (rank >= 1) & (rank <= DEPTH)
        case, rank = case[hit].astype(np.int64), rank[hit].astype(np.int64)
        order = np.argsort(case * (DEPTH + 1) + rank)
        starts = np.searchsorted(case[order], np.arange(len(relevant) + 1))
        return cls(rank[order].astype(np.int64), starts.astype(np.int64), relevant.astype(np.int64))


# What trec_eval calls each, and the rank at which the list is cut beforehand where trec_eval does not cut itself.
_NAMES: Mapping[str, tuple[str, int]] = {
    "P@5": ("P_5", DEPTH),
    "P@10": ("P_10", DEPTH),
    "R@5": ("recall_5", DEPTH),
    "nDCG@10": ("ndcg_cut_10", DEPTH),
    "AP": ("map", DEPTH),
    "RR@10": ("recip_rank", 10),
    "Success@10": ("success_10", DEPTH),
}


def scores(names: Sequence[str], hits: Hits) -> dict[str, Floats]:
    """Each measure's score of every case."""
    by_measure = {name: np.zeros(len(hits.relevant)) for name in names}
    lengths = np.diff(hits.starts)
    for length in np.unique(lengths):
        cases = np.flatnonzero(lengths == length)
        ranks = hits.ranks[hits.starts[cases, None] + np.arange(length)]
        patterns, which = _distinct(np.column_stack([hits.relevant[cases], ranks]))
        for first in range(0, len(patterns), _PATTERNS_AT_ONCE):
            some = patterns[first : first + _PATTERNS_AT_ONCE]
            chosen = (which >= first) & (which < first + len(some))
            for name, values in _scored(names, some).items():
                by_measure[name][cases[chosen]] = values[which[chosen] - first]
    return by_measure


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The distinct rows, and which of them each row is."""
    spans = rows.max(axis=0, initial=0).astype(object) + 1
    if np.prod(spans) < 2**62:  # as one number each, which sorts faster
        steps = np.array([int(np.prod(spans[place + 1 :])) for place in range(len(spans))], np.int64)
        _, first, which = np.unique(rows @ steps, return_index=True, return_inverse=True)
        return rows[first], which
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    return distinct, which.ravel()


def _scored(names: Sequence[str], patterns: Ints) -> dict[str, Floats]:
    """Scores of pytrec_eval for cases given as a number of relevant items and the ranks of the hits."""
    from pytrec_eval import RelevanceEvaluator

    values: dict[str, Floats] = {}
    judged = {str(case): {f"r{i}": 1 for i in range(pattern[0])} for case, pattern in enumerate(patterns.tolist())}
    for depth in {_NAMES[name][1] for name in names}:
        theirs = {_NAMES[name][0]: name for name in names if _NAMES[name][1] == depth}
        runs = {str(case): dict(_run(pattern[1:], depth)) for case, pattern in enumerate(patterns.tolist())}
        results = RelevanceEvaluator(judged, set(theirs)).evaluate(runs)
        for their, ours in theirs.items():
            values[ours] = np.array([results[str(case)][their] for case in range(len(patterns))])
    return values


def _run(ranks: Sequence[int], depth: int) -> Iterator[tuple[str, float]]:
    """A list with something relevant at these ranks, down to the last of them; scores fall by one."""
    inside = {rank: f"r{place}" for place, rank in enumerate(ranks) if rank <= depth}
    for rank in range(1, max(inside, default=1) + 1):
        yield inside.get(rank, f"n{rank}"), float(depth + 1 - rank)


def _score(name: str, hits: Hits) -> Floats:
    return scores([name], hits)[name]


_RIJSBERGEN = "van Rijsbergen, Information retrieval, 1979"
_DECLARED: Sequence[tuple[str, str, str]] = (
    ("P@5", "share of the first five that is relevant", _RIJSBERGEN),
    ("P@10", "share of the first ten that is relevant", _RIJSBERGEN),
    ("R@5", "share of what is relevant that is among the first five", _RIJSBERGEN),
    ("nDCG@10", "gains of the first ten, each divided by the logarithm (base 2) of its rank plus 1, over the most that "
     "can be reached", "Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, TOIS 2002"),
    ("AP", "mean over what is relevant of the precision at its rank, 0 if it is not found",
     "Harman, Evaluation issues in information retrieval, IPM 1992"),
    ("RR@10", "one divided by the rank of the first that is relevant, 0 beyond ten",
     "Kantor & Voorhees, The TREC-5 confusion track, Information Retrieval 2000"),
    ("Success@10", "1 if something relevant is among the first ten, else 0", "TREC's convention, as trec_eval has it"),
)  # fmt: skip
RANK_MEASURES: Mapping[str, Measure] = {
    name: Measure(name, meaning, citation, "higher", compute=partial(_score, name))
    for name, meaning, citation in _DECLARED
}
