"""A search log: its files, and lazy tables of searches, clicks and sessions. Computing a table reads the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from querycloak.engines import Engine, engine_of
from querycloak.engines.engine import OnBytes
from querycloak.errors import InputError, ParameterError, UnknownFormat
from querycloak.logs.choices import Choices
from querycloak.logs.formats import Recognised, accepted_times, choose_reader
from querycloak.logs.log_tables import LogSource, LogTables
from querycloak.logs.preflight import EmptyGate
from querycloak.logs.reading.checks import KEPT, OTHER_FORMAT
from querycloak.logs.reading.files import LOG_ENDINGS, FileOptions, find_files
from querycloak.logs.reading.json_documents import as_lines
from querycloak.logs.reading.spooled import StagedTable, is_table
from querycloak.logs.rejected import DEFAULT_MAX_BAD, RowAccounting, checked_share, write_rejected
from querycloak.privacy.parameters import of_kind, texts_of
from querycloak.sentence import Sentence

Log = str | os.PathLike[str]


class ArrowTable(Protocol):
    """A table that hands out Arrow batches: of pandas, Polars, Arrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The Arrow PyCapsule interface."""
        ...


# What is being done, and which share of it is done; never a number of the log's.
OnStep = Callable[[str, float], None]


def read(
    logs: Log | Sequence[Log] | ArrowTable,
    *,
    log_format: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    choices: Choices | None = None,
    attributes: Sequence[str] = (),
    time_format: str | None = None,
    compression: str | None = None,
    follow_links: bool = False,
    show_names: bool = False,
    all_columns: bool = False,
    max_bad: float | None = None,
    engine: Engine | str = "duckdb",
) -> SearchLog:
    """The search log in files, folders or addresses, or in a table of pandas, Polars, Arrow or DuckDB.

    Only the beginnings of files are read here. A table, standard input and a JSON document are read whole and copied
    into a private folder.

    A log of which a larger share than `max_bad` is bad is refused. If it is not given that is 0.05, but a release that
    has a guarantee is then made all the same: one user could write that many bad rows.

    attributes: other columns to keep, such as country; they are a part of `choices`.
    all_columns: if no attributes are named, all columns of a table that can be attributes are kept.
    """
    named = texts_of("attributes", attributes, "name columns of the log, or leave it out")
    of_kind("all_columns", all_columns, bool, "True or False", "True keeps all columns of a table")
    if named:
        of_kind("choices", choices, (Choices, type(None)), "a Choices", "leave it out for the usual ones")
        choices = replace(Choices() if choices is None else choices, attributes=named)
    staged = StagedTable(logs) if is_table(logs) else None
    given: Any = logs if staged is None else staged.path
    prepared = prepare(
        given,
        log_format=log_format,
        columns=columns,
        encoding=encoding,
        choices=choices,
        time_format=time_format,
        compression=compression,
        follow_links=follow_links,
        show_names=show_names,
        all_columns=all_columns,
    )
    log = prepared.on(engine_of(engine), max_bad=max_bad)
    log.staged = staged
    return log


def prepare(
    logs: Log | Sequence[Log],
    *,
    log_format: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    choices: Choices | None = None,
    time_format: str | None = None,
    compression: str | None = None,
    follow_links: bool = False,
    show_names: bool = False,
    all_columns: bool = False,
    on_step: OnStep | None = None,
) -> PreparedLog:
    """A log whose files and format are known, before any engine is started.

    all_columns: if no attributes are named, all columns of a table that can be attributes are.
    on_step: called with the progress of opening files, if there are many.
    """
    on_step = on_step or (lambda _what, _share: None)
    paths = _paths(logs)
    choices = Choices() if choices is None else choices
    of_kind("choices", choices, Choices, "querycloak.Choices(...)", "leave it out for the default ones")
    named = log_format is not None or columns is not None
    stored = find_files(paths, FileOptions(compression, follow_links, show_names, format_named=named), on_step)
    files = stored.files
    if log_format in (None, "table", "ubi") and encoding is None:
        files = [as_lines(file, named=named) for file in files]
    recognised, reader = choose_reader(files, log_format, columns, encoding, time_format, choices.attributes, on_step)
    if all_columns and not choices.attributes and reader.other_columns:
        choices = replace(choices, attributes=reader.other_columns)
        recognised, reader = choose_reader(files, log_format, columns, encoding, time_format, choices.attributes)
    if choices.applications and recognised.name != "ubi":
        raise ParameterError.of(
            "{applications} can be chosen in ubi logs only; this one is {name}", name=recognised.name
        )
    return PreparedLog(LogSource(files, reader, choices), recognised, stored.links, time_format, stored.skipped)


def _paths(logs: Log | Sequence[Log]) -> list[Log]:
    """The paths given, if they are paths."""
    if isinstance(logs, str | os.PathLike):
        return [logs]
    rule = "a path, a list of paths, or one table of pandas, Polars, Arrow or DuckDB"
    way_out = "a path is a text or a pathlib.Path"
    of_kind("logs", logs, Iterable, rule, way_out)
    given = list(logs)
    for each in given:
        of_kind("logs", each, (str, os.PathLike), rule, way_out)
    return given


@dataclass(frozen=True)
class PreparedLog:
    """A log that waits for an engine."""

    source: LogSource
    recognised: Recognised
    links: int = 0
    """Links in the log's folders, which were passed over."""
    time_format: str | None = None
    skipped: int = 0
    """Other files in the log's folders, which were passed over."""

    def on(
        self,
        engine: Engine,
        *,
        max_bad: float | None = None,
        on_bytes: OnBytes | None = None,
        on_step: OnStep | None = None,
    ) -> SearchLog:
        """The log on an engine."""
        return SearchLog(self, engine, max_bad, on_bytes, on_step)


def check_log(log: object, name: str = "log") -> None:
    """Refuse a value that is not an opened log."""
    way_out = "querycloak.read(PATH) opens one, querycloak.read(TABLE) makes one of pandas, Polars, Arrow or DuckDB"
    of_kind(name, log, SearchLog, "a search log", way_out)


_READINGS = ("_marked_searches", "marked_rows", "_marked_views")


class SearchLog(LogTables):
    """Searches: user, query, time, and the clicked result.

    Use it in a `with` block, or `close()` it: its engine has a private folder.
    """

    def __init__(
        self,
        prepared: PreparedLog,
        engine: Engine,
        max_bad: float | None = None,
        on_bytes: OnBytes | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        super().__init__(prepared.source, prepared.recognised.name, engine, on_bytes)
        self._prepared, self._on_step = prepared, on_step
        self.max_bad = None if max_bad is None else checked_share(max_bad)
        self.staged: StagedTable | None = None
        self.empty_gate: EmptyGate | None = None
        """The owner's decision about a log of which nothing would be counted; None: it is released all the same."""

    def __enter__(self) -> SearchLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        files = len(self.source.files)
        where = "a table in memory" if self.staged else f"{files:,} file{'s' if files != 1 else ''}"
        return f"<SearchLog {self.format}: {where}, on {self.engine.name}>"

    def close(self) -> None:
        """End the engine."""
        self.engine.close()
        if self.staged is not None:
            self.staged.remove()

    def on(self, engine: Engine) -> SearchLog:
        """The log on another engine."""
        return self if engine is self.engine else SearchLog(self._prepared, engine, self.max_bad)

    def progress(self, step: str, share: float) -> None:
        """Show the progress of a long step."""
        if self._on_step is not None:
            self._on_step(step, share)

    def accounting(self) -> RowAccounting:
        """Fate of every row read; free once the log has been read to its end."""
        # The codes are the same with and without clicks; a failure to read any of these tables must raise.
        # A UBI log's views are documents that are not joined yet: their codes are not those of its rows.
        names = _READINGS[:2] if self.format == "ubi" else _READINGS
        readings = [self.__dict__[name] for name in names if name in self.__dict__]
        counts = [self.engine.code_counts(table) for table in readings or [self.marked_rows]]
        if any(each != counts[0] for each in counts):
            raise InputError("the log has changed since it was opened; read it again when nobody writes to it")
        return RowAccounting(counts[0], accepted_times(self.format))

    def checked(self, *, guaranteed: bool = False) -> RowAccounting:
        """The accounting, if not too much of the log is bad.

        For a release with a guarantee, a log is refused only by a share that the owner has named: one user can
        exceed a share, and noise cannot hide that, because bad rows may have no user.
        """
        accounting = self.accounting()
        self.check_unchanged()
        if self.max_bad is not None or not guaranteed:
            accounting.require(DEFAULT_MAX_BAD if self.max_bad is None else self.max_bad)
        return accounting

    def check_kept(self) -> None:
        """Let the owner decide about a log of which nothing would be counted; nothing is checked without a gate."""
        if self.empty_gate is not None:
            self.empty_gate.check(self)

    @property
    def recognised(self) -> Recognised:
        """The log's format, whether its owner named it, and evidence against a guess."""
        return self._prepared.recognised

    def check_unchanged(self) -> None:
        """Refuse a log that changed after it was opened: counted rows may differ from checked ones."""
        for file in self.source.files:
            if file.has_changed():
                raise InputError(
                    f"{file.label} has changed since it was opened; read it again when nobody writes to it"
                )

    def check_format(self) -> None:
        """Refuse a format that is only guessed; for releases."""
        if self.recognised.doubt is not None:
            raise UnknownFormat(self.recognised.doubt)

    def check_agreement(self) -> None:
        """Refuse a guessed format if some rows fit another format; for releases."""
        others = self.accounting().by_code.get(OTHER_FORMAT, 0)
        if others and not self.recognised.named:
            raise UnknownFormat.of(
                "private: {others:,} rows are not written as {name} has it, but as another format does, and nobody "
                "said which it is: name it with {log_format}",
                others=others,
                name=self.format,
            )

    def describe(self) -> dict[str, object]:
        """The card's entries: the format, whether it was named, and the largest accepted share of bad rows."""
        named = {"format": self.format, "format_named": self.recognised.named}
        return {**named, "time_format": self._prepared.time_format, "max_bad": self.max_bad}

    def remarks(self) -> list[Sentence]:
        """Remarks on the reading for the owner (private output)."""
        links, skipped = self._prepared.links, self._prepared.skipped
        linked = Sentence("{links:,} links were passed over: {follow_links:True} reads what they lead to", links=links)
        others = Sentence(
            "{skipped:,} files of the folder were passed over: they are empty, or their names do not end as those of "
            "logs do ({endings}); name them one by one to read them",
            skipped=skipped,
            endings=" ".join(LOG_ENDINGS),
        )
        remarks = (linked if links else None, others if skipped else None, self.accounting().warning())
        return [each for each in remarks if each is not None]

    def write_rejected(self, path: Log) -> int:
        """Write the rejected rows, as they stand in the log, into a private file; returns their number."""
        marked = self._marked(replace(self.source, origin=True))
        rejected = marked.filter(marked.code != KEPT).select("file", "line", "code", "fields", "content")
        names = [file.location for file in self.source.files]
        return write_rejected(Path(path), self.engine.stream(rejected), names)

    def write_set_aside(self, path: Log) -> int:
        """Former name of `write_rejected`."""
        return self.write_rejected(path)
