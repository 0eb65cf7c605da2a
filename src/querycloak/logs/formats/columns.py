"""Mapping from our columns to a table's own: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from querycloak.errors import MissingColumn, ParameterError
from querycloak.logs.choices import could_be_attribute
from querycloak.logs.formats.signs import could_be_names
from querycloak.logs.reading.schema import CLICKED, COLUMNS, REQUIRED, VIEW_COLUMNS
from querycloak.privacy.parameters import of_kind, refuse
from querycloak.sentence import Action, Sentence, printable

_MOST_NAMES, _LONGEST_NAME = 30, 60


def parse_mapping(text: str, attributes: Sequence[str] = ()) -> dict[str, str]:
    """`user=...,time=...,query=...` as a mapping; attributes may be mapped as well."""
    mapping: dict[str, str] = {}
    for pair in text.split(","):
        ours, equals, theirs = (piece.strip() for piece in pair.partition("="))
        if not equals or not theirs:
            refuse("columns", "written like user=...,time=...,query=...", text, "rank=... and url=... may follow")
        if ours in mapping:
            raise ParameterError.of("{columns} maps {ours!r} twice; say once which column it is", ours=ours)
        mapping[ours] = theirs
    return checked_mapping(mapping, attributes)


def checked_mapping(mapping: Mapping[str, str], attributes: Sequence[str] = ()) -> dict[str, str]:
    """The mapping, if it names our columns; `resolve` checks whether it has all that a log needs."""
    of_kind(
        "columns",
        mapping,
        Mapping,
        "a mapping from our columns to the table's",
        Sentence("such as {usual}", usual=mapping_of(*REQUIRED)),
    )
    for theirs in mapping.values():
        of_kind("columns", theirs, str, "names of columns", "a name is a text")
    accepted = (*COLUMNS, *VIEW_COLUMNS, *attributes)
    unknown = [name for name in mapping if name not in accepted]
    if unknown:
        known = ", ".join(accepted)
        raise ParameterError.of("{columns} maps {unknown!r}, which is none of {known}", unknown=unknown[0], known=known)
    if all(name in mapping for name in VIEW_COLUMNS):
        raise ParameterError.of(
            "{columns} maps clicked and shown: a row is one result (clicked), or one search (shown); say one"
        )
    return dict(mapping)


def check_complete(mapping: Mapping[str, str], shown: str) -> None:
    """Refuse a mapping that lacks what a row needs; `shown` says what may be said about the table's columns."""
    lacking = [name for name in REQUIRED if name not in mapping]
    if lacking:
        raise MissingColumn.of(
            "{columns} must say user, time and query, and lacks {lacking}: {mapping}; {shown}",
            lacking=" and ".join(lacking),
            mapping=mapping_of(*REQUIRED),
            shown=shown,
        )


def mapping_of(*ours: str) -> Action:
    """Advice on the mapping of columns."""
    python = ", ".join(f'"{name}": ...' for name in ours)
    return Action(f"columns={{{python}}}", ("--columns", ",".join(f"{name}=..." for name in ours)))


def resolve(
    mapping: Mapping[str, str] | None,
    names: Sequence[str],
    label: str,
    *,
    schema: bool = False,
    attributes: Sequence[str] = (),
) -> dict[str, str]:
    """The mapping, checked against the names that are there; without one, our own names are looked for.

    Names of a `schema` are names; those of a first line may be somebody's row.
    """
    given = mapping is not None
    by_lower = {name.lower(): name for name in names} | {name: name for name in names}
    if mapping is None:
        mapping = {ours: by_lower[ours] for ours in COLUMNS if ours in by_lower}
    mapping = _with_records(mapping, by_lower, attributes)
    shown = _existing(mapping, names, schema=schema)
    if given:
        check_complete(mapping, shown)
    lacking = [ours for ours in REQUIRED if ours not in mapping]
    if lacking:
        raise MissingColumn.of(
            "{label} has no column {names}: say which columns are ours with {mapping}; {shown}",
            label=label,
            names=" and no column ".join(lacking),
            mapping=mapping_of(*REQUIRED),
            shown=shown,
        )
    absent = [theirs for theirs in mapping.values() if theirs not in names]
    if absent:
        raise MissingColumn(f"{label} has no column {' and no column '.join(map(repr, absent))}; {shown}")
    return dict(mapping)


def _with_records(mapping: Mapping[str, str], by_lower: Mapping[str, str], attributes: Sequence[str]) -> dict[str, str]:
    """The mapping, with attributes under their own names and a column `clicked` that is mapped to nothing else."""
    own = {name: by_lower.get(name, name) for name in attributes if name not in mapping}
    clicked = by_lower.get(CLICKED.name)
    views = any(name in mapping for name in VIEW_COLUMNS)
    if clicked is not None and not views and clicked not in (*mapping.values(), *own.values()):
        own[CLICKED.name] = clicked
    return {**mapping, **own}


def _existing(mapping: Mapping[str, str], names: Sequence[str], *, schema: bool) -> str:
    """Printable words on a table's columns: they are named only if they are certain to be names."""
    typed = [theirs for theirs in mapping.values() if theirs in names]
    if schema or (typed and could_be_names(names)):
        return f"existing columns: {_shortened(names)}"
    if typed:
        return f"of these its first line has {', '.join(map(repr, typed))}"
    return "its first line has none of the names given, and is not shown: it may be somebody's row"


def resolve_each(
    mapping: Mapping[str, str] | None,
    names_of_files: Sequence[Sequence[str]],
    labels: Sequence[str],
    attributes: Sequence[str] = (),
) -> list[dict[str, str]]:
    """The mapping of each file by its own names: no file decides what is read of another.

    A file may lack rank, url and attributes, which are empty there; a column that is named must be somewhere.
    """
    somewhere = {name for names in names_of_files for name in names}
    known = somewhere | {name.lower() for name in somewhere}
    named = {name: name for name in attributes} | {
        ours: theirs for ours, theirs in (mapping or {}).items() if ours not in REQUIRED
    }
    if any(theirs not in (somewhere if ours in (mapping or {}) else known) for ours, theirs in named.items()):
        resolve(mapping, names_of_files[0], labels[0], schema=True, attributes=attributes)
    resolved = []
    for names, label in zip(names_of_files, labels, strict=True):
        there, lower = mapping, {*names, *(name.lower() for name in names)}
        if mapping is not None:
            there = {ours: theirs for ours, theirs in mapping.items() if ours in REQUIRED or theirs in names}
        mine = [name for name in attributes if name in (there or {}) or (name not in (mapping or {}) and name in lower)]
        resolved.append(resolve(there, names, label, schema=True, attributes=mine))
    return resolved


def _shortened(names: Sequence[str]) -> str:
    """Names of columns for a message: a file may have very many, and very long ones."""
    shown = ", ".join(printable(name, _LONGEST_NAME) for name in names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES:,} more"


def other_columns(names: Sequence[str], mapping: Mapping[str, str]) -> tuple[str, ...]:
    """Names of columns that are none of ours, as attributes have them: those that can be attributes."""
    others = dict.fromkeys(name.lower() for name in names if name not in mapping.values())
    return tuple(name for name in others if could_be_attribute(name))
