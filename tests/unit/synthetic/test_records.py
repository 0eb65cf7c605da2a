"""Synthetic logs with views and attributes: position bias, devices, countries; the same in both formats."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from querycloak.errors import ParameterError
from querycloak.logs.searchlog import read
from querycloak.synthetic.log_writer import synthesize

USERS = 150


def test_views_have_a_position_bias_and_people_keep_their_country(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    synthesize(path, USERS, views=True, attributes=("country", "device"), truth=False)
    table = pq.read_table(path)
    assert table.column_names == ["user", "time", "query", "rank", "url", "clicked", "country", "device"]
    shares = [pc.mean(table.filter(pc.equal(table["rank"], rank))["clicked"]).as_py() for rank in (1, 2, 5, 10)]
    assert shares == sorted(shares, reverse=True)
    countries = table.group_by("user").aggregate([("country", "count_distinct")])
    assert pc.max(countries["country_count_distinct"]).as_py() == 1
    assert set(table["device"].to_pylist()) == {"desktop", "mobile", "tablet"}


def test_ubi_has_the_same_clicks_and_lists_what_was_shown(tmp_path: Path) -> None:
    clicks = []
    for name in ("log.parquet", "log.jsonl"):
        synthesize(tmp_path / name, USERS, views=True, attributes=("country",), truth=False)
        with read(tmp_path / name, attributes=["country"]) as log:
            rows = log.engine.fetch(log.clicks.select("user", "query", "url", "country"))
            clicks.append(sorted(rows.to_pylist(), key=str))
            assert log.engine.fetch(log.views.agg(n=log.views.count()))["n"][0].as_py() > 5 * len(clicks[-1])
    assert clicks[0] == clicks[1]


def test_a_log_without_them_is_what_it_was(tmp_path: Path) -> None:
    synthesize(tmp_path / "log.parquet", USERS, truth=False)
    assert pq.read_schema(tmp_path / "log.parquet").names == ["user", "time", "query", "rank", "url"]
    with pytest.raises(ParameterError, match=r"\.parquet or \.jsonl"):
        synthesize(tmp_path / "log.tsv", USERS, views=True)
    with pytest.raises(ParameterError, match="attributes"):
        synthesize(tmp_path / "other.parquet", USERS, attributes=("shoe_size",))
