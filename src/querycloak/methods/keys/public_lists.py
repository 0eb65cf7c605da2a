"""Public lists, one entry a line: the queries or urls that may come out; or the built-in list.

A list is public or it protects nobody: it must not come from this log or from any other private record.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
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
        content = _content(option, path)
        size = len(set(_lines(content)))
        if not size:
            raise InputError(_problem(option, path, "is empty; give a text file, one entry a line"))
        return cls(str(path), size, hashlib.sha256(content).hexdigest())

    def describe(self, name: str) -> dict[str, object]:
        """As the card has it: which list it was, without its file's name."""
        source = BUILT_IN if self.path is None else "the owner's list"
        return {name: source, f"{name}_entries": self.size, f"{name}_sha256": self.sha256}

    def lines(self, option: str) -> list[str]:
        """The entries of a list in a file, as they stand there."""
        content = _content(option, self.path or "")
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise InputError(_problem(option, self.path or "", "was changed meanwhile; start again"))
        return list(_lines(content))


def _content(option: str, path: str | os.PathLike[str]) -> bytes:
    problem = ""
    try:
        content = Path(path).read_bytes()
        content.decode("utf-8")
        return content
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    raise InputError(_problem(option, path, f"cannot be read: {problem}; give a text file, one entry a line"))


def _problem(option: str, path: str | os.PathLike[str], problem: str) -> Sentence:
    return Sentence("{name}: the list {path!r} {problem}", name=Parameter(option), path=str(path), problem=problem)


def _lines(content: bytes) -> list[str]:
    return [line.strip() for line in content.decode("utf-8").split("\n") if line.strip()]


def queries_of(pool: PublicList, choices: Choices) -> pa.Array:
    """The queries of a pool, sorted, each once, in the form that the log's queries have."""
    import pyarrow as pa

    from querycloak.text.english import public_phrases
    from querycloak.text.normalisation import normalise
    from querycloak.text.spans import Spans

    if pool.path is None:
        return public_phrases()["phrase"].combine_chunks()
    entries = pa.array(pool.lines("pool"), pa.string())
    return _each_once(normalise(Spans.of(entries)) if choices.normalise else entries)


def urls_of(urls: PublicList, choices: Choices) -> pa.Array:
    """The urls of a list, sorted, each once, shortened as the log's are."""
    import pyarrow as pa

    from querycloak.logs.reading.urls import url_texts
    from querycloak.text.spans import Spans

    entries = Spans.of(pa.array(urls.lines("urls"), pa.string()))
    return _each_once(url_texts(entries, choices).strings())


def _each_once(entries: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    distinct = entries.unique()
    distinct = distinct.filter(pc.greater(pc.binary_length(distinct), 0))
    return distinct.take(pc.sort_indices(distinct))
