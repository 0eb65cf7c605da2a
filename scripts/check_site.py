"""Checks that a built site loads nothing from elsewhere and has no dead link: `python scripts/check_site.py FOLDER`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose address a browser loads by itself; the address of an <a> is loaded only if somebody follows it.
LOADED = {"src", "srcset", "poster", "data", "action"}
IMPORTED = re.compile(r"""(?:@import\s+|url\()\s*['"]?((?:https?:)?//[^'")\s]+)""")


class Page(HTMLParser):
    """The addresses that a page loads, its links, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)
        self.loaded += IMPORTED.findall(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort the attributes of one tag."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.loaded += [value for name, value in given.items() if name in LOADED]
        if "href" in given and tag == "link" and given.get("rel") not in ("canonical", "author"):
            self.loaded.append(given["href"])
        elif "href" in given and tag == "a":
            self.links.append(given["href"])


def problems(site: Path) -> Iterator[str]:
    """A sentence for each address of another host that a page loads, and for each link that leads nowhere."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        yield from (f"{name} loads {address}" for address in page.loaded if urlsplit(address).netloc)
        yield from (f"{name} links to {link}" for link in page.links if not _leads(path, link, pages))
    for path in sorted(site.rglob("*.css")):
        yield from (f"{path.relative_to(site)} loads {each}" for each in IMPORTED.findall(path.read_text("utf-8")))


def _leads(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    address = urlsplit(link)
    if address.scheme or address.netloc:
        return True
    target = (path.parent / unquote(address.path)).resolve() if address.path else path.resolve()
    page = pages.get(target)
    if page is None:
        return target.is_file()
    return not address.fragment or unquote(address.fragment) in page.anchors


def main(folder: str) -> int:
    """Print the problems of a site; 4 if there are some."""
    site = Path(folder).resolve()
    sentences = list(problems(site))
    print("\n".join(sentences) or f"{site.name}: nothing is loaded from elsewhere, every link leads somewhere")
    return 4 if sentences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
