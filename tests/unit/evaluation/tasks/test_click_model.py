"""The position-based model: expectation maximisation beside an independent one that walks over single views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from querycloak import Clicks, evaluate
from querycloak.evaluation.tasks.click_model import PERPLEXITY, PairCounts, fitted
from querycloak.logs.searchlog import read
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.synthetic.log_writer import synthesize


def slow_model(
    views: list[tuple[int, int, bool]], pairs: int, groups: int, rounds: int
) -> tuple[list[float], list[float]]:
    """The same model, one view after another, by the posterior of both hidden variables."""
    examined, attractive = [0.5] * groups, [0.5] * pairs
    for _ in range(rounds):
        seen, attracted = [[0.0, 0.0] for _ in range(groups)], [[1.0, 2.0] for _ in range(pairs)]
        for pair, group, clicked in views:
            e, a = examined[group], attractive[pair]
            joint = {(x, y): (e if x else 1 - e) * (a if y else 1 - a) for x in (0, 1) for y in (0, 1)}
            possible = {key: chance for key, chance in joint.items() if (key == (1, 1)) == clicked}
            total = sum(possible.values())
            seen[group][0] += sum(chance for (x, _), chance in possible.items() if x) / total
            attracted[pair][0] += sum(chance for (_, y), chance in possible.items() if y) / total
            seen[group][1] += 1
            attracted[pair][1] += 1
        examined = [hits / number if number else 1e-6 for hits, number in seen]
        attractive = [hits / number for hits, number in attracted]
    return examined, attractive


def test_the_model_is_that_of_single_views() -> None:
    random = np.random.default_rng(1)
    truth = (np.array([1.0, 0.6, 0.3]), np.array([0.8, 0.5, 0.2, 0.1]))
    views = []
    for _ in range(600):
        pair, group = int(random.integers(4)), int(random.integers(3))
        views.append((pair, group, bool(random.random() < truth[0][group] * truth[1][pair])))
    cells: dict[tuple[int, int], list[int]] = {}
    for pair, group, clicked in views:
        cell = cells.setdefault((pair, group), [0, 0])
        cell[0] += 1
        cell[1] += clicked
    columns = np.array([(pair, group, *numbers) for (pair, group), numbers in cells.items()])
    counts = PairCounts(columns[:, 0], columns[:, 1], columns[:, 2].astype(float), columns[:, 3].astype(float))
    model = fitted(counts, 4, 3, rounds=30)
    examined, attractive = slow_model(views, 4, 3, 30)
    assert model.examined == pytest.approx(examined, rel=1e-6)
    assert model.attractive == pytest.approx(attractive, rel=1e-6)
    assert list(np.argsort(-model.attractive)) == [0, 1, 2, 3]


def test_perplexity_by_hand() -> None:
    assert PERPLEXITY(np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array([2.0, 2.0])) == pytest.approx(2.0)
    assert PERPLEXITY(np.array([1.0]), np.array([0.25]), np.array([4.0])) == pytest.approx(2**0.8112781244591328)


def test_a_release_with_views_predicts_clicks_of_other_people(tmp_path: Path) -> None:
    for name, seed in (("train", 1), ("test", 2)):
        synthesize(tmp_path / f"{name}.parquet", 300, seed=seed, views=True, truth=False)
    other = read(tmp_path / "test.parquet")
    renamed = other.engine.fetch(other.records.mutate(user=other.records.user + "-test"))
    with read(tmp_path / "train.parquet") as train, read(renamed) as test:
        release = Clicks(epsilon=30, delta=1e-3, views=True, max_keys_per_user=16).release(
            train, randomness=Randomness(seed=1)
        )
        results = evaluate(train, test, {"views": release}, tasks=["click-model"])
    rows = {(row.release, row.measure, row.slice): row.value or 0.0 for row in results.rows}
    for subject in ("original", "views", "no-data"):
        assert 1 < rows[subject, "perplexity", None] < 2
        assert rows[subject, "perplexity", "rank=1"] > 1
    assert rows["original", "perplexity", None] < rows["no-data", "perplexity", None]
    assert rows["k-anonymity", "perplexity", None] == 0
