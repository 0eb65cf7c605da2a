"""The output filter's choices: product numbers stay, patterns can be chosen, dropped rows are shown to the owner."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from querycloak.errors import ParameterError
from querycloak.releases.output_filter import OutputFilter, is_card_number
from tests.commands import in_process
from tests.logs import aol, write
from tests.unit.releases.making import a_release

CARD = "4111 1111 1111 1111"
EMAIL = "http://shop.example/?user=ann%40mail.example"


def article_numbers(number: int) -> list[str]:
    """EAN-13 numbers with their check digit."""
    stems = [f"{400638133 + at:012d}"[-12:] for at in range(number)]
    return [stem + str(-sum(int(d) * (1, 3)[at % 2] for at, d in enumerate(stem)) % 10) for stem in stems]


def test_product_numbers_are_no_card_numbers() -> None:
    numbers = article_numbers(200)
    assert not any(map(is_card_number, numbers))
    assert is_card_number(CARD)
    assert is_card_number("4222222222222")  # 13 digits, no article number


def clicks(*rows: tuple[str, str]) -> pa.RecordBatch:
    queries, urls = zip(*rows, strict=True)
    return pa.record_batch({"query": list(queries), "url": list(urls), "count": pa.array([9] * len(rows), pa.int64())})


def test_numbers_are_looked_for_in_queries_and_addresses_everywhere() -> None:
    batch = clicks(("a", CARD), (CARD, "b"), ("c", EMAIL), ("d", "+44 20 7946 0958"))
    kept, dropped = OutputFilter().apply(batch)
    assert kept["query"].to_pylist() == ["a", "d"]
    assert dropped == {"payment card numbers": 1, "e-mail addresses": 1}


def test_patterns_can_be_chosen() -> None:
    batch = clicks((CARD, "b"), ("c", EMAIL))
    assert OutputFilter(patterns=("emails",)).apply(batch)[0]["query"].to_pylist() == [CARD]
    off = OutputFilter(patterns=())
    assert off.apply(batch)[0].num_rows == 2
    assert off.to_json() == {"applied": False, "patterns": [], "owners_list": False}
    assert OutputFilter(patterns=("cards",)).to_json()["patterns"] == ["payment card numbers"]
    with pytest.raises(ParameterError, match="filter must be one of cards, social-security, emails, telephones"):
        OutputFilter(patterns=("iban",))


@pytest.mark.filterwarnings("default")
def test_python_callers_are_told_what_was_dropped(tmp_path: Path) -> None:
    table = pa.table({"query": ["weather", CARD], "count": pa.array([30, 20], pa.int64())})
    with pytest.warns(UserWarning, match="the output filter dropped rows"):
        saved = a_release(tables={"queries": table}).save(tmp_path / "release")
    assert saved.dropped == {"payment card numbers": 1}
    assert saved.dropped_rows["queries"]["query"].to_pylist() == [CARD]


def test_the_options(tmp_path: Path) -> None:
    rows = [(f"u{user}", "12:00:00", query, "", "") for user in range(9) for query in (CARD, "weather")]
    log = write(tmp_path / "log.tsv", aol(rows))
    release = ("release", "k-anonymity", log, "--keys", "queries", "--min-users", "3")
    done = in_process(*release, "--out", tmp_path / "a", "--dropped", tmp_path / "dropped.jsonl")
    assert "the output filter dropped rows (payment card numbers 1)" in done.stderr
    (row,) = map(json.loads, (tmp_path / "dropped.jsonl").read_text().splitlines())
    assert row["query"] == CARD
    assert (tmp_path / "dropped.jsonl").stat().st_mode & 0o777 == 0o600
    assert CARD not in (tmp_path / "a" / "README.md").read_text()
    done = in_process(*release, "--out", tmp_path / "b", "--filter", "off", "--json")
    assert json.loads(done.stdout)["tables"]["queries"]["rows"] == 2
    refused = in_process(*release, "--out", tmp_path / "c", "--filter", "iban")
    assert refused.returncode == 2
    assert "--filter must be one of" in refused.stderr
    taken = in_process(*release, "--out", tmp_path / "c", "--dropped", tmp_path / "dropped.jsonl")
    assert "must not exist yet" in taken.stderr
    assert not (tmp_path / "c").exists()
