"""Worth of draws of `semantic` on logs: similarity, pooled totals before and after inversion, risk of a guess.

`python -m bench.semantic_draws LOG ...` prints tables in Markdown for docs/semantic.md, with `log` before
the logs those of the variant log. Private: it looks at logs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from querycloak.engines import connect
from querycloak.logs.searchlog import read
from querycloak.methods.semantic.log_rows import ListedQueries, LogRows, candidates_of
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.replacement import Replacement, chosen_searches
from querycloak.methods.semantic.searches import Histories, Searches, staged_searches
from querycloak.methods.semantic.totals import Totals
from querycloak.methods.semantic.weights import similar_to
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import whole_table
from querycloak.text.wordnet import wordnet

if TYPE_CHECKING:
    from querycloak.text.taxonomy import Taxonomy

RUNS, ROWS, BEST = 3, 500, (1, 10)
SETTINGS: dict[str, dict[str, Any]] = {
    "all, sqc1 (the former default)": {"domain": "all", "criterion": "sqc1"},
    "the default": {},
    "auto": {"domain": "auto"},
    "usual=30, sqc1": {"candidates": "usual=30", "criterion": "sqc1"},
    "usual=30, nsqc": {"candidates": "usual=30", "criterion": "nsqc"},
    "usual=100, nsqc": {"candidates": "usual=100", "criterion": "nsqc"},
}
BUDGETS = ((8.0, 1, tuple(SETTINGS)), (8.0, 5, tuple(SETTINGS)), (2.0, 5, ("usual=100, nsqc",)))


class Worth(NamedTuple):
    """Figures of one run on one log."""

    similarity: float
    before: float
    after: float
    guessed: tuple[float, ...]


def main(paths: Sequence[str]) -> None:
    """Print one table for each log and budget."""
    for path in paths:
        with read(path, engine=connect(threads=1)) as log:
            staged = staged_searches(log)
            for epsilon, queries, settings in BUDGETS:
                print(f"\n{path.rpartition('/')[2]}: epsilon {epsilon:g}, {queries} queries of each user\n")
                print("| setting | similarity | before | after | guess@1 | guess@10 |\n|---|---|---|---|---|---|")
                for name in settings:
                    given: dict[str, Any] = {"epsilon": epsilon, "max_queries": queries, "any_language": True}
                    method = Semantic(**given, **SETTINGS[name])
                    replacement = Replacement.of(method, wordnet())
                    counted = Histories(log.engine, staged, queries, replacement)
                    searches = counted.pulled("", replacement.concepts_of)
                    _print(name, method, list(_runs(replacement, searches)))


def of_log(path: str) -> None:
    """The variant log: shares of rows that their user typed, did not type, or are (other); pooled total variation."""
    print(f"\n{path.rpartition('/')[2]}\n")
    print("| queries | selection share | candidates | typed | false | other | before | after |\n" + "|---" * 8 + "|")
    with read(path, engine=connect(threads=1)) as log:
        for queries, part in ((1, 0.1), (1, 0.25), (1, 0.5), (5, 0.25)):
            made: Any = Semantic(epsilon=8, delta=1e-6, max_queries=queries, variant="log", selection_share=part)
            counted = made.count(log)
            runs = [_of_selected(counted, seed) for seed in range(1, RUNS + 1)]
            cells = [_interval(values) for values in zip(*runs, strict=True)]
            print(f"| {queries} | {part} | {' | '.join(cells)} |", flush=True)


def _of_selected(counted: LogRows, seed: int) -> tuple[float, ...]:
    randomness = Randomness(seed=seed)
    selected = whole_table("queries", counted.selection.draw(randomness).tables["queries"])
    candidates = candidates_of(selected, counted.method.loss)
    draws = ListedQueries.among(counted.method, candidates)
    histories = Histories(counted.engine, counted.searches, counted.method.max_queries, draws)
    searches = histories.pulled("", draws.concepts_of)
    domains, places = draws.domains.placed(searches.concepts)
    kept = chosen_searches(searches, searches.concepts < 0)
    owners = np.repeat(np.arange(len(searches.users)), searches.lengths)
    size = len(candidates) + 1
    asked = np.unique(owners * size + places)
    drawn = draws.draw(owners[kept], domains[kept], places[kept], searches.lengths, randomness)
    other = drawn == draws.domains.taxonomy.root
    typed = np.isin(owners[kept] * size + drawn, asked) & ~other
    truth = np.bincount(places[kept], minlength=size) / len(kept)
    counts, channel = np.bincount(drawn, minlength=size), draws.channel()
    totals = None if channel is None else Totals.of(channel, counts, [f"{place:09}" for place in range(size)])
    after = np.nan if totals is None else float(np.abs(totals.shares - truth).sum() / 2)
    before = float(np.abs(counts / len(kept) - truth).sum() / 2)
    return len(candidates), typed.mean(), (~typed & ~other).mean(), other.mean(), before, after


def _print(name: str, method: Semantic, runs: Sequence[Worth]) -> None:
    chosen = "" if "=" in name or "all" in name else f" ({method.chosen.candidates}, {method.chosen.criterion})"
    columns = [[each.similarity, each.before, each.after, *each.guessed] for each in runs]
    cells = [_interval(values) for values in zip(*columns, strict=True)]
    print(f"| {name}{chosen} | {' | '.join(cells)} |", flush=True)


def _interval(values: Sequence[float]) -> str:
    return "" if np.isnan(values).any() else f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def _runs(replacement: Replacement, searches: Searches) -> Iterator[Worth]:
    domains, places = replacement.domains.placed(searches.concepts)
    kept = chosen_searches(searches, searches.concepts < 0)
    owners = np.repeat(np.arange(len(searches.users)), searches.lengths)[kept]
    taxonomy, domain = replacement.domains.taxonomy, replacement.domains.domains[0]
    asked = np.where(searches.concepts < 0, taxonomy.root, searches.concepts)[kept]
    channel = replacement.channel()
    size = len(domain.taxonomy)
    truth = np.bincount(places[kept], minlength=size) / len(kept)
    for seed in range(1, RUNS + 1):
        drawn = replacement.draw(owners, domains[kept], places[kept], searches.lengths, Randomness(seed=seed))
        counts = np.bincount(drawn, minlength=size)
        after = np.nan
        if channel is not None:
            totals = Totals.of(channel, counts, [f"{place:09}" for place in range(size)])
            after = np.nan if totals is None else float(np.abs(totals.shares - truth).sum() / 2)
        before = float(np.abs(counts / counts.sum() - truth).sum() / 2)
        yield Worth(*_guessed(taxonomy, asked, domain.concepts[drawn], before, after, seed))


def _guessed(
    taxonomy: Taxonomy, asked: NDArray[np.int32], drawn: NDArray[np.int32], before: float, after: float, seed: int
) -> tuple[float, float, float, tuple[float, ...]]:
    """Similarity of rows to what was asked, and how often a guesser has it among the k concepts most similar to a row.

    The guesser knows every concept of the log, and takes those nearest to what came out; ties are broken at random.
    """
    some = Randomness(seed=seed).below(len(asked), ROWS)
    known, which = np.unique(asked, return_inverse=True)
    hits, similarities = np.zeros(len(BEST)), 0.0
    for row in some.tolist():
        similar = similar_to(taxonomy, int(drawn[row]), known)
        own = similar[which[row]]
        similarities += own
        nearer, ties = int((similar > own + 1e-9).sum()), int((np.abs(similar - own) <= 1e-9).sum())
        hits += [min(max(best - nearer, 0) / ties, 1.0) for best in BEST]
    return similarities / ROWS, before, after, tuple((hits / ROWS).tolist())


if __name__ == "__main__":
    if sys.argv[1] == "log":
        for each in sys.argv[2:]:
            of_log(each)
    else:
        main(sys.argv[1:])
