"""Take the pictures of "Sign a release" and "The studio": `python -m scripts.make_signing_pictures`.

Everything in them was really run, in a folder that is removed at the end: a synthetic log, `signoff` on a terminal, and
the studio in Debian's Chromium. It takes about five minutes.
"""

from __future__ import annotations

import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
PAGE = Path(__file__).parents[1] / "docs" / "sign-a-release.md"
COMMAND = [sys.executable, "-m", "querycloak"]
SIGNOFF = ["signoff", "log.tsv", "--plan", "plan.toml", "--out", "signed"]
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TERMINAL = """<body style="margin:0;background:#1d1f24;color:#e8e6e1"><pre style="margin:0;padding:18px 22px;
font:15px/1.5 'Liberation Mono',monospace;white-space:pre-wrap;overflow-wrap:anywhere">{text}</pre></body>"""


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder with the plan of the page, a log and a budget."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "library"
        folder.mkdir()
        os.environ["QUERYCLOAK_LEDGER"] = str(Path(place) / "ledger.sqlite")
        plan = re.search(r"^```toml plan\.toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        if plan is None:
            raise SystemExit("the page has no plan")
        (folder / "plan.toml").write_text(plan[1])
        os.chdir(folder)
        subprocess.run([*COMMAND, "synth", "--users", "1000", "--out", "log.tsv"], check=True)
        limits = ["--epsilon", "8", "--delta", "1e-5"]
        subprocess.run([*COMMAND, "ledger", "set", "readers", *limits], check=True)
        yield folder


def on_terminal(words: list[str], answer: str) -> str:
    """All that a command shows on a terminal of 100 columns; `answer` is typed when it asks."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "100", "TERM": "xterm"}
    running = subprocess.Popen([*COMMAND, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = ""
    while True:
        try:
            piece = os.read(ours, 65_536).decode("utf-8", "replace")
        except OSError:  # Linux: the other end is closed
            break
        if "[y/N]" in shown + piece and "[y/N]" not in shown:
            os.write(ours, f"{answer}\n".encode())
        shown += piece
    running.wait()
    os.close(ours)
    return _CONTROLS.sub("", shown)


def terminal_pictures(browser: Any) -> None:
    """Measuring, the question, and the end."""
    prompt = f"$ querycloak {' '.join(SIGNOFF)}\n"
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", on_terminal(SIGNOFF, "y")) if line.strip()]
    bars = [line for line in lines if "━" in line]
    ask = next(place for place, line in enumerate(lines) if "[y/N]" in line)
    asked = [line for line in lines[:ask] if "━" not in line]
    middle = next(line for line in bars if "left)" in line and "attacking" in line)
    after = [line for line in lines[ask + 1 :] if "━" not in line]
    _picture(browser, "sign-1-measuring", f"{prompt}{middle}")
    _picture(browser, "sign-2-question", prompt + "\n".join([*asked, lines[ask]]))
    _picture(browser, "sign-4-released", "\n".join([lines[ask], *after]))


def _picture(browser: Any, name: str, text: str) -> None:
    page = browser.new_page(viewport={"width": 960, "height": 100})
    shown = text.replace(Path.cwd().as_uri(), "file:///home/officer/library")
    page.set_content(_TERMINAL.format(text=html.escape(shown)))
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
    page.close()


def page_pictures(browser: Any) -> None:
    """The draft, the answers and the lines to sign."""
    page = browser.new_page(viewport={"width": 1000, "height": 700})
    page.goto((Path.cwd() / "signed" / "private" / "draft.html").as_uri())
    _shot(page, "sign-3-draft")
    page.goto((Path.cwd() / "signed" / "private" / "private.html").as_uri())
    _shot(page, "sign-5-answers", "#criteria")
    page.emulate_media(media="print")
    _shot(page, "sign-6-signature", "#signature")
    page.close()


def _shot(page: Any, name: str, part: str | None = None) -> None:
    subject = page if part is None else page.locator(part)
    subject.screenshot(path=PICTURES / f"{name}.jpg", type="jpeg", quality=55)


def studio_pictures(browser: Any) -> None:
    """The studio's screen, its evidence and its end."""
    os.environ["QUERYCLOAK_LEDGER"] = str(Path.cwd().parent / "ledger-of-studio.sqlite")
    running = subprocess.Popen([*COMMAND, "studio", "--no-browser"], stdout=subprocess.PIPE, text=True)
    try:
        address = running.stdout.readline().strip() if running.stdout else ""
        page = browser.new_page(viewport={"width": 1180, "height": 900})
        page.set_default_timeout(900_000)
        page.goto(address)
        _walk(page, lambda name, part=None: _shot(page, name, part))
        page.close()
    finally:
        running.terminate()
        running.wait()


def _walk(page: Any, shot: Callable[..., None]) -> None:
    fields = {
        "log": "log.tsv", "population_size": "1000", "searches_per_user": "30", "population": "readers", "epsilon": "4",
        "owner": "Example Library", "contact": "library@example.org", "purpose": "research on query suggestion",
        "out": "signed-in-studio",
    }  # fmt: skip
    for name, text in fields.items():
        page.locator(f"#{name}").fill(text)
    page.get_by_label("Rank results").check()
    page.locator("#answer .result", has_text="pairs of query and result").wait_for()
    page.get_by_label("Epsilon in all").fill("8")
    page.get_by_label("Delta in all").fill("2e-4")
    page.get_by_role("button", name="Set this budget").click()
    page.locator("#ledger", has_text="left").wait_for()
    page.locator("#log-help code").first.evaluate("each => { each.textContent = '/home/officer/library'; }")
    shot("studio-1-choose", ".columns")
    page.get_by_role("button", name="Measure the evidence").click()
    page.get_by_text("The evidence is ready").wait_for()
    shot("studio-2-evidence", ".bottom")
    page.get_by_role("button", name="Make the release from all people").click()
    page.get_by_text("Released. Now read, and sign.").wait_for()
    shot("studio-3-released", ".bottom")


def main() -> None:
    from playwright.sync_api import sync_playwright

    place = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with working_folder(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        terminal_pictures(browser)
        page_pictures(browser)
        studio_pictures(browser)
        browser.close()
        os.chdir(PICTURES)


if __name__ == "__main__":
    main()
