"""Figures of a study, kept in a CSV file as they come: an interrupted study goes on where it stopped."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from querycloak.errors import InputError

Row = dict[str, Any]
COLUMNS = ("part", "release", "figure", "value", "low", "high")
NUMBERS = COLUMNS[3:]


class FigureFile:
    """Figures by part, release and name; without a path they are printed only. An empty value: does not apply."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._rows: dict[tuple[str, str, str], Row] = {}
        if path is not None and path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self._keep({name: _number(value) if name in NUMBERS else value for name, value in row.items()})

    def _keep(self, row: Row) -> None:
        self._rows[row["part"], row["release"], row["figure"]] = row

    def lacking(self, part: str, release: str, figures: Sequence[str]) -> list[str]:
        """Those of the figures that were not measured yet."""
        return [figure for figure in figures if (part, release, figure) not in self._rows]

    def value(self, part: str, release: str, figure: str) -> float:
        """A figure that was measured."""
        return float(self._rows[part, release, figure]["value"])

    def rows_of(self, release: str, parts: Sequence[str]) -> list[Row]:
        """All figures of a release in these parts."""
        return [row for row in self._rows.values() if row["release"] == release and row["part"] in parts]

    def add(self, rows: Iterable[Row]) -> None:
        """Print and keep figures, each as soon as it is measured; InputError if the log has another size."""
        for row in rows:
            key = (row["part"], row["release"], row["figure"])
            if row["part"] == "log" and key in self._rows and self._rows[key]["value"] != row["value"]:
                raise InputError(
                    f"{self._path} has figures of a log with {self._rows[key]['value']:,g} {row['figure']} in "
                    f"{row['release']}, and this one has {row['value']:,}; name another file"
                )
            self._keep(row)
            csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n").writerow(_written(row))
            sys.stdout.flush()
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        with self._path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(_written(row) for row in self._rows.values())


def _number(text: str) -> float | None:
    return float(text) if text else None


def _written(row: Row) -> Row:
    """A row with six digits of each number."""
    return {name: f"{row[name]:.6g}" if isinstance(row.get(name), float) else row.get(name) for name in COLUMNS}
