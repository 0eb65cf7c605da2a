"""Leak check: users, queries and urls of the log in a folder, outside the rows that its release published.

A release's rows are what its mechanism released. Names of files, metadata, dictionaries, card, datasheet and Croissant
must not hold anything of the log, nor may the names in released rows be those of the log.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querycloak.audits.attack import Finding, Share
from querycloak.audits.attacks.folder_passages import FolderPassage, passages, public_text, released_files
from querycloak.audits.audit_data import AuditData
from querycloak.errors import InputError, QuerycloakError
from querycloak.evaluation.target import Target, in_pieces
from querycloak.logs.searchlog import SearchLog, check_log
from querycloak.privacy.parameters import path_of
from querycloak.releases.loading import load
from querycloak.releases.tables import batches_of


@dataclass(frozen=True)
class Leak:
    """A secret, the place where it came out, and its kind (users, queries, urls); empty if unknown."""

    secret: str = field(repr=False)
    place: str
    kind: str = ""


def leaks_in(content: str | bytes, secrets: Iterable[str], place: str) -> list[Leak]:
    """The secrets in a text or in bytes, in any case."""
    data = content.encode() if isinstance(content, str) else content
    lowered = data.lower()
    return [Leak(secret, place) for secret in secrets if secret.lower().encode() in lowered]


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


LONG = 8
"""Texts of this number of characters or more are found wherever they stand; shorter ones as whole words only."""
COLUMNS = {"user": "users", "query": "queries", "url": "urls"}
NAMES = "the names in released rows"
_WORD = re.compile(r"[^\W_]+")


class FolderLeaks:
    """Anything found is an alarm: nothing of this kind is ever meant to be released."""

    name: ClassVar[str] = "leaks"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """It takes a folder."""
        return None if release.folder is not None else "it is not a folder: nothing but its rows could leak"

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Users, queries and urls of the log; of the control, what stands there by chance."""
        if release.folder is None:
            return
        search = LeakSearch.of(release.folder)
        leaks_of_train, by_chance = (search.leaks(log) for log in (knowledge.train, knowledge.control))
        for column, kind in COLUMNS.items():
            shares = [
                Share.of(len({leak.secret for leak in leaks if leak.kind == kind}), _different(log, column))
                for leaks, log in ((leaks_of_train, knowledge.train), (by_chance, knowledge.control))
            ]
            places = sorted({leak.place for leak in leaks_of_train if leak.kind == kind})
            alarm = f"leaks: {release.name} holds {kind} of the log in {', '.join(places)}" if places else None
            # Nothing found is what it should be, not an attack that fails.
            yield replace(Finding.of(kind, shares[0], shares[1], 0.0, alarm=alarm), why=None)


def find_leaks(folder: str | os.PathLike[str], log: SearchLog) -> list[Leak]:
    """Users, queries and urls of a log that a folder holds and did not release; each with its place, once.

    The folder may be any; of a release the queries and urls in its tables are left out. What is found is private.
    """
    check_log(log)
    place = path_of("folder", folder, "name the folder to search")
    if not place.is_dir():
        raise InputError(f"{str(place)!r} is not a folder; name the one to search")
    return LeakSearch.of(place).leaks(log)


@dataclass(frozen=True, eq=False)
class LeakSearch:
    """Texts of a folder, ready to be compared with any number of other texts."""

    passages: tuple[FolderPassage, ...]
    allowed: pa.Array
    names: pa.Array
    beginnings: pa.Array = field(repr=False)
    words: pa.Array = field(repr=False)
    wholes: pa.Array = field(repr=False)

    @classmethod
    def of(cls, folder: Path) -> LeakSearch:
        """Read a folder."""
        parts = tuple({each: None for each in passages(folder) if each.text})
        allowed, names = _released(folder)
        running = [each for each in parts if not each.whole or len(each.text) > LONG]
        return cls(
            parts,
            allowed,
            names,
            _texts(each.text[i : i + LONG] for each in running for i in range(len(each.text) - LONG + 1)),
            _texts(word for each in parts if not each.whole for word in _short_words(each)),
            _texts(each.text for each in parts if each.whole),
        )

    def leaks(self, log: SearchLog) -> list[Leak]:
        """Values of a log that stand in the folder."""
        leaks: dict[Leak, None] = {}
        rows = log.rows.select(*COLUMNS)
        for piece in in_pieces(log.engine.stream(rows)):
            for column, kind in COLUMNS.items():
                texts = piece[column].unique().drop_null()
                if kind == "users":
                    named = texts.filter(pc.is_in(texts, self.names)).to_pylist()
                    leaks |= {Leak(text, NAMES, kind): None for text in named}
                for text in self._candidates(texts, released=kind != "users"):
                    leaks |= {Leak(text, place, kind): None for place in self._places(text.lower())}
        return sorted(leaks, key=lambda leak: (leak.kind, leak.place, leak.secret))

    def _candidates(self, texts: pa.Array, *, released: bool) -> list[str]:
        """Texts that may well stand somewhere, less those that rows may hold: only these are looked at one by one."""
        lowered = pc.utf8_lower(texts)
        first, last = pc.utf8_slice_codeunits(lowered, 0, LONG), pc.utf8_slice_codeunits(lowered, -LONG, None)
        long = pc.and_(pc.is_in(first, self.beginnings), pc.is_in(last, self.beginnings))
        short = pc.or_(pc.is_in(lowered, self.words), pc.is_in(lowered, self.wholes))
        wanted = texts.filter(pc.or_(long, short))
        return list((wanted.filter(pc.invert(pc.is_in(wanted, self.allowed))) if released else wanted).to_pylist())

    def _places(self, text: str) -> list[str]:
        if text in _public_words() or (len(text) >= LONG and text in public_text()):
            return []
        return [passage.place for passage in self.passages if _stands_in(passage, text)]


@lru_cache(maxsize=1)
def _public_words() -> frozenset[str]:
    return frozenset(_short_words(FolderPassage("", public_text())))


def _stands_in(passage: FolderPassage, text: str) -> bool:
    if passage.whole and passage.text == text:
        return True
    if len(text) >= LONG:
        return text in passage.text
    if passage.whole or len(text) < passage.least:
        return False
    return re.search(rf"(?<![^\W_]){re.escape(text)}(?![^\W_])", passage.text) is not None


def _short_words(passage: FolderPassage) -> Iterator[str]:
    """Whole words, and runs of a few, too short to be searched as running text."""
    places = [word.span() for word in _WORD.finditer(passage.text)]
    for number, (start, _) in enumerate(places):
        for _, end in places[number : number + LONG // 2]:
            if end - start >= LONG:
                break
            if end - start >= passage.least:
                yield passage.text[start:end]


def _texts(texts: Iterable[str]) -> pa.Array:
    return pa.array(sorted(set(texts)), pa.string())


def _released(folder: Path) -> tuple[pa.Array, pa.Array]:
    """The queries and urls that a release's rows hold, and the names in them; nothing for another folder."""
    cells: dict[str, list[pa.Array]] = {"user": [], "texts": []}
    for name, texts in _text_columns(folder) if released_files(folder) else ():
        cells["user" if name == "user" else "texts"].append(texts.unique())
    texts, names = (pa.chunked_array(cells[kind], pa.string()).unique().drop_null() for kind in ("texts", "user"))
    return texts, names


def _text_columns(folder: Path) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Name and texts of every column of texts in a release's tables, piece by piece."""
    try:
        release = load(folder)
    except QuerycloakError:
        return  # nobody vouches for this release: nothing in it counts as released
    for table in release.tables.values():
        for rows in in_pieces(batches_of(table)):
            for name in rows.column_names:
                values = rows[name]
                flat = pc.list_flatten(values) if pa.types.is_list(values.type) else values
                if pa.types.is_string(flat.type):
                    yield name, flat


def _different(log: SearchLog, column: str) -> int:
    number = log.engine.fetch(log.rows[column].nunique().as_table())
    return int(number[0][0].as_py() or 0)
