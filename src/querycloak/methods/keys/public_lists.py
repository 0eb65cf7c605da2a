"""Public lists, one entry a line: the queries or urls that may come out; or the built-in list.

A list is public or it protects nobody: it must not come from this log or from any other private record.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from querycloak.errors import InputError
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.logs.choices import Choices

# Of text/data/public_phrases.parquet, so that a guarantee need not read it.
BUILT_IN = "english words and word pairs (symspellpy 6.10.1)"
BUILT_IN_SIZE = 325_176
MOST_BYTES = 2**31 - 1
"""An Arrow array of texts holds no more."""
_BLOCK = 1 << 22


@dataclass(frozen=True)
class PublicList:
    """Facts on a public list that follow from the list alone."""

    path: str | None
    size: int
    sha256: str | None

    @classmethod
    def of(cls, option: str, path: str | os.PathLike[str] | None) -> PublicList:
        """The list in a file, or the built-in one."""
        if path is None:
            return cls(None, BUILT_IN_SIZE, None)
        try:
            facts = os.stat(path)
        except OSError as error:
            raise InputError(_unreadable(option, path, os.strerror(error.errno or 0).lower())) from None
        return _read_once(option, os.fspath(path), (facts.st_size, facts.st_mtime_ns))

    def describe(self, name: str) -> dict[str, object]:
        """The card's description of the list, without the name of its file."""
        source = BUILT_IN if self.path is None else "the owner's list"
        return {name: source, f"{name}_entries": self.size, f"{name}_sha256": self.sha256}

    def blocks(self, option: str) -> Iterator[pa.Array]:
        """The entries of a list in a file, as they stand there, block by block."""
        digest = hashlib.sha256()
        yield from _blocks(option, self.path or "", digest)
        if digest.hexdigest() != self.sha256:
            _read_once.cache_clear()
            raise InputError(_problem(option, self.path or "", "was changed meanwhile; start again"))


@lru_cache(maxsize=16)
def _read_once(option: str, path: str, version: tuple[int, int]) -> PublicList:
    """Facts on the list in a file; version: its size, and when it was last changed."""
    if version[0] > MOST_BYTES:
        raise InputError(
            _problem(option, path, f"has {version[0]:,} bytes, at most {MOST_BYTES:,} are read; shorten it")
        )
    digest = hashlib.sha256()
    entries = len(_each_once(_blocks(option, path, digest)))
    if not entries:
        raise InputError(_problem(option, path, "is empty; give a text file, one entry a line"))
    return PublicList(path, entries, digest.hexdigest())


def _blocks(option: str, path: str, digest: hashlib._Hash) -> Iterator[pa.Array]:
    """The lines of a file that are not empty, stripped; its bytes go into the digest."""
    import pyarrow as pa

    problem = ""
    try:
        with Path(path).open("rb") as file:
            while block := file.read(_BLOCK) + file.readline():
                digest.update(block)
                lines = (line.strip() for line in block.decode("utf-8").split("\n"))
                yield pa.array([line for line in lines if line], pa.string())
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    if problem:
        raise InputError(_unreadable(option, path, problem))


def _unreadable(option: str, path: str | os.PathLike[str], problem: str) -> Sentence:
    return _problem(option, path, f"cannot be read: {problem}; give a text file, one entry a line")


def _problem(option: str, path: str | os.PathLike[str], problem: str) -> Sentence:
    return Sentence("{name}: the list {path!r} {problem}", name=Parameter(option), path=str(path), problem=problem)


def queries_of(pool: PublicList, choices: Choices) -> pa.Array:
    """The queries of a pool, sorted, each once, in the form that the log's queries have."""
    from querycloak.text.english import public_phrases
    from querycloak.text.normalisation import normalise
    from querycloak.text.spans import Spans

    if pool.path is None:
        return public_phrases()["phrase"].combine_chunks()
    blocks = pool.blocks("pool")
    return _each_once(normalise(Spans.of(block)) for block in blocks) if choices.normalise else _each_once(blocks)


def urls_of(urls: PublicList, choices: Choices) -> pa.Array:
    """The urls of a list, sorted, each once, shortened as the log's are."""
    from querycloak.logs.reading.urls import url_texts
    from querycloak.text.spans import Spans

    return _each_once(url_texts(Spans.of(block), choices).strings() for block in urls.blocks("urls"))


def _each_once(blocks: Iterator[pa.Array]) -> pa.Array:
    """Entries that are not empty, sorted, each once; a hash table of them would take three times the memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    entries = pa.chunked_array(blocks, pa.string()).combine_chunks()
    entries = entries.filter(pc.greater(pc.binary_length(entries), 0))
    entries = entries.take(pc.sort_indices(entries))
    repeated = pc.equal(entries.slice(1), entries.slice(0, max(0, len(entries) - 1)))
    if not pc.any(repeated).as_py():
        return entries
    return entries.filter(pa.concat_arrays([pa.array([True]), pc.invert(repeated)]))
