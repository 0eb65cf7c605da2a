"""What a check found: how often it tried, and what went wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

LISTED = " were "


def _joined(mine: str, theirs: str) -> str:
    """Two notes as one; of what they list, each once."""
    head, listed, names = mine.partition(LISTED)
    if mine == theirs or not listed:
        return mine
    both = {*names.split(", "), *theirs.partition(LISTED)[2].split(", ")}
    return head + LISTED + ", ".join(sorted(both))


@dataclass
class Finding:
    """One line of the table."""

    check: str
    tries: str
    held: str
    """What is promised."""
    runs: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    minutes: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    """How often each outcome came."""

    def with_piece(self, other: Finding) -> Finding:
        """Both together, if they are of one kind."""
        notes = [_joined(mine, theirs) for mine, theirs in zip(self.notes, other.notes, strict=True)]
        runs, minutes = self.runs + other.runs, self.minutes + other.minutes
        problems, counts = [*self.problems, *other.problems], dict(Counter(self.counts) + Counter(other.counts))
        return replace(self, runs=runs, problems=problems, notes=notes, minutes=minutes, counts=counts)

    def expect(self, fine: bool, problem: str) -> None:
        """Note a problem unless it is fine."""
        if not fine:
            self.problems.append(problem)
