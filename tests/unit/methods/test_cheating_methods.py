"""Methods that try to draw early, to pay twice or elsewhere, or to lie: each is stopped, and says that it is a bug."""

from __future__ import annotations

import ast
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import querycloak
from querycloak.engines import Engine
from querycloak.errors import EngineError, OrderError, ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods import method as base
from querycloak.methods.method import Counted, Drawn, Method, final_names
from querycloak.methods.option import option
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.payment import NobodyPays
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness, secret_key
from querycloak.releases.release import Release
from tests.logs import ROWS, aol, write

SOURCE = Path(querycloak.__file__).parent
TABLES: dict[str, Any] = {"queries": pa.table({"query": ["zebra"], "count": pa.array([3], pa.int64())})}
DRAWN = Drawn(TABLES, "one-draw")


@dataclass(frozen=True)
class Waiting:
    """What was counted; `then` happens in the draw."""

    then: Callable[[Randomness], object] = lambda randomness: randomness.noise(Laplace(1), 1)
    drawn: Any = DRAWN

    def draw(self, randomness: Randomness) -> Any:
        self.then(randomness)
        return self.drawn


@dataclass(frozen=True, kw_only=True)
class Trick(Method):
    """Does in `count` and `draw` what a test says."""

    name = "trick"
    summary = "Tries to cheat."
    counting: ClassVar[Callable[[SearchLog], Any]] = staticmethod(lambda log: Waiting())
    queries: int | None = option(help="How many queries of a user one charge pays for.")

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": 1.0}

    def proven(self) -> Guarantee:
        return user_guarantee(1.0, None, "a test")

    @property
    def campaign(self) -> int | None:
        return self.queries

    def count(self, log: SearchLog) -> Counted:
        found: Counted = type(self).counting(log)
        return found


@pytest.fixture
def log(duckdb_engine: Engine, tmp_path: Path) -> SearchLog:
    return read(write(tmp_path / "log.tsv", aol(ROWS)), engine=duckdb_engine)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    made.set_limit("people", 8, 0)
    return made


def counts_by(counting: Callable[[SearchLog], Any]) -> Trick:
    kind = type("Trick", (Trick,), {"counting": staticmethod(counting), "__doc__": "One trick."})
    made: Trick = kind()
    return made


def released(method: Method, log: SearchLog, ledger: Ledger) -> Release:
    return method.release(log, ledger=ledger, population="people")


def charges(ledger: Ledger) -> int:
    return len(ledger.show("people")[0].charges)


def in_a_thread(act: Callable[[], object]) -> Callable[[], None]:
    """Acts in a thread of its own, and raises what happened there."""

    def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(act).result()

    return run


def test_a_method_without_tricks_is_released_and_charged_once(log: SearchLog, ledger: Ledger) -> None:
    release = released(counts_by(lambda _: Waiting()), log, ledger)
    assert release.table("queries").num_rows == 1
    assert charges(ledger) == 1


# Each of these happens while the log is counted.
EARLY: dict[str, tuple[Callable[[Ledger], object], str]] = {
    "draws": (lambda _: Randomness().noise(Laplace(1), 1), "random numbers must be drawn after the release is paid"),
    "draws with a seed": (lambda _: Randomness(seed=1).below(2, 1), "must be drawn after the release is paid"),
    "makes a secret": (lambda _: secret_key(), "secret keys must be made after the log is counted"),
    "charges": (
        lambda ledger: ledger.charge("people", user_guarantee(1.0, None, "a test"), method="trick", parameters={}),
        "a release must be paid after the log is counted and before anything is drawn",
    ),
    "pays": (
        lambda ledger: Trick().payment(ledger, "people").pay(Waiting()),
        "a release must be paid after the log is counted",
    ),
}


@pytest.mark.parametrize("trick", EARLY)
@pytest.mark.parametrize("place", ["itself", "a thread", "a thread with its context"])
def test_nothing_is_drawn_or_paid_while_the_log_is_counted(
    trick: str, place: str, log: SearchLog, ledger: Ledger
) -> None:
    act, message = EARLY[trick]

    def counting(_: SearchLog) -> Waiting:
        def acting() -> object:
            return act(ledger)

        context = contextvars.copy_context()
        if place == "itself":
            acting()
        elif place == "a thread":
            in_a_thread(acting)()
        else:
            in_a_thread(lambda: context.run(acting))()
        return Waiting()

    with pytest.raises(OrderError, match=message):
        released(counts_by(counting), log, ledger)
    assert charges(ledger) == 0


def test_a_thread_that_lives_before_and_is_handed_its_randomness_draws_nothing(log: SearchLog, ledger: Ledger) -> None:
    """A pool of threads, and a Randomness made outside: neither is of the release, and both are stopped."""
    source = Randomness()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()

        def counting(_: SearchLog) -> Waiting:
            pool.submit(source.below, 2, 1).result()
            return Waiting()

        with pytest.raises(OrderError, match="this thread belongs to no release, and one in another thread is"):
            released(counts_by(counting), log, ledger)
    assert charges(ledger) == 0
    assert source.below(2, 1).size == 1


@pytest.mark.parametrize("place", ["itself", "a thread"])
@pytest.mark.parametrize("trick", ["charges", "pays"])
def test_nothing_more_is_paid_while_it_is_drawn(trick: str, place: str, log: SearchLog, ledger: Ledger) -> None:
    act, message = EARLY[trick]

    def run(_: Randomness) -> None:
        if place == "itself":
            act(ledger)
        else:
            in_a_thread(lambda: act(ledger))()

    with pytest.raises(OrderError, match=message):
        released(counts_by(lambda _: Waiting(run)), log, ledger)
    assert charges(ledger) == 1


def test_a_thread_may_help_to_draw(log: SearchLog, ledger: Ledger) -> None:
    drawn: list[int] = []

    def helped(randomness: Randomness) -> None:
        in_a_thread(lambda: drawn.extend(randomness.below(2, 3)))()

    released(counts_by(lambda _: Waiting(helped)), log, ledger)
    assert len(drawn) == 3


def test_two_threads_may_release_at_the_same_time(duckdb_engine: Engine, tmp_path: Path, ledger: Ledger) -> None:
    """One is drawn, also by a helper in a copy of its context, while the other is still counted."""
    path = write(tmp_path / "log.tsv", aol(ROWS))
    counts, has_drawn = threading.Event(), threading.Event()
    drawn: list[int] = []

    def slow(_: SearchLog) -> Waiting:
        counts.set()
        assert has_drawn.wait(60)
        return Waiting()

    def helped(randomness: Randomness) -> None:
        assert counts.wait(60)
        drawn.extend(randomness.below(2, 1))
        context = contextvars.copy_context()
        in_a_thread(lambda: context.run(lambda: drawn.extend(randomness.below(2, 1))))()
        has_drawn.set()

    with ThreadPoolExecutor(1) as pool, read(path) as other:
        slowly = pool.submit(released, counts_by(slow), other, ledger)
        released(counts_by(lambda _: Waiting(helped)), read(path, engine=duckdb_engine), ledger)
        slowly.result()
    assert len(drawn) == 2
    assert charges(ledger) == 2


def test_a_payment_pays_once(log: SearchLog, ledger: Ledger) -> None:
    payment = Trick().payment(ledger, "people")
    payment.pay(Waiting())
    with pytest.raises(OrderError, match="must be paid once, and this one has been: this is a bug in the method"):
        payment.pay(Waiting())
    assert charges(ledger) == 1


@pytest.mark.parametrize("place", ["counted", "drawn"])
def test_a_method_cannot_release_another(place: str, log: SearchLog, ledger: Ledger) -> None:
    def release_it(*_: object) -> Any:
        return released(Trick(), log, ledger)

    method = counts_by(release_it if place == "counted" else lambda _: Waiting(release_it))
    with pytest.raises(OrderError, match=f"it is being {place} when it is to be counted; a method must not release an"):
        released(method, log, ledger)
    assert charges(ledger) == (place == "drawn")


@pytest.mark.parametrize("counted", [None, {"queries": 3}, "draw", iter([Waiting()])])
def test_what_is_counted_must_be_there_to_be_drawn_before_it_is_paid(
    counted: object, log: SearchLog, ledger: Ledger
) -> None:
    with pytest.raises(OrderError, match=r"count must return something that has draw\(randomness\): this is a bug in "):
        released(counts_by(lambda _: counted), log, ledger)
    assert charges(ledger) == 0


def test_a_campaign_must_know_users_before_it_is_paid(log: SearchLog, ledger: Ledger) -> None:
    with pytest.raises(OrderError, match=r"needs each user's queries \(CountedByUser\): this is a bug"):
        released(Trick(queries=3), log, ledger)
    assert charges(ledger) == 0


class Batch:
    """Record batches that can be read once."""

    schema = TABLES["queries"].schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        raise StopIteration


WRONG: dict[str, tuple[object, str]] = {
    "no Drawn": (TABLES, r"draw must return Drawn\(tables, counts\): this is a bug in the method trick"),
    "no table": (Drawn({}, "exact"), "tables must hold at least one table"),
    "unknown table": (Drawn({"people": TABLES["queries"]}, "exact"), "tables must be named after their kind"),
    "other columns": (Drawn({"clicks": TABLES["queries"]}, "exact"), "table clicks must have the columns query"),
    "read once": (Drawn({"queries": Batch()}, "exact"), "table queries must be readable again and again"),
    "unknown counts": (Drawn(TABLES, "guessed"), "counts must be one of one-draw"),
    "unknown rows": (Drawn(TABLES, "exact", rows="odd"), "rows must be one of asked"),  # type: ignore[arg-type]
    "another epsilon": (Drawn(TABLES, "exact", parameters={"epsilon": 0.1}), "epsilon was settled before the draw"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_drawn_must_be_what_was_declared(what: str, log: SearchLog, ledger: Ledger) -> None:
    drawn, message = WRONG[what]
    with pytest.raises((OrderError, ParameterError), match=message):
        released(counts_by(lambda _: Waiting(drawn=drawn)), log, ledger)
    assert charges(ledger) == 1


@pytest.mark.parametrize(
    "table",
    [{"query": ["zebra"], "count": ["many"]}, {"query": [None], "count": [3]}, {"query": ["a"], "count": [1.5]}],
)
def test_rows_that_do_not_fit_are_not_written(
    table: dict[str, Any], log: SearchLog, ledger: Ledger, tmp_path: Path
) -> None:
    release = released(counts_by(lambda _: Waiting(drawn=Drawn({"queries": pa.table(table)}, "exact"))), log, ledger)
    with pytest.raises(EngineError, match="a method handed over rows that do not fit its table"):
        release.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert ledger.show("people")[0].charges[0].status == "no release"


@pytest.mark.parametrize("name", final_names())
def test_what_is_final_cannot_be_defined_again(name: str) -> None:
    def mine(self: Any, *_: Any, **more: Any) -> None:
        """Not what every method does."""

    with pytest.raises(TypeError, match=f"Own must not define {name}: every method is released the same way"):
        type("Own", (Trick,), {name: mine})
    beside = type("Beside", (), {name: mine})
    with pytest.raises(TypeError, match=f"Own must not define {name}"):
        type("Own", (beside, Trick), {})
    with pytest.raises(TypeError, match=f"Own must not define {name}"):
        type("Own", (beside, Method), {})


def nobody_pays(self: Any, *_: Any, **more: Any) -> NobodyPays:
    """Not how a release is paid."""
    return NobodyPays()


def test_a_method_cannot_answer_for_every_name() -> None:
    with pytest.raises(TypeError, match="Own must not define __getattribute__"):
        type("Own", (Trick,), {"__getattribute__": nobody_pays})


def test_help_shows_what_a_method_takes() -> None:
    assert str(inspect.signature(Trick)) == "(*, variant: 'str' = 'default', queries: 'int | None' = None) -> None"


def test_final_names_are_those_marked_as_final() -> None:
    tree = ast.parse(Path(base.__file__).read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Method")
    final = [
        node.name
        for node in found.body
        if isinstance(node, ast.FunctionDef) and "final" in [ast.unparse(each) for each in node.decorator_list]
    ]
    assert final == final_names()
    assert {"release", "payment", "bill", "describe"} <= set(final)


def test_the_card_says_what_was_billed_whatever_a_method_says_later(log: SearchLog, ledger: Ledger) -> None:
    """What is proven is asked for once, so that a method cannot bill one guarantee and print another."""
    answers = iter([4.0, 0.1, 0.2, 0.3, 0.4])

    class Changing(Trick):
        def proven(self) -> Guarantee:
            return user_guarantee(next(answers), None, "a test")

    release = released(Changing(), log, ledger)
    assert release.proven.epsilon == 4.0
    (charged,) = ledger.show("people")[0].charges
    assert charged.guarantee.epsilon == 4.0


def looked_up_by_name(path: Path) -> Iterator[tuple[int, str]]:
    """Where a module asks by name what a thing has: the line, and what the thing is called there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr", "delattr"):
            yield node.lineno, ast.unparse(node.args[0])


def test_methods_are_not_looked_at_by_name() -> None:
    """A method is what its base says: nobody asks whether it happens to have an attribute."""
    found = [
        f"{path.relative_to(SOURCE)}:{line} {thing}"
        for path in SOURCE.rglob("*.py")
        for line, thing in looked_up_by_name(path)
        if path.is_relative_to(SOURCE / "methods") or re.search("method|kind|counted|payment|cls", thing)
    ]
    assert not found
