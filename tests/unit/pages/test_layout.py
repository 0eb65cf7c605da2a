"""The base of all pages: nothing fetched, nothing run, every text escaped, colours that everybody can tell apart."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from querycloak.errors import ParameterError, ResourceError
from querycloak.pages import palette
from querycloak.pages.charts import NARROW, WIDE, Picture, themed
from querycloak.pages.layout import MARKS, environment, render, write_page
from querycloak.pages.shown_text import shown_interval, shown_number, shown_share, shown_text, shown_time, shown_tiny

NASTY = "<script>alert(1)</script>\"'&"


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, as WCAG 2.2 computes it: from 1 to 21."""
    first, second = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def picture(name: str = "one") -> Picture:
    import altair as alt

    def draw(width: int) -> Any:
        data = alt.Data(values=[{"x": 1, "label": NASTY}])
        points = alt.Chart(data).mark_text(color=palette.light("blue")).encode(x="x:Q", text="label:N")
        return themed(points.properties(width=width - 200, height=80))

    return Picture(name, f"A title {NASTY}", f"A description {NASTY}", draw)


def test_a_page_is_one_file_that_loads_and_runs_nothing() -> None:
    page = render("page.html", title=NASTY, private=True)
    assert "default-src 'none'" in page.replace("&#39;", "'")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "PRIVATE" in page
    assert not re.findall(r"https?://", page)
    assert "PRIVATE" not in render("page.html", title="public", private=False)


def test_a_picture_is_named_escaped_and_in_the_colours_of_the_page() -> None:
    drawn = picture().markup()
    assert drawn.count("<svg") == drawn.count('role="img"') == 2
    assert f"A title {NASTY}" not in drawn
    assert "<script" not in drawn
    assert 'fill="var(--blue)"' in drawn
    assert not re.findall(r'"#[0-9a-f]{3,6}"', drawn)
    assert not re.findall(r"(?:href|src)=", drawn)
    identities = re.findall(r' id="([^"]+)"', picture("one").markup() + picture("two").markup())
    assert len(identities) == len(set(identities)) >= 8
    named = re.findall(r'aria-labelledby="(\S+) (\S+)"', drawn)
    assert all(each in identities for pair in named for each in pair)
    widths = [float(each) for each in re.findall(r'viewBox="0 0 ([\d.]+)', drawn)]
    assert widths[0] <= WIDE + 5
    assert widths[1] <= NARROW + 5


def test_a_picture_is_markup_in_a_template_and_a_text_is_not() -> None:
    template = environment().from_string("{{ picture }}|{{ text | text }}")
    drawn, text = template.render(picture=picture(), text=NASTY).split("|")
    assert drawn.startswith("<svg")
    assert text == "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;"


def test_a_name_that_is_not_given_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        environment().from_string("{{ misspelt }}").render()


@pytest.mark.parametrize("dark", [False, True])
def test_colours_stand_out_from_the_page(dark: bool) -> None:
    for surface in palette.SURFACES.values():
        for name, colour in palette.INKS.items():
            assert contrast(colour[dark], surface[dark]) >= 4.5, name
        for name, colour in palette.SERIES.items():
            assert contrast(colour[dark], surface[dark]) >= 3, name


def test_contrast_is_that_of_wcag() -> None:
    """The two ends of the definition, and the grey that is known to pass at 4.5 on white (WebAIM)."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == pytest.approx(1)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


def test_colours_are_told_apart_by_their_light_value() -> None:
    """Variables are found by it in a picture."""
    assert len({colour.light for colour in palette.COLOURS.values()}) == len(palette.COLOURS)


def test_texts_cannot_turn_the_line_around_or_hide() -> None:
    assert shown_text("a\u202eb\x00c\nd\u200be") == "a\ufffdb\ufffdc\ufffdd\ufffde"
    assert shown_text("x" * 100, 10) == "x" * 9 + "…"
    assert shown_text("Zürich 東京") == "Zürich 東京"


def test_numbers_are_shown_as_people_read_them() -> None:
    assert [shown_number(each) for each in (None, 3.0, 1234567, 0.000123456, 1234.5)] == [
        "–", "3", "1,234,567", "0.0001235", "1,234",
    ]  # fmt: skip
    assert [shown_share(each) for each in (None, 0, 0.0004, 0.056, 0.123, 0.999, 0.9996, 1)] == [
        "–", *(f"{each}\u00a0%" for each in ("0", "< 0.1", "5.6", "12", "99.9", "> 99.9", "100")),
    ]  # fmt: skip
    assert shown_interval(0.1, 0.25) == "10 to 25\u00a0%"
    assert shown_interval(0.0001, 0.0002) == "< 0.1\u00a0%"
    assert [shown_tiny(each) for each in (9.94e-7, 1e-6, 0.000977, 0.5)] == [
        "9.94·10⁻⁷", "1·10⁻⁶", "9.77·10⁻⁴", "0.5",
    ]  # fmt: skip
    assert shown_interval(None, 0.25) == ""
    assert [shown_time(each) for each in (0.2, 89, 600, 7200)] == ["1 s", "89 s", "10 min", "2.0 h"]


def test_a_page_is_written_whole_and_private(tmp_path: Path) -> None:
    os.umask(0o022)
    ours, again = f"{MARKS[0]}<p>", f"{MARKS[0]}<b>"
    path = write_page(ours, tmp_path / "index.html", private=True)
    assert path.read_text() == ours
    assert path.stat().st_mode & 0o777 == 0o600
    assert write_page(again, path, private=False).read_text() == again
    assert [each.name for each in tmp_path.iterdir()] == ["index.html"]
    with pytest.raises(ResourceError, match="cannot be written"):
        write_page("x", tmp_path / "none" / "index.html", private=True)


def test_a_page_that_somebody_else_wrote_is_not_replaced(tmp_path: Path) -> None:
    theirs = tmp_path / "public.html"
    theirs.write_text("<p>mine")
    (tmp_path / "private.html").symlink_to(theirs)
    for name in ("public.html", "private.html"):
        with pytest.raises(ParameterError, match="must not exist yet"):
            write_page(f"{MARKS[0]}<p>", tmp_path / name, private=False)
    assert theirs.read_text() == "<p>mine"


def test_a_proof_of_one_step_shows_no_number_that_looks_like_a_bound() -> None:
    promise: Any = vars(environment().get_template("pieces.html").module)["promise"]
    shown = {"kind": "approximate-dp", "epsilon": 8.0, "delta": 1e-6, "k": None}
    assert "8" in promise(shown)
    assert promise({**shown, "kind": "sampling-only"}).strip() == "none (of one step only)"
