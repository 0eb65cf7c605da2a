"""Sphinx settings of the documentation site; `make docs` builds it into build/site.

The source folder is the repository's root: links from pages to proof notes beside the code work as they are written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

project = "querycloak"
author = "the authors of querycloak"
project_copyright = "the authors of querycloak. Apache-2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc"]

root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/*.rst",
    "docs/tour.ipynb",
    "src/querycloak/**.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "bench", "build", "demo-out", "dist", "requirements", "scripts", "tests"]
nitpicky = False
smartquotes_action = "qe"  # not dashes: `--` begins an option

myst_heading_anchors = 4
myst_enable_extensions: list[str] = []
nb_execution_mode = "off"  # the tour is committed with its outputs
nb_render_markdown_format = "gfm"
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]

default_role = "code"
autodoc_default_options = {"members": True, "inherited-members": False}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 90
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "querycloak"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": False}
CODE = re.compile(r"(`[^`]*`)")
PICTURE = re.compile(r'(<img [^>]*src="([^"]*_images/[^"]+)"[^>]*>)')
WORD = re.compile(r'<span class="pre">([^<]{1,30})</span>')
COMMANDS = re.compile(r'<div class="highlight-sh .*?</pre>', re.DOTALL)
OPTION = re.compile(r"<[^>]*>|[^\s<]*-[^\s<]*")
SIGNATURE = re.compile(r'<span class="sig-paren">\(</span>\s*<dl>.*?</dl>', re.DOTALL)
MENDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    "<th></th>": "<td></td>",
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    '<div class="cell_output docutils container">': '<div tabindex="0" class="cell_output docutils container">',
}
START = '<!doctype html><title>querycloak</title><meta http-equiv="refresh" content="0; url=docs/index.html">\n'


def plain_docstring(_app: Any, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Take a docstring as plain text with `code`, not as markup; list the options of a method (`name: help`)."""
    lines[:] = [_plain(line) for line in lines]
    if "Options:" in lines:
        start = lines.index("Options:") + 1
        listed = [line.partition(": ") for line in lines[start:] if line.strip()]
        lines[start:] = ["", *(f"* ``{name}``: {text}" for name, _colon, text in listed), ""]


def _plain(line: str) -> str:
    """Escape what has a meaning in reStructuredText, except in code between backticks."""
    return "".join(part if part.startswith("`") else re.sub(r"([\\|*])", r"\\\1", part) for part in CODE.split(line))


def finish(app: Any, failure: Exception | None) -> None:
    """Mend the theme's HTML for screen readers and keyboards, and lead from the site's root to its first page."""
    if failure is not None:
        return
    for path in Path(app.outdir).rglob("*.html"):
        path.write_text(accessible(path.read_text("utf-8")), "utf-8")
    (Path(app.outdir) / "index.html").write_text(START, "utf-8")


def accessible(page: str) -> str:
    """Headings get their level, landmarks their names, blocks that scroll the keyboard's focus, pictures a link."""
    for theirs, ours in MENDED.items():
        page = page.replace(theirs, ours)
    page = PICTURE.sub(r'<a href="\2">\1</a>', page)  # on a phone, the file is larger than the page
    page = COMMANDS.sub(
        lambda match: OPTION.sub(_unbroken, match[0]), WORD.sub(r'<span class="pre word">\1</span>', page)
    )
    page = SIGNATURE.sub(lambda match: re.sub(r"<(/?)d[ld]>", r"<\1div>", match[0]), page)
    head, piece, rest = page.partition('<div class="querycloak-piece">')  # notebooks alone have such pieces
    return head + piece + re.sub("<h4>(.*?)</h4>", r"<p><strong>\1</strong></p>", rest) if piece else page


def _unbroken(match: re.Match[str]) -> str:
    """A word with a hyphen, such as an option, stays on one line; a tag stays as it is."""
    return match[0] if match[0].startswith("<") or len(match[0]) > 30 else f'<span class="word">{match[0]}</span>'


def setup(app: Any) -> None:
    """Connect the functions above; show CSV as it is."""
    app.add_lexer("csv", TextLexer)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("build-finished", finish)
