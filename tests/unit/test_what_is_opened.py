"""What comes out is opened by somebody: in a terminal, a spreadsheet, a page. Nothing of it may be obeyed there."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.logs.choices import Choices
from querycloak.logs.reading.urls import url_texts
from querycloak.logs.searchlog import read
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.releases import loading, text_tables
from querycloak.releases.datasheet import _code
from querycloak.sentence import printable
from querycloak.text.normalisation import normalise
from querycloak.text.spans import Spans
from tests.logs import write

MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
CONTROLS = "".join(map(chr, (*range(32), *range(127, 160))))
ODD = st.text(st.sampled_from(MARKS + CONTROLS + "aé中=+-@ /:"), max_size=20)


def spans(text: str) -> Spans:
    return Spans.of(pa.array([text], pa.large_string()))


@given(ODD)
def test_a_query_has_no_control_character_and_no_direction_mark(text: str) -> None:
    shown = normalise(spans(text))[0].as_py()
    assert set(shown).isdisjoint(MARKS + CONTROLS)
    assert normalise(spans(shown))[0].as_py() == shown
    kept = [character for character in text if character not in MARKS]
    assert shown.split() == "".join(" " if each in CONTROLS else each for each in kept).split()


@given(ODD)
def test_an_address_has_none_either_and_keeps_all_else(text: str) -> None:
    trimmed = text.strip(CONTROLS + " ")
    shown = url_texts(spans(trimmed), Choices(keep_url="full")).strings()[0].as_py()
    assert shown == "".join(each for each in trimmed if each not in MARKS + CONTROLS)
    raw = url_texts(spans(trimmed), Choices(keep_url="full", normalise=False)).strings()[0].as_py()
    assert raw == trimmed


def test_a_release_of_such_a_log_holds_none(duckdb_engine: Engine, tmp_path: Path) -> None:
    row = "u{}\tsee \u202eevil\t2006-03-01 10:00:00\t1\thttp://a.example/\x1b[2J\x07x\u202e"
    path = write(tmp_path / "log.tsv", "\n".join(row.format(user) for user in range(5)) + "\n")
    release = KAnonymity(min_users=2).release(read(path, log_format="aol", engine=duckdb_engine))
    (pair,) = release.table("clicks").to_pylist()
    assert (pair["query"], pair["url"]) == ("see evil", "http://a.example/[2Jx")


@given(st.lists(st.tuples(ODD, ODD), max_size=9))
def test_no_cell_is_a_formula_and_the_table_comes_back(rows: list[tuple[str, str]]) -> None:
    schema = pa.schema([pa.field("query", pa.string(), nullable=False), pa.field("url", pa.string())])
    table = pa.Table.from_pylist([{"query": a, "url": b} for a, b in rows], schema=schema)
    written = Buffer()
    text_tables.TSV.write(iter([table]), schema, written)  # type: ignore[arg-type]
    lines = b"".join(written.pieces).decode().split("\n")[1:-1]
    assert len(lines) == len(rows)
    assert not any(cell[:1] in "=+-@" for line in lines for cell in line.split("\t") if cell)


class Buffer:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: object) -> int:
        self.pieces.append(bytes(memoryview(data)))  # type: ignore[arg-type]
        return len(self.pieces[-1])


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\\=x", "a=b", "=", "\\", "\\e"])
def test_formulas_come_back_as_they_were(duckdb_engine: Engine, tmp_path: Path, text: str) -> None:
    rows = "".join(f"u{user}\t{text}\t2006-03-01 10:00:00\t1\thttp://a.example/\n" for user in range(3))
    log = read(write(tmp_path / "log.tsv", rows), log_format="aol", engine=duckdb_engine)
    saved = KAnonymity(min_users=2).release(log).save(tmp_path / "out", "tsv")
    line = (saved.folder / "clicks.tsv").read_text().splitlines()[1]
    assert line[0] not in "=+-@"
    assert loading.load(saved.folder).table("clicks")["query"].to_pylist() == [text.lower()]


@given(st.text(st.sampled_from("`a<&_*[\x1b\u202e |")))
def test_code_in_a_datasheet_cannot_be_left(text: str) -> None:
    code = _code(text)
    found = re.match("`+", code)
    assert found is not None
    fence = found[0]
    inner = code[len(fence) : -len(fence)]
    assert code.endswith(fence)
    assert fence not in re.findall("`+", inner)
    assert all(character.isprintable() for character in code)


@given(ODD)
def test_a_terminal_obeys_nothing_that_is_printed(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)
