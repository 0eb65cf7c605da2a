"""Loading: what is missing, changed or newer is named; nothing else is believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querycloak.errors import InputError
from querycloak.releases.loading import load, load_card
from tests.unit.releases.making import QUERIES, a_release

SECRET = "gertrude"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    a_release().save(tmp_path / "out")
    return tmp_path / "out"


def change_card(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


def vouch(folder: Path, name: str) -> None:
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    change_card(folder, lambda card: card["checksums"].update({name: digest}))


def test_what_is_no_release_folder(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError) as refused:
            load(folder)
        assert str(refused.value) == (
            f"'{folder}' is not a release folder: it has no card.json; name the folder itself"
        )


def test_a_card_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "card.json").mkdir()
    with pytest.raises(InputError, match=r"card.json of .* cannot be read: is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["queries.parquet", "README.md", "croissant.json"])
def test_missing_and_changed_files_are_named(out: Path, name: str) -> None:
    content = (out / name).read_bytes()
    (out / name).write_bytes(content + b" ")
    with pytest.raises(InputError) as refused:
        load(out)
    assert str(refused.value) == (
        f"{name} of '{out}' is not what the card vouches for: it was changed; get the release again"
    )
    (out / name).unlink()
    with pytest.raises(InputError, match=f"{name} of .* is missing; get the release again"):
        load(out)
    (out / name).mkdir()
    with pytest.raises(InputError, match=f"{name} of .* cannot be read: is a directory; get the release again"):
        load(out)


def test_a_newer_card(out: Path) -> None:
    change_card(out, lambda card: card.update(card_version=3))
    with pytest.raises(
        InputError, match="has a card of version 3, this querycloak knows up to 2; install a newer querycl"
    ):
        load(out)
    with pytest.raises(InputError, match="has a card of version 3"):
        load_card(out)


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card.update(card_version="1"),
        lambda card: card.pop("card_version"),
        lambda card: card.pop("proven"),
        lambda card: card["proven"].pop("kind"),
        lambda card: card["proven"].update(epsilon=-1),
        lambda card: card.update(claimed={"kind": "x"}),
        lambda card: card.update(tables=[]),
        lambda card: card.update(tables={}),
        lambda card: card["tables"]["queries"].pop("file"),
        lambda card: card["tables"].update(unknown=card["tables"]["queries"]),
        lambda card: card["tables"]["queries"].update(file="../out/queries.parquet"),
        lambda card: card["tables"]["queries"].update(file="README.md"),
        lambda card: card["checksums"].pop("queries.parquet"),
        lambda card: card["checksums"].update({"../../etc/passwd": "00"}),
        lambda card: card["checksums"].update({"..": "00"}),
        lambda card: card.update(accounting="paid"),
        lambda card: card.update(accounting={"population": "x", "charge": "y"}),
        lambda card: card.update(parameters=3),
    ],
)
def test_a_damaged_card(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    change_card(out, change)
    with pytest.raises(InputError) as refused:
        load(out)
    assert str(refused.value).startswith(f"card.json of '{out}' is damaged or was not written by querycloak")
    assert str(refused.value).endswith("; get the release again")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff\xfe"])
def test_a_card_that_is_none(out: Path, content: bytes) -> None:
    (out / "card.json").write_bytes(content)
    with pytest.raises(InputError, match="is damaged or was not written by querycloak"):
        load(out)


def test_a_table_that_is_none(out: Path) -> None:
    (out / "queries.parquet").write_text(f"no parquet: {SECRET}")
    vouch(out, "queries.parquet")
    with pytest.raises(InputError, match=r"queries.parquet of .* does not hold what its card says") as refused:
        load(out)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("table", [QUERIES.select(["query"]), QUERIES.rename_columns(["query", "n"])])
def test_a_table_of_other_columns(out: Path, table: pa.Table) -> None:
    pq.write_table(table, out / "queries.parquet")
    vouch(out, "queries.parquet")
    with pytest.raises(InputError, match=r"queries.parquet of .* does not hold what its card says"):
        load(out)


def test_a_table_of_other_types_is_found_when_it_is_loaded(out: Path) -> None:
    pq.write_table(pa.table({"query": ["x"] * 3, "count": [SECRET] * 3}), out / "queries.parquet")
    vouch(out, "queries.parquet")
    with pytest.raises(InputError, match=r"queries.parquet of .* does not hold what its card says") as refused:
        load(out)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("line", ["x\tmany\n", "x\n", "x\t1\t2\n"])
def test_a_text_table_with_bad_lines(tmp_path: Path, line: str) -> None:
    a_release().save(tmp_path / "out", "tsv")
    with (tmp_path / "out" / "queries.tsv").open("a") as file:
        file.write(SECRET + line)
    vouch(tmp_path / "out", "queries.tsv")
    with pytest.raises(InputError, match=r"queries.tsv of .* does not hold what its card says"):
        load(tmp_path / "out")
    change_card(tmp_path / "out", lambda card: card["tables"]["queries"].update(rows=4))
    release = load(tmp_path / "out")
    with pytest.raises(InputError, match=r"queries.tsv of the release does not hold what its card says") as refused:
        release.table("queries")
    assert SECRET not in str(refused.value)


def test_a_list_that_is_no_json(tmp_path: Path) -> None:
    sessions = pa.table({"queries": [["a"]], "count": [1]})
    a_release(tables={"sessions": sessions}).save(tmp_path / "out", "tsv")
    with (tmp_path / "out" / "sessions.tsv").open("a") as file:
        file.write("[broken\t1\n")
    vouch(tmp_path / "out", "sessions.tsv")
    change_card(tmp_path / "out", lambda card: card["tables"]["sessions"].update(rows=2))
    release = load(tmp_path / "out")
    with pytest.raises(InputError, match=r"sessions.tsv of the release does not hold what its card says"):
        release.table("sessions")


def test_a_file_that_goes_after_loading(out: Path) -> None:
    release = load(out)
    (out / "queries.parquet").unlink()
    with pytest.raises(InputError, match=r"queries.parquet of the release cannot be read; get the release again"):
        release.table("queries")


def test_tables_are_read_anew_each_time(out: Path) -> None:
    table = load(out).tables["queries"]
    assert [batch.num_rows for batch in table] == [batch.num_rows for batch in table] == [3]


def test_an_empty_release_is_a_release(tmp_path: Path) -> None:
    for number, format_name in enumerate(("parquet", "tsv")):
        a_release(tables={"queries": QUERIES.slice(0, 0)}).save(tmp_path / str(number), format_name)
        assert load(tmp_path / str(number)).table("queries").num_rows == 0


def test_a_loaded_release_can_be_saved_again(out: Path, tmp_path: Path) -> None:
    load(out).save(tmp_path / "again", "tsv")
    # A text file does not say whether counts may be missing.
    assert load(tmp_path / "again").table("queries").to_pydict() == load(out).table("queries").to_pydict()
