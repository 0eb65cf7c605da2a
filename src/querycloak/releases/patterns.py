"""What no release should hold, no matter who asked it: card, social-security and telephone numbers, e-mail addresses.

Each pattern errs on the side of dropping; dates, post codes and book numbers are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

# Coarse and linear: what it does not match cannot match any pattern below, and nearly no text matches it.
CANDIDATE = r"@|%40|[0-9](?:[ ().+/_,%-]{0,4}[0-9]){7}"

_BETWEEN_GROUPS = r"(?:%20|[ ._,/-]{1,2})"
_NUMBER_GROUPS = re.compile(f"[0-9]+(?:{_BETWEEN_GROUPS}[0-9]+)*")
_SHORTEST_CARD, _LONGEST_CARD, _SHORTEST_GROUP = 13, 19, 3
_BOOK = ("978", "979")

_SOCIAL_SECURITY = re.compile(
    r"""(?<![0-9])(?<![0-9]-)                            # not the middle of a longer number
        (?!000|666|9)[0-9]{3} ([- .]) (?!00)[0-9]{2} \1 (?!0000)[0-9]{4}
        (?!-?[0-9])
      | (?:\bssn|social[ ]security) [^0-9]{0,20} [0-9]{9} (?![0-9])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_EMAIL = re.compile(r"[\w.%+'-]+(?:@|%40)(?:[\w-]+\.)+[^\W\d_]{2,}", re.IGNORECASE)
_INTERNATIONAL = re.compile(
    r"""(?<![\w+]) (?: \+[ ]?[1-9] | 00[1-9][0-9]{0,2}[ ./(-] )  # +44..., 0044 ...
        (?:[ ]?[().\-/]{0,2}[ ]?[0-9]){7,14}
        (?![0-9])
    """,
    re.VERBOSE,
)
_AMERICAN = re.compile(
    r"""(?<![0-9])(?<![0-9][-.])                          # (415) 555-2671, 1-415-555-2671, 4155552671
        (?:1[ .-]?)? (?: \([2-9][0-9]{2}\)[ ]? | [2-9][0-9]{2}[ .-]? ) [2-9][0-9]{2} [ .-]? [0-9]{4}
        (?![0-9])(?![-.][0-9])
    """,
    re.VERBOSE,
)


def is_card_number(text: str) -> bool:
    """Whether 13 to 19 digits, in groups of three or more, pass the check that all payment cards pass."""
    return any(_luhn(digits) and not _is_book(digits) for digits in _runs(text))


def _runs(text: str) -> Iterator[str]:
    """The digits of each run of groups that is as long as a card number: an expiry date may follow it."""
    for found in _NUMBER_GROUPS.finditer(text):
        groups = re.split(_BETWEEN_GROUPS, found[0])
        for first in range(len(groups)):
            digits = ""
            for group in groups[first:]:
                digits += group
                if len(group) < _SHORTEST_GROUP or len(digits) > _LONGEST_CARD:
                    break
                if len(digits) >= _SHORTEST_CARD:
                    yield digits


def _luhn(digits: str) -> bool:
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0


def _is_book(digits: str) -> bool:
    return len(digits) == 13 and digits.startswith(_BOOK)


def is_social_security_number(text: str) -> bool:
    """Whether it holds nine digits written as the United States write them, or named as such."""
    return _SOCIAL_SECURITY.search(text) is not None


def is_email_address(text: str) -> bool:
    """Whether it holds an address, also one escaped inside a url."""
    return _EMAIL.search(text) is not None


def is_telephone_number(text: str) -> bool:
    """Whether it holds a number with its country's code, or one of North America."""
    if _INTERNATIONAL.search(text):
        return True
    return "isbn" not in text.lower() and _AMERICAN.search(text) is not None


BUILT_IN: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "payment card numbers": is_card_number,
        "US social-security numbers": is_social_security_number,
        "e-mail addresses": is_email_address,
        "telephone numbers": is_telephone_number,
    }
)
