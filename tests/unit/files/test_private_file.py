"""Files that only their owner reads are put over nothing that is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from querycloak.errors import ParameterError
from querycloak.files.private_file import private_file


def ours(path: Path) -> bool:
    return path.read_text().startswith("ours")


def _replace_while_theirs_comes(place: Path) -> None:
    with private_file(place, "the page", replaces=ours) as file:
        file.write(b"ours, after")
        place.write_text("theirs")


def test_a_file_of_somebody_that_came_while_ours_was_written_stays(tmp_path: Path) -> None:
    place = tmp_path / "page"
    place.write_text("ours, before")
    with pytest.raises(ParameterError, match="appeared"):
        _replace_while_theirs_comes(place)
    assert place.read_text() == "theirs"
    place.write_text("ours, before")
    with private_file(place, "the page", replaces=ours) as file:
        file.write(b"ours, after")
    assert place.read_text() == "ours, after"
    assert [each.name for each in tmp_path.iterdir()] == ["page"]
