"""A domain from the log: budgets, law and candidates of log_domain.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.audits.guarantees.neighbour_logs import NeighbourLogs
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.methods.evidence import verify
from querycloak.methods.queries.method import Queries
from querycloak.methods.semantic.log_domain import LogBudget, LogSemantic
from querycloak.methods.semantic.log_rows import OTHER, ListedQueries, candidates_of
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.totals import DrawChannel
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import aol, write


def method(**options: Any) -> LogSemantic:
    made = Semantic(**{"epsilon": 8.0, "delta": 1e-6, "max_queries": 1, "variant": "log", **options})
    assert isinstance(made, LogSemantic)
    return made


@pytest.mark.parametrize("part", [0.01, 0.25, 0.9])
@pytest.mark.parametrize("epsilon", [0.1, 8.0, 700.0])
def test_both_parts_keep_the_budget(epsilon: float, part: float) -> None:
    """Claims 1 and 3 with 60 digits."""
    split = LogBudget.of(epsilon, 1e-6, part)
    half, delta = (Decimal(repr(each)) for each in split.of_one_user)
    with localcontext(prec=60):
        assert 2 * half + Decimal(repr(split.drawing)) <= Decimal(repr(epsilon))
        assert (1 + half.exp()) * delta <= Decimal("1e-6")
        assert (1 + half.exp()) * delta > Decimal("0.99e-6")
    assert split.selecting == 2 * split.of_one_user[0]


def _law(text: str, others: dict[str, int], chance: Any, loss: float) -> dict[tuple[Any, str], float]:
    """Probability of every set of candidates with every label of the row of a user who asks this text."""
    holders = {each: number + (each == text) for each, number in others.items()}
    law: dict[tuple[Any, str], float] = {}
    for selected in _subsets(list(others)):
        of_set = math.prod(chance(n) if each in selected else 1 - chance(n) for each, n in holders.items())
        label = text if text in selected else OTHER
        size = len(selected) + 1
        for each in (*selected, OTHER):
            weight = math.exp(loss) if each == label else 1.0
            law[selected, each] = of_set * weight / (math.exp(loss) + size - 1)
    return law


def _subsets(texts: list[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(texts) + 1):
        yield from itertools.combinations(texts, size)


@pytest.mark.parametrize("others", [{"x": 0, "y": 0}, {"x": 3, "y": 3}, {"x": 0, "y": 9}, {"x": 5, "y": 0}])
def test_selection_and_rows_together_keep_epsilon_and_delta(others: dict[str, int]) -> None:
    """Every outcome of a log of two texts and a user who asked one of them, or something else."""
    epsilon, delta = 2.0, 1e-3
    split = LogBudget.of(epsilon, delta, 0.5)
    selection = Queries(
        epsilon=split.of_one_user[0], delta=split.of_one_user[1], selection="laplace", max_keys_per_user=1
    )
    (route,) = next(iter(selection.routes().values()))

    def chance(users: int) -> float:
        return float(route.comes_out(users)) if users else 0.0

    laws = [_law(text, others, chance, split.drawing) for text in ("x", "y", "nobody else's")]
    widest = 0.0
    for one, other in itertools.permutations(laws, 2):
        excess = sum(max(0.0, one[each] - math.exp(epsilon) * other[each]) for each in one)
        assert excess <= delta * (1 + 1e-9)
        widest = max(widest, excess)
    assert [sum(law.values()) for law in laws] == pytest.approx([1.0] * 3)
    if others == {"x": 0, "y": 0}:
        assert widest > 0.05 * delta  # the case is a hard one


def test_rows_are_drawn_by_the_law_of_the_note() -> None:
    made = method()
    replacement = ListedQueries.among(made, ["a", "b c"])
    channel = replacement.channel()
    assert isinstance(channel, DrawChannel)
    for queries in (1, 5):
        several = method(max_queries=queries)
        (drawn_at,) = ListedQueries.among(several, ["a"]).losses(np.array([9])).tolist()
        assert drawn_at == several.loss  # not the whole epsilon: a part of it selects
        assert Decimal(drawn_at) * queries <= Decimal(repr(several.split.drawing))
    stays = math.exp(made.loss) / (math.exp(made.loss) + 2)
    assert np.diag(channel.probabilities) == pytest.approx([stays] * 3)
    losses = np.log(channel.probabilities.max(axis=0) / channel.probabilities.min(axis=0))
    assert losses.max() <= made.loss
    queries = pa.array(["b c", "(other)", "a b", "a"], pa.string())
    assert replacement.concepts_of(queries).tolist() == [2, -1, -1, 1]


def test_draws_and_the_channel_have_one_law() -> None:
    """Shares of many draws against the law that the release states."""
    replacement = ListedQueries.among(method(epsilon=3.0), ["a", "b", "c"])
    channel = replacement.channel()
    assert channel is not None
    number = 40_000
    sources, owners = np.ones(number, np.int32), np.arange(number)
    drawn = replacement.draw(owners, 0 * sources, sources, np.ones(number, np.int64), Randomness(seed=1))
    shares = np.bincount(drawn, minlength=4) / number
    assert shares == pytest.approx(channel.probabilities[1], abs=0.01)


def test_candidates_are_as_many_as_make_the_most_draws_right() -> None:
    table = pa.table({"query": ["b", "a", "(other)", "d", "c"], "count": [90, 90, 500, 1, 40]})
    assert candidates_of(table, 40.0) == ["a", "b", "c", "d"]
    assert candidates_of(table, 0.5) == ["a", "b"]
    best = max(range(1, 5), key=lambda k: sum([90, 90, 40, 1][:k]) / (1 + k * math.exp(-2.0)))
    assert len(candidates_of(table, 2.0)) == best
    assert candidates_of(table.slice(0, 0), 2.0) == []


def test_a_count_that_is_not_stated_is_one() -> None:
    """A table of keys has null where noise was clamped; it is the smallest count, and not the best number."""
    stated = pa.table({"query": ["b", "a", "d", "c"], "count": [90, 90, 1, 1]})
    clamped = pa.table({"query": ["b", "a", "d", "c"], "count": [90, 90, None, None]})
    assert candidates_of(clamped, 0.5) == candidates_of(stated, 0.5) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": None}, "variant='log' needs delta"),
        ({"max_queries": None, "delta": None}, "variant='log' needs delta"),
        ({"domain": "sport"}, "variant='log' takes epsilon, delta, max_queries and selection_share alone"),
        ({"times": "day"}, "variant='log' takes epsilon, delta"),
        ({"selection_share": 1.5}, "selection_share must be"),
        ({"variant": "default", "selection_share": 0.2}, "selection_share goes with variant='log'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as error:
        method(**options)
    assert message in str(error.value)


def test_its_promise_and_what_it_leaves_unprotected() -> None:
    made = method(selection_share=0.5)
    proven = made.proven()
    assert (proven.kind, proven.neighbours, proven.epsilon, proven.delta) == (
        "approximate-dp",
        "replace-query",
        8,
        1e-6,
    )
    assert "log_domain.md" in proven.because
    assert not any("WordNet" in each for each in proven.unprotected)
    assert proven.unprotected[-1].startswith("what several accounts of one person do together")
    assert made.campaign is None
    assert made.parameters()["selection_epsilon"] == 4.0
    pairs = NeighbourLogs(made).pairs()
    assert [pair.name.split(":")[0] for pair in pairs] == ["replaced", "replaced"]


def test_a_release_end_to_end(duckdb_engine: Engine, tmp_path: Path) -> None:
    asked = [*(["weather"] * 60), *(["maps"] * 40), *(f"own text {user}" for user in range(20))]
    rows = [(f"u{user}", "12:00:00", text, "", "") for user, text in enumerate(asked)]
    log = qc.read(write(tmp_path / "log.tsv", aol(rows)), engine=duckdb_engine)
    release = method(delta=1e-3).release(log, randomness=Randomness(seed=1))
    texts = release.table("log")["query"].to_pylist()
    assert len(texts) == 120
    assert set(texts) == {"weather", "maps", OTHER}  # no text of one user alone
    totals = {row["query"]: row["total"] for row in release.table("totals").to_pylist()}
    assert totals == {
        "weather": pytest.approx(60, abs=4),
        "maps": pytest.approx(40, abs=4),
        OTHER: pytest.approx(20, abs=4),
    }
    accounts = [each for each in release.proven.unprotected if each.startswith("what several accounts")]
    assert len(accounts) == 1
    assert "setting that needs fewest" not in accounts[0]  # the selection has chosen
    release.save(tmp_path / "out")
    assert verify(tmp_path / "out").problems in ((), [])
    assert "another query that many people asked" in (tmp_path / "out" / "README.md").read_text()
