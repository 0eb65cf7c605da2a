"""What became of every row read: kept, or set aside under a code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from querycloak.errors import ParameterError, TooManyBadLines
from querycloak.logs.checks import KEPT, MEANINGS, code_name, is_bad

DEFAULT_MAX_BAD = 0.05


def checked_share(max_bad: float) -> float:
    """The share of bad rows allowed, if it is one."""
    if not 0 <= max_bad <= 1:
        raise ParameterError(f"max_bad must be a share between 0 and 1; it is {max_bad}")
    return max_bad


@dataclass(frozen=True)
class Accounting:
    """Rows by code; 0 is kept."""

    by_code: Mapping[int, int]

    @property
    def rows_read(self) -> int:
        """All of them."""
        return sum(self.by_code.values())

    @property
    def rows_kept(self) -> int:
        """Those that count."""
        return self.by_code.get(KEPT, 0)

    @property
    def set_aside(self) -> dict[str, int]:
        """The others, by name of code."""
        return {code_name(code): number for code, number in sorted(self.by_code.items()) if code != KEPT}

    @property
    def bad(self) -> int:
        """Rows set aside because something is wrong with them, not by choice."""
        return sum(number for code, number in self.by_code.items() if is_bad(code))

    def require(self, max_bad: float = DEFAULT_MAX_BAD) -> None:
        """Refuse a log of which more than this share is bad."""
        if self.rows_read and self.bad / self.rows_read > max_bad:
            worst = max((code for code in self.by_code if is_bad(code)), key=lambda code: self.by_code[code])
            share = f"{self.bad:,} of {self.rows_read:,} rows are bad ({self.bad / self.rows_read:.1%}"
            raise TooManyBadLines(
                f"private: {share}; most of them {code_name(worst)}, {MEANINGS[worst]}), and at most {max_bad:.1%} "
                f"may be: check --log-format and --columns, look at them with --set-aside FILE, or allow more with "
                "--max-bad"
            )
