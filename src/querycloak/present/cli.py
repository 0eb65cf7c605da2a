"""The command line: options in, one stage's work, results and exit codes out.

Exit codes: 0 done, 1 our own bug, 2 bad input or parameters, 3 budget refused, 4 a check failed, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import typer

from querycloak.errors import QuerycloakError
from querycloak.present import options

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


@app.command()
def demo(quiet: options.Quiet = False) -> None:
    """Show the main job on a small log that comes with querycloak."""
    from querycloak.experiments.demo import demo_log
    from querycloak.present.demonstration import show_demo

    with demo_log() as log:
        show_demo(log, quiet=quiet)


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
        _say("interrupted; nothing was left behind")
    return code


def _usage_or_bug(error: Exception) -> int:
    show = getattr(error, "format_message", None)  # the parser's own errors, about what was typed
    if show is not None:
        _say(f"{show()} (see --help)")
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
