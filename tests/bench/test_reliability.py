"""The short version of `make reliability`: a few runs of each check, and each check can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.reliability import damaged, forked, full_disks, fuzz, kills, power_loss, races, tokens
from bench.reliability.__main__ import in_pieces, page, tried
from bench.reliability.finding import Finding

from querycloak.errors import QuerycloakError
from querycloak.methods.registry import BUILT_IN
from tests.unit.test_outputs import WRITING


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    forked.load()
    return tokens.planted_log(tmp_path_factory.mktemp("log") / "log.tsv")


@pytest.mark.slow
def test_killed_commands_leave_whole_things_or_nothing(log: Path, tmp_path: Path) -> None:
    found = kills.kill_at_random(log, tmp_path, 7)
    assert (found.runs, found.problems) == (7, [])


def test_every_method_and_every_command_that_writes_is_killed(tmp_path: Path) -> None:
    """The studio is left out: it writes by the same functions as `release` and `signoff`, and never ends by itself."""
    assert set(kills.METHODS) == set(BUILT_IN)
    killed = list(kills.commands(tmp_path / "log", tmp_path))
    for command, option in WRITING:
        if option in ("--out", "--rejected", "--picture") or command == "ledger plan":
            assert any(each.startswith(command) for each in killed), command


def test_fuzzed_inputs_are_read_or_refused(tmp_path: Path) -> None:
    found = fuzz.fuzz(tmp_path, 250)
    assert (found.runs, found.problems) == (250, [])


def test_fuzzing_finds_an_exception_that_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "querycloak.logs.formats.json_objects.orjson.JSONDecodeError", QuerycloakError
    )  # nobody catches it
    assert any("JSONDecodeError" in problem for problem in fuzz.fuzz(tmp_path, 150).problems)


def test_damaged_folders_are_refused_in_a_line_and_each_rule_can_be_broken(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["release k-anonymity"]
    assert damaged.damage(log, tmp_path, 6, names=names).problems == []
    monkeypatch.setattr("querycloak.methods.evidence.guarantee_problem", lambda _card: None)
    monkeypatch.setattr(damaged, "DAMAGES", {"lie": damaged._edited(lambda card, _: card["proven"].update(k=1000))})
    problems = damaged.damage(log, tmp_path, 1, names=names).problems
    assert any("another guarantee is accepted" in problem for problem in problems)


def test_nobody_overdraws_and_one_run_gets_an_output(log: Path, tmp_path: Path) -> None:
    assert races.race_on_a_ledger(tmp_path / "ledger", 4, 4).problems == []
    assert races.race_for_an_output(log, tmp_path / "output", 3).problems == []
    killed = races.kill_on_a_ledger(tmp_path / "reserves", 5, 3)
    assert (killed.runs, killed.problems) == (5, [])


def test_full_disks_are_refused_in_words(log: Path, tmp_path: Path) -> None:
    assert full_disks.fill(log, tmp_path, [24], ["release clicks", "evaluate", "synth"]).problems == []


def test_power_may_fail_at_any_moment(log: Path, tmp_path: Path) -> None:
    assert power_loss.lose_power(log, tmp_path, ["inspect --rejected", "synth"]).problems == []


CALLS = """
7 openat(AT_FDCWD, "/out/.growing/file", O_WRONLY|O_CREAT, 0600) = 3
7 write(3, "rows", 4) = 4
{synced}
7 linkat(AT_FDCWD, "/out/.growing/file", AT_FDCWD, "/out/file", 0) = 0
"""


@pytest.mark.parametrize(("synced", "late"), [("7 fsync(3) = 0", []), ("", ["/out/.growing/file"])])
def test_a_name_that_comes_before_the_sync_is_found(synced: str, late: list[str]) -> None:
    disk = power_loss.Disk()
    disk.replay(CALLS.format(synced=synced).splitlines(), "/")
    ((now, old, new),) = disk.named
    assert new == "/out/file"
    assert disk.unsynced(now, old) == late


def test_calls_that_another_thread_interrupts_are_one() -> None:
    lines = ["7 write(3, <unfinished ...>", "8 close(4) = 0", '7 <... write resumed>"x", 1) = 1']
    assert power_loss._joined(lines) == ["8 close(4) = 0", '7 write(3, "x", 1) = 1']


def test_pieces_add_up(tmp_path: Path) -> None:
    def work(times: int, seed: int) -> Finding:
        return Finding("killed", "each", "whole", times, [f"seed {seed}"], ["a note"], 1.0)

    found = in_pieces(250, work, tmp_path / "kills")()
    assert found == Finding("killed", "each", "whole", 250, ["seed 1", "seed 2", "seed 3"], ["a note"], 3.0)
    assert in_pieces(250, lambda *_: pytest.fail("tried again"), tmp_path / "kills")() == found


def test_tokens_are_found() -> None:
    assert tokens.held(b"a ZQTOKENURL b") == ["zqtokenurl"]


def test_the_page_has_a_line_for_each_check() -> None:
    found = Finding("killed", "each", "whole", 3, ["one"], ["a note"], 2.0)
    said = page([found], "make reliability")
    assert "| killed: each | 3 | whole | 1 |" in said
    assert "- killed: a note" in said
    assert "in 2 minutes" in said


def test_what_was_found_before_is_not_tried_again(tmp_path: Path) -> None:
    found = tried(lambda: Finding("killed", "each", "whole", 3, ["one"]), tmp_path / "kept" / "kills.json")
    assert tried(lambda: pytest.fail("tried again"), tmp_path / "kept" / "kills.json") == found
