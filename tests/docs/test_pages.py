"""Every fenced example of README and docs runs, in the order of its page, in one folder for each page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from querycloak.contract import small_log
from tests.commands import in_process
from tests.logs import WRITERS, Row, write
from tests.pages import PAGES, ROOT, Example, examples

ROWS: list[Row] = [
    (f"u{user}", f"12:{number:02}:00", query, "1", f"http://{number}.example/")
    for user in range(30)
    for number, query in enumerate(("knife", "saucepan", "spade", "garden shovel"))
]
OWN_TEST = {"own-method.md", "evaluation.md", "own-attack.md", "own-task.md"}  # which have tests of their own
LONG = ("comparison.md", "records.md", "semantic.md", "sign-a-release.md")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader might sit: with logs of their own, and no ledger yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUERYCLOAK_LEDGER", str(tmp_path / "ledger.sqlite"))
    (tmp_path / "logs").mkdir()
    for name in ("logs/march.tsv", "june.tsv", "july.tsv"):
        write(tmp_path / name, small_log())
    write(tmp_path / "shop.jsonl", WRITERS["jsonl"](ROWS))
    return tmp_path


def run(example: Example, folder: Path) -> None:
    if example.file is not None:
        write(folder / example.file, example.text)
    elif example.language == "python":
        exec(compile(example.text, "an example", "exec"), {"__name__": "example"})
    elif example.language == "sh":
        for words in example.commands():
            assert words[0] == "querycloak", f"no reader can be sure of {words[0]}: mark the block as not run"
            done = in_process(*words[1:])
            assert done.returncode == 0, (words, done.stderr)
    else:
        assert example.language in ("csv", "json", "toml", "text"), f"what is {example.language!r}?"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else [], id=page.name)
        for page in PAGES
        if page.name not in OWN_TEST
    ],
)
def test_every_example_runs(page: Path, folder: Path) -> None:
    for example in examples(page):
        if example.is_run:
            run(example, folder)


def test_few_are_not_run() -> None:
    left_out = {page.name: sum(not each.is_run for each in examples(page)) for page in PAGES}
    assert {name: count for name, count in left_out.items() if count} == {
        "README.md": 2,
        "audits.md": 1,
        "sign-a-release.md": 2,
        "studio.md": 1,
    }


def test_no_command_hides_in_a_block_of_text() -> None:
    texts = [(page.name, each) for page in PAGES for each in examples(page) if each.language in ("", "text")]
    assert [page for page, each in texts if re.search(r"^(?:querycloak|pip|make) ", each.text, re.MULTILINE)] == []


def test_nothing_that_can_be_typed_hides_outside_of_fences() -> None:
    for page in PAGES:
        outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"^    (?:querycloak|pip|import|from) .*", outside, re.MULTILINE), page.name


def test_the_finder_finds() -> None:
    page = ROOT / "docs" / "own-method.md"
    assert [each.file or each.language for each in examples(page)] == [
        "watch_list.py",
        "pyproject.toml",
        "illnesses.txt",
        "sh",
        "test_watch_list.py",
        "sh",
    ]
    assert list(Example("sh", "querycloak demo \\\n  --users 3  # few\n\nls\n").commands()) == [
        ["querycloak", "demo", "--users", "3"],
        ["ls"],
    ]
