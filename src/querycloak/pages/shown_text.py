"""Display of texts and numbers that come from elsewhere.

Templates escape everything (`layout.render`); only what `charts` draws is markup. A text of a log may also hold
characters that nobody sees and that turn the line around: these become visible, and a long text is cut.
"""

from __future__ import annotations

import math
import unicodedata

MOST_CHARACTERS = 80
PERCENT = "\u00a0%"
NOTHING = "\u2013"
"""Text in place of a missing number."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def shown_text(text: object, most: int = MOST_CHARACTERS) -> str:
    """A text as it may stand on a page; characters that control others become U+FFFD."""
    whole = "".join("\ufffd" if unicodedata.category(each) in _UNSEEN else each for each in str(text))
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def shown_cell(value: object, column: str) -> str:
    """A value of a released table in a narrow place: sequences with arrows, names and addresses shortened."""
    if value is None:
        return NOTHING
    if isinstance(value, list):
        return shown_text(" \u203a ".join(map(str, value)), 60)
    if column == "user":
        return shown_text(value, 9)
    return shown_text(str(value).removeprefix("http://").removeprefix("www.") if column == "url" else value, 44)


def time_left(elapsed: float, done: float, left: float) -> str:
    """In words how long it still takes at this speed; nothing as long as that is unknown."""
    if done <= 0.02 or left <= 0:
        return ""
    seconds = elapsed * left / done
    return f" (about {seconds / 60:.0f} min left)" if seconds >= 90 else f" (about {seconds:.0f} s left)"


def shown_number(value: float | None) -> str:
    """A number in four digits; a dash where there is none."""
    if value is None:
        return NOTHING
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shown_tiny(value: float) -> str:
    """A number such as a delta: 9.94·10⁻⁷ rather than 9.94e-07."""
    if value == 0 or abs(value) >= 0.001:
        return shown_number(value)
    digits, power = f"{value:.2e}".split("e")
    return f"{float(digits):g}·10{str(int(power)).translate(_RAISED)}"


def shown_share(value: float | None) -> str:
    """A share in per cent: whole ones from ten on, and never 0 or 100 where it is neither."""
    if value is None:
        return NOTHING
    percent = 100 * value
    if 0 < percent < 0.1:
        return f"< 0.1{PERCENT}"
    if 99.9 < percent < 100:
        return f"> 99.9{PERCENT}"
    digits = 0 if (abs(percent) >= 10 and percent < 99) or percent in (0, 100) else 1
    return f"{percent:.{digits}f}{PERCENT}"


def shown_interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval of shares."""
    if low is None or high is None:
        return ""
    first, last = shown_share(low), shown_share(high)
    return last if first == last else f"{first.removesuffix(PERCENT)} to {last}"


def shown_time(seconds: float) -> str:
    """A duration in words."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
