"""The page of a comparison in Chromium: fits a phone, loads nothing, says nothing to the console, can be read by all.

Without Chromium these are skipped, unless QUERYCLOAK_REQUIRE_BROWSER says that they must run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from querycloak.pages.comparison_page import comparison_page
from tests.browser.chromium import chromium
from tests.canned_comparison import NASTY, canned

SCREENS = [
    (1280, "light"),
    (1280, "dark"),
    (900, "light"),
    (768, "dark"),
    (390, "light"),
    (390, "dark"),
    (320, "light"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(comparison_page(canned(path.parent)))
    return path.as_uri()


class Visit:
    """A page that is open, and everything it did."""

    def __init__(self, browser: Any, address: str, width: int = 1280, scheme: str = "light", **more: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **more)
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)  # a machine may be busy
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nothing_is_wider_than_the_screen(browser: Any, address: str, width: int, scheme: str) -> None:
    with Visit(browser, address, width, scheme) as visit:
        for opened in (False, True):
            visit.page.evaluate(
                f"document.querySelectorAll('details').forEach(each => each.open = {str(opened).lower()})"
            )
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate("[...document.querySelectorAll('.picture')].filter(e => e.clientWidth).length") == 5


def test_nothing_is_loaded_run_or_said(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        assert visit.asked == [address] or all(each.startswith(("file:", "data:")) for each in visit.asked)
        assert visit.said == []
        assert visit.page.evaluate("document.querySelectorAll('img, script').length") == 0
        assert NASTY.split("\u202e")[0][:40] in visit.page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, address: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with Visit(browser, address, 1280, scheme, bypass_csp=True) as visit:
        visit.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        found = Axe().run(visit.page).response["violations"]
    assert [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in found] == []


def test_it_can_be_read_without_script_and_by_keyboard(browser: Any, address: str) -> None:
    with Visit(browser, address, java_script_enabled=False) as visit:
        assert "What this means for one person" in visit.page.inner_text("main")
        visit.page.keyboard.press("Tab")
        assert visit.page.locator(":focus").inner_text() == "To the content"


def test_it_can_be_printed(browser: Any, address: str, tmp_path: Path) -> None:
    """All details are there on paper, and the page fits it."""
    with Visit(browser, address) as visit:
        visit.page.emulate_media(media="print")
        hidden = "[...document.querySelectorAll('details li')].filter(e => !e.getClientRects().length).length"
        assert visit.page.evaluate(hidden) == 0
        assert not visit.page.locator(".picture.narrow").first.is_visible()
        assert visit.page.locator(".picture.wide").first.is_visible()
        paper = visit.page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert 4 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") <= 40
