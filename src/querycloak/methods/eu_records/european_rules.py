"""Public facts of each European rule: its numbers, quoted or assumed, and hierarchies of attributes (eu_records.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

Kept = Literal["visit", "day", "user"]
Times = Literal["day", "week", "month"]
NUMBERS = (
    "min_term_users", "max_words", "max_digits", "min_group_users", "mini_session", "gap_minutes", "linked", "times",
    "latency_days",
)  # fmt: skip
"""Options that a preset sets, each of which can be given in its place."""


@dataclass(frozen=True)
class EuropeanRule:
    """A rule as far as it is public: its numbers, and the source of each number that is quoted."""

    meaning: str
    numbers: Mapping[str, Any]
    quoted: Mapping[str, str]

    @property
    def assumed(self) -> tuple[str, ...]:
        """Numbers that no source states."""
        return tuple(name for name in NUMBERS if name not in self.quoted)


DECISION = (
    "the Commission's decision of 16 July 2026, C(2026) 5091, case DMA.100209, as its portal and articles quote it"
)
COUNTER_PROPOSAL = "Francis and Dewes, techpolicy.press, 28 April 2026"
RULES: Mapping[str, EuropeanRule] = {
    "dma-2026": EuropeanRule(
        "the Commission's decision of 16 July 2026 on Art. 6(11) DMA",
        {
            "min_term_users": 50, "max_words": 10, "max_digits": 8, "min_group_users": 1_000, "mini_session": 5,
            "gap_minutes": 30, "linked": "visit", "times": "day", "latency_days": 7,
        },
        {"min_group_users": DECISION, "linked": DECISION, "latency_days": DECISION},
    ),
    "ddg-2026": EuropeanRule(
        "the counter-proposal of April 2026: pseudonyms, times of 24 hours, three filters",
        {
            "min_term_users": 5, "max_words": 20, "max_digits": 8, "min_group_users": 1, "mini_session": 0,
            "gap_minutes": 30, "linked": "user", "times": "day", "latency_days": 0,
        },
        {"times": COUNTER_PROPOSAL, "linked": COUNTER_PROPOSAL},
    ),
}  # fmt: skip


ANY = "any"
_EU = "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK"
EU = frozenset(_EU.split())
# Regions of the United Nations' standard M49; the Americas, Africa, Asia and Oceania as a whole.
_EUROPE = {
    "Northern Europe": "AX DK EE FI FO GB GG IE IM IS JE LT LV NO SE SJ",
    "Western Europe": "AT BE CH DE FR LI LU MC NL",
    "Southern Europe": "AD AL BA ES GI GR HR IT ME MK MT PT RS SI SM VA",
    "Eastern Europe": "BG BY CZ HU MD PL RO RU SK UA",
}
_ELSEWHERE = {
    "Americas": "AG AI AR AW BB BL BM BO BQ BR BS BV BZ CA CL CO CR CU CW DM DO EC FK GD GF GL GP GS GT GY HN HT JM KN "
    "KY LC MF MQ MS MX NI PA PE PM PR PY SR SV SX TC TT US UY VC VE VG VI",
    "Africa": "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW IO KE KM LR LS LY MA MG ML MR MU "
    "MW MZ NA NE NG RE RW SC SD SH SL SN SO SS ST SZ TD TF TG TN TZ UG YT ZA ZM ZW",
    "Asia": "AE AF AM AZ BD BH BN BT CN CY GE HK ID IL IN IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY NP OM "
    "PH PK PS QA SA SG SY TH TJ TL TM TR TW UZ VN YE",
    "Oceania": "AS AU CC CK CX FJ FM GU HM KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS",
}
_REGIONS = {**_EUROPE, **_ELSEWHERE}
REGION_OF = {code: region for region, codes in _REGIONS.items() for code in codes.split()}
_HANDHELD = frozenset(("mobile", "phone", "smartphone", "tablet"))


def _country(value: str) -> tuple[str, ...]:
    code = value.upper()
    return value, REGION_OF.get(code, ANY), "EU" if code in EU else "outside the EU" if code in REGION_OF else ANY, ANY


def _device(value: str) -> tuple[str, ...]:
    return value, "handheld" if value.lower() in _HANDHELD else value, ANY


def _language(value: str) -> tuple[str, ...]:
    return value, value.replace("_", "-").partition("-")[0], ANY


HIERARCHIES: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    "country": _country, "device": _device, "language": _language,
}  # fmt: skip
"""country: country, region, EU or outside it; device: device, handheld; language: its tag, the language alone."""


def levels_of(attribute: str, value: str) -> tuple[str, ...]:
    """The value itself, then wider and wider values, `any` last."""
    return HIERARCHIES[attribute](value) if attribute in HIERARCHIES else (value, ANY)


def coarser_and_coarser(attributes: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Every choice of a level for each attribute, the least generalised first; the first attribute is widened first."""
    heights = [len(levels_of(name, "")) for name in attributes]
    yield from sorted(product(*map(range, heights)), key=lambda levels: (sum(levels), [-level for level in levels]))
