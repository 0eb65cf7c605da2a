"""The options that commands share, and what they mean together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from querycloak.errors import InputError, ParameterError

if TYPE_CHECKING:
    from querycloak.logs.choices import Choices
    from querycloak.logs.searchlog import SearchLog

Logs = Annotated[list[str], typer.Argument(metavar="LOG...", help="Files, folders or addresses of the log.")]
LogFormat = Annotated[str | None, typer.Option(help="aol, excite, sogou, ubi or table; told by the log if not given.")]
Columns = Annotated[str | None, typer.Option(help="Which columns of a table are ours: user=...,time=...,query=...[,rank=...,url=...].")]  # noqa: E501  # fmt: skip
Encoding = Annotated[str | None, typer.Option(help="The log's encoding; UTF-8 if not given (sogou: or GB18030).")]
Since = Annotated[str | None, typer.Option(help="Leave out what is earlier (2006-03-01, or with a time).")]
Until = Annotated[str | None, typer.Option(help="Leave out this time and what is later.")]
Applications = Annotated[str | None, typer.Option(help="Applications of a ubi log to keep, with commas.")]
LeaveOut = Annotated[Path | None, typer.Option(help="File of users to leave out (bots, staff), one a line.")]
KeepUrl = Annotated[Literal["full", "path", "host"], typer.Option(help="How much of an address to keep.")]
Normalise = Annotated[bool, typer.Option("--normalise/--no-normalise", help="NFKC, lower case, single blanks.")]
ClickActions = Annotated[str, typer.Option(help="Actions of a ubi log that are clicks, with commas.")]
MaxBad = Annotated[float, typer.Option(help="The share of bad rows from which a log is refused.")]
SetAside = Annotated[Path | None, typer.Option(help="Private file for the rows set aside, as they stand.")]
GapMinutes = Annotated[float, typer.Option(help="The pause that ends a session.")]
EngineName = Annotated[str, typer.Option("--engine", help="duckdb, spark, spark://host:port or sc://host:port.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use; all cores if not given.")]
Memory = Annotated[str | None, typer.Option(help="Memory before spilling to disk, such as 3GB.")]
Composition = Annotated[Literal["sum", "pld"], typer.Option(help="sum, or pld: privacy-loss distributions beside the sum.")]  # noqa: E501  # fmt: skip
AtDelta = Annotated[float | None, typer.Option(help="pld: the delta at which epsilon is stated; twice the sum if not given.")]  # noqa: E501  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output, and nothing else on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars.")]


def tightly(composition: str, at_delta: float | None) -> bool:
    """Whether privacy-loss distributions are asked for."""
    if at_delta is not None and composition != "pld":
        raise ParameterError("--at-delta goes with --composition pld; sums have the sum of deltas")
    return composition == "pld"


def choices(
    since: str | None,
    until: str | None,
    applications: str | None,
    leave_out: Path | None,
    keep_url: Literal["full", "path", "host"],
    normalise: bool,
    click_actions: str,
) -> Choices:
    """The owner's choices."""
    from querycloak.logs.choices import Choices

    return Choices(
        since=_moment("since", since),
        until=_moment("until", until),
        applications=_listed(applications),
        leave_out=_users(leave_out),
        keep_url=keep_url,
        normalise=normalise,
        click_actions=_listed(click_actions),
    )


@contextlib.contextmanager
def open_log(
    logs: list[str],
    log_format: str | None,
    columns: str | None,
    encoding: str | None,
    chosen: Choices,
    max_bad: float,
    engine: str,
    threads: int | None,
    memory: str | None,
    *,
    quiet: bool,
) -> Iterator[SearchLog]:
    """The log, with a progress bar while it is read."""
    from querycloak.engines import connect
    from querycloak.logs.formats.table import parse_mapping
    from querycloak.logs.searchlog import prepare
    from querycloak.present.terminal import reading_progress

    mapping = parse_mapping(columns) if columns is not None else None
    prepared = prepare(logs, log_format=log_format, columns=mapping, encoding=encoding, choices=chosen)
    with reading_progress(prepared.source.size, "reading", quiet=quiet) as watching:
        running = connect(engine, threads=threads, memory=memory)
        try:
            on_bytes, on_step = (watching.read, watching.step) if watching else (None, None)
            yield prepared.on(running, max_bad=max_bad, on_bytes=on_bytes, on_step=on_step)
        finally:
            running.close()


def _moment(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise ParameterError(f"{name} must be a date such as 2006-03-01, or with a time 2006-03-01T12:00; it is {text!r}")


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(piece.strip() for piece in text.split(",") if piece.strip()) if text else ()


def _users(path: Path | None) -> frozenset[str]:
    if path is None:
        return frozenset()
    try:
        lines = path.read_text("utf-8").splitlines()
        return frozenset(line.strip() for line in lines if line.strip())
    except (OSError, UnicodeError):
        pass
    raise InputError("the file given with --leave-out cannot be read; it must be UTF-8 text, one user a line")
