"""A comparison: whole, resumable, honest about what failed; whose row is whose is on no disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.audits.attack import ATTACKS
from querycloak.comparison.comparison import Comparison, identity_of, run_comparison
from querycloak.comparison.comparison_folder import KIND, ComparisonFolder, clear_demo, comparison_folder
from querycloak.comparison.comparison_plan import (
    DMA,
    RESERVED,
    PlannedRelease,
    checked_budgets,
    releases_in,
    usual_releases,
)
from querycloak.comparison.comparison_steps import EXPERIMENT, GIVEN_UP
from querycloak.comparison.comparison_summary import label_of, summary_of
from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.task import NO_DATA, TASKS
from querycloak.files.locked_folder import lock_folder
from querycloak.methods.registry import METHODS
from tests.compared import PLAN, make_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log(tmp_path_factory.mktemp("compared"))


class Stopped(KeyboardInterrupt):
    """Somebody pressed Ctrl-C."""


def stop_at(beginning: str) -> Callable[[str, float], None]:
    def told(what: str, share: float) -> None:
        assert 0 <= share <= 1
        if what.startswith(beginning):
            raise Stopped

    return told


@pytest.fixture(scope="module")
def stopped(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the third release was being attacked when it was stopped."""
    out = tmp_path_factory.mktemp("out") / "comparison"
    with qc.read(log) as opened, pytest.raises(KeyboardInterrupt):
        run_comparison(opened, out, PLAN, truth=Path(f"{log}.truth"), on_step=stop_at("rows: inference"))
    return out


@pytest.fixture(scope="module")
def before(stopped: Path) -> dict[str, bytes]:
    """All files that were there when it was stopped."""
    return {str(path.relative_to(stopped)): path.read_bytes() for path in stopped.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def found(log: Path, stopped: Path, before: dict[str, bytes]) -> Comparison:
    """The same comparison, gone on to its end."""
    with qc.read(log) as opened:
        return run_comparison(opened, stopped, PLAN, truth=Path(f"{log}.truth"))


def test_whose_row_is_whose_is_on_no_disk(before: dict[str, bytes]) -> None:
    """Names of users stand in the two sides of the log and nowhere else, also while it goes on."""
    holding = {name for name, content in before.items() if b"person-" in content}
    assert holding <= {"unfinished/split/train.parquet", "unfinished/split/test.parquet"}
    assert "releases/rows/log.parquet" in before  # made, but its owners are forgotten: it is made anew
    assert "unfinished/release-clicks-e8.json" in before
    assert "unfinished/release-rows.json" not in before


def test_a_stopped_comparison_goes_on(found: Comparison, before: dict[str, bytes]) -> None:
    kept = (found.folder / "releases" / "clicks-e1" / "card.json").read_bytes()
    assert kept == before["releases/clicks-e1/card.json"]  # done before, not done again
    assert (found.folder / "releases" / "rows" / "card.json").read_bytes() != before["releases/rows/card.json"]
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "audit.parquet", "comparison.json", "evaluation.parquet", "releases",
    ]  # fmt: skip
    assert found.folder.stat().st_mode & 0o777 == 0o700


def test_every_release_has_rows_of_every_task_and_attack(found: Comparison) -> None:
    names = {each.name for each in PLAN}
    tasks = {(row["release"], row["task"]) for row in found.evaluation.select(["release", "task"]).to_pylist()}
    assert {pair for pair in tasks if pair[0] in names} == {(name, task) for name in names for task in TASKS}
    audit = found.audit.to_pylist()
    assert {row["release"] for row in audit} == (names | set(RESERVED)) - {NO_DATA}  # a rule without data has no people
    assert {row["attack"] for row in audit if row["release"] == "rows"} == set(ATTACKS)


def test_what_needs_owners_is_there(found: Comparison) -> None:
    right = [row for row in found.audit.to_pylist() if row["release"] == "rows" and "right" in (row["setting"] or "")]
    assert right
    assert all(row["why"] is None or row["risk"] is not None or "no target" in row["why"] for row in right)
    profiles = found.evaluation.filter(pc.equal(found.evaluation["measure"], "profile_loss")).to_pylist()
    known = {row["release"]: row["value"] for row in profiles if row["slice"] == "topics=4"}
    assert known["rows"] is not None
    assert known["clicks-e1"] is None


def test_what_fails_leaves_its_reason_and_the_rest_goes_on(found: Comparison) -> None:
    assert list(found.failures) == ["broken"]
    reasons = {row["why"] for row in found.evaluation.to_pylist() if row["release"] == "broken"}
    reasons |= {row["why"] for row in found.audit.to_pylist() if row["release"] == "broken"}
    assert reasons == set(found.failures.values())
    assert not (found.folder / "releases" / "broken").exists()


def test_cards_say_that_releases_are_experiments(found: Comparison) -> None:
    for name in ("clicks-e1", "rows"):
        card = json.loads((found.folder / "releases" / name / "card.json").read_text())
        assert EXPERIMENT in card["warnings"]
        assert "xperiment, not for release" in EXPERIMENT
        assert card["deployment"] is None
        assert "not for release" in (found.folder / "releases" / name / "README.md").read_text()


def test_a_comparison_that_is_done_is_not_done_again(found: Comparison, log: Path) -> None:
    def nobody(what: str, share: float) -> None:
        raise AssertionError(what)

    with qc.read(log) as opened:
        again = run_comparison(opened, found.folder, PLAN, truth=Path(f"{log}.truth"), on_step=nobody)
    assert again.evaluation.equals(found.evaluation)


def test_the_raw_log_does_not_stay_where_the_end_was_cut_short(tmp_path: Path) -> None:
    with comparison_folder(tmp_path / "out", "x") as made:
        (made.unfinished / "train.parquet").write_bytes(b"raw")
        made.keep(complete=True)  # and then the process died
    with comparison_folder(tmp_path / "out", "x") as again:
        assert not again.unfinished.exists()


def test_other_options_do_not_go_on_in_the_same_folder(found: Comparison, log: Path) -> None:
    with qc.read(log) as opened, pytest.raises(ParameterError, match="another log or with other options"):
        run_comparison(opened, found.folder, PLAN[:1], truth=Path(f"{log}.truth"))


def test_a_summary_is_made_of_rows_of_the_tables(found: Comparison) -> None:
    summary = summary_of(found)
    evaluation, audit = found.evaluation.to_pylist(), found.audit.to_pylist()
    assert [each.promise for each in summary.releases] == ["user", "user", "rule", "failed", "rule"]
    assert summary.epsilons == (1.0, 8.0)
    seen = 0
    for release in (*summary.baselines, *summary.releases):
        for task, kept in release.tasks.items():
            row = evaluation[kept.row]
            assert (row["release"], row["task"], row["reading"]) == (release.name, task, "all")
            assert row["value"] == kept.value
            seen += kept.share is not None
        for attack, gained in release.attacks.items():
            row = audit[gained.row]
            assert (row["release"], row["attack"], row["risk"]) == (release.name, attack, gained.risk)
    assert seen > 20
    original = summary.baselines[0]
    assert {kept.share for kept in original.tasks.values()} - {None} == {1.0}  # None where it gives nothing itself
    assert original.worst is not None
    assert original.worst.risk == 1.0


def test_a_process_that_dies_twice_within_a_release_gives_it_up(log: Path, tmp_path: Path) -> None:
    """A kill leaves the mark of a beginning; after two the release is left out, or it would kill every next one."""
    out, plan = tmp_path / "comparison", PLAN[:1]
    truth = Path(f"{log}.truth")
    with qc.read(log) as opened:
        with comparison_folder(out, identity_of(opened, plan, truth)) as folder:
            assert folder.steps.begun("release-clicks-e1") == 0
            assert folder.steps.begun("release-clicks-e1") == 1
        with pytest.raises(KeyboardInterrupt):
            run_comparison(opened, out, plan, truth=truth, on_step=stop_at("evaluating"))
    step = ComparisonFolder(out).steps.kept("release-clicks-e1")
    assert step is not None
    assert step["failed"] == GIVEN_UP


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    with (
        comparison_folder(tmp_path / "one", "same"),
        pytest.raises(InputError, match="another process"),
        comparison_folder(tmp_path / "one", "same"),
    ):
        pass


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("mine")
    with pytest.raises(ParameterError, match="is neither"), comparison_folder(theirs, "x"):
        pass
    with pytest.raises(ParameterError, match="no demo made it"):
        clear_demo(theirs)
    assert not ComparisonFolder(theirs).state
    with pytest.raises(ParameterError, match="in a folder that exists"), comparison_folder(tmp_path / "a" / "b", "x"):
        pass
    with comparison_folder(tmp_path / "new", "x", demo=True) as made:
        assert made.state
    (made.path / "thesis.txt").write_text("mine")
    with pytest.raises(ParameterError, match="holds 1 file"):
        clear_demo(made.path)
    (tmp_path / "link").symlink_to(made.path)
    with pytest.raises(ParameterError, match="no demo made it"):
        clear_demo(tmp_path / "link")
    assert (made.path / "thesis.txt").read_text() == "mine"
    (made.path / "thesis.txt").unlink()
    clear_demo(made.path)
    assert not made.path.exists()


def test_every_method_is_planned_at_every_budget() -> None:
    planned = list(usual_releases([1.0, 8.0], 1e-5))
    assert {each.method for each in planned} == set(METHODS)
    assert len({each.name for each in planned}) == len(planned)
    assert not {each.name for each in planned} & set(RESERVED)
    assert [each.name for each in planned if each.method == "clicks"] == ["clicks-e1", "clicks-e8"]
    assert DMA in planned  # the EU's thresholds until 2026
    for each in planned:
        each.made()


def test_labels_say_method_and_budget_or_somebodys_own_name() -> None:
    def labelled(name: str, method: str, **options: object) -> str:
        return label_of(PlannedRelease(name, method, options).to_json())

    assert labelled("clicks-e0.5", "clicks", epsilon=0.5) == "clicks, ε = 0.5"
    assert labelled("affinity-k5-paper", "affinity", min_users=5, variant="paper") == "affinity as published, k = 5"
    assert labelled("ours", "clicks", epsilon=0.5) == "ours"
    assert label_of(DMA.to_json()) == "k-anonymity, DMA"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[release", "cannot be read; it must be TOML"),
        ("epsilon = 8", r"must hold \[\[release\]\] tables"),
        ("[[release]]\nname = 'a'", "release 1 of the file must have a method"),
        ("[[release]]\nname = '../a'\nmethod = 'clicks'", "a name of letters, digits"),
        ("[[release]]\nname = 'a'\nmethod = 'clicks'\nepsilon = 8", "has 'epsilon'; it may have name, method, options"),
        ("[[release]]\nname = 'a'\nmethod = 'klicks'\n[[release]]\nname = 'b'\nmethod = 'x'",
         "there is no method 'klicks', 'x'; there are .*clicks, "),
        ("[[release]]\nname = 'original'\nmethod = 'clicks'", "must not be called 'original'"),
        ("[[release]]\nname = 'a'\nmethod = 'affinity'\n" * 2, "two releases are called 'a'"),
        ("[[release]]\nname = 'a'\nmethod = 'clicks'\noptions = { epsilon = -1, delta = 1e-6 }",
         "the release 'a' cannot be made: epsilon must be"),
        ("[[release]]\nname = 'a'\nmethod = 'clicks'\noptions = { epsilom = 1 }", "clicks has no option 'epsilom'"),
    ],
)  # fmt: skip
def test_a_file_of_releases_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "releases.toml"
    path.write_text(text)
    with pytest.raises((InputError, ParameterError), match=message):
        releases_in(path)


def test_a_file_of_releases_is_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "releases.toml"
    path.write_text(
        "[[release]]\nname = 'a'\nmethod = 'clicks'\noptions = { epsilon = 1, delta = 1e-6, per-user = 4 }\n"
    )
    assert releases_in(path) == [PlannedRelease("a", "clicks", {"epsilon": 1, "delta": 1e-6, "per_user": 4})]


def test_budgets_are_checked_before_anything_is_read() -> None:
    assert checked_budgets([8, 1, 8], 1e-6) == ((1, 8), 1e-6)
    with pytest.raises(ParameterError, match="epsilon"):
        checked_budgets([0], 1e-6)
    with pytest.raises(ParameterError, match="delta"):
        checked_budgets([1], 2)
    with pytest.raises(ParameterError, match="an epsilon at least"):
        checked_budgets([], 1e-6)


def test_tables_are_those_of_evaluate_and_audit(found: Comparison) -> None:
    from querycloak.audits.release_audit import COLUMNS
    from querycloak.evaluation.evaluation_file import SCHEMA

    assert pq.read_schema(found.folder / "evaluation.parquet").names == SCHEMA.names
    assert pq.read_schema(found.folder / "audit.parquet").names == list(COLUMNS)


def test_a_folder_that_another_comparison_has_just_made_is_refused_when_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def lock(path: Path, *, wait: bool) -> int | None:
        KIND.write_state(path, identity="theirs", complete=True)
        return lock_folder(path, wait=wait)

    monkeypatch.setattr("querycloak.files.resumable_folder.lock_folder", lock)
    with pytest.raises(ParameterError, match="another log or with other options"), comparison_folder(out, "ours"):
        pytest.fail("theirs were taken for ours")


def test_a_demo_that_is_being_made_is_not_removed(tmp_path: Path) -> None:
    with comparison_folder(tmp_path / "out", "x", demo=True) as made:
        with pytest.raises(InputError, match="another process"):
            clear_demo(made.path)
        assert made.state["identity"] == "x"
    clear_demo(tmp_path / "out")
    assert not (tmp_path / "out").exists()
