"""What a check found: how often it tried, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field


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

    def expect(self, fine: bool, problem: str) -> None:
        """Note a problem unless it is fine."""
        if not fine:
            self.problems.append(problem)
