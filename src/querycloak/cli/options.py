"""The options that commands share, in the groups under which `--help` shows them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from querycloak.errors import InputError, ParameterError
from querycloak.privacy.parameters import refusal
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.choices import Choices
    from querycloak.logs.searchlog import OnStep, PreparedLog, SearchLog
    from querycloak.methods.method import Method
    from querycloak.privacy.ledger.ledger import Ledger

BUDGET, OUTPUT, LOG, METHOD = "Budget", "Output", "Log", "This method"
BOUNDS, SELECTION, ENGINE, ADVANCED = "Bounds", "Selection", "Engine", "Advanced"
GROUPS = (BUDGET, OUTPUT, LOG, METHOD, BOUNDS, SELECTION, ENGINE, ADVANCED)
"""Headings of `--help`, in their order; options without a group stand above them."""

UNSEEN = "Choose it without looking at the log: no guarantee covers a choice that depends on the log."


def completing(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completion of a free-text option: the known words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


def _formats() -> Iterable[str]:
    from querycloak.logs.formats.detection import FORMATS

    return FORMATS


Logs = Annotated[list[str], typer.Argument(metavar="LOG", help="Files, folders or addresses of the log.")]
TrainLog = Annotated[str, typer.Argument(metavar="TRAIN", help="The log that the releases were made of.")]
ReleaseFolders = Annotated[list[Path], typer.Argument(metavar="RELEASE", help="Release folders.")]
PrivateRows = Annotated[
    Path | None, typer.Option(help="Private file for all rows: .json, .csv or .parquet.", rich_help_panel=OUTPUT)
]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="The ledger's file; your own if not given.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use; all cores if not given.", rich_help_panel=ENGINE)]
Json = Annotated[
    bool, typer.Option("--json", help="Machine-readable output, and nothing else on stdout.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars.", rich_help_panel=OUTPUT)]
PopulationSize = Annotated[
    int | None,
    typer.Option(
        help="Number of users in the log, if it is public: delta is compared with it.", rich_help_panel=ADVANCED
    ),
]


class OptionGroup:
    """Options that belong together: a command that takes a group has one option for each of its fields.

    heading: that of `--help` for fields that name no other.
    """

    heading: ClassVar[str]


@dataclass(frozen=True)
class Reading(OptionGroup):
    """Reading options of a log, shared by all commands that read one."""

    heading: ClassVar[str] = LOG

    log_format: Annotated[
        str | None,
        typer.Option(
            help="aol, excite, sogou, ubi, csv, jsonl or parquet; recognised by its lines if not given.",
            autocompletion=completing(_formats),
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of a table: user=WHO,time=WHEN,query=TEXT, and rank=..., url=..., clicked=... (a row is a "
            "result shown) or shown=... (a list of ids for each search), if any."
        ),
    ] = None
    attributes: Annotated[
        str | None, typer.Option(help="Other columns to keep, with commas, such as country,device.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="The log's encoding; UTF-8 if not given (sogou: or GB18030).")
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(help="Times of a table: day-first, month-first, or a pattern such as %d/%b/%Y:%H:%M:%S."),
    ] = None
    compression: Annotated[
        str | None, typer.Option(help="none, gzip, bz2 or zstd; recognised by the files if not given.")
    ] = None
    follow_links: Annotated[bool, typer.Option("--follow-links", help="Follow links in a folder.")] = False
    show_names: Annotated[bool, typer.Option("--show-names", help="Name files in messages; names may be private.")] = (
        False
    )
    since: Annotated[
        str | None, typer.Option(help=f"Leave out earlier rows (2006-03-01, or with a time). {UNSEEN}")
    ] = None
    until: Annotated[str | None, typer.Option(help=f"Leave out rows of this time and later. {UNSEEN}")] = None
    applications: Annotated[str | None, typer.Option(help="Applications of a ubi log to keep, with commas.")] = None
    leave_out: Annotated[
        Path | None, typer.Option(help=f"File of users to leave out (bots, staff), one a line. {UNSEEN}")
    ] = None
    keep_url: Annotated[Literal["full", "path", "host"], typer.Option(help="How much of an address to keep.")] = "path"
    normalise: Annotated[bool, typer.Option("--normalise/--no-normalise", help="NFKC, lower case, single blanks.")] = (
        True
    )
    click_actions: Annotated[str, typer.Option(help="Actions of a ubi log that are clicks, with commas.")] = "click"
    max_bad: Annotated[
        float | None, typer.Option(help="Refuse a log if a larger share of its rows is bad (see docs/codes.md).")
    ] = None
    engine: Annotated[
        str,
        typer.Option("--engine", help="duckdb, spark, spark://host:port or sc://host:port.", rich_help_panel=ENGINE),
    ] = "duckdb"
    threads: Threads = None
    memory: Annotated[
        str | None, typer.Option(help="Memory before spilling to disk, such as 3GB.", rich_help_panel=ENGINE)
    ] = None

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
            attributes=_listed(self.attributes),
        )

    def with_attributes(self, names: Iterable[str]) -> Reading:
        """The options with these attributes kept as well."""
        together = dict.fromkeys((*_listed(self.attributes), *names))
        return replace(self, attributes=",".join(together) or None)

    def prepared(self, logs: list[str], *, all_columns: bool = False, on_step: OnStep | None = None) -> PreparedLog:
        """The log before any engine is started."""
        from querycloak.logs.formats.columns import parse_mapping
        from querycloak.logs.searchlog import prepare

        chosen = self.choices()
        mapping = parse_mapping(self.columns, chosen.attributes) if self.columns is not None else None
        return prepare(
            logs,
            log_format=self.log_format,
            columns=mapping,
            encoding=self.encoding,
            choices=chosen,
            time_format=self.time_format,
            compression=self.compression,
            follow_links=self.follow_links,
            show_names=self.show_names,
            all_columns=all_columns,
            on_step=on_step,
        )

    @contextlib.contextmanager
    def open(
        self, logs: list[str], *, quiet: bool, out: Path | None = None, all_columns: bool = False
    ) -> Iterator[SearchLog]:
        """The log, with a progress bar while it is read. out: the place to write, refused inside a log's folder."""
        from querycloak.cli.terminal import files_progress, reading_progress
        from querycloak.memory_limits import engine_memory, require_addresses

        require_addresses()
        from querycloak.cli.running import load_without_extras

        load_without_extras()
        check_apart(out, logs)
        with files_progress(quiet=quiet) as on_step:
            prepared = self.prepared(logs, all_columns=all_columns, on_step=on_step)
        if self.memory is None and not quiet and (fewer := engine_memory()[1]) is not None:
            sys.stderr.write(f"querycloak: {fewer}; --memory names another amount\n")
        with reading_progress(prepared.source.size, "reading", quiet=quiet) as watching:
            on_bytes, on_step = (watching.read, watching.step) if watching else (None, None)
            with self.opened(prepared, on_bytes=on_bytes, on_step=on_step) as log:
                yield log

    @contextlib.contextmanager
    def opened(self, prepared: PreparedLog, **progress: Any) -> Iterator[SearchLog]:
        """A prepared log on an engine that ends with the block."""
        from querycloak.engines import connect

        engine = connect(self.engine, threads=self.threads, memory=self.memory)
        try:
            yield prepared.on(engine, max_bad=self.max_bad, **progress)
        finally:
            engine.close()


@dataclass(frozen=True)
class Composing(OptionGroup):
    """Options for the composition of budgets."""

    heading: ClassVar[str] = ADVANCED

    composition: Annotated[
        Literal["sum", "pld"], typer.Option(help="sum, or pld: privacy-loss distributions beside the sum.")
    ] = "sum"
    at_delta: Annotated[
        float | None,
        typer.Option(help="pld: the delta at which epsilon is stated; twice the sum of deltas if not given."),
    ] = None

    @property
    def tightly(self) -> bool:
        """True if privacy-loss distributions are asked for."""
        if self.at_delta is not None and self.composition != "pld":
            raise ParameterError(Sentence("{at_delta} goes with {composition:pld}; sums have the sum of deltas"))
        return self.composition == "pld"


@dataclass(frozen=True)
class AccuracyOptions(OptionGroup):
    """Accuracy target for counts, for which epsilon is solved."""

    heading: ClassVar[str] = ADVANCED

    for_users: Annotated[
        int | None, typer.Option(help="Find the epsilon with which keys of this many users come out (95 %).")
    ] = None
    for_error: Annotated[
        int | None, typer.Option(help="Find the epsilon with which noise changes a count by at most this (95 %).")
    ] = None
    at_users: Annotated[int | None, typer.Option(help="With --for-error: how many users the key has.")] = None

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
    def line(self) -> str | None:
        """The accuracy target for people; None if there is none."""
        if self.for_users is not None:
            return f"smallest with which keys of {self.for_users:,} users come out (95 %, worse end)"
        if self.for_error is not None:
            return f"smallest with which keys of {self.at_users:,} users come out within {self.for_error:,} (95 %)"
        return None


@dataclass(frozen=True)
class Charging(OptionGroup):
    """The account that pays for a release."""

    heading: ClassVar[str] = BUDGET

    population: Annotated[str | None, typer.Option(help="The ledger's name for the people in the log.")] = None
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger to charge; your own if only --population is given.")
    ] = None

    plan_of: Annotated[
        str | None,
        typer.Option(
            help="The population whose plan for a series pays (ledger plan): noise and bound are the plan's.",
            rich_help_panel=ADVANCED,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.plan_of is None:
            return
        if self.population not in (None, self.plan_of):
            raise ParameterError(Sentence("{plan_of} names the population itself: leave {population} out"))
        object.__setattr__(self, "population", self.plan_of)

    def book(self) -> Ledger | None:
        """The ledger to charge; a population without a file means the user's own ledger."""
        if self.ledger is None and self.population is None:
            return None
        from querycloak.privacy.ledger.ledger import Ledger

        return Ledger(self.ledger)


def check_apart(out: Path | None, logs: Iterable[str]) -> None:
    """Refuse to write into a folder that is read as a log: the output would be a part of it."""
    if out is None:
        return
    folders = [Path(log).resolve() for log in logs if "://" not in log and Path(log).is_dir()]
    if any(out.resolve().is_relative_to(folder) for folder in folders):
        raise ParameterError(
            f"{str(out)!r} lies in the folder of a log, and would be read as a part of it; name another"
        )


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


def _users(path: Path | str | None) -> frozenset[str]:
    if path is None:
        return frozenset()
    try:
        lines = Path(path).read_text("utf-8").splitlines()  # a plan names it as text
        return frozenset(line.strip() for line in lines if line.strip())
    except (OSError, UnicodeError):
        pass
    raise InputError(Sentence("the file given with {leave_out} cannot be read; it must be UTF-8 text, one user a line"))
