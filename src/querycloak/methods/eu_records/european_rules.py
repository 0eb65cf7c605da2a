"""The numbers of each European rule: what a source quotes and what we assume (eu_records.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
