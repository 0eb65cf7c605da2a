"""Long work of the studio: one task at a time, in a thread, with its progress and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from querycloak.errors import InputError, QuerycloakError
from querycloak.logs.searchlog import OnStep
from querycloak.pages.shown_text import time_left

_UNEXPECTED = "this ended in a way that nobody expected; the same command in a terminal says more"
InWords = Callable[[QuerycloakError], str]


@dataclass(frozen=True)
class TaskState:
    """State of a task. result: its value; problem: reason of its failure; both None while it runs."""

    name: str
    doing: str = ""
    share: float = 0.0
    began: float = 0.0
    first: float = -1.0
    """Share at the first step: what was done before says nothing about the speed."""
    result: Any = None
    problem: str | None = None

    @property
    def time_left(self) -> str:
        """Remaining time in words; empty if unknown."""
        return time_left(time.monotonic() - self.began, self.share - self.first, 1 - self.share)

    @property
    def runs(self) -> bool:
        """True if it has not ended."""
        return self.result is None and self.problem is None


class Background:
    """The task that runs, or the last that ran."""

    def __init__(self, in_words: InWords) -> None:
        self._in_words, self._lock = in_words, threading.Lock()
        self._state: TaskState | None = None
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> TaskState | None:
        """The task's state; None before the first."""
        return self._state

    def start(self, name: str, work: Callable[[OnStep], Any]) -> None:
        """Run work in a thread of its own; refused while another task runs."""
        with self._lock:
            if self._state is not None and self._state.runs:
                raise InputError("something is running already; wait until it has ended")
            self._state = TaskState(name, "starting", began=time.monotonic())
            self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
            self._thread.start()

    def forget(self) -> None:
        """Forget a task that has ended."""
        with self._lock:
            if self._state is not None and not self._state.runs:
                self._state = None

    def join(self) -> None:
        """Wait for the end of the task."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, work: Callable[[OnStep], Any]) -> None:
        end: dict[str, Any] = {"problem": _UNEXPECTED}
        try:
            end = {"result": work(self._on_step)}
        except QuerycloakError as error:
            end = {"problem": self._in_words(error)}
        finally:  # no page may wait for ever; the text of another error may quote the log
            self._end(**end)

    def _on_step(self, doing: str, share: float) -> None:
        if self._state is not None:
            first = share if self._state.first < 0 else self._state.first
            self._state = replace(self._state, doing=doing, share=share, first=first)

    def _end(self, **known: Any) -> None:
        if self._state is not None:
            self._state = replace(self._state, **known)
