"""A release folder back as a release: every file is compared with the card before anything of it is used."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from querycloak.errors import InputError, ParameterError, QuerycloakError
from querycloak.files.documents import parsed_json
from querycloak.privacy.calibration.accuracy import TableAccuracy
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.payment import Accounting
from querycloak.privacy.parameters import path_of
from querycloak.releases import parquet
from querycloak.releases.card import VERSION, card_problem, upgraded
from querycloak.releases.folder import CARD, LARGEST_CARD, card_bytes, regular_file
from querycloak.releases.release import Release
from querycloak.releases.tables import KINDS, LARGEST_ROW, conformed, schema_of
from querycloak.releases.text_tables import CSV, TSV

_TEXTS = {f".{each.ending}": each for each in (TSV, CSV)}
_ENDINGS = (parquet.ending, TSV.ending, CSV.ending)
_AGAIN = "get the release again"
_LONG_TO_READ = 1 << 30
"""Bytes; below them a file with holes is read in a moment."""
_BLOCK = 1 << 20


@dataclass(frozen=True)
class StoredTable:
    """A table of a release folder; each iteration reads its file."""

    path: Path
    schema: pa.Schema
    dialect: str | None = None

    @property
    def missing_counts(self) -> bool:
        """True if counts may be null, because noise made them less than 1."""
        return "count" in self.schema.names and self.schema.field("count").nullable

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        text = _TEXTS.get(self.path.suffix)
        batches = parquet.read(self.path) if text is None else text.read(self.path, self.schema, self.dialect)
        problem = ""
        try:
            for batch in batches:
                yield conformed(batch, self.schema)
            return
        except OSError:
            problem = "cannot be read"
        except (pa.ArrowException, ValueError, QuerycloakError):
            problem = "does not hold what its card says"
        raise InputError(f"{self.path.name} of the release {problem}; {_AGAIN}")


def load(folder: str | os.PathLike[str], on_step: Callable[[str, float], None] = lambda _what, _share: None) -> Release:
    """The release in a folder; its tables stay on the disk until they are read.

    on_step: called with the file that is being compared with the card, and the share of its bytes that were.
    """
    place = path_of("folder", folder, "name the folder of a release")
    card = load_card(place)
    entries: Mapping[str, Mapping[str, Any]] = card["tables"]
    _verify(place, entries, listed_files(card), on_step)
    return _release(place, card, {kind: _stored(place, kind, entry) for kind, entry in entries.items()})


def listed_files(card: Mapping[str, Any]) -> dict[str, str]:
    """The files that a card vouches for, with their SHA-256."""
    return {name: digest for name, digest in card["checksums"].items() if name != "algorithm"}


def load_card(folder: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The card of a release folder, upgraded to the current version."""
    place = path_of("folder", folder, "name the folder of a release")
    try:
        card = parsed_json(card_bytes(place))
    except FileNotFoundError:
        raise InputError(f"{str(place)!r} is not a release folder: it has no {CARD}; name the folder itself") from None
    except OSError as error:
        raise InputError(f"{CARD} of {str(place)!r} cannot be read: {_reason(error)}") from None
    except ValueError:
        raise _damaged(place) from None
    version = card.get("card_version") if isinstance(card, dict) else None
    if not isinstance(version, int) or version < 1:
        raise _damaged(place)
    if version > VERSION:
        raise InputError(
            f"the release {str(place)!r} has a card of version {version}, this querycloak knows up to {VERSION}; "
            "install a newer querycloak"
        )
    current = upgraded(card)
    problem = card_problem(current)
    if problem is not None:
        raise _damaged(place, f" ({problem.removeprefix('.')})")
    return current


def _damaged(place: Path, detail: str = "") -> InputError:
    return InputError(f"{CARD} of {str(place)!r} is damaged or was not written by querycloak{detail}; {_AGAIN}")


def _reason(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO):
        return "it is not a regular file"
    return os.strerror(error.errno or 0).lower()


def _verify(
    place: Path,
    tables: Mapping[str, Mapping[str, Any]],
    checksums: Mapping[str, str],
    on_step: Callable[[str, float], None],
) -> None:
    largest: dict[str, int] = {}
    for kind, entry in tables.items():
        file = entry["file"]
        # Names come from the card, which anybody can write: only ours lead to a file.
        if kind not in KINDS or file not in [f"{kind}.{ending}" for ending in _ENDINGS] or file not in checksums:
            raise _damaged(place)
        largest[file] = (entry["rows"] + 1) * LARGEST_ROW
    for name, expected in checksums.items():
        if Path(name).name != name or name in ("..", "."):
            raise _damaged(place)
        if _checksum(place / name, largest.get(name, LARGEST_CARD), on_step) != expected:
            raise InputError(f"{name} of {str(place)!r} is not what the card vouches for: it was changed; {_AGAIN}")


def _checksum(path: Path, largest: int, on_step: Callable[[str, float], None]) -> str:
    """SHA-256 of a file; a file with holes may be larger than anybody can read, so both are looked at first."""
    problem = "has holes, which no file of a release has"
    try:
        with regular_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > largest:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            if size <= _LONG_TO_READ or not _has_holes(file, size):
                return _digest(file, lambda done: on_step(path.name, done / max(size, done)))
    except FileNotFoundError:
        problem = "is missing"
    except OSError as error:
        problem = f"cannot be read: {_reason(error)}"
    raise InputError(f"{path.name} of {str(path.parent)!r} {problem}; {_AGAIN}")


def _has_holes(file: BinaryIO, size: int) -> bool:
    """True if a part of the file takes no room on the disk: a small archive may unpack to a file of any length."""
    first = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return first < size


def _digest(file: BinaryIO, on_read: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        digest.update(block)
        done += len(block)
        on_read(done)
    return digest.hexdigest()


def _stored(place: Path, kind: str, entry: Mapping[str, Any]) -> StoredTable:
    """A table, checked to have the columns and the number of rows that its card states."""
    path = place / entry["file"]
    try:
        form = _TEXTS.get(path.suffix, parquet)
        if (columns := list(form.columns(path))) == list(entry["columns"]):
            schema = schema_of(kind, columns, missing_counts=kind != "log" and form.misses_counts(path))
            if form.fits(path, schema, entry["rows"]):
                return StoredTable(path, schema, entry.get("dialect"))
    except (pa.ArrowException, OSError, ParameterError):
        pass
    raise InputError(f"{path.name} of {str(path.parent)!r} does not hold what its card says; {_AGAIN}")


def _reach(tables: Mapping[str, Any]) -> dict[str, TableAccuracy]:
    """Accuracy of the counts of each table, as far as the card states it."""
    reaches = {kind: entry.get("reach") for kind, entry in tables.items()}
    return {kind: TableAccuracy.from_json(reach) for kind, reach in reaches.items() if reach is not None}


def _release(place: Path, card: Mapping[str, Any], tables: Mapping[str, StoredTable]) -> Release:
    try:
        return Release(
            method=card["method"],
            variant=card["variant"],
            parameters=card["parameters"],
            claimed=card["claimed"] and Guarantee.from_json(card["claimed"]),
            proven=Guarantee.from_json(card["proven"]),
            tables=tables,
            counts=card["counts"],
            rows=card["rows"],
            seeded=card["seeded"],
            accounting=Accounting.from_json(card["accounting"]),
            log=card["log"],
            about=card.get("about", {}),
            composition=card["composition"],
            gaussian_dp=card.get("gaussian_dp", {}),
            population_size=card["population_size"],
            options=card["options"],
            reach=_reach(card["tables"]),
            versions=card["versions"],
        )
    except (KeyError, TypeError, ValueError, ParameterError):
        raise _damaged(place) from None
