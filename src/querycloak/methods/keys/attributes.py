"""Attributes of a release: private ones are part of the key; values of public ones make cells (cells.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from querycloak.errors import ParameterError
from querycloak.logs.choices import PERIODS, checked_attributes, microseconds
from querycloak.privacy.parameters import refusal, refuse

if TYPE_CHECKING:
    from querycloak.logs.choices import Choices

OTHER = "other"
"""The value of rows without a value, or with one outside the public domain."""
MOST_CELLS = 20_000
"""Cells that one key may have."""
MOST_VALUES = 10_000
DAY = 86_400_000_000
_MONDAY = 3  # days from a Monday to 1 January 1970
ISO3166 = (
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA "
    "CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA "
    "GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP "
    "KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS "
    "MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS "
    "RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW "
    "TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW"
)
KNOWN_DOMAINS: Mapping[str, tuple[str, ...]] = {"iso3166": tuple(ISO3166.split())}
"""Domains by name: iso3166, the countries by their two letters."""


@dataclass(frozen=True)
class Axis:
    """A public attribute and its values in order; `first` is the number of a period's first value, else 0."""

    name: str
    values: tuple[str, ...]
    first: int = 0


@dataclass(frozen=True)
class PublicCells:
    """The cells of public attributes, numbered: the last attribute counts fastest."""

    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """Number of cells; 1 without attributes."""
        return prod(len(axis.values) for axis in self.axes)

    def strides(self) -> list[int]:
        """Distance of neighbouring values of each attribute."""
        sizes = [len(axis.values) for axis in self.axes]
        return [prod(sizes[place + 1 :]) for place in range(len(sizes))]


@dataclass(frozen=True)
class Grouping:
    """The attributes of a release, in the order of its columns, and public domains."""

    by: tuple[str, ...] = ()
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """The name of each domain that has one."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that a log must have."""
        return tuple(name for name in self.by if name not in PERIODS)

    @property
    def private(self) -> tuple[str, ...]:
        """Attributes without a public domain; they are part of the key."""
        return tuple(name for name in self.attributes if name not in self.domains)

    @property
    def public(self) -> tuple[str, ...]:
        """Attributes with a public domain, and periods."""
        return tuple(name for name in self.by if name not in self.private)

    @cached_property
    def written(self) -> str | None:
        """The domains as text of the option, with the values of a file instead of its name; None without domains."""
        texts = [f"{name}={self.names.get(name) or _written(values)}" for name, values in self.domains.items()]
        return ",".join(texts) or None

    def cells(self, choices: Choices) -> PublicCells:
        """The public cells; more than MOST_CELLS are refused. Depends on parameters alone."""
        axes = [
            period_axis(name, choices) if name in PERIODS else Axis(name, (*self.domains[name], OTHER))
            for name in self.public
        ]
        cells = PublicCells(tuple(axes))
        if cells.size > MOST_CELLS:
            sizes = " x ".join(f"{len(axis.values):,} ({axis.name})" for axis in axes)
            refuse("by", f"at most {MOST_CELLS:,} public cells for a key", sizes, "take fewer attributes or values")
        return cells


def grouping_of(by: object, domain_of: object) -> Grouping:
    """The attributes and public domains that two options name, checked; None for no option."""
    names = checked_attributes("by", _listed("by", by), also=PERIODS)
    domains: dict[str, tuple[str, ...]] = {}
    known: dict[str, str] = {}
    for piece in _listed("domain_of", domain_of):
        name, equals, source = (part.strip() for part in piece.partition("="))
        if not equals or not source:
            refuse("domain_of", "written like country=iso3166,device=FILE", piece, "a file has one value a line")
        if name not in names or name in PERIODS:
            raise ParameterError.of("{domain_of} names {name!r}, which is no attribute of {by}", name=name)
        domains[name] = _values(source)
        if source in KNOWN_DOMAINS:
            known[name] = source
    return Grouping(names, domains, known)


def _listed(name: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(piece.strip() for piece in value.replace("|", ",").split(",") if piece.strip())
    if isinstance(value, Sequence) and all(isinstance(piece, str) for piece in value):
        return tuple(value)
    raise refusal(name, "names with commas", type(value).__name__, "such as country,week")


def _values(source: str) -> tuple[str, ...]:
    """The values of a domain: by its name, listed with semicolons, or one a line in a file."""
    if source in KNOWN_DOMAINS:
        return KNOWN_DOMAINS[source]
    if ";" in source:
        lines = source.split(";")
    else:
        try:
            lines = Path(source).read_text("utf-8").splitlines()
        except (OSError, UnicodeError):
            known = ", ".join(KNOWN_DOMAINS)
            refuse("domain_of", f"a file in UTF-8, or one of {known}", source, "or values with ; between, such as a;b")
    values = tuple(dict.fromkeys(line.strip() for line in lines if line.strip() and line.strip() != OTHER))
    if not 1 <= len(values) <= MOST_VALUES or any("," in value or "|" in value or ";" in value for value in values):
        rule = f"1 to {MOST_VALUES:,} values without commas, semicolons and bars"
        refuse("domain_of", rule, f"{len(values):,} values", "leave the domain out: then values are selected")
    return values


def _written(values: Sequence[str]) -> str:
    """Values separated by semicolons; a single value ends with one, which tells it from the name of a file."""
    return ";".join(values) if len(values) > 1 else f"{values[0]};"


def period_axis(name: str, choices: Choices) -> Axis:
    """Days, weeks (named by their Monday) or months from `since` to `until`, which are public."""
    if choices.since is None or choices.until is None:
        raise ParameterError.of(
            "{by} has {name}, so {since} and {until} must be given: they make its values public", name=name
        )
    first, last = (number_of(name, moment) for moment in (microseconds(choices.since), microseconds(choices.until) - 1))
    return Axis(name, tuple(value_of(name, number) for number in range(first, last + 1)), first)


def number_of(period: str, moment: int) -> int:
    """The number of the period of a moment, in microseconds since 1970."""
    days = moment // DAY
    if period == "day":
        return days
    if period == "week":
        return (days + _MONDAY) // 7
    reached = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)
    return reached.year * 12 + reached.month - 1


def value_of(period: str, number: int) -> str:
    """A period as it is printed: 2006-03-01, the Monday of a week, or 2006-03."""
    if period == "month":
        return f"{number // 12:04}-{number % 12 + 1:02}"
    days = number if period == "day" else number * 7 - _MONDAY
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
