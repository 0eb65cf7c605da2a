"""From a chart of Altair to a picture inside a page: SVG that needs no script and follows the page's colours.

A picture is drawn twice, for wide and for narrow screens, and style shows one of them: text that is scaled down with
its picture cannot be read on a phone. Screen readers have its title and its description.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from querycloak.memory_limits import ADDRESSES_OF_PICTURES, require_addresses
from querycloak.pages import palette

if TYPE_CHECKING:
    from markupsafe import Markup

WIDE, NARROW = 940, 330
"""Pixels that a picture may take on a wide and on a narrow screen, axes and labels included."""
FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
"""Fonts with equal widths of letters: labels were measured with one, and must fit their places."""
_MEASURED = "Liberation Sans"
_HEAD = re.compile(r'^<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')

Drawn = Callable[[int], Any]
"""A chart for this number of pixels of width."""


@dataclass(frozen=True)
class Picture:
    """A picture of a page; no other picture of the page has its name.

    description: what the picture shows, in words that stand for it.
    """

    name: str
    title: str
    description: str
    draw: Drawn

    def __html__(self) -> str:
        return str(self.markup())

    def markup(self) -> Markup:
        """The picture for wide and for narrow screens."""
        from markupsafe import Markup

        forms = (("wide", WIDE), ("narrow", NARROW))
        return Markup("").join(inline(self.draw(width), f"{self.name}-{form}", self, form) for form, width in forms)


def inline(chart: Any, identity: str, picture: Picture, form: str = "") -> Markup:
    """A chart as SVG: named for screen readers, as wide as its place allows, in the page's colours."""
    from markupsafe import Markup, escape

    drawn = _followed(_svg(chart.to_dict()))
    head = _HEAD.match(drawn)
    if head is None:
        raise TypeError("what was drawn is no picture with a size")
    width, height = (float(each) for each in head.groups())
    opening = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="picture {form}" role="img" viewBox="0 0 {width:g} {height:g}" '
        'aria-labelledby="{id}-title {id}-text" style="max-width: {width:.0f}px">'
        '<title id="{id}-title">{title}</title><desc id="{id}-text">{text}</desc>'
    ).format(form=form, id=identity, width=width, height=height, title=picture.title, text=picture.description)
    # The rest was drawn by Vega, which escapes every text.
    return opening + Markup(_own_names(drawn[head.end() :], str(escape(identity))))


def _svg(specification: dict[str, Any]) -> str:
    require_addresses(ADDRESSES_OF_PICTURES, "a page with pictures")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(specification, allowed_base_urls=[]))


def _followed(svg: str) -> str:
    """Colours of the light page become the page's own, whichever it is; fonts too."""
    for name, colour in palette.COLOURS.items():
        svg = re.sub(rf'"{colour.light}"', f'"var(--{name})"', svg, flags=re.IGNORECASE)
    svg = re.sub(r' aria-\w+="[^"]*"| role="[^"]*"', "", svg)  # the picture is read as one
    return svg.replace(f"{_MEASURED}", FONT)


def _own_names(svg: str, identity: str) -> str:
    """Names within a picture that no other picture of the page has."""
    svg = re.sub(r'id="(clip|gradient)', rf'id="{identity}-\1', svg)
    return re.sub(r"url\(#(clip|gradient)", rf"url(#{identity}-\1", svg)


def themed(chart: Any) -> Any:
    """The chart in the look of all pages: no frame, thin lines, words rather than ticks."""
    soft, ink, rule = palette.light("soft"), palette.light("ink"), palette.light("rule")
    return (
        chart.configure(font=_MEASURED, background="transparent", padding=4)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=soft,
            titleColor=soft,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor=palette.light("faint"),
            domainColor=rule,
            tickColor=rule,
            ticks=False,
            labelPadding=6,
            titlePadding=10,
        )
        .configure_text(color=ink, fontSize=12)
        .configure_legend(labelColor=soft, titleColor=soft, labelFontSize=12, titleFontSize=12)
        .configure_header(labelColor=ink, titleColor=soft, labelFontSize=12)
    )
