"""Views and attributes of a made-up log: whole result pages with a position bias, and who asked where on what.

Clicks on shown results follow a position-based model: a result is clicked if its place is examined, which depends on
the place and the device, and if it attracts, which depends on the query's subject and the site.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from querycloak.privacy.parameters import one_of
from querycloak.synthetic.heavy_tails import Flags, Floats, Hashes, Ints, mixed, share_of

PAGE = 10
COUNTRIES = {"US": 0.45, "GB": 0.12, "DE": 0.12, "FR": 0.09, "IN": 0.08, "CA": 0.06, "BR": 0.05, "JP": 0.03}
LANGUAGES = {"US": "en", "GB": "en", "DE": "de", "FR": "fr", "IN": "en", "CA": "en", "BR": "pt", "JP": "ja"}
DEVICES = ("desktop", "mobile", "tablet")
ATTRIBUTES = ("country", "device", "language", "category")
EXAMINED = np.array([1.0, 0.62, 0.47, 0.38, 0.32, 0.27, 0.23, 0.20, 0.18, 0.16])
"""The chance that a place of a page is looked at, on a desktop."""
_MOBILE_EXPONENT = 1.3
_MOBILE, _TABLET = 0.45, 0.08
_OWN_DEVICE = 0.8  # the chance that a session is on its person's usual device
_LEAST_ATTRACTIVE, _MOST_ATTRACTIVE = 0.02, 0.52
_SOUGHT = 0.85  # of a site that was looked for


@dataclass(frozen=True)
class WantedRecords:
    """Views and attributes of a made-up log, beside its searches and clicks."""

    views: bool = False
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.attributes:
            one_of("attributes", name, ATTRIBUTES)

    def __bool__(self) -> bool:
        return self.views or bool(self.attributes)


def countries_of(person: Ints, seed: int) -> Ints:
    """The number of each person's country among `COUNTRIES`."""
    bounds = np.cumsum(list(COUNTRIES.values()))
    drawn = np.searchsorted(bounds / bounds[-1], share_of(mixed(person, seed, 31)), side="right")
    return np.minimum(drawn, len(COUNTRIES) - 1)


def devices_of(person: Ints, session: Ints, seed: int) -> Ints:
    """The number of each session's device among `DEVICES`: mostly the one that its person uses."""
    usual = mixed(person, seed, 32)
    own = share_of(mixed(person, session, seed, 33)) < _OWN_DEVICE
    drawn = share_of(np.where(own, usual, mixed(person, session, seed, 34)))
    return np.where(drawn < _MOBILE, 1, np.where(drawn < _MOBILE + _TABLET, 2, 0))


def clicks_on(rank: Ints, device: Ints, subject: Hashes, site: Hashes, sought: Flags, seed: Floats) -> Flags:
    """Draws which of the results shown are clicked; `seed` has a number in [0, 1) for each."""
    examined = EXAMINED[(rank - 1) % PAGE] ** np.where(device == 1, _MOBILE_EXPONENT, 1.0)
    drawn = share_of(mixed(subject, site, 35)) ** 2
    attracts = _LEAST_ATTRACTIVE + (_MOST_ATTRACTIVE - _LEAST_ATTRACTIVE) * drawn
    return np.asarray(seed < examined * np.where(sought, _SOUGHT, attracts))


def attribute_columns(names: tuple[str, ...], country: Ints, device: Ints, category: pa.Array) -> dict[str, pa.Array]:
    """The attributes of rows, as texts."""
    known = pa.array(list(COUNTRIES)).take(pa.array(country))
    columns = {
        "country": known,
        "device": pa.array(DEVICES).take(pa.array(device)),
        "language": pa.array(list(LANGUAGES.values())).take(pa.array(country)),
        "category": category,
    }
    return {name: columns[name] for name in names}
