"""The pages of papers and of releases to sign in Chromium: they fit a phone, load nothing, and can be read by all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.pages.reproduction_page import reproduction_page
from querycloak.reproduction.exhibit import Chart, Exhibit, Grid, Reproduced, Series
from querycloak.reproduction.zhang2017_exhibits import table_4
from tests.browser.chromium import chromium
from tests.browser.test_comparison_in_browser import Visit
from tests.evaluated import some_rows, write_rows

LONG = "a" * 300
PAGES = ("paper", "public", "private")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def paper() -> Reproduced:
    lines = Chart(
        "rows over K", "K", "rows",
        (
            Series("printed", ((10, 5.0), (20, 3.0)), printed=True),
            Series("ours, with a rather long name", ((10, 4.0), (20, 1.0))),
        ),
        log_x=True,
    )  # fmt: skip
    bars = Chart("scores", "run", "score", (Series("ours", (("one", 0.2), ("two", 0.4))),), kind="bars")
    wide = Grid(tuple(f"column {n}" for n in range(14)), ((LONG, *range(13)),) * 20, "printed: nowhere")
    shown = Exhibit(
        "Figure 9", "Curves", "differs", "One line.\nAnother line.", "Because.", ours=wide, charts=(lines, bars)
    )
    return Reproduced("key", "Somebody, 2020", "clicks", "a log", True, True, (table_4(), shown))


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "paper.html").write_text(reproduction_page(paper()))
    with qc.read(write_rows(folder / "log.parquet", some_rows(1, 60))) as log:
        qc.Clicks(epsilon=3, delta=1e-3, selection="laplace").release(log).save(folder / "release")
    written = qc.report(folder / "release", folder / "report", about={"owner": LONG, "purpose": "<b>tests</b>"})
    return {
        "paper": (folder / "paper.html").as_uri(),
        "public": written.public.as_uri(),
        "private": written.private.as_uri(),
    }


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_nothing_is_wider_than_the_screen(
    browser: Any, addresses: dict[str, str], name: str, width: int, scheme: str
) -> None:
    with Visit(browser, addresses[name], width, scheme) as visit:
        visit.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.said == []
        assert all(each.startswith(("file:", "data:")) for each in visit.asked)
        assert visit.page.evaluate("document.querySelectorAll('img, script, main b').length") == 0


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(browser: Any, addresses: dict[str, str], name: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for scheme in ("light", "dark"):
        with Visit(browser, addresses[name], 1280, scheme, bypass_csp=True) as visit:
            visit.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            found = Axe().run(visit.page).response["violations"]
        assert [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in found] == []


def test_figures_on_the_page_are_those_of_the_table(browser: Any, addresses: dict[str, str], tmp_path: Path) -> None:
    with Visit(browser, addresses["paper"]) as visit:
        rows = visit.page.locator("#table-4 tbody tr").all_inner_texts()
        assert [row.split()[:4] for row in rows[:2]] == [["1", "10", "1", "3"], ["1", "20", "1", "3"]]
        assert (
            visit.page.locator("h1").inner_text()
            == "Of 2 tables and figures that can be compared, 1 agrees, 1 differs."
        )
        visit.page.screenshot(path=tmp_path / "paper.png")
    assert (tmp_path / "paper.png").stat().st_size > 10_000
