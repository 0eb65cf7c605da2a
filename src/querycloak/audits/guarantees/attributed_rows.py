"""Logs for methods that count by attributes: the rows of a log in AOL's form with columns of attributes behind them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from querycloak.engines import Engine
from querycloak.logs.choices import PERIODS, Choices
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.keys.by_attributes import KeysByAttributes
from querycloak.methods.method import Method

SINCE, UNTIL = datetime(2006, 3, 1), datetime(2006, 4, 1)
"""All rows of tests are of this month."""
_PLAIN = ("user", "query", "time", "rank", "url")
_MADE_UP = ("one", "two")


def read_for(method: Method, path: Path, engine: Engine) -> SearchLog:
    """The log in AOL's form, with the attributes and the period that the method asks for."""
    choices = Choices(attributes=method.attributes)
    if isinstance(method, KeysByAttributes) and set(method.grouping.by) & set(PERIODS):
        choices = replace(choices, since=SINCE, until=UNTIL)
    if not method.attributes:
        return read(path, log_format="aol", engine=engine, choices=choices)
    attributed = path.with_suffix(".by.tsv")
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    attributed.write_text(with_values(text, values_of(method)), encoding="utf-8", errors="surrogateescape")
    return read(attributed, log_format="csv", engine=engine, choices=choices)


def values_of(method: Method) -> dict[str, Sequence[str]]:
    """Values of each attribute: those of its public domain, or two made-up ones."""
    domains: Mapping[str, Sequence[str]] = method.grouping.domains if isinstance(method, KeysByAttributes) else {}
    return {name: domains.get(name, _MADE_UP) for name in method.attributes}


def with_values(text: str, values: Mapping[str, Sequence[str]]) -> str:
    """The log with values behind each row: those of the number that stands there, or of one that its query decides."""
    rows = (_attributed(row, values) for row in text.splitlines()[1:])
    return "\n".join(["\t".join([*_PLAIN, *values]), *rows]) + "\n"


def _attributed(row: str, values: Mapping[str, Sequence[str]]) -> str:
    fields = row.split("\t")
    plain, behind = fields[: len(_PLAIN)], fields[len(_PLAIN) :]
    if len(plain) < len(_PLAIN):  # a row that no reader can use
        return row
    code = zlib.crc32(plain[1].encode(errors="surrogateescape"))
    numbers = [int(behind[0])] * len(values) if behind else [code >> 8 * shift for shift in range(len(values))]
    chosen = (domain[number % len(domain)] for domain, number in zip(values.values(), numbers, strict=True))
    return "\t".join([*plain, *chosen])
