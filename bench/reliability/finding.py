"""What a check found: how often it tried, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


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

    def with_piece(self, other: Finding) -> Finding:
        """Both together, if they are of one kind."""
        notes = list(dict.fromkeys([*self.notes, *other.notes]))
        runs, minutes = self.runs + other.runs, self.minutes + other.minutes
        return replace(self, runs=runs, problems=[*self.problems, *other.problems], notes=notes, minutes=minutes)

    def expect(self, fine: bool, problem: str) -> None:
        """Note a problem unless it is fine."""
        if not fine:
            self.problems.append(problem)
