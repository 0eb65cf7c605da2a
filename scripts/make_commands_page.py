"""Write the tables of docs/commands.md that say what each method takes: `python scripts/make_commands_page.py`.

They come from the options that stand with the methods' fields. Everything else on the page is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from querycloak.methods.option import Option, options_of
from querycloak.methods.registry import BUILT_IN, METHODS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
HEAD = "| option | takes | if not given | meaning |\n|---|---|---|---|\n"


def page_with_options(page: str) -> str:
    """The page, with the table of every method's section made anew."""
    for name in BUILT_IN:
        table = HEAD + "".join(_row(each) for each in options_of(METHODS[name]))
        section = re.compile(rf"(\n### {name}\n(?:(?!\n#).)*?\n)\|(?:[^\n]*\n\|)*[^\n]*\n", re.DOTALL)
        found = section.search(page)
        if found is None:
            raise ValueError(f"docs/commands.md has no section with a table for {name}")
        page = page[: found.start()] + found[1] + table + page[found.end() :]
    return page


def _row(each: Option) -> str:
    default = "" if each.default is None or each.is_flag else f"`{each.default}`"
    takes = ", ".join([*(each.accepts.split("|")[: len(each.kinds)]), *(f"`{word}`" for word in each.choices)])
    meaning = each.help.replace("|", "\\|")
    return f"| `{each.typed}` | {'' if each.is_flag else takes} | {default} | {meaning} |\n"


if __name__ == "__main__":
    PAGE.write_text(page_with_options(PAGE.read_text()))
