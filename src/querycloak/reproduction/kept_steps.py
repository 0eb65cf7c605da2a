"""Steps of a long computation, each kept on disk when it is done: killed and started again, it goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from querycloak.errors import ResourceError
from querycloak.files.documents import parsed_json
from querycloak.files.private_file import replace_file

OnStep = Callable[[str], None]


class KeptSteps:
    """Results of steps, as JSON in a private folder; they count only if they were made with the same settings."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], on_step: OnStep = lambda _: None) -> None:
        self._folder, self._on_step = folder, on_step
        self._settings = json.dumps(dict(settings), sort_keys=True)

    def get(self, name: str, work: Callable[[], Any]) -> Any:
        """What a step gave before; or what it gives now, kept for the next time."""
        path = self._folder / f"{name}.json"
        kept = self._kept(path)
        if kept is not None:
            return kept["value"]
        self._on_step(name)
        value = json.loads(json.dumps(work(), allow_nan=False))
        self._write(path, {"settings": self._settings, "value": value})
        return value

    def _kept(self, path: Path) -> dict[str, Any] | None:
        try:
            found = parsed_json(path.read_bytes())
        except (OSError, ValueError):
            return None
        same = isinstance(found, dict) and found.get("settings") == self._settings and "value" in found
        return found if same else None

    def _write(self, path: Path, value: dict[str, Any]) -> None:
        put_file(path, json.dumps(value))


def put_file(path: Path, text: str) -> None:
    """Put a private file in its place, whole and on the disk, and make its folder if it is not there yet."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text.encode())
        return
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    raise ResourceError(
        f"nothing can be written into {str(path.parent)!r}: {problem}; what is done is kept, and it goes on later"
    )


def fingerprint(paths: list[Path]) -> str:
    """What tells files from others without reading them: names, sizes, times of change."""
    facts: list[list[str | int]] = []
    for path in sorted(paths):
        try:
            found = path.stat()
        except OSError:
            facts.append([str(path)])
            continue
        facts.append([str(path.absolute()), found.st_size, found.st_mtime_ns])
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
