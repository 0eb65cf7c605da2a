"""README's index: every page of docs once, under one of its readers."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_page_is_listed_once_under_a_reader() -> None:
    index = (ROOT / "README.md").read_text().split("## Read on\n")[1]
    assert re.findall(r"^\*\*You (\w+) .*\*\*: \[start", index, re.MULTILINE) == ["own", "sign", "receive", "build"]
    pages = [each.name for each in (ROOT / "docs").iterdir() if each.suffix in (".md", ".ipynb")]
    assert sorted(re.findall(r"\(docs/([\w.-]+)\)", index)) == sorted(pages)
    assert "pip install querycloak" in (ROOT / "README.md").read_text()
