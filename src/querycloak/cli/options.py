"""The options that commands share, and what they mean together."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from querycloak.errors import InputError, ParameterError
from querycloak.privacy.parameters import refusal
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.choices import Choices
    from querycloak.logs.searchlog import Prepared, SearchLog
    from querycloak.methods.method import Method
    from querycloak.privacy.ledger.ledger import Ledger


def completing(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell offers for an option of free text: the words that are known."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


def _formats() -> Iterable[str]:
    from querycloak.logs.formats.detection import FORMATS

    return FORMATS


Logs = Annotated[list[str], typer.Argument(metavar="LOG...", help="Files, folders or addresses of the log.")]
LogFormat = Annotated[
    str | None,
    typer.Option(
        help="aol, excite, sogou, ubi, csv, jsonl or parquet; recognised by its lines if not given.",
        autocompletion=completing(_formats),
    ),
]
Columns = Annotated[str | None, typer.Option(help="Columns of a table: user=WHO,time=WHEN,query=TEXT, and rank=..., url=... if any.")]  # noqa: E501  # fmt: skip
Encoding = Annotated[str | None, typer.Option(help="The log's encoding; UTF-8 if not given (sogou: or GB18030).")]
UNSEEN = "Choose it without looking at the log: no guarantee covers a choice that depends on the log."
Since = Annotated[str | None, typer.Option(help=f"Leave out earlier rows (2006-03-01, or with a time). {UNSEEN}")]
Until = Annotated[str | None, typer.Option(help=f"Leave out rows of this time and later. {UNSEEN}")]
Applications = Annotated[str | None, typer.Option(help="Applications of a ubi log to keep, with commas.")]
LeaveOut = Annotated[Path | None, typer.Option(help=f"File of users to leave out (bots, staff), one a line. {UNSEEN}")]
KeepUrl = Annotated[Literal["full", "path", "host"], typer.Option(help="How much of an address to keep.")]
Normalise = Annotated[bool, typer.Option("--normalise/--no-normalise", help="NFKC, lower case, single blanks.")]
ClickActions = Annotated[str, typer.Option(help="Actions of a ubi log that are clicks, with commas.")]
MaxBad = Annotated[float | None, typer.Option(help="Refuse a log if a larger share of its rows is bad (see docs/codes.md).")]  # noqa: E501  # fmt: skip
TimeFormat = Annotated[str | None, typer.Option(help="Times of a table: day-first, month-first, or a pattern such as %d/%b/%Y:%H:%M:%S.")]  # noqa: E501  # fmt: skip
Compression = Annotated[str | None, typer.Option(help="none, gzip, bz2 or zstd; recognised by the files if not given.")]
FollowLinks = Annotated[bool, typer.Option("--follow-links", help="Follow links in a folder.")]
SetAside = Annotated[Path | None, typer.Option(help="Private file for the rows set aside, unchanged.")]
ForUsers = Annotated[
    int | None, typer.Option(help="Find the epsilon with which keys of this many users come out (95 %).")
]
ForError = Annotated[
    int | None, typer.Option(help="Find the epsilon with which noise changes a count by at most this (95 %).")
]
AtUsers = Annotated[int | None, typer.Option(help="With --for-error: how many users the key has.")]
GapMinutes = Annotated[float, typer.Option(help="The pause that ends a session, in minutes.")]
EngineName = Annotated[str, typer.Option("--engine", help="duckdb, spark, spark://host:port or sc://host:port.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use; all cores if not given.")]
Memory = Annotated[str | None, typer.Option(help="Memory before spilling to disk, such as 3GB.")]
Composition = Annotated[Literal["sum", "pld"], typer.Option(help="sum, or pld: privacy-loss distributions beside the sum.")]  # noqa: E501  # fmt: skip
AtDelta = Annotated[float | None, typer.Option(help="pld: the delta at which epsilon is stated; twice the sum if not given.")]  # noqa: E501  # fmt: skip
LedgerToCharge = Annotated[Path | None, typer.Option(help="The ledger to charge; your own if only --population is given.")]  # noqa: E501  # fmt: skip
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="The ledger's file; your own if not given.")]
Population = Annotated[str | None, typer.Option(help="The ledger's name for the people in the log.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output, and nothing else on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars.")]


class OptionGroup:
    """Options that belong together: a command that takes a group has one for each of its fields."""


@dataclass(frozen=True)
class Reading(OptionGroup):
    """How a log is to be read: the options of all commands that read one."""

    log_format: LogFormat = None
    columns: Columns = None
    encoding: Encoding = None
    time_format: TimeFormat = None
    compression: Compression = None
    follow_links: FollowLinks = False
    since: Since = None
    until: Until = None
    applications: Applications = None
    leave_out: LeaveOut = None
    keep_url: KeepUrl = "path"
    normalise: Normalise = True
    click_actions: ClickActions = "click"
    max_bad: MaxBad = None
    engine: EngineName = "duckdb"
    threads: Threads = None
    memory: Memory = None

    def choices(self) -> Choices:
        """The owner's choices."""
        from querycloak.logs.choices import Choices

        return Choices(
            since=_moment("since", self.since),
            until=_moment("until", self.until),
            applications=_listed(self.applications),
            leave_out=_users(self.leave_out),
            keep_url=self.keep_url,
            normalise=self.normalise,
            click_actions=_listed(self.click_actions),
        )

    def prepared(self, logs: list[str]) -> Prepared:
        """The log before any engine is started."""
        from querycloak.logs.formats.table import parse_mapping
        from querycloak.logs.searchlog import prepare

        chosen = self.choices()
        mapping = parse_mapping(self.columns) if self.columns is not None else None
        return prepare(
            logs,
            log_format=self.log_format,
            columns=mapping,
            encoding=self.encoding,
            choices=chosen,
            time_format=self.time_format,
            compression=self.compression,
            follow_links=self.follow_links,
        )

    @contextlib.contextmanager
    def open(self, logs: list[str], *, quiet: bool, out: Path | None = None) -> Iterator[SearchLog]:
        """The log, with a progress bar while it is read; `out` is what will be written."""
        from querycloak.cli.terminal import reading_progress
        from querycloak.engines import connect

        check_apart(out, logs)
        prepared = self.prepared(logs)
        with reading_progress(prepared.source.size, "reading", quiet=quiet) as watching:
            running = connect(self.engine, threads=self.threads, memory=self.memory)
            try:
                on_bytes, on_step = (watching.read, watching.step) if watching else (None, None)
                yield prepared.on(running, max_bad=self.max_bad, on_bytes=on_bytes, on_step=on_step)
            finally:
                running.close()


@dataclass(frozen=True)
class Composing(OptionGroup):
    """How budgets are added up."""

    composition: Composition = "sum"
    at_delta: AtDelta = None

    @property
    def tightly(self) -> bool:
        """Whether privacy-loss distributions are asked for."""
        if self.at_delta is not None and self.composition != "pld":
            raise ParameterError(Sentence("{at_delta} goes with {composition:pld}; sums have the sum of deltas"))
        return self.composition == "pld"


@dataclass(frozen=True)
class AccuracyOptions(OptionGroup):
    """What is wanted of counts, from which epsilon follows."""

    for_users: ForUsers = None
    for_error: ForError = None
    at_users: AtUsers = None

    def method(self, kind: type[Method], options: Mapping[str, Any]) -> Method:
        """The method with these options, at the epsilon that is given or at the one that is solved for."""
        if self.for_error is None and self.at_users is not None:
            raise ParameterError(Sentence("{at_users} goes with {for_error}: how far noise may carry a count"))
        if self.for_error is not None and (self.at_users is None or self.for_users is not None):
            raise ParameterError(Sentence("{for_error} goes with {at_users}, the users of a key, and not {for_users}"))
        if self.for_users is not None:
            return kind.for_users(self.for_users, **options)
        if self.for_error is not None and self.at_users is not None:
            return kind.for_error(self.for_error, at_users=self.at_users, **options)
        return kind(**options)

    @property
    def said(self) -> str | None:
        """The wish as a line for people, if there is one."""
        if self.for_users is not None:
            return f"smallest with which keys of {self.for_users:,} users come out (95 %, worse end)"
        if self.for_error is not None:
            return f"smallest with which keys of {self.at_users:,} users come out within {self.for_error:,} (95 %)"
        return None


@dataclass(frozen=True)
class Charging(OptionGroup):
    """Who pays for a release."""

    ledger: LedgerToCharge = None
    population: Population = None

    def book(self) -> Ledger | None:
        """The ledger to charge; a population without a file means the user's own ledger."""
        if self.ledger is None and self.population is None:
            return None
        from querycloak.privacy.ledger.ledger import Ledger

        return Ledger(self.ledger)


def check_apart(out: Path | None, logs: Iterable[str]) -> None:
    """Refuse to write into a folder that is read as a log: what is written there would be a part of it."""
    if out is None:
        return
    folders = [Path(log).resolve() for log in logs if "://" not in log and Path(log).is_dir()]
    if any(out.resolve().is_relative_to(folder) for folder in folders):
        raise ParameterError(
            f"{str(out)!r} lies in the folder of a log, and would be read as a part of it; name another"
        )


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with options for the fields of every dataclass that it takes."""
    taken = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in taken if _is_group(each.annotation)}

    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    shown = [each for parameter in taken for each in _options_of(parameter)]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    kind, group = inspect.Parameter.KEYWORD_ONLY, parameter.annotation
    if not _is_group(group):
        return [parameter.replace(kind=kind)]
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]


def _moment(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise refusal(name, "a date such as 2006-03-01", text, "or one with a time, such as 2006-03-01T12:00")


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
    raise InputError(Sentence("the file given with {leave_out} cannot be read; it must be UTF-8 text, one user a line"))
