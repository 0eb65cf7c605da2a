"""The terminal: progress on stderr for people, results on stdout."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from querycloak.pages.shown_text import time_left

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, Task, TaskID
    from rich.text import Text

    from querycloak.synthetic.log_writer import OnUsers

_BAR = 32


def print_json(document: Any, *, allow_nan: bool = True) -> None:
    """Print a document on one line of stdout."""
    json.dump(document, sys.stdout, allow_nan=allow_nan)
    sys.stdout.write("\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout."""
    sys.stdout.write("\n".join(lines) + "\n")


def console() -> Console:
    """Console for results."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  (rich would end the process as if something had failed)

    return Results(highlight=False, soft_wrap=False)


class Watching:
    """A bar of bytes read, then one of each long step."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def read(self, size: int) -> None:
        """This number of further bytes was read."""
        self._progress.advance(self._task, size)
        if self._progress.tasks[0].finished:
            self.step("counting", 0.0)

    def step(self, what: str, share: float) -> None:
        """Show this share of a step; 0 shows a bar without an end."""
        total = 1.0 if share else None
        self._progress.update(self._task, description=what, total=total, completed=share, share=share)


@contextlib.contextmanager
def reading_progress(total_bytes: int, what: str, *, quiet: bool) -> Iterator[Watching | None]:
    """A bar of what is being done, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(_BAR), _amount_column(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Watching(progress, progress.add_task(what, total=total_bytes))


@contextlib.contextmanager
def files_progress(*, quiet: bool) -> Iterator[Callable[[str, float], None] | None]:
    """A line as soon as a log has many files, and a bar on a terminal; nothing for other logs."""
    if quiet:
        yield None
        return
    with contextlib.ExitStack() as stack:
        bars: list[Watching | None] = []

        def tell(doing: str, share: float) -> None:
            if not bars:
                line = f"querycloak: {doing}: each takes about two milliseconds; fewer and larger files are read sooner"
                sys.stderr.write(f"{line}\n")
                bars.append(stack.enter_context(reading_progress(1, doing, quiet=False)))
            if bars[0] is not None:
                bars[0].step(doing, share)

        yield tell


@contextlib.contextmanager
def step_progress(what: str, *, quiet: bool) -> Iterator[Callable[[str, float], None] | None]:
    """A bar over steps of different lengths, with the time left; on a terminal only.

    The time left follows from the speed of this process: work of earlier ones does not count.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(_BAR), TextColumn("{task.percentage:3.0f} %"), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        began, first = time.monotonic(), [-1.0]

        def tell(doing: str, share: float) -> None:
            if first[0] < 0:
                first[0] = share
            left = time_left(time.monotonic() - began, share - first[0], 1 - share)
            progress.update(task, completed=share, description=f"{doing}{left}")

        yield tell


@contextlib.contextmanager
def making_progress(users: int, *, quiet: bool) -> Iterator[OnUsers | None]:
    """A bar of users made, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("making users"), BarColumn(_BAR), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=users)
        yield lambda number: progress.advance(task, number)


def _amount_column() -> ProgressColumn:
    """Bytes while reading, a share afterwards."""
    from rich.progress import DownloadColumn
    from rich.text import Text

    class Amount(DownloadColumn):
        def render(self, task: Task) -> Text:
            share = task.fields.get("share")
            if share is None:
                return super().render(task)
            return Text(f"{share:.0%}" if share else "")

    return Amount()


def bars(shares: Sequence[tuple[str, float]]) -> Iterator[str]:
    """A bar chart of shares, a line each."""
    largest = max((share for _, share in shares), default=0) or 1
    for label, share in shares:
        yield f"{label:>4} {'█' * round(_BAR * share / largest):<{_BAR}} {share:6.1%}"
