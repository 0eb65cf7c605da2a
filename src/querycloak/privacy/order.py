"""The order of a release: count, then pay, then draw. Violations raise OrderError.

`Method.release` sets the step. While a release is counted, nothing may be drawn or paid; while it is paid, nothing may
be drawn; while it is drawn, nothing more may be paid. Outside of a release everything is allowed.

Several threads may release at the same time, each in its own step. A thread without a step, such as one of a pool,
may do only what every running release may do, so a method cannot draw in a thread while it counts. A method whose
threads draw starts them in a copy of its context (`contextvars.copy_context().run`). Processes that a method starts,
and Spark's workers, are not seen here; the contract suite finds their draws, which do not follow the seed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from querycloak.errors import OrderError


class ReleaseStep(Enum):
    """A step of a release; the value completes "it is being ..."."""

    COUNTING = "counted"
    PAYING = "paid"
    DRAWING = "drawn"


_STEP: ContextVar[ReleaseStep | None] = ContextVar("step", default=None)
_RUNNING: list[ReleaseStep] = []
"""The steps that run in this process, in any thread; changed by atomic operations only."""


@contextmanager
def counting() -> Iterator[None]:
    """The log is read and counted: no randomness, no payment."""
    with _step(ReleaseStep.COUNTING):
        yield


@contextmanager
def paying() -> Iterator[None]:
    """The ledger is charged: no randomness yet, except for secret keys, which are never published."""
    with _step(ReleaseStep.PAYING):
        yield


@contextmanager
def drawing() -> Iterator[None]:
    """Noise is drawn, and the tables are made: no payment any more."""
    with _step(ReleaseStep.DRAWING):
        yield


def check_may_draw() -> None:
    """Refuse a draw before the release is paid."""
    _check("random numbers must be drawn after the release is paid", ReleaseStep.DRAWING)


def check_may_make_secrets() -> None:
    """Refuse a secret key while the log is counted: what is counted must not depend on it."""
    _check("secret keys must be made after the log is counted", ReleaseStep.PAYING, ReleaseStep.DRAWING)


def check_may_pay() -> None:
    """Refuse a payment before everything is counted, or after the first draw."""
    _check("a release must be paid after the log is counted and before anything is drawn", ReleaseStep.PAYING)


@contextmanager
def _step(step: ReleaseStep) -> Iterator[None]:
    running = _STEP.get()
    if running is not None:
        raise OrderError(
            f"the steps of a release must come one after another, but it is being {running.value} when it is to be "
            f"{step.value}; a method must not release another one: this is a bug in the method"
        )
    token = _STEP.set(step)
    _RUNNING.append(step)
    try:
        yield
    finally:
        _RUNNING.remove(step)
        _STEP.reset(token)


def _check(rule: str, *allowed: ReleaseStep) -> None:
    own = _STEP.get()
    if own is not None:
        if own not in allowed:
            raise OrderError(f"{rule}; this release is being {own.value}: this is a bug in the method")
        return
    forbidding = [step for step in tuple(_RUNNING) if step not in allowed]
    if forbidding:
        raise OrderError(
            f"{rule}; this thread belongs to no release, and one in another thread is being {forbidding[0].value}; if "
            "the thread works for a release that may, start it in a copy of its context (contextvars.copy_context)"
        )
