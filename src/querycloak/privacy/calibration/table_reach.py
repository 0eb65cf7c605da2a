"""How exact a table's counts will be, known before any data is read, as cards and commands show it (reach.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from querycloak.privacy.calibration.reach import LIKELY, Range, ReleaseProbability
from querycloak.privacy.parameters import refuse

__all__ = ["TableAccuracy"]

FIELDS = ("counts", "margin95", "users50", "users95", "spurious", "notes")
_RANGES = ("margin95", "users50", "users95")


@dataclass(frozen=True)
class TableAccuracy:
    """What `count` counts in a table, how far noise may change it, and how many users bring a row out.

    A number that the method does not have is None. `spurious` is how many rows are expected, at most, that nobody
    asked for.
    """

    counts: str
    margin95: Range | None = None
    users50: Range | None = None
    users95: Range | None = None
    spurious: float | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of_route(
        cls, route: ReleaseProbability, counts: str, *, spurious: float = 0.0, notes: Iterable[str] = ()
    ) -> TableAccuracy:
        """The reach of keys that come out by one route."""
        margin = Range(route.margin, route.margin)
        users = route.users(Fraction(1, 2)), route.users(LIKELY)
        return cls(counts, margin, *users, spurious, tuple(notes))

    @classmethod
    def of_rule(cls, counts: str, users: Range, *, notes: Iterable[str] = ()) -> TableAccuracy:
        """The reach of keys that come out for certain from this many users on, with exact counts."""
        return cls(counts, Range(0, 0), users, users, 0.0, tuple(notes))

    @classmethod
    def over(cls, candidates: Iterable[TableAccuracy], counts: str, *, notes: Iterable[str] = ()) -> TableAccuracy:
        """From the least of several to the most, if it is not known yet which of them it will be."""
        listed = list(candidates)
        margin, users50, users95 = (_over(getattr(each, name) for each in listed) for name in _RANGES)
        spurious = [each.spurious for each in listed if each.spurious is not None]
        return cls(counts, margin, users50, users95, max(spurious, default=None), tuple(notes))

    def with_notes(self, *notes: str) -> TableAccuracy:
        """The same with more to say."""
        return replace(self, notes=(*self.notes, *notes))

    def lines(self) -> list[str]:
        """For people: what is counted, the margin, the users that a row needs, and rows of nobody; then notes."""
        said = [f"count: {self.counts}"]
        if self.margin95 is not None:
            margin = f"{self.margin95} up or down" if self.margin95.high else "0: at least 95 % of counts are exact"
            said.append(f"95 % margin of a count: {margin}")
        if self.users50 is not None and self.users95 is not None:
            likely = f"{self.users50} with probability 50 %, {self.users95} with 95 %"
            said.append(f"users who bring a row out: {likely if self.users50 != self.users95 else self.users50}")
        if self.spurious is not None:
            rows = f"at most {self.spurious:.2g} expected" if self.spurious else "none"
            said.append(f"rows that nobody asked for: {rows}")
        return [*said, *self.notes]

    def to_json(self) -> dict[str, Any]:
        """As `describe --json` prints it and a card holds it."""
        ranges = {name: getattr(self, name) and getattr(self, name).to_json() for name in _RANGES}
        return {"counts": self.counts, **ranges, "spurious": self.spurious, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TableAccuracy:
        """What `to_json` wrote."""
        if set(fields) != set(FIELDS) or not isinstance(fields["notes"], list):
            refuse("reach", f"an object with the keys {', '.join(FIELDS)}", sorted(fields), "write it with to_json")
        margin, users50, users95 = (None if fields[name] is None else Range.from_json(fields[name]) for name in _RANGES)
        spurious = None if fields["spurious"] is None else float(fields["spurious"])
        notes = tuple(map(str, fields["notes"]))
        return cls(str(fields["counts"]), margin, users50, users95, spurious, notes)


def _over(ranges: Iterable[Range | None]) -> Range | None:
    listed = [each for each in ranges if each is not None]
    return Range.over(listed) if listed else None
