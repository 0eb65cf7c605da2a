"""The order in which a release is made: count, then pay, then draw. Who breaks it is stopped.

`Method.release` says which step it is in. While a release is counted, nothing may be drawn or paid; while it is paid,
nothing may be drawn; while it is drawn, nothing more may be paid. Outside of a release everything is allowed.

A thread has no step of its own, unless it releases something itself. So it may do only what every release that runs in
this process may do: a thread that a method starts while it counts cannot draw either. Several threads may release at
the same time. A method whose threads draw starts them in a copy of its context (`contextvars.copy_context().run`):
then they are in the step of their own release, whatever others do. A process that a method starts is out of sight, as
are Spark's workers, unless it is forked. The contract suite finds what is drawn there: it does not follow the seed.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from querycloak.errors import OrderError

__all__ = ["check_may_draw", "check_may_make_secrets", "check_may_pay", "counting", "drawing", "paying"]


class Step(Enum):
    """What is being done to a release."""

    COUNTING = "counted"
    PAYING = "paid"
    DRAWING = "drawn"


_STEP: ContextVar[Step | None] = ContextVar("step", default=None)
_RUNNING: list[Step] = []
"""The steps that are running in this process, in any thread."""
_LOCK = threading.Lock()


@contextmanager
def counting() -> Iterator[None]:
    """The log is read and counted: no randomness, no payment."""
    with _step(Step.COUNTING):
        yield


@contextmanager
def paying() -> Iterator[None]:
    """The ledger is charged: no randomness yet, except for keys that nobody publishes."""
    with _step(Step.PAYING):
        yield


@contextmanager
def drawing() -> Iterator[None]:
    """Noise is drawn, and the tables are made: no payment any more."""
    with _step(Step.DRAWING):
        yield


def check_may_draw() -> None:
    """Refuse a draw before the release is paid."""
    _check("random numbers must be drawn after the release is paid", Step.DRAWING)


def check_may_make_secrets() -> None:
    """Refuse a secret key while the log is counted: what is counted must not depend on it."""
    _check("secret keys must be made after the log is counted", Step.PAYING, Step.DRAWING)


def check_may_pay() -> None:
    """Refuse a payment before everything is counted, or after the first draw."""
    _check("a release must be paid after the log is counted and before anything is drawn", Step.PAYING)


@contextmanager
def _step(step: Step) -> Iterator[None]:
    running = _STEP.get()
    if running is not None:
        raise OrderError(
            f"the steps of a release must come one after another, but it is being {running.value} when it is to be "
            f"{step.value}; a method must not release another one: this is a bug in the method"
        )
    token = _STEP.set(step)
    with _LOCK:
        _RUNNING.append(step)
    try:
        yield
    finally:
        with _LOCK:
            _RUNNING.remove(step)
        _STEP.reset(token)


def _check(rule: str, *allowed: Step) -> None:
    own = _STEP.get()
    if own is not None:
        if own not in allowed:
            raise OrderError(f"{rule}; this release is being {own.value}: this is a bug in the method")
        return
    with _LOCK:
        forbidding = [step for step in _RUNNING if step not in allowed]
    if forbidding:
        raise OrderError(
            f"{rule}; this thread belongs to no release, and one in another thread is being {forbidding[0].value}; if "
            "the thread works for a release that may, start it in a copy of its context (contextvars.copy_context)"
        )


def _forget_other_threads() -> None:
    """A forked process has the thread that forked it, and none of the others."""
    global _LOCK  # noqa: PLW0603 (somebody else may have held it)
    _LOCK = threading.Lock()
    own = _STEP.get()
    _RUNNING[:] = [] if own is None else [own]


os.register_at_fork(after_in_child=_forget_other_threads)
