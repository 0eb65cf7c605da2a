"""The ledger: exact sums, refusals, many processes, files that are not ledgers."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.cli.error_line import error_line
from querycloak.errors import BudgetRefused, InputError, ParameterError, QuerycloakError, ResourceError
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.ledger import Account, Charge, Ledger, default_path
from tests.commands import in_process

DIGEST = "ab" * 32


def promise(epsilon: float = 1.0, delta: float | None = 1e-7, **other: Any) -> Guarantee:
    fields: dict[str, Any] = {
        "kind": "approximate-dp",
        "unit": "user",
        "neighbours": "add-remove-user",
        "epsilon": epsilon,
        "delta": delta,
        "because": "a proof",
    }
    return Guarantee(**fields | other)


SYNTACTIC = Guarantee(kind="syntactic", unit="query", neighbours=None, k=5, because="five users ask it")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger(tmp_path / "kept" / "ledger.sqlite")
    found.set_limit("shop", 8, 1e-6)
    return found


def spend(ledger: Ledger, guarantee: Guarantee, population: str = "shop") -> Charge:
    return ledger.charge(population, guarantee, method="clicks", parameters={"mechanisms": [{"scale": 0.5}]})


def test_a_charge_is_kept_as_it_was_made(ledger: Ledger) -> None:
    charge = spend(ledger, promise(2.5))
    (account,) = Ledger(ledger.path).show()
    assert account.charges == (charge,)
    assert (charge.id, charge.method, charge.status, charge.guarantee) == (1, "clicks", "no release", promise(2.5))
    assert charge.parameters == {"mechanisms": [{"scale": 0.5}]}
    assert account.spent == (Fraction(5, 2), Fraction(1, 10**7))
    with pytest.raises(FrozenInstanceError):
        charge.id = 2  # type: ignore[misc]


def test_a_clock_that_jumps_changes_no_order_and_no_sum(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    years = ["2031", "1970", "9999", "2026", "0001"]
    monkeypatch.setattr("querycloak.privacy.ledger.journal.now", lambda: f"{years[0]}-01-01T00:00:00+00:00")
    charges = []
    while len(years) > 1:
        charges.append(spend(ledger, promise(2)))
        ledger.complete(charges[-1], DIGEST)
        del years[0]
    (account,) = Ledger(ledger.path).show("shop")
    assert [charge.id for charge in account.charges] == [1, 2, 3, 4]
    assert [charge.made[:4] for charge in account.charges] == ["2031", "1970", "9999", "2026"]
    assert (float(account.spent[0]), float(account.left[0])) == (8, 0)
    assert ledger.verify() == []
    with pytest.raises(BudgetRefused):
        spend(ledger, promise(0.1))


def test_the_file_is_for_its_owner_only(ledger: Ledger) -> None:
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_completed_charge_shows_its_releases(ledger: Ledger) -> None:
    charge = spend(ledger, promise())
    ledger.complete(charge, DIGEST)
    ledger.complete(charge.id, DIGEST)
    ledger.complete(charge, "cd" * 32)
    (account,) = ledger.show("shop")
    assert account.charges[0].status == "released"
    assert set(account.charges[0].releases) == {DIGEST, "cd" * 32}
    assert account.spent[0] == 1


def test_decimals_add_up_as_they_are_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.set_limit("few", 0.3, 3e-7)
    spend(ledger, promise(0.1), "few")
    spend(ledger, promise(0.2, 2e-7), "few")  # in floats the sum is above 0.3
    assert ledger.show("few")[0].left == (Fraction(0), Fraction(0))
    with pytest.raises(BudgetRefused):
        spend(ledger, promise(1e-9, 1e-12), "few")


@given(st.lists(st.tuples(st.floats(1e-6, 5), st.floats(1e-12, 1e-7)), max_size=8))
def test_what_is_spent_and_what_is_left_make_the_limit(costs: list[tuple[float, float]]) -> None:
    charges = tuple(Charge(i, "p", "now", "m", promise(*cost), {}) for i, cost in enumerate(costs))
    account = Account("p", 50.0, 1e-3, charges)
    assert account.spent[0] + account.left[0] == 50
    said = account.to_json()
    assert said["spent"]["epsilon"] + 1e-9 >= sum(cost[0] for cost in costs)
    assert Fraction(repr(said["left"]["epsilon"])) <= account.left[0]
    assert Fraction(repr(said["spent"]["delta"])) >= account.spent[1]


def test_a_refusal_is_rounded_so_that_it_shows_why(ledger: Ledger) -> None:
    spend(ledger, promise(1.00001, 9.0028234745613377e-7))
    with pytest.raises(BudgetRefused) as refused:
        spend(ledger, promise(2 / 3, 9.9717652543866231e-8))
    assert "spent 1.001 and 9.003e-7, asked 0.6667 and 9.972e-8, left 6.999 and 9.971e-8;" in str(refused.value)


def test_too_much_is_refused_with_all_figures(ledger: Ledger) -> None:
    spend(ledger, promise(6.6, 2e-7))
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetRefused) as refused:
        spend(ledger, promise(3.25, 1e-7))
    why = (
        "the ledger refuses: population 'shop', epsilon and delta: allows 8 and 1e-6, spent 6.6 and 2e-7, "
        "asked 3.25 and 1e-7, left 1.4 and 8e-7; ask for less, or let the owner raise the limit: "
    )
    assert str(refused.value) == f"{why}Ledger({str(ledger.path)!r}).set_limit('shop', epsilon=E, delta=D, why=REASON)"
    typed = f"querycloak ledger set shop --epsilon E --delta D --because REASON --ledger {ledger.path}"
    assert error_line(refused.value) == f"{why}{typed}"
    assert refused.value.exit_code == 3
    with pytest.raises(BudgetRefused):
        spend(ledger, promise(1, 9e-7))
    with pytest.raises(BudgetRefused):
        ledger.check("shop", promise(1, 9e-7))
    assert ledger.path.read_bytes() == before


def test_checking_writes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    before = ledger.path.read_bytes(), ledger.path.stat().st_mtime_ns
    assert ledger.check("shop", promise(8, 1e-6)).left == (Fraction(8), Fraction(1, 10**6))
    assert (ledger.path.read_bytes(), ledger.path.stat().st_mtime_ns) == before
    absent = Ledger(tmp_path / "nowhere" / "ledger")
    with pytest.raises(ParameterError, match="population 'shop' has no limit"):
        absent.check("shop", promise())
    with pytest.raises(ParameterError, match="population 'shop' has no limit"):
        spend(absent, promise())
    assert absent.show() == ()
    assert not absent.path.parent.exists()


def test_a_population_needs_a_limit_first(ledger: Ledger) -> None:
    with pytest.raises(ParameterError) as refused:
        spend(ledger, promise(), "our shop")
    why = "population 'our shop' has no limit in the ledger (did you mean 'shop'?); set one first: "
    assert str(refused.value) == f"{why}Ledger({str(ledger.path)!r}).set_limit('our shop', epsilon=E, delta=D)"
    typed = f"querycloak ledger set 'our shop' --epsilon E --delta D --ledger {ledger.path}"
    assert error_line(refused.value) == f"{why}{typed}"


@pytest.mark.parametrize("population", ["shop", "our shop", "-shop", "--epsilon", "it's", "$HOME"])
@pytest.mark.parametrize("name", ["ledger", "our ledger", "it's; $(ls)"])
def test_the_command_that_sets_a_limit_can_be_typed_as_it_stands(tmp_path: Path, population: str, name: str) -> None:
    ledger = Ledger(tmp_path / name)
    with pytest.raises(ParameterError) as refused:
        ledger.check(population, promise())
    typed = error_line(refused.value).split("set one first: ")[1].replace(" E ", " 8 ").replace(" D ", " 1e-6 ")
    done = in_process(*shlex.split(typed)[1:])
    assert (done.returncode, done.stderr) == (0, "")
    assert ledger.check(population, promise(8, 1e-6)).population == population


def test_a_ledger_of_ones_own_needs_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYCLOAK_LEDGER", str(tmp_path / "ledger"))
    with pytest.raises(ParameterError) as refused:
        Ledger().check("shop", promise())
    assert str(refused.value).endswith("set one first: Ledger().set_limit('shop', epsilon=E, delta=D)")
    assert error_line(refused.value).endswith("set one first: querycloak ledger set shop --epsilon E --delta D")


def test_a_limit_can_change_and_what_is_spent_stays(ledger: Ledger) -> None:
    spend(ledger, promise(6))
    assert ledger.set_limit("shop", 4, 0).left == (Fraction(0), Fraction(0))
    with pytest.raises(BudgetRefused):
        spend(ledger, promise(1, kind="pure-dp", delta=None))
    ledger.set_limit("shop", 7, 1e-6, why="a second year")
    spend(ledger, promise(1))


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, None])
def test_limits_must_be_limits(ledger: Ledger, epsilon: Any) -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be .*a finite number above 0"):
        ledger.set_limit("shop", epsilon, 1e-6)


@pytest.mark.parametrize("delta", [1, -1e-9, float("nan"), True, None])
def test_limits_of_delta_too(ledger: Ledger, delta: Any) -> None:
    with pytest.raises(ParameterError, match=r"delta must be .*a number above 0 and below 1"):
        ledger.set_limit("shop", 8, delta)


@pytest.mark.parametrize("name", ["", " shop", "shop\n", "a\x00b", "x" * 101, 7, None])
def test_populations_have_printable_names(ledger: Ledger, name: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: ledger.set_limit(name, 1, 0),
        lambda: ledger.check(name, promise()),
        lambda: spend(ledger, promise(), name),
    ]
    for call in calls:
        with pytest.raises(ParameterError, match="the name of a population must be of 1 to 100 printable characters"):
            call()


def test_syntactic_rules_are_recorded_and_cost_nothing(ledger: Ledger) -> None:
    charge = spend(ledger, SYNTACTIC)
    assert (charge.epsilon, charge.delta) == (Fraction(0), Fraction(0))
    spend(ledger, promise(8, 1e-6))
    spend(ledger, SYNTACTIC)
    assert [c.guarantee.kind for c in ledger.show("shop")[0].charges] == ["syntactic", "approximate-dp", "syntactic"]


def test_sums_say_how_many_releases_they_are_about(ledger: Ledger) -> None:
    assert ledger.show("shop")[0].coverage is None
    spend(ledger, promise(epsilon=1, delta=None, kind="pure-dp"))
    spend(ledger, promise())
    (account,) = ledger.show("shop")
    assert (account.coverage, account.to_json()["condition"]) == (None, None)
    assert "covers" not in account.composed().condition
    spend(ledger, SYNTACTIC)
    spend(ledger, promise(0, 5e-7, kind="sampling-only"))
    (account,) = ledger.show("shop")
    said = "covers 2 of 4 releases; the others bound nothing, or one step only"
    assert account.coverage == account.to_json()["condition"] == said
    tighter = account.composed().to_json()["privacy_loss_distribution"]
    assert tighter["condition"].startswith(f"{said}; it holds if the number of releases and the noise")
    kinds = ["pure-dp", "approximate-dp", "syntactic", "sampling-only"]
    assert [charge["kind"] for charge in account.to_json()["charges"]] == kinds


def test_sampling_only_costs_what_it_says(ledger: Ledger) -> None:
    spend(ledger, promise(0, 5e-7, kind="sampling-only"))
    assert ledger.show("shop")[0].spent == (Fraction(0), Fraction(5, 10**7))


def test_a_guarantee_per_query_must_be_converted_first(ledger: Ledger) -> None:
    with pytest.raises(ParameterError) as refused:
        spend(ledger, promise(unit="query", neighbours="replace-query"))
    assert str(refused.value) == (
        "the ledger counts what is spent on each user, this guarantee is for each query; multiply it by the most "
        "that one user adds, and charge that"
    )


def test_neighbouring_relations_do_not_mix(ledger: Ledger) -> None:
    spend(ledger, promise())
    with pytest.raises(ParameterError, match="is accounted for neighbours add-remove-user, this guarantee is for repl"):
        spend(ledger, promise(neighbours="replace-query"))


def test_parameters_are_plain_values(ledger: Ledger) -> None:
    for value in (object(), float("nan"), {1, 2}):
        with pytest.raises(ParameterError, match="parameters must be plain values") as refused:
            ledger.charge("shop", promise(), method="m", parameters={"x": value})
        assert "object" not in str(refused.value)


def test_where_a_release_was_about_to_be(ledger: Ledger, tmp_path: Path) -> None:
    charge = spend(ledger, promise())
    assert ledger.announced() == ()
    ledger.announce(charge, DIGEST, tmp_path / "one")
    ledger.announce(charge.id, DIGEST, tmp_path / "two")  # tried again elsewhere
    ledger.announce(charge, "cd" * 32, tmp_path / "text")
    assert ledger.announced() == ((1, DIGEST, tmp_path / "two"), (1, "cd" * 32, tmp_path / "text"))
    assert ledger.show("shop")[0].charges[0].status == "no release"
    ledger.complete(charge, DIGEST)
    assert ledger.announced() == ((1, "cd" * 32, tmp_path / "text"),)
    with pytest.raises(ParameterError, match="charge must be one that this ledger holds, got 5"):
        ledger.announce(5, DIGEST, tmp_path)


def test_a_ledger_of_the_first_version_is_read_as_it_is_and_brought_up_to_date_by_a_charge(ledger: Ledger) -> None:
    spend(ledger, promise(2))
    connection = sqlite3.connect(ledger.path)
    connection.execute("DROP TABLE announced")
    connection.execute("DROP TABLE journal")
    for name in ("stay", "keep"):
        connection.execute(f"DROP TRIGGER releases_{name}")
    connection.execute("ALTER TABLE populations DROP COLUMN terms")
    connection.execute("ALTER TABLE charges DROP COLUMN cost")
    connection.execute("DROP TABLE lowered")
    connection.execute("DROP TABLE taken")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    before = ledger.path.read_bytes()
    assert ledger.announced() == ()
    assert len(ledger.show("shop")[0].charges) == 1
    assert ledger.path.read_bytes() == before
    charge = spend(ledger, promise(3))
    ledger.announce(charge, DIGEST, Path("/out"))
    assert ledger.announced() == ((2, DIGEST, Path("/out")),)
    assert ledger.show("shop")[0].spent[0] == 5


def test_only_known_charges_are_completed(ledger: Ledger) -> None:
    with pytest.raises(ParameterError, match="charge must be one that this ledger holds, got 5"):
        ledger.complete(5, DIGEST)
    with pytest.raises(ParameterError, match="release_digest must be a SHA-256"):
        ledger.complete(5, "short")


def test_charges_cannot_be_taken_back(ledger: Ledger) -> None:
    spend(ledger, promise())
    connection = sqlite3.connect(ledger.path)
    for statement in ("DELETE FROM charges", "UPDATE charges SET guarantee = '{}'"):
        with pytest.raises(sqlite3.IntegrityError, match="charges stay"):
            connection.execute(statement)
    connection.close()


SPENDER = """
import sys
from querycloak.errors import BudgetRefused
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.ledger import Ledger
ledger = Ledger(sys.argv[1])
promised = dict(kind="approximate-dp", unit="user", neighbours="add-remove-user", epsilon=0.7, delta=1e-8)
guarantee = Guarantee(**promised, because="x")
sys.stdin.readline()
for _ in range(6):
    try:
        print(ledger.charge("shop", guarantee, method="m", parameters={}).id)
    except BudgetRefused:
        print("refused")
"""


def test_eight_processes_cannot_overdraw(ledger: Ledger) -> None:
    command = [sys.executable, "-c", SPENDER, str(ledger.path)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(8)
    ]
    for process in running:
        process.stdin.write("go\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    said = [word for process in running for word in process.communicate()[0].split()]
    assert all(process.returncode == 0 for process in running)
    assert len(said) == 48
    assert sorted(int(word) for word in said if word != "refused") == list(range(1, 12))  # 11 x 0.7 <= 8 < 12 x 0.7
    assert ledger.show("shop")[0].spent[0] == Fraction(77, 10)


def test_a_locked_ledger_is_named(ledger: Ledger) -> None:
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    impatient = Ledger(ledger.path, wait_seconds=0.1)
    with pytest.raises(ResourceError) as refused:
        spend(impatient, promise())
    assert str(refused.value) == (
        "the ledger is locked by another process, for longer than 0.1 seconds; nothing was charged; "
        "try again when that process has ended"
    )
    other.execute("ROLLBACK")
    other.close()
    assert spend(impatient, promise()).id == 1


def foreign_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()


def newer(path: Path) -> None:
    Ledger(path).set_limit("shop", 8, 1e-6)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 6")
    connection.close()


def with_scribbles(path: Path) -> None:
    ledger = Ledger(path)
    ledger.set_limit("shop", 800, 1e-3)
    for _ in range(30):
        spend(ledger, promise())
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)


def with_a_bad_guarantee(path: Path) -> None:
    Ledger(path).set_limit("shop", 8, 1e-6)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO charges VALUES (1, 'shop', 'now', 'm', '{}', '{}', '')")
    connection.commit()
    connection.close()


def with_a_lost_page(path: Path) -> None:
    """A page that no question of today would touch."""
    Ledger(path).set_limit("shop", 8, 1e-6)
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'releases'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = bytes(size)
    path.write_bytes(content)


def cut_off(path: Path) -> None:
    with_scribbles(path)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda path: path.write_text("query\tcount\n" * 20),
            "is not a ledger of querycloak; nothing in it was changed",
        ),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "is not a ledger of querycloak"),
        (
            foreign_sqlite,
            "is not a ledger of querycloak; nothing in it was changed; name another file with Ledger(FILE)",
        ),
        (newer, "is of version 6, this querycloak knows up to 5; nothing in it was changed; use the newer querycloak"),
        (
            with_scribbles,
            "is damaged; nothing in it was changed; an older copy, put back in its place, has forgotten the charges",
        ),
        (with_a_lost_page, "is damaged; nothing in it was changed"),
        (cut_off, "is damaged; nothing in it was changed"),
        (with_a_bad_guarantee, "is damaged; nothing in it was changed"),
        (lambda path: path.mkdir(), "cannot be read: is a directory"),
    ],
)
def test_what_is_not_a_ledger_is_left_as_it_is(tmp_path: Path, make: Callable[[Path], Any], message: str) -> None:
    path = tmp_path / "ledger"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    ledger = Ledger(path)
    calls: list[Callable[[], object]] = [
        ledger.show,
        lambda: ledger.set_limit("shop", 9, 1e-6, why="more"),
        lambda: ledger.check("shop", promise()),
        lambda: spend(ledger, promise()),
    ]
    for call in calls:
        with pytest.raises(InputError) as refused:
            call()
        assert message in str(refused.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert [found.name for found in tmp_path.iterdir()] == ["ledger"]


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.touch()
    assert Ledger(path).show() == ()
    Ledger(path).set_limit("shop", 8, 1e-6)
    assert [account.population for account in Ledger(path).show()] == ["shop"]


def test_a_ledger_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        QuerycloakError, match=r"the ledger .* cannot be (made|read): not a directory; name another file"
    ):
        Ledger(tmp_path / "file" / "ledger").set_limit("shop", 8, 1e-6)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (sqlite3.SQLITE_FULL, "was not changed: the disk is full; name another file"),
        (sqlite3.SQLITE_READONLY, "was not changed: it cannot be written"),
        (sqlite3.SQLITE_IOERR, "was not changed: the disk failed"),
    ],
)
def test_what_the_machine_lacks(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, code: int, message: str) -> None:
    def failing(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("failed")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(sqlite3, "connect", failing)
    with pytest.raises(ResourceError) as refused:
        spend(ledger, promise())
    assert message in str(refused.value)


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYCLOAK_LEDGER", "/there/it.sqlite")
    assert default_path() == Path("/there/it.sqlite")
    monkeypatch.delenv("QUERYCLOAK_LEDGER")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_path() == Path("/data/querycloak/ledger.sqlite")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_path() == Path("/home/me/.local/share/querycloak/ledger.sqlite")


DYING = """
import os, signal, sqlite3, sys
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.ledger import Ledger
connect = sqlite3.connect
def look(sql):
    if sql.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
def dying(*given, **named):
    connection = connect(*given, **named)
    connection.set_trace_callback(look)
    return connection
sqlite3.connect = dying
promised = dict(kind="approximate-dp", unit="user", neighbours="add-remove-user", epsilon=1, delta=1e-8)
guarantee = Guarantee(**promised, because="x")
Ledger(sys.argv[1]).charge("shop", guarantee, method="m", parameters={})
"""


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
def test_killed_inside_a_charge(ledger: Ledger, statement: str) -> None:
    ended = subprocess.run([sys.executable, "-c", DYING, str(ledger.path), statement], check=False)
    assert ended.returncode == -9
    assert ledger.show("shop")[0].charges == ()
    assert spend(ledger, promise()).id == 1
