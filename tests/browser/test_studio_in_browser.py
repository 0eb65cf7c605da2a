"""The studio in Chromium: the whole path with the mouse and by keyboard, readable by all, and nobody else gets in.

The sign-off itself is a stand-in here that ends at once with pages of a small release; tests/unit/signing tests it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.logs.searchlog import OnStep
from querycloak.signing.signoff import SignedOff
from querycloak.studio.studio import Figures, Studio, StudioCommands
from tests.browser.chromium import chromium
from tests.browser.test_comparison_in_browser import Visit
from tests.evaluated import some_rows, write_rows
from tests.studios import Running, running

NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>"
FIELDS = {
    "#log": "log.tsv", "#population_size": "20000", "#searches_per_user": "3", "#population": "readers",
    "#owner": f"Library {NASTY}", "#contact": "library@example.org", "#purpose": "research", "#out": "signed",
}  # fmt: skip
SCREENS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
States = Callable[[str], None]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder such as a sign-off leaves."""
    return signed_folder(tmp_path_factory.mktemp("signed"))


def signed_folder(folder: Path) -> Path:
    with qc.read(write_rows(folder / "log.parquet", some_rows(1, 60))) as log:
        (folder / "public").mkdir()
        qc.Clicks(epsilon=3, delta=1e-3, selection="laplace").release(log).save(folder / "public" / "release")
    qc.report(folder / "public" / "release", folder / "report", about={"owner": NASTY})
    (folder / "private").mkdir()
    shutil.move(folder / "report" / "public.html", folder / "public")
    shutil.copy(folder / "report" / "private.html", folder / "private" / "draft.html")
    shutil.move(folder / "report" / "private.html", folder / "private")
    return folder


def made_studio(pages: Path, ledger: Path) -> Studio:
    """A studio whose sign-off ends at once."""

    def sign_off(log: str, plan: Path, out: Path, release: bool, on_step: OnStep) -> SignedOff:
        on_step("attacking it", 0.5)
        return SignedOff(pages, release, "ab" * 32 if release else None, pages / "private" / "draft.html")

    def inspect(log: str, reading: Any, on_step: OnStep) -> Figures:
        return [("rows read", "1,234"), ("format", NASTY)]

    return Studio(StudioCommands(sign_off, inspect, str), qc.Ledger(ledger))


@pytest.fixture
def studio(pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.chdir(tmp_path)
    with running(made_studio(pages, tmp_path / "ledger.sqlite")) as answering:
        yield answering


def walk(page: Any, on_state: States = lambda _: None) -> None:
    """From the first screen to the finished page, with the mouse."""
    on_state("1-first")
    for field, text in FIELDS.items():
        page.locator(field).fill(text)
    page.get_by_label("Epsilon in all").fill("8")
    page.get_by_label("Delta in all").fill("1e-4")
    on_state("2-budget")
    page.get_by_role("button", name="Set this budget").click()
    page.locator("#ledger", has_text="left").wait_for()
    page.get_by_role("button", name="Open the log and count").click()
    page.locator(".private").wait_for()
    page.get_by_label("Rank results").check()
    page.locator("#answer", has_text="pairs of query and result").wait_for()
    on_state("3-accuracy")
    box = page.locator("#slider").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    page.locator("#answer .result", has_text="With epsilon").wait_for()
    assert page.locator("#slider").bounding_box()["y"] == box["y"], "the slider moves away while it is moved"
    on_state("4-slider")
    page.get_by_role("button", name="Measure the evidence").click()
    page.get_by_text("The evidence is ready").wait_for()
    on_state("5-evidence")
    page.get_by_role("button", name="Make the release from all people").click()
    page.get_by_text("Released. Now read, and sign.").wait_for()
    on_state("6-released")


def quiet(visit: Visit, studio: Running) -> None:
    """Nothing was said to the console, nothing was asked of others, and no address holds what was typed."""
    assert visit.said == []
    own = f"http://127.0.0.1:{studio.port}/"
    paths = {each.removeprefix(own) for each in visit.asked if not each.startswith("data:")}
    known = {"", "view", "state", "inspect", "budget", "measure", "release", "studio.css", "studio.js"}
    assert {each for each in paths if not each.startswith("?token=")} <= known
    assert visit.page.url == own


def test_the_whole_path_with_the_mouse_on_every_screen(browser: Any, studio: Running) -> None:
    with Visit(browser, studio.address) as visit:
        wide: list[tuple[str, int, str]] = []

        def measure(state: str) -> None:
            for width, scheme in SCREENS:
                visit.page.set_viewport_size({"width": width, "height": 900})
                visit.page.emulate_media(color_scheme=scheme)
                if visit.page.evaluate("document.documentElement.scrollWidth") > width:
                    wide.append((state, width, scheme))
            visit.page.set_viewport_size({"width": 1280, "height": 900})

        walk(visit.page, measure)
        assert wide == []
        quiet(visit, studio)
        assert visit.page.evaluate("[...document.scripts].length + document.images.length") == 1
        assert visit.page.locator(".unfilled dd").all_inner_texts() == ["not filled"] * 5
        assert "signed.toml --out signed --yes" in visit.page.locator("#commands").inner_text()
        with visit.context.expect_page() as opened:
            visit.page.get_by_role("link", name="Open the page to sign").click()
        opened.value.wait_for_load_state()
        assert opened.value.url.endswith("/pages/private")
        assert "PRIVATE" in opened.value.inner_text("body")
        assert opened.value.evaluate("document.scripts.length") == 0
        assert (studio.studio.form.owner, studio.studio.form.need) == (FIELDS["#owner"], "ranking")


def test_the_whole_path_by_keyboard(browser: Any, studio: Running) -> None:
    with Visit(browser, studio.address) as visit:
        page = visit.page

        def go(selector: str) -> None:
            """Press Tab until this has the focus."""
            for _ in range(60):
                if page.locator(selector).evaluate("each => each === document.activeElement"):
                    return
                page.keyboard.press("Tab")
            pytest.fail(f"{selector} cannot be reached with Tab")

        for field in ("#log", "#population_size", "#population"):
            go(field)
            page.keyboard.type(FIELDS[field])
        page.locator("#budget").wait_for()
        for field, text in (("#limit_epsilon", "20"), ("#limit_delta", "1e-4")):
            go(field)
            page.keyboard.type(text)
        go("#budget button")
        page.keyboard.press("Enter")
        page.locator("#ledger", has_text="left").wait_for()
        go("#need input:checked")
        page.keyboard.press("ArrowDown")
        page.locator("#answer", has_text="pairs of query and result").wait_for()
        go("#slider")
        page.keyboard.press("ArrowLeft")
        page.locator("#answer .result", has_text="With epsilon").wait_for()
        assert page.locator("#slider").get_attribute("aria-valuetext").startswith("epsilon ")
        for field in ("#owner", "#contact", "#purpose"):
            go(field)
            page.keyboard.type(FIELDS[field])
        go("#run button")
        page.keyboard.press("Enter")
        page.get_by_text("The evidence is ready").wait_for()
        go("#run button")
        page.keyboard.press("Enter")
        page.get_by_text("Released. Now read, and sign.").wait_for()
        quiet(visit, studio)


def test_axe_finds_nothing(browser: Any, studio: Running) -> None:
    from axe_playwright_python.sync_playwright import Axe

    problems: list[tuple[str, ...]] = []
    with Visit(browser, studio.address, bypass_csp=True) as visit:

        def check(state: str) -> None:
            if state not in ("2-budget", "5-evidence", "6-released"):
                return
            visit.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            for scheme in ("light", "dark"):
                visit.page.emulate_media(color_scheme=scheme)
                response = Axe().run(visit.page).response["violations"]
                problems.extend((state, scheme, each["id"], each["nodes"][0]["html"][:150]) for each in response)

        walk(visit.page, check)
    assert problems == []


def test_a_second_browser_without_the_token_gets_nothing(browser: Any, studio: Running) -> None:
    with Visit(browser, studio.address) as visit:
        visit.page.locator("#log").fill("secret.tsv")
        visit.page.locator("#commands", has_text="secret.tsv").wait_for()
        other = browser.new_context().new_page()
        answer = other.goto(f"http://127.0.0.1:{studio.port}/")
        assert answer.status == 403
        assert "secret.tsv" not in other.content()
        other.context.close()
        visit.page.reload()
        assert visit.page.locator("#log").input_value() == "secret.tsv"
