"""An owner's taxonomy from a table of (id, labels, parents): CSV, TSV or Parquet, one concept in a row.

A cell may hold several labels or parents, separated by `|` (in Parquet also as a list). The first label is shown; the
root has no parent. The senses of a label are in the order of the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from querycloak.errors import InputError
from querycloak.text.lists import Lists
from querycloak.text.taxonomy import Taxonomy, longest_ways

COLUMNS = ("id", "labels", "parents")
_ENDINGS = {".csv": ",", ".tsv": "\t", ".parquet": ""}
_SHOWN = 5

Row = tuple[str, Sequence[str], Sequence[str]]


def read_taxonomy(path: str | Path) -> Taxonomy:
    """The taxonomy in a file, under the name of the file."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise InputError(f"a taxonomy is a .csv, .tsv or .parquet file, not {path.name!r}")
    columns = _columns(path, _ENDINGS[ending])
    return taxonomy_of(zip(*columns, strict=True), name=path.stem)


def taxonomy_of(rows: Iterable[Row], name: str = "taxonomy") -> Taxonomy:
    """The taxonomy of (id, labels, parents) rows; errors name the ids that break a rule."""
    lines = list(rows)
    if not lines:
        raise InputError("the taxonomy has no concepts; give one row (id, labels, parents) for each")
    ids = [_identifier(place, row[0]) for place, row in enumerate(lines, 1)]
    numbers = {identifier: number for number, identifier in enumerate(ids)}
    if len(numbers) < len(ids):
        raise InputError(f"ids occur twice in the taxonomy: {_some(_repeated(ids))}; each concept needs one of its own")
    parents_of = _parents(ids, numbers, [row[2] for row in lines])
    labels, labels_of = _labels(ids, [row[1] for row in lines])
    senses_of = labels_of.inverted(len(labels))
    return Taxonomy(name, ids, labels, labels_of, senses_of, np.zeros(len(senses_of.values), np.int32), parents_of)


def _parents(ids: list[str], numbers: dict[str, int], given: Sequence[Sequence[str]]) -> Lists:
    cells = [list(dict.fromkeys(cell)) for cell in given]
    unknown = [parent for cell in cells for parent in cell if parent not in numbers]
    if unknown:
        raise InputError(f"the taxonomy names parents that are no concept's id: {_some(unknown)}; add a row for each")
    lengths = np.array([len(cell) for cell in cells])
    parents_of = Lists.of_lengths(lengths, np.array([numbers[parent] for cell in cells for parent in cell], np.int32))
    circle = _circle(parents_of)
    if circle:
        way = " -> ".join(ids[each] for each in circle)
        raise InputError(f"the taxonomy has a cycle, each the parent of the one before: {way}; take one parent away")
    roots = [identifier for identifier, length in zip(ids, lengths, strict=True) if not length]
    if len(roots) > 1:
        raise InputError(f"the taxonomy has {len(roots)} roots: {_some(roots)}; put one concept above them all")
    return parents_of


def _circle(parents_of: Lists) -> list[int]:
    """A cycle from parent to parent, with its first concept also at its end; empty if there is none."""
    stuck = longest_ways(parents_of) < 0
    if not stuck.any():
        return []
    walked: dict[int, int] = {}
    here = int(np.flatnonzero(stuck)[0])
    while here not in walked:  # a stuck concept has a stuck parent, so this ends in a cycle
        walked[here] = len(walked)
        here = next(int(parent) for parent in parents_of[here] if stuck[parent])
    return [*list(walked)[walked[here] :], here]


def _labels(ids: list[str], given: Sequence[Sequence[str]]) -> tuple[list[str], Lists]:
    lengths = np.array([len(cell) for cell in given])
    texts = _normalised([label for cell in given for label in cell])
    owners = np.repeat(np.arange(len(ids)), lengths)
    empty = {*np.flatnonzero(lengths == 0), *(owner for owner, text in zip(owners, texts, strict=True) if not text)}
    if empty:
        culprits = _some([ids[each] for each in sorted(empty)])
        raise InputError(f"concepts without a label, or with an empty one: {culprits}; each needs at least one")
    labels = sorted(set(texts))
    numbers = {label: number for number, label in enumerate(labels)}
    pairs = dict.fromkeys(zip(owners.tolist(), (numbers[text] for text in texts), strict=True))
    own, values = np.array(list(pairs), np.int32).T
    return labels, Lists.of_pairs(own, values, len(ids))


def _normalised(texts: list[str]) -> list[str]:
    """The texts, normalised like queries, because labels are compared with queries."""
    import pyarrow as pa

    from querycloak.text.normalisation import normalise
    from querycloak.text.spans import Spans

    return list(normalise(Spans.of(pa.array(texts, pa.string()))).to_pylist())


def _identifier(place: int, given: str) -> str:
    identifier = given.strip() if given else ""
    if not identifier:
        raise InputError(f"concept {place} of the taxonomy has no id; each needs one of its own")
    return identifier


def _repeated(ids: list[str]) -> list[str]:
    return [each for each, times in Counter(ids).items() if times > 1]


def _some(ids: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(ids))
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return ", ".join(distinct[:_SHOWN]) + more


def _columns(path: Path, delimiter: str) -> tuple[list[str], list[list[str]], list[list[str]]]:
    import pyarrow as pa

    try:
        table = _read_delimited(path, delimiter) if delimiter else _read_parquet(path)
    except FileNotFoundError:
        raise InputError(
            f"there is no taxonomy at {str(path)!r}; give a .csv, .tsv or .parquet file with the columns id, labels, "
            "parents, or wordnet"
        ) from None
    except (pa.ArrowInvalid, OSError):  # their messages may quote a row, and the path may be a log's by mistake
        raise InputError(f"{path} is no table of {', '.join(COLUMNS)} that can be read") from None
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InputError(
            f"the taxonomy {path.name} lacks the column {missing[0]!r}; it has {', '.join(table.column_names)}, "
            f"and needs {', '.join(COLUMNS)}"
        )
    ids = [str(each) if each is not None else "" for each in table["id"].to_pylist()]
    labels, parents = (_cells(table[name].to_pylist()) for name in COLUMNS[1:])
    return ids, labels, parents


def _read_delimited(path: Path, delimiter: str) -> Any:
    from pyarrow import csv

    texts = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, "string"), strings_can_be_null=False)
    return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter), convert_options=texts)


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _cells(given: Sequence[object]) -> list[list[str]]:
    """The texts of each cell, which is a list or a text with `|` between; none for an empty cell."""
    return [_cell(each) for each in given]


def _cell(given: object) -> list[str]:
    if given is None or given == "":
        return []
    parts = given if isinstance(given, list) else str(given).split("|")
    return ["" if part is None else str(part).strip() for part in parts]
