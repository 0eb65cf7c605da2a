"""Parts of a guarantee test: mechanism, outcomes, pair of neighbours. Packages may add theirs (docs/audits.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from querycloak.audits.guarantees.steps import Past, Step
from querycloak.privacy.parameters import refuse

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_MOST_CELLS = 50_000_000
"""Runs x names of which it is looked up at once whether any occurs twice."""
Data = TypeVar("Data")
Data_contra = TypeVar("Data_contra", contravariant=True)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Numbers that independent runs published, by name. Unpublished ones are absent.

    An entry says that run `run` published `value` under the name `names[name]`.
    """

    runs: int
    names: tuple[str, ...]
    name: Ints
    run: Ints
    value: Floats

    @classmethod
    def of_numbers(cls, **numbers: ArrayLike) -> Self:
        """Outcomes of runs: for each name an array with one number for each run; NaN is not published."""
        columns = [np.asarray(column, dtype=np.float64) for column in numbers.values()]
        sizes = {column.shape for column in columns}
        if len(sizes) != 1 or len(next(iter(sizes))) != 1:
            refuse("numbers", "one array for each name, all of one length", sizes, "give a number for every run")
        table = np.stack(columns, axis=1)
        run, name = np.nonzero(~np.isnan(table))
        return cls(len(table), tuple(numbers), name, run, table[run, name])

    @classmethod
    def of_table(cls, runs: int, table: pa.Table, prefix: str = "") -> Self:
        """Outcomes in a table with the columns run and count (1 in each row if there is none); others are names."""
        keys = [name for name in table.column_names if name not in ("run", "count")]
        code, texts = np.zeros(table.num_rows, np.int64), [prefix]
        for key in keys:
            index, values = _encoded(table[key])
            # Numbers of the names that occur, so that they stay few with every column.
            pairs = code * max(len(values), 1) + index
            occurs = np.zeros(max(len(texts) * len(values), 1), np.bool_)
            occurs[pairs] = True
            code = (np.cumsum(occurs) - 1)[pairs]
            texts = [f"{texts[at // len(values)]} {values[at % len(values)]}" for at in np.flatnonzero(occurs).tolist()]
        counts = table["count"].fill_null(0).to_numpy() if "count" in table.column_names else np.ones(table.num_rows)
        return cls(runs, tuple(texts), code, table["run"].to_numpy(), counts.astype(np.float64)).summed()

    def summed(self) -> Self:
        """Several entries of one run under one name added up."""
        cell = self.run * len(self.names) + self.name
        cells = self.runs * len(self.names)
        if cells <= _MOST_CELLS and np.bincount(cell, minlength=1).max() <= 1:
            return self
        distinct, where = np.unique(cell, return_inverse=True)
        if distinct.size == cell.size:
            return self
        value = np.bincount(where.reshape(-1), weights=self.value, minlength=distinct.size).astype(np.float64)
        run, name = np.divmod(distinct, len(self.names))
        return type(self)(self.runs, self.names, name, run, value)

    @classmethod
    def side_by_side(cls, parts: Sequence[Outcomes]) -> Self:
        """Several kinds of outputs of the same runs."""
        return cls._joined(parts, [0] * len(parts), parts[0].runs)

    @classmethod
    def one_after_another(cls, parts: Sequence[Outcomes]) -> Self:
        """The same kind of outputs of several lots of runs."""
        before = np.cumsum([0, *(part.runs for part in parts)]).tolist()
        return cls._joined(parts, before[:-1], before[-1])

    @classmethod
    def _joined(cls, parts: Sequence[Outcomes], before: Iterable[int], runs: int) -> Self:
        place: dict[str, int] = {}
        for part in parts:
            for name in part.names:
                place.setdefault(name, len(place))
        names = [np.array([place[name] for name in part.names], np.int64)[part.name] for part in parts]
        run = [part.run + first for part, first in zip(parts, before, strict=True)]
        value = np.concatenate([part.value for part in parts])
        return cls(runs, tuple(place), np.concatenate(names), np.concatenate(run), value)

    def column(self, name: str) -> Floats:
        """Numbers published under a name, by run; NaN where nothing was published."""
        column = np.full(self.runs, np.nan)
        if name in self.names:
            mine = self.name == self.names.index(name)
            column[self.run[mine]] = self.value[mine]
        return column


def _encoded(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """The values of a column, once each, null as one of them, and the number of each row's value among them."""
    encoded = column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    values = whole.dictionary.to_pylist()
    index = whole.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    return index, [*values, None] if whole.null_count else values


@dataclass(frozen=True)
class Pair(Generic[Data]):
    """Two neighbouring data sets; `accounts` is the number of users in one and not in the other."""

    name: str
    without: Data
    having: Data
    accounts: int = 1


class Mechanism(Protocol[Data_contra]):
    """Subject of a test: it reads data and draws, many times."""

    def outcomes(self, data: Data_contra, runs: int) -> Outcomes:
        """Outcomes of this number of independent runs; a failure is an outcome, too."""
        ...


class ExactMechanism(Protocol[Data_contra]):
    """Mechanism that shows its values before noise: tests of it need no sampling."""

    def steps(self, data: Data_contra, past: Past) -> Sequence[Step]:
        """Every step, given the assumed outcome of earlier ones."""
        ...
