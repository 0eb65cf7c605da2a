"""Where private output may not go: into a release folder, because others receive it as it is."""

from __future__ import annotations

from pathlib import Path

from querycloak.privacy.parameters import refuse
from querycloak.releases.card import CARD


def outside_releases(path: Path, parameter: str = "out") -> None:
    """Refuse a place inside a release folder, however deep; call it before anything is read."""
    for folder in path.resolve().parents:
        if (folder / CARD).is_file():
            way_out = "what is written here is private and a release is not; name another place"
            refuse(parameter, "outside of release folders", str(path), way_out)
