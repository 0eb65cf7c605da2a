"""Figures 5 to 7 and Table 4 of Carpineto and Romano on a small synthetic log: laws, not looks."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from querycloak.logs.searchlog import read
from querycloak.reproduction.affinity_figures import AffinityFigures, affinity_figures
from querycloak.synthetic.log_writer import synthesize


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> AffinityFigures:
    path = tmp_path_factory.mktemp("figures") / "log.tsv"
    synthesize(path, 1200, workers=1)
    sensitive = pq.read_table(Path(f"{path}.truth") / "sensitive.parquet")
    with read(path) as log:
        return affinity_figures(log, sensitive=sensitive, concept_users=4)


def test_lower_theta_releases_more_and_plain_k_anonymity_least(figures: AffinityFigures) -> None:
    """From k = 2 on, whatever k users asked is safe and protects itself; a lower theta only adds edges."""
    assert figures.ks[0] == 1
    equal, high, low = (figures.figure_5a[name] for name in ("EQ", "AFF 0.9", "AFF 0.8"))
    assert all(a <= b <= c for a, b, c in zip(equal[1:], high[1:], low[1:], strict=True))
    assert high[1] > 1.5 * equal[1]
    for curve in (*figures.figure_5a.values(), *figures.figure_5b.values(), *figures.sensitive_released.values()):
        assert curve == sorted(curve, reverse=True)
    assert equal[0] == 1


def test_ncp_grows_with_k_and_is_a_share(figures: AffinityFigures) -> None:
    assert set(figures.figure_7) == {"EQ", "AFF 0.9", "AFF 0.8", "WNGEN"}
    for name, curve in figures.figure_7.items():
        assert all(0 <= value <= 1 for value in curve)
        if name != "WNGEN":
            assert curve == sorted(curve)
    # Splitting further never makes a concept more general, so WNGEN loses more as k grows, too.
    assert figures.figure_7["WNGEN"][1] <= figures.figure_7["WNGEN"][-1]


def test_f_and_table_4_use_the_labels(figures: AffinityFigures) -> None:
    assert set(figures.figure_6) == {"beta 1", "beta 0.1"}
    for curves in figures.figure_6.values():
        assert set(curves) == {"EQ", "AFF 0.9", "AFF 0.8"}
        assert all(0 <= value <= 1 for curve in curves.values() for value in curve)
    assert figures.table_4
    for row in figures.table_4:
        assert max(row["EQ"], row["AFF 0.9"], row["AFF 0.8"]) >= 2
        assert row["AFF 0.9"] <= row["AFF 0.8"]
    said = json.loads(json.dumps(figures.to_json()))
    assert said["private"] is True
    kinds = figures.queries
    assert kinds["distinct"] == kinds["expandable"] + kinds["without concepts"] + kinds["with a word of too few users"]
    assert 0 < kinds["vertices"] < kinds["expandable"]


def test_without_labels_there_is_no_figure_6(tmp_path: Path) -> None:
    synthesize(tmp_path / "log.tsv", 60, workers=1, truth=False)
    with read(tmp_path / "log.tsv") as log:
        made = affinity_figures(log, thetas=(0.9,), ks=(1, 2, 5), concept_users=3)
    assert (made.figure_5b, made.figure_6, made.table_4, made.sensitive_released) == ({}, {}, [], {})
    assert list(made.figure_5a) == ["EQ", "AFF 0.9"]
