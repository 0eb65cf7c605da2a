"""`querycloak evaluate`: utility of releases, as tables of 80 columns."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.generated_options import with_groups
from querycloak.cli.terminal import print_json
from querycloak.errors import ParameterError
from querycloak.sentence import Sentence, printable

if TYPE_CHECKING:
    from querycloak.evaluation.evaluation import Evaluation
    from querycloak.evaluation.evaluation_file import Row

_WIDTH = 80
_NAME = 16
_HEAD = f"{'':{_NAME}} {'all cases':>25} {'answers':>7} {'no-data':>8} {'answered':>8} {'difference':>10}"
_LABEL, _COLUMN = 38, 14
_LEGEND = (
    "all cases: mean over all cases, with a 95 % interval over test users; a case without an answer counts 0; answers: "
    "the share of cases with an answer; no-data: what the release adds to a rule without any log; answered: mean over "
    "the cases that the release answers, mostly the easier ones; difference: that mean minus TRAIN's on the same "
    "cases, * if p < .05 over users. --json and --out have more: slices, means over users, intervals of differences. "
    "These releases were made of TRAIN; what is published is made of the whole log."
)


def _tasks() -> Iterable[str]:
    from querycloak.evaluation.task import TASKS

    return TASKS


@with_groups
def evaluate_releases(
    train: options.TrainLog,
    test: Annotated[str | None, typer.Argument(metavar="TEST", help="A log of other users, to judge them by.")] = None,
    release: Annotated[list[Path] | None, typer.Argument(metavar="RELEASE...", help="Release folders.")] = None,
    *,
    publishable: Annotated[
        bool,
        typer.Option(
            "--publishable",
            help="Measure the method and options of one RELEASE on a public synthetic log; no log is read.",
        ),
    ] = False,
    population_size: Annotated[
        int | None, typer.Option(help="With --publishable: users of the log, if public; the card's if not given.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="A task, more than once for several; all if not given.", autocompletion=options.completing(_tasks)
        ),
    ] = None,
    out: options.PrivateRows = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what releases are good for (private output)."""
    from querycloak.evaluation.evaluation_file import check_evaluation_file
    from querycloak.evaluation.task import tasks_named

    tasks_named(task)
    target = None if out is None else check_evaluation_file(out)
    if publishable:
        given = [Path(each) for each in (train, test, *(release or ())) if each is not None]
        evaluation = evaluated_publicly(given, task, population_size, quiet=quiet or as_json)
    elif population_size is not None:
        raise ParameterError(Sentence("{population_size} goes with {publishable}: leave it out"))
    elif test is None or not release:
        raise ParameterError("give TRAIN, TEST and at least one RELEASE: evaluate TRAIN TEST RELEASE")
    else:
        evaluation = evaluated(train, test, release, task, out, reading, quiet=quiet or as_json)
    if target is not None:
        evaluation.save(target)
    if as_json or not quiet:
        show_evaluation(evaluation, as_json=as_json)


def evaluated(
    train: str, test: str, releases: Sequence[Path], tasks: Sequence[str] | None, out: Path | None,
    reading: options.Reading, *, quiet: bool,
) -> Evaluation:  # fmt: skip
    """Read both sides by the options, and evaluate the releases."""
    from querycloak.evaluation.evaluation import evaluate
    from querycloak.evaluation.target import Target

    loaded = [Target.in_folder(folder) for folder in releases]  # faults of a folder are reported before TRAIN is read
    reading = reading.with_attributes(name for each in loaded for name in each.attributes)
    other = reading.prepared([test])
    with reading.open([train], quiet=quiet, out=out) as ours:
        theirs = other.on(ours.engine, max_bad=reading.max_bad)
        return evaluate(ours, theirs, loaded, tasks, on_step=ours.progress)


def evaluated_publicly(
    given: Sequence[Path], tasks: Sequence[str] | None, size: int | None, *, quiet: bool
) -> Evaluation:
    """Evaluate the one release folder among the arguments on its public twin; logs among them are not read."""
    from querycloak.cli.terminal import step_progress
    from querycloak.evaluation.public_twin import evaluate_publicly

    folders = [each for each in given if (each / "card.json").is_file()]
    if len(folders) != 1:
        raise ParameterError(Sentence("{publishable} measures one release: name the folder of one"))
    with step_progress("evaluating", quiet=quiet) as on_step:
        return evaluate_publicly(folders[0], tasks, population_size=size, on_step=on_step)


def show_evaluation(evaluation: Evaluation, *, as_json: bool) -> None:
    """Print the rows, or tables of the main ones."""
    if as_json:
        print_json(evaluation.to_json(), allow_nan=False)
        return
    lines = textwrap.wrap(evaluation.heading, _WIDTH)
    for task in dict.fromkeys(row.task for row in evaluation.rows):
        lines += _task_lines(task, [row for row in evaluation.rows if row.task == task])
    shown = "\n".join([*lines, "", *textwrap.wrap(_LEGEND, _WIDTH)])
    sys.stdout.write("".join(f"{printable(line)}\n" for line in shown.split("\n")))


def _task_lines(task: str, rows: Sequence[Row]) -> Iterator[str]:
    from querycloak.evaluation.task import NO_DATA

    yield from ("", task)
    valued = [row for row in rows if row.value is not None and (row.slice is None or "," not in row.slice)]
    judged = dict.fromkeys(row.measure for row in valued if row.reading == "answered")
    for measure in judged:
        yield f"  {measure}"
        yield _HEAD
        own = [row for row in valued if row.measure == measure and row.slice is None]
        without_data = next((row.value for row in own if (row.release, row.reading) == (NO_DATA, "all")), None)
        for release in dict.fromkeys(row.release for row in own):
            yield from _reading_lines({row.reading: row for row in own if row.release == release}, without_data)
    yield from _figure_lines([row for row in valued if row.measure not in judged])
    # A release that answers no case has zeros under `all`, and no line above.
    shown = {row.release for row in valued if not judged or row.reading == "answered"}
    for release in dict.fromkeys(row.release for row in rows if row.release not in shown):
        why = next((row.why for row in rows if row.release == release and row.why), "it has no value here")
        yield from textwrap.wrap(f"  {release}: {why}", _WIDTH, subsequent_indent="    ")


def _reading_lines(by_reading: Mapping[str, Row], without_data: float | None) -> Iterator[str]:
    """One release and measure in one line: all cases first, then those answered beside the original."""
    from querycloak.evaluation.task import NO_DATA, ORIGINAL

    answered, everything, common = (by_reading.get(reading) for reading in ("answered", "all", "common"))
    if answered is None or everything is None or everything.value is None:
        return
    interval = f"[{_number(everything.low)}, {_number(everything.high)}]"
    coverage = f"{(everything.answered or 0) / everything.cases:.1%}" if everything.cases else "-"
    name = everything.release
    added = "-" if without_data is None or name == NO_DATA else f"{everything.value - without_data:+.4f}"
    difference = "- "
    if common is not None and common.difference is not None and name != ORIGINAL:
        star = "*" if common.p_value is not None and common.p_value < 0.05 else " "
        difference = f"{common.difference:+.4f}{star}"
    values = (
        f" {_number(everything.value):>7} {interval:>17} {coverage:>7} {added:>8} {_number(answered.value):>8} "
        f"{difference:>10}"
    )
    yield f"{name:{_NAME}}{values}" if len(name) <= _NAME else f"{name}\n{'':{_NAME}}{values}"


def _figure_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Figures that are already whole: a line for each, a column for each release, as many as fit.

    Figures that only the original has are left out.
    """
    from querycloak.evaluation.task import ORIGINAL

    others = {(row.measure, row.slice) for row in rows if row.release != ORIGINAL}
    rows = [row for row in rows if (row.measure, row.slice) in others]
    releases = list(dict.fromkeys(row.release for row in rows))
    values = {(row.measure, row.slice, row.release): row.value for row in rows}
    fitting = (_WIDTH - _LABEL) // _COLUMN
    for first in range(0, len(releases), fitting):
        some = releases[first : first + fitting]
        yield " " * _LABEL + "".join(f"{release[: _COLUMN - 1]:>{_COLUMN}}" for release in some)
        for measure, part in dict.fromkeys((row.measure, row.slice) for row in rows):
            shown = [values.get((measure, part, release)) for release in some]
            label = f"  {measure}" + (f" {part}" if part else "")
            if any(value is not None for value in shown):
                name = label if len(label) <= _LABEL else f"{label}\n{'':{_LABEL}}"
                yield f"{name:{_LABEL}}" + "".join(f"{_number(value):>{_COLUMN}}" for value in shown)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    is_number_of_things = abs(value) >= 10 and value == int(value)
    return f"{value:,.0f}" if is_number_of_things or abs(value) >= 1000 else f"{value:.4f}"
