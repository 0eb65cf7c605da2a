"""The colours of all pages and pictures, for light and dark: distinct for colour-blind readers.

Okabe and Ito's set (Color Universal Design, 2008), some of them darker or lighter so that each stands out from the
page by 3 to 1 at least, and text by 4.5 to 1 (WCAG 2.2, 1.4.3 and 1.4.11); a test computes it. Marks that differ
in colour also differ in shape, dash, place or label, except the two lines of a budget (`ledger_page`).
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    """One colour: as it is on a light page, and on a dark one."""

    light: str
    dark: str


SURFACES = {
    "paper": Colour("#fbfaf7", "#16181b"),
    "panel": Colour("#f3f1ea", "#1f2226"),
}
"""Backgrounds."""
INKS = {
    "ink": Colour("#1d1f23", "#eceae4"),
    "soft": Colour("#55585f", "#b3b1ab"),
    "link": Colour("#0b5a8c", "#7cc0ea"),
    "alarm": Colour("#a33a00", "#ff9d66"),
}
"""Colours of text."""
SERIES = {
    "blue": Colour("#0072b2", "#56b4e9"),
    "vermilion": Colour("#c94f00", "#f08a4b"),
    "green": Colour("#00795a", "#35c79b"),
    "purple": Colour("#a8527f", "#d99abf"),
    "orange": Colour("#a86f00", "#e69f00"),
    "grey": Colour("#6b6e75", "#a3a29d"),
}
"""Colours of marks in a picture."""
LINES = {"rule": Colour("#d9d5ca", "#3a3d42"), "faint": Colour("#e8e5dc", "#2a2d31")}
"""Lines that separate or guide; they carry no information."""
COLOURS: dict[str, Colour] = {**SURFACES, **INKS, **SERIES, **LINES}


def light(name: str) -> str:
    """A colour as pictures are drawn with it; `charts.inline` makes it follow the page."""
    return COLOURS[name].light


def variables(*, dark: bool) -> str:
    """The colours as CSS variables."""
    return " ".join(f"--{name}: {colour.dark if dark else colour.light};" for name, colour in COLOURS.items())
