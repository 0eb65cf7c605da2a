"""The pages for people, and the fenced examples on them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(
    r"^(?P<why><!-- not run: [^\n]+ -->\n)?```(?P<language>\w*)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    """What stands between two fences; `file` is its name if it is a file to be written."""

    language: str
    text: str
    file: str | None = None
    is_run: bool = True

    def commands(self) -> Iterator[list[str]]:
        """The words of each command."""
        for line in self.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


def examples(page: Path) -> list[Example]:
    """The examples of a page; a file is named behind the language, or by a comment in its first line."""
    found = []
    for each in FENCE.finditer(page.read_text()):
        comment = re.match(r"# ([\w.-]+\.\w+)\n", each["text"])
        name = each["file"] or (comment and comment[1])
        found.append(Example(each["language"], each["text"], name, each["why"] is None))
    return found
