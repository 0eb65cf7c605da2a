"""Signals that end a command: they interrupt its work, but not its clean-up.

The command line lets `interrupt` handle them; a Python program has its own handlers.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
received: list[int] = []
"""The signals that have come since the command began."""
_cleaning: list[bool] = []


def interrupt(number: int, _: object) -> None:
    """Signal handler: it interrupts, but lets a clean-up under way finish first."""
    received.append(number)
    if not _cleaning:
        raise KeyboardInterrupt


def handle_signals() -> None:
    """Let `interrupt` answer signals, but those that a shell lets its command outlive."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


@contextmanager
def unheard() -> Iterator[None]:
    """The last words of a command: signals are noted, and interrupt nothing any more."""
    _cleaning.append(True)
    try:
        yield
    finally:
        _cleaning.pop()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A clean-up that no further signal cuts short; one that comes meanwhile interrupts afterwards."""
    before = len(received)
    _cleaning.append(True)
    try:
        yield
    finally:
        _cleaning.pop()
    if len(received) > before and not _cleaning:
        raise KeyboardInterrupt


def interruptibly(work: Callable[[], Result], seconds: float | None = None) -> Result:
    """Result of compiled work or a wait that looks for no signals: it is done in a thread, so that signals end it.

    A TimeoutError after this number of seconds; None: no end. The thread goes on until the process ends.
    """
    call: Future[Result] = Future()

    def done() -> None:
        try:
            call.set_result(work())
        except BaseException as error:  # broad: raised again where the result is waited for
            call.set_exception(error)

    threading.Thread(target=done, daemon=True).start()
    return call.result(seconds)
