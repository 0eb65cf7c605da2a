"""Six logs, from the file to a useful release, by somebody who types only what messages suggest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from querycloak.releases.loading import load
from tests.commands import Done, in_process
from tests.logs import Row, excite, sogou, write

USERS, SEARCHES = 300, 2
QUERIES = tuple(f"{colour} {thing}" for thing in ("lamp", "chair", "rug") for colour in ("red", "blue", "oak", "round"))
OPTION = re.compile(r"--[a-z]+(?:-[a-z]+)*")


def searches() -> list[tuple[int, int]]:
    """Pairs of user and query; each query has 50 users."""
    return [(user, (user + 5 * place) % len(QUERIES)) for user in range(USERS) for place in range(SEARCHES)]


def article(number: int) -> str:
    """An EAN-13 with its check digit."""
    digits = f"40{number:010}"
    odd, even = sum(map(int, digits[::2])), sum(map(int, digits[1::2]))
    return digits + str(-(odd + 3 * even) % 10)


def rows() -> list[Row]:
    times = (f"{place // 3600 % 24:02}:{place // 60 % 60:02}:{place % 60:02}" for place in range(10**6))
    return [
        (f"{user:08X}", at, QUERIES[query], "1", f"www.shop.example/{query}")
        for (user, query), at in zip(searches(), times, strict=False)
    ]


def shop(path: Path) -> Path:
    lines = [f"c{user},2025-11-{1 + user % 28:02} 10:00:0{query % 10},{QUERIES[query]},1.0,{article(query)}"
             for user, query in searches()]  # fmt: skip
    return write(path.with_suffix(".csv"), "\n".join(["customer_id,searched_at,search_term,position,ean", *lines]))


def library(path: Path) -> Path:
    words = [word.replace("lamp", "Bücher") for word in QUERIES]
    lines = [f"{10**6 + user};{1 + user % 28:02}.12.2025;{words[query]};S {query}" for user, query in searches()]
    made = path.with_suffix(".csv")
    made.write_bytes("\n".join(["Ausweis;Datum;Suchbegriff;Signatur", *lines]).encode("latin-1"))
    return made


def ubi(path: Path, action: str) -> Path:
    documents = []
    for number, (user, query) in enumerate(searches()):
        shared = {"query_id": f"q{number}", "client_id": f"u{user}", "timestamp": f"2025-11-01T10:00:{query:02}Z"}
        item = {"object_id": f"p{query}", "object_id_field": "product_id"}
        documents += [
            {**shared, "user_query": QUERIES[query]},
            {**shared, "action_name": action, "event_attributes": {"object": item, "position": {"ordinal": 1}}},
        ]
    return write(path.with_suffix(".ndjson"), "".join(json.dumps(each) + "\n" for each in documents))


LOGS: dict[str, Callable[[Path], Path]] = {
    "sogou": lambda path: write(path.with_suffix(".sample"), sogou(rows())),
    "excite": lambda path: write(path.with_suffix(".log"), excite(rows())),
    "ubi": lambda path: ubi(path, "click"),
    "shop": shop,
    "library": library,
    "legacy-ubi": lambda path: ubi(path, "item_click"),
}


@pytest.fixture(scope="module")
def advice() -> Done:
    return in_process("advise", "--users", "300", "--searches-per-user", "2")


class Walk:
    """Commands about one log; an option is typed only after a message has named it."""

    def __init__(self, log: Path, advice: Done) -> None:
        self.log, self._advice, self.seen, self.commands = log, advice, in_process().stderr, 0

    def type(self, *words: str | Path, code: int = 0) -> str:
        options = {word for word in map(str, words) if OPTION.fullmatch(word)}
        assert options <= set(OPTION.findall(self.seen)), f"no message has named {options}"
        assert f"querycloak {words[0]}" in self.seen, f"no message has named {words[0]}"
        done = self._advice if words[0] == "advise" else in_process(*words)
        assert done.returncode == code, done.stderr
        assert all(len(line) <= 80 for line in done.stdout.splitlines() if str(self.log.parent) not in line)
        self.seen += done.stdout + done.stderr
        self.commands += 1
        return done.stdout + done.stderr

    def suggested(self, *more: str, method: str = "queries", out: Path) -> list[str | Path]:
        """The release that `advise` suggests, with the options of this log."""
        words = re.findall(r"  querycloak (release .*?) --out", self._advice.stdout, re.DOTALL)[0].replace("\\", "")
        listed = [{"LOG": str(self.log), "queries": method}.get(word, word) for word in words.split()]
        return [*listed, *more, "--out", out]


TABLE = {
    "shop": "user=customer_id,time=searched_at,query=search_term,url=ean",
    "library": "user=Ausweis,time=Datum,query=Suchbegriff,url=Signatur",
}


@pytest.mark.parametrize(
    ("name", "first", "more", "method", "commands"),
    [
        ("sogou", "", (), "queries", 3),
        ("excite", "", (), "queries", 3),
        ("ubi", "", (), "clicks", 3),
        ("shop", "say which of its columns is which: --columns user=A,time=B,query=C", (), "clicks", 4),
        ("library", "it is not UTF-8, so add --encoding, such as latin-1", ("--encoding", "latin-1"), "queries", 4),
        ("legacy-ubi", "name those that are clicks with --click-", ("--click-actions", "item_click"), "clicks", 3),
    ],
)  # fmt: skip
def test_from_a_file_to_a_useful_release(
    tmp_path: Path, advice: Done, name: str, first: str, more: tuple[str, ...], method: str, commands: int
) -> None:
    walk = Walk(LOGS[name](tmp_path / "log"), advice)
    message = walk.type("inspect", walk.log, code=2 if name in TABLE else 0)
    assert first in " ".join(message.split())
    if name in TABLE:
        more = ("--columns", TABLE[name], *more)
        walk.type("inspect", walk.log, *more)
    walk.type("advise", "--users", "300", "--searches-per-user", "2")
    walk.type(*walk.suggested(*more, method=method, out=tmp_path / "out"))
    assert load(tmp_path / "out").table(method).num_rows >= 10
    assert walk.commands == commands


@pytest.mark.parametrize(
    ("delta", "share"),
    [
        ("0.001", "one user in 1,000"),
        ("0.01", "one user in 100"),
        ("0.1", "one user in 10"),
        ("0.5", "50 % of all users"),
    ],
)
def test_the_warning_about_delta_names_the_share_of_users(delta: str, share: str) -> None:
    done = in_process("guarantee", "queries", "--epsilon", "1", "--delta", delta)
    assert f"delta is {delta}: the release may tell everything about {share};" in done.stderr


def test_a_message_about_columns_names_all_that_is_needed_at_once(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "who,when,what\nu1,2025-12-21,lamp\n")
    done = in_process("inspect", log, "--columns", "user=who")
    assert done.stderr == (
        "querycloak: --columns must say user, time and query, and lacks time and query: "
        "--columns user=...,time=...,query=...; existing columns: who, when, what\n"
    )


BUDGET = ("--epsilon", "8", "--delta", "1e-4")
LINES = "".join(f"u{user},2025-12-21,lamp\n" for user in range(40))


def test_files_that_were_passed_over_are_counted_and_few_rows_come_with_advice(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder / "log.csv", f"user,time,query\n{LINES}")
    write(folder / "notes.docx", "no log")
    write(folder / "empty.csv", "")
    given = ("release", "queries", folder, *BUDGET, "--max-keys-per-user", "1", "--out", tmp_path / "out")
    done = in_process(*given)
    assert done.returncode == 0, done.stderr
    assert "2 files of the folder were passed over: they are empty, or their names do not end as" in done.stderr
    text = " ".join(done.stdout.split())
    assert "Few rows. querycloak release phrases counts words and sequences of words, which more people share" in text
    assert f"(querycloak verify {tmp_path / 'out'})" in text


def test_no_reason_is_made_up_for_a_choice_on_an_empty_log(tmp_path: Path) -> None:
    done = in_process("release", "queries", write(tmp_path / "log.csv", "user,time,query\n"), *BUDGET, "--out",
                      tmp_path / "out")  # fmt: skip
    assert "chosen for this log: " in done.stdout
    assert "Auto chose" not in done.stdout
    assert "nothing came out: the log has no rows: only a header" in done.stderr


def test_advice_after_an_empty_release_by_a_rule_names_its_numbers(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,time,query\n" + LINES)
    done = in_process("release", "eu-records", log, "--preset", "dma-2026", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "A smaller --min-term-users or --min-group-users releases more." in " ".join(done.stdout.split())
    assert "epsilon would help" not in done.stdout
    assert "that most users share" not in done.stderr
    one = in_process("release", "eu-records", log, "--preset", "ddg-2026", "--min-term-users", "1", "--out",
                     tmp_path / "one")  # fmt: skip
    assert one.returncode == 0, one.stderr
    for folder, pseudonyms in (("out", False), ("one", True)):
        assert ("no row belongs to a user" not in (tmp_path / folder / "README.md").read_text()) is pseudonyms
