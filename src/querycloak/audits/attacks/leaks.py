"""The leak scanner: it looks for secrets, planted in a log, in places where they must not be."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq


@dataclass(frozen=True)
class Leak:
    """A secret, the place where it came out, and what it is (users, queries, urls), where that is known."""

    secret: str = field(repr=False)
    place: str
    kind: str = ""


def leaks_in(content: str | bytes, secrets: Iterable[str], place: str) -> list[Leak]:
    """The secrets in a text or in bytes, in any case."""
    data = content.encode() if isinstance(content, str) else content
    lowered = data.lower()
    return [Leak(secret, place) for secret in secrets if secret.lower().encode() in lowered]


def leaks_in_exception(error: BaseException, secrets: Iterable[str]) -> list[Leak]:
    """The secrets in an exception: its words, its attributes, its trace, and all it was raised from or during."""
    secrets = list(secrets)
    leaks: list[Leak] = []
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        each = queue.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        text = "".join(traceback.format_exception(each)) + repr(each) + repr(vars(each))
        leaks += leaks_in(text, secrets, f"exception {type(each).__name__}")
        queue += [each.__cause__, each.__context__]
    return leaks


def leaks_in_folder(folder: Path, secrets: Iterable[str]) -> list[Leak]:
    """The secrets in the names and bytes of all files below a folder, compressed or in Parquet too."""
    secrets = list(secrets)
    leaks: list[Leak] = []
    for path in sorted(folder.rglob("*")):
        leaks += leaks_in(str(path.relative_to(folder)), secrets, "name of a file")
        if path.is_file():
            data = path.read_bytes()
            leaks += leaks_in(data, secrets, path.name)
            if data.startswith(b"\x1f\x8b"):
                leaks += leaks_in(gzip.decompress(data), secrets, path.name)
            if data.startswith(b"PAR1"):
                leaks += leaks_in(str(pq.read_table(path).to_pylist()), secrets, path.name)
    return leaks
