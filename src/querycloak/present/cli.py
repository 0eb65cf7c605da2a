"""The command line: options in, one stage's work, results and exit codes out.

Exit codes: 0 done, 1 our own bug, 2 bad input or parameters, 3 budget refused, 4 a check failed, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from querycloak.errors import ParameterError, QuerycloakError
from querycloak.methods.method import Method
from querycloak.present import method_options, options

INTERRUPTED = 130

app = typer.Typer(
    name="querycloak",
    help="Release a search log that people can use, with a privacy guarantee that holds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    pass


@app.command()
def inspect(
    log: options.Logs,
    log_format: options.LogFormat = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    since: options.Since = None,
    until: options.Until = None,
    applications: options.Applications = None,
    leave_out: options.LeaveOut = None,
    keep_url: options.KeepUrl = "path",
    normalise: options.Normalise = True,
    click_actions: options.ClickActions = "click",
    max_bad: options.MaxBad = 0.05,
    set_aside: options.SetAside = None,
    gap_minutes: options.GapMinutes = 30,
    engine: options.EngineName = "duckdb",
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Profile a log: how much of it can be read, its users, searches, sessions and clicks (private output)."""
    from querycloak.present.inspecting import show_profile

    choices = options.choices(since, until, applications, leave_out, keep_url, normalise, click_actions)
    with options.open_log(
        log, log_format, columns, encoding, choices, max_bad, engine, threads, memory, quiet=quiet or as_json
    ) as opened:
        if set_aside is not None:
            opened.write_set_aside(set_aside)
        show_profile(opened, gap_minutes, as_json=as_json)


def guarantee(
    method: Method,
    population_size: method_options.PopulationSize = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what the numbers mean for one person.")] = False,
    releases: Annotated[int, typer.Option(help="How many such releases: what they come to together.")] = 1,
    composition: options.Composition = "sum",
    at_delta: options.AtDelta = None,
    as_json: options.Json = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show what a method guarantees, claimed beside proven, without any data."""
    from querycloak.present.guaranteeing import show_guarantee

    tightly = options.tightly(composition, at_delta)
    together = method_options.composed(method, releases, at_delta) if tightly or releases != 1 else None
    show_guarantee(
        method, as_json=as_json, plain_words=explain, population_size=population_size,
        releases=releases, together=together, tightly=tightly,
    )  # fmt: skip


def release(
    method: Method,
    log: options.Logs,
    out: Annotated[Path | None, typer.Option(help="The folder to write; it must not exist yet.")] = None,
    population_size: method_options.PopulationSize = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger to charge; your own if only --population is given.")
    ] = None,
    population: Annotated[str | None, typer.Option(help="The people behind the log, by the ledger's name.")] = None,
    never_release: Annotated[Path | None, typer.Option(help="File of words or /patterns/ that never come out.")] = None,
    table_format: Annotated[
        Literal["parquet", "tsv"], typer.Option("--format", help="Format of the tables.")
    ] = "parquet",
    composition: options.Composition = "sum",
    at_delta: options.AtDelta = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show guarantee and charge; read nothing.")] = False,
    explain_query: Annotated[
        str | None,
        typer.Option("--explain", metavar="QUERY", help="Private: show what protects a query; release nothing."),
    ] = None,
    log_format: options.LogFormat = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    since: options.Since = None,
    until: options.Until = None,
    applications: options.Applications = None,
    leave_out: options.LeaveOut = None,
    keep_url: options.KeepUrl = "path",
    normalise: options.Normalise = True,
    click_actions: options.ClickActions = "click",
    max_bad: options.MaxBad = 0.05,
    engine: options.EngineName = "duckdb",
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Release a log: count, add noise, write a folder with tables, card and datasheet."""
    from querycloak.present import releasing

    for caution in method_options.warnings(method.proven(), population_size):
        _say(caution)
    together = method_options.composed(method, 1, at_delta) if options.tightly(composition, at_delta) else None
    book = releasing.ledger_of(ledger, population)
    if dry_run:
        releasing.show_dry_run(method, log, book, population, as_json=as_json)
        return
    choices = options.choices(since, until, applications, leave_out, keep_url, normalise, click_actions)
    reading = (log, log_format, columns, encoding, choices, max_bad, engine, threads, memory)
    if explain_query is not None:
        from querycloak.present.explaining import show_explanation

        with options.open_log(*reading, quiet=quiet or as_json) as opened:
            explained = method.explain(opened, explain_query)  # type: ignore[attr-defined]  # or it has no such option
        show_explanation(explained, as_json=as_json)
        return
    folder = releasing.check_first(method, out, book, population)
    from querycloak.releases.last_look import LastLook

    look = LastLook() if never_release is None else LastLook.from_file(never_release)
    with options.open_log(*reading, quiet=quiet or as_json) as opened:
        made = releasing.make_and_save(method, opened, folder, table_format, look, book, population, together)
    releasing.show_release(method, made, as_json=as_json, quiet=quiet)


def tune(
    method: Method,
    log: Annotated[
        list[str] | None, typer.Option("--log", help="A public or synthetic log; more than once for several files.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The log is public or made up: its figures may be seen.")
    ] = False,
    log_format: options.LogFormat = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    since: options.Since = None,
    until: options.Until = None,
    applications: options.Applications = None,
    leave_out: options.LeaveOut = None,
    keep_url: options.KeepUrl = "path",
    normalise: options.Normalise = True,
    click_actions: options.ClickActions = "click",
    max_bad: options.MaxBad = 0.05,
    engine: options.EngineName = "duckdb",
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show how much a method releases at each bound per user, on a public or synthetic log."""
    if not log:
        raise ParameterError("log must be given: a public or synthetic log to try bounds on, --log LOG")
    from querycloak.experiments.tuning import tunable
    from querycloak.present.tuning import show_yields

    bounded = tunable(method)
    choices = options.choices(since, until, applications, leave_out, keep_url, normalise, click_actions)
    with options.open_log(
        log, log_format, columns, encoding, choices, max_bad, engine, threads, memory, quiet=quiet or as_json
    ) as opened:
        show_yields(bounded, opened, public=public, as_json=as_json)


for command in (guarantee, release, tune):
    group = typer.Typer(
        cls=method_options.methods_group(command),
        help=command.__doc__,
        no_args_is_help=True,
        subcommand_metavar="METHOD [OPTIONS]",
    )
    app.add_typer(group, name=command.__name__)

ledgers = typer.Typer(help="Budgets, and what has been spent on whom.", no_args_is_help=True)
app.add_typer(ledgers, name="ledger")
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="The ledger's file; your own if not given.")]


@ledgers.command("set")
def ledger_set(
    population: Annotated[str, typer.Argument(metavar="NAME", help="The people behind a log.")],
    epsilon: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    delta: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    ledger: LedgerFile = None,
) -> None:
    """Set what may be spent on a population in all."""
    from querycloak.present.ledgers import show_accounts
    from querycloak.privacy.ledger import Ledger

    show_accounts([Ledger(ledger).set_limit(population, epsilon, delta)])


@ledgers.command("show")
def ledger_show(
    population: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One population; all if not given.")
    ] = None,
    ledger: LedgerFile = None,
    composition: options.Composition = "sum",
    at_delta: options.AtDelta = None,
    as_json: options.Json = False,
) -> None:
    """Show budgets, and every charge with what became of it."""
    from querycloak.present.ledgers import show_accounts
    from querycloak.privacy.ledger import Ledger
    from querycloak.releases.reconciling import reconcile

    book = Ledger(ledger)
    reconcile(book)
    tightly = options.tightly(composition, at_delta)
    show_accounts(book.show(population), tightly=tightly, at_delta=at_delta, as_json=as_json)


@app.command()
def synth(
    out: Annotated[Path | None, typer.Option(help="The file: .tsv (AOL), .parquet or .jsonl (UBI); .gz, .zst.")] = None,
    users: Annotated[int | None, typer.Option(help="How many people search.")] = None,
    preset: Annotated[str | None, typer.Option(help="standard: 100,000 users, the same for everybody.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed makes other people; 1 if not given.")] = None,
    truth: Annotated[
        bool, typer.Option("--truth/--no-truth", help="Write the truth beside it, into FILE.truth.")
    ] = True,
    check: Annotated[bool, typer.Option("--check", help="Compare it with AOL's figures.")] = False,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a synthetic log that behaves like a real one, of any size, with the truth known."""
    if out is None:
        raise ParameterError("out must be given: the file to write, --out FILE")
    from querycloak.present.synthesizing import make_log, users_and_seed

    number, chosen = users_and_seed(users, seed, preset)
    make_log(out, number, chosen, truth=truth, threads=threads, check=check, as_json=as_json, quiet=quiet)


@app.command()
def demo(
    users: Annotated[int | None, typer.Option(help="How many people search; 5,000 if not given.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the releases in this folder.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Show the main job: make a synthetic log, release it in every way there is, compare."""
    from querycloak.present.demonstration import show_demo

    show_demo(users, out, quiet=quiet)


def main() -> None:
    """Run the command line and end with its exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    code = run(lambda: app(standalone_mode=False))
    # Whatever happens from here on is tear-down of libraries, which has no business on the terminal.
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


def run(command: Callable[[], object]) -> int:
    """The exit code of a command; every failure is one line that holds nothing of the log."""
    try:
        result = command()
        code = result if isinstance(result, int) else 0
    except typer.Exit as stop:
        code = stop.exit_code
    except QuerycloakError as error:
        _say(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # our own bug, whatever it is
        return _usage_or_bug(error)
    if code == INTERRUPTED:  # the parser, too, ends with this code when it is interrupted
        _say("interrupted; nothing half-written is left, and what was charged to a ledger stays charged")
    return code


def _usage_or_bug(error: Exception) -> int:
    show = getattr(error, "format_message", None)  # the parser's own errors, about what was typed
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error}\n")
        return 2
    if show is not None:
        _say(method_options.foreign_option(error) or f"{show()} (see --help)")
        return 2
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace else "an unknown place"
    _say(f"this is a bug in querycloak ({type(error).__name__} at {where}); please report it with this line")
    return 1


def _say(message: str) -> None:
    sys.stderr.write(f"querycloak: {message}\n")


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt
