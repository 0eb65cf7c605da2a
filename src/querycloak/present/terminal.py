"""The terminal: progress on stderr for people, results on stdout."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from querycloak.engines.engine import OnBytes

_BAR = 32


def console() -> Console:
    """Where results go."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


@contextlib.contextmanager
def reading_progress(total_bytes: int, what: str, *, quiet: bool) -> Iterator[OnBytes | None]:
    """A bar of bytes read, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(_BAR), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total_bytes)

        def advance(size: int) -> None:
            progress.advance(task, size)
            if progress.tasks[0].finished:
                progress.update(task, description="counting", total=None)

        yield advance


def bars(shares: Sequence[tuple[str, float]]) -> Iterator[str]:
    """A bar chart of shares, a line each."""
    largest = max((share for _, share in shares), default=0) or 1
    for label, share in shares:
        yield f"{label:>4} {'█' * round(_BAR * share / largest):<{_BAR}} {share:6.1%}"
