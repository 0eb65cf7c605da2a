"""Folders of long computations: marked, locked, and with steps that stay done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from querycloak.errors import InputError, ParameterError, ResourceError
from querycloak.files.locked_folder import lock_folder
from querycloak.files.resumable_folder import FolderKind, KeptSteps, working_in
from querycloak.reproduction.workbench import reproduction_folder

KIND = FolderKind("mark.json", {"querycloak": "test"}, "a test made")


def test_a_marked_folder_is_known_again_and_keeps_its_state(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    KIND.make(folder)
    assert KIND.state(folder) is None
    KIND.write_state(folder, identity="a")
    KIND.write_state(folder, complete=True)
    assert KIND.state(folder) == {"querycloak": "test", "identity": "a", "complete": True}
    KIND.make(folder)
    assert oct(folder.stat().st_mode)[-3:] == "700"
    (folder / "mark.json").write_text('{"querycloak": "other"}')
    with pytest.raises(ParameterError, match="is neither; name another"):
        KIND.make(folder)
    with pytest.raises(ParameterError, match="in a folder that exists"):
        KIND.check(tmp_path / "a" / "b")


def test_a_step_counts_its_beginnings_until_it_is_kept(tmp_path: Path) -> None:
    steps = KeptSteps(tmp_path / "steps", {"a": 1})
    assert [steps.begun("one"), steps.begun("one")] == [0, 1]
    assert steps.kept("one") is None
    assert steps.keep("one", {"rows": (1, 2)}) == {"rows": [1, 2]}
    assert steps.kept("one") == {"rows": [1, 2]}
    assert steps.begun("one") == 0
    assert KeptSteps(tmp_path / "steps", {"a": 2}).kept("one") is None


def test_one_process_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with working_in(tmp_path), pytest.raises(InputError, match="another process"), working_in(tmp_path / "link"):
        pass
    with working_in(tmp_path):
        pass


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_a_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ResourceError, match="finished steps are kept"):
            KeptSteps(tmp_path, {}).keep("one", 1)
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_another_program_began_between_check_and_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"

    def lock(path: Path, *, wait: bool) -> int | None:
        (path / "theirs").write_text("")
        return lock_folder(path, wait=wait)

    monkeypatch.setattr("querycloak.files.resumable_folder.lock_folder", lock)
    with pytest.raises(ParameterError, match="is neither; name another"), KIND.at_work(folder):
        pytest.fail("at work in a folder of others")
    assert [each.name for each in folder.iterdir()] == ["theirs"]


@pytest.mark.parametrize("made_anew", [True, False])
def test_a_folder_that_is_removed_before_its_lock_is_held_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_anew: bool
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()

    def lock(path: Path, *, wait: bool) -> int | None:
        locked = lock_folder(path, wait=wait)
        path.rename(tmp_path / "moved")
        if made_anew:
            path.mkdir()
        return locked

    monkeypatch.setattr("querycloak.files.resumable_folder.lock_folder", lock)
    with pytest.raises(InputError, match="was removed"), working_in(folder, wait=True):
        pytest.fail("at work in a folder that has no name")
    with pytest.raises(InputError, match="was removed"), working_in(tmp_path / "never"):
        pytest.fail("at work in no folder")


def test_a_reproduction_marks_no_folder_that_another_program_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock(path: Path, *, wait: bool) -> int | None:
        (path / "theirs").write_text("")
        return lock_folder(path, wait=wait)

    monkeypatch.setattr("querycloak.files.resumable_folder.lock_folder", lock)
    with pytest.raises(ParameterError, match="is neither; name another"):
        reproduction_folder(tmp_path / "out")
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["theirs"]
