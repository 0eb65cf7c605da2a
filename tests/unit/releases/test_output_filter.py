"""The last look: golden texts that must go and that must stay, the owner's list, and what it tells nobody."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import querycloak as qc
from querycloak.errors import InputError, ParameterError
from querycloak.releases.output_filter import BUILT_IN, CANDIDATE, OWNERS_LIST, OutputFilter
from tests.unit.releases.making import a_release

CARDS, SOCIAL, EMAIL, PHONES = BUILT_IN
# Numbers that their issuers publish for tests, that nobody was ever given, or that are reserved for fiction.
MUST_GO = {
    CARDS: [
        "4111 1111 1111 1111",
        "visa 4111-1111-1111-1111",
        "4111111111111111",
        "mastercard 5555555555554444 stolen",
        "3782 822463 10005",
        "6011000990139424",
        "3056 930902 5904",
        "4222222222222",
        "4111 1111 1111 1111 12/25 123",
        "5555.5555.5555.4444",
        "acct#4111111111111111",
        "6304 0000 0000 0000 000",
    ],
    SOCIAL: [
        "123-45-6789",
        "my ssn 123 45 6789",
        "ssn 123456789",
        "SSN: 123456789",
        "social security number 123456789",
        "078.05.1120",
        "john smith 219-09-9999 address",
    ],
    EMAIL: [
        "john.doe@example.com",
        "mail to o'brien@sub.example.co.uk please",
        "jane+tag@example.org",
        "müller@beispiel.de",
        "JOHN@EXAMPLE.COM",
        "http://user:password@example.com/",
        "https://example.org/?mail=jane%40example.org",
    ],
    PHONES: [
        "+44 20 7946 0958",
        "+442079460958",
        "+1 (415) 555-2671",
        "+49 (0)30 1234567",
        "0044 20 7946 0958",
        "(415) 555-2671",
        "(415)555-2671",
        "415-555-2671",
        "415 555 2671",
        "1-800-555-0199",
        "call 4155552671",
        "415.555.2671",
        "reverse lookup 14155552671",
    ],
}
MUST_STAY = [
    *("2006-03-01", "03/01/2006", "01.03.2006", "20060301", "2006-03-01 2006-05-31", "2006-03-01 12:30:45"),
    *("march 1 2006 to may 31 2006", "mp3 2006 04 05 12 30 45", "2005 2006 2007 2008", "1914-1918 1939-1945"),
    *("isbn 978-0-306-40615-7", "9780306406157", "978 0306406157", "9783161484100", "0306406152", "0-306-40615-2"),
    *("3-16-148410-0", "isbn 3551551677", "isbn 0 306 40615 2"),
    *("90210", "90210-1234", "beverly hills ca 90210-1234", "10115 berlin", "sw1a 1aa"),
    *("192.168.100.200", "10.0.0.1:8080", "3.14159265358979", "1,000,000,000", "1700000000", "1700000000000"),
    *("1 2 3 4 5 6 7 8 9 10 11 12 13 14", "4111 1111 1111 1112", "4111 1111 1111", "100-200-3000", "555-1212"),
    *("000-12-3456", "666-12-3456", "912-34-5678", "123-00-4567", "123-45-0000", "123-456-789", "12-345-6789"),
    *("c++ 2010", "1 + 1", "24/7 365", "911", "area 51 1947", "boeing 747 400", "windows 98 2000 xp", "+1 minecraft"),
    *("@handle", "price @ 5.99", "john at example", "a@b", "https://example.com/@author/page.html", "x@y.1"),
    *("123456789", "ssn office", "social security office 10 main street", "tracking 1234567890"),
    "",
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text"), [(name, text) for name, texts in MUST_GO.items() for text in texts])
def test_these_must_go(pattern: str, text: str) -> None:
    assert BUILT_IN[pattern](text)
    batch = pa.record_batch({"query": ["weather", text, "maps"], "count": [3, 2, 1]})
    kept, dropped = OutputFilter().apply(batch)
    assert kept["query"].to_pylist() == ["weather", "maps"]
    assert sum(dropped.values()) == 1


def test_these_must_stay() -> None:
    batch = pa.record_batch({"query": MUST_STAY, "count": list(range(len(MUST_STAY)))})
    kept, dropped = OutputFilter().apply(batch)
    assert sorted(set(MUST_STAY) - set(kept["query"].to_pylist())) == []
    assert dropped == {}


@given(st.text("0123456789 -.()+/@%40abcmssn:", max_size=40))
def test_whatever_matches_is_a_candidate(text: str) -> None:
    if any(matches(text) for matches in BUILT_IN.values()):
        assert re.search(CANDIDATE, text)


@given(st.lists(st.text("0123456789 -.@a", max_size=24), max_size=12))
def test_the_fast_way_drops_what_the_slow_way_drops(texts: list[str]) -> None:
    texts = [*texts, *MUST_GO[CARDS], *MUST_STAY]
    first = [next((name for name, matches in BUILT_IN.items() if matches(text)), None) for text in texts]
    kept, dropped = OutputFilter().apply(pa.record_batch({"query": texts}))
    assert kept["query"].to_pylist() == [text for text, name in zip(texts, first, strict=True) if name is None]
    assert dropped == dict(Counter(name for name in first if name))


@given(st.integers(10**11, 10**18 - 1))
def test_exactly_one_last_digit_makes_a_card(number: int) -> None:
    """The digit of Luhn's check; of 13 digits none if it is also the check digit of an article number."""
    valid = [digit for digit in range(10) if BUILT_IN[CARDS](f"{number}{digit}")]
    stem = str(number)
    if len(stem) == 12:
        article = -sum(int(digit) * (1, 3)[place % 2] for place, digit in enumerate(stem)) % 10
        luhn = (
            -sum(
                int(d) * (2, 1)[place % 2] // 10 + int(d) * (2, 1)[place % 2] % 10 for place, d in enumerate(stem[::-1])
            )
            % 10
        )
        assert valid == ([] if article == luhn or stem.startswith(("978", "979")) else [luhn])
    else:
        assert len(valid) == (len(stem) > 12)


def test_every_column_of_text_is_looked_at_and_users_are_not() -> None:
    """Numbers in queries alone, because urls hold product numbers; e-mail addresses in urls, too."""
    number, address = "4111111111111111", "x.org/ann@mail.example"
    log = pa.record_batch(
        {"user": [number, "u2", "u3", "u4"], "query": ["a", number, "c", "d"], "url": [None, "x.org", number, address]}
    )
    kept, dropped = OutputFilter().apply(log)
    assert kept["user"].to_pylist() == [number, "u3"]
    assert dropped == {CARDS: 1, "e-mail addresses": 1}


def test_a_session_goes_if_one_of_its_queries_does() -> None:
    queries = [["weather", "maps"], ["weather", "a@b.org", "c@d.org"], [], ["maps"]]
    sessions = pa.record_batch({"queries": queries, "count": [4, 3, 2, 1]})
    kept, dropped = OutputFilter().apply(sessions)
    assert kept["count"].to_pylist() == [4, 2, 1]
    assert dropped == {EMAIL: 1}
    sliced, dropped = OutputFilter().apply(sessions.slice(1))
    assert sliced["count"].to_pylist() == [2, 1]
    assert dropped == {EMAIL: 1}


def test_a_row_counts_once_and_untouched_batches_are_the_same() -> None:
    both = pa.record_batch({"query": ["a@b.org 4111111111111111"]})
    assert OutputFilter().apply(both)[1] == {CARDS: 1}
    clean = pa.record_batch({"query": ["weather"]})
    assert OutputFilter().apply(clean)[0] is clean


def look(tmp_path: Path, *lines: str) -> OutputFilter:
    (tmp_path / "never.txt").write_text("\n".join(lines), encoding="utf-8")
    return OutputFilter.from_file(tmp_path / "never.txt")


def dropped_texts(found: OutputFilter, *texts: str) -> list[str]:
    kept, dropped = found.apply(pa.record_batch({"query": list(texts)}))
    gone = [text for text in texts if text not in kept["query"].to_pylist()]
    assert dropped == ({OWNERS_LIST: len(gone)} if gone else {})
    return gone


def test_words_are_whole_words_in_any_case(tmp_path: Path) -> None:
    found = look(tmp_path, "# our own people", "", "Ann", "New   York", "c++", "élan")
    gone = ["ann", "who is ANN?", "new york hotels", "learn c++ fast", "Élan vital", "www.ann.org"]
    assert dropped_texts(found, *gone, "planning", "annex", "newyork", "c+", "élancourt", "our own people") == gone


def test_words_of_scripts_without_capitals_match_anywhere(tmp_path: Path) -> None:
    assert dropped_texts(look(tmp_path, "北京"), "北京大学", "東京") == ["北京大学"]


def test_expressions_stand_between_slashes(tmp_path: Path) -> None:
    found = look(tmp_path, "/^internal-[0-9]+$/", "/(?i)project x/", "a/b")
    assert dropped_texts(found, "internal-7", "Project X", "a/b test", "internal-x") == [
        "internal-7", "Project X", "a/b test"
    ]  # fmt: skip


def test_many_words(tmp_path: Path) -> None:
    found = look(tmp_path, *(f"word{number}" for number in range(1000)))
    assert dropped_texts(found, "word999 x", "word1000", "words") == ["word999 x"]


def test_a_bad_line_is_named_by_its_number_only(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        look(tmp_path, "fine", "/gertrude(/")
    assert str(refused.value) == (
        f"line 2 of '{tmp_path / 'never.txt'}' is not a regular expression (RE2 syntax); correct or remove it"
    )
    assert refused.value.__context__ is None
    with pytest.raises(InputError, match="expression 1 is not a regular expression") as refused:
        OutputFilter(expressions=("gertrude(",))
    assert "gertrude" not in str(refused.value)
    with pytest.raises(InputError, match="a word that shall never be released is empty; remove it"):
        OutputFilter(words=(" ",))


def test_a_list_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the list .* cannot be read: no such file or directory; give a text file"):
        OutputFilter.from_file(tmp_path / "nowhere")
    (tmp_path / "never.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"the list .* cannot be read: it is not UTF-8; give a text file"):
        OutputFilter.from_file(tmp_path / "never.txt")


def test_the_owner_s_list_stays_out_of_sight(tmp_path: Path) -> None:
    assert "gertrude" not in repr(look(tmp_path, "gertrude", "/gertr.de/"))


@pytest.mark.parametrize("between", ["_", "/", ", ", "  ", "%20", "-", ""])
def test_card_numbers_are_found_however_their_groups_are_parted(between: str) -> None:
    batch = pa.record_batch({"query": ["pay " + between.join(["4111", "1111", "1111", "1111"]), "weather"]})
    kept, dropped = OutputFilter().apply(batch)
    assert (kept["query"].to_pylist(), dropped) == (["weather"], {"payment card numbers": 1})


def test_the_former_name_of_the_parameter_works(tmp_path: Path) -> None:
    release = a_release(tables={"queries": pa.table({"query": ["zebra", "yak"], "count": [9, 8]})})
    release.save(tmp_path / "former", last_look=OutputFilter(words=("zebra",)))
    assert qc.load(tmp_path / "former").table("queries")["query"].to_pylist() == ["yak"]
    release.save(tmp_path / "none", last_look=None)
    assert json.loads((tmp_path / "none" / "card.json").read_text())["last_look"] == {"applied": False}
    with pytest.raises(ParameterError, match="give output_filter or its former name last_look, not both"):
        release.save(tmp_path / "both", output_filter=None, last_look=None)
