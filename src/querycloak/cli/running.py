"""The end of a command: exit codes, and one line for every failure that holds nothing of the log.

Nothing heavy is imported here: an interruption during the first imports is answered from this module too.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import NoReturn

from querycloak.compiled_code import advice, hidden, hide_from_numba
from querycloak.errors import QuerycloakError
from querycloak.extras import MEMORY_USED_UP, lacks_memory
from querycloak.files.locked_folder import clean_up
from querycloak.interruption import ENDING, handle_signals, received, unheard

INTERRUPTED = 130
_LACKING = {
    errno.ENOSPC: "a disk is full: free some room, or set QUERYCLOAK_TMP to a folder with more",
    errno.EDQUOT: "your quota of a disk is used up: free some room, or set QUERYCLOAK_TMP to a folder with more",
    errno.EROFS: "a disk cannot be written: set QUERYCLOAK_TMP and outputs to folders that can be",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n), or name fewer --threads",
    errno.ENFILE: "too many files are open on this machine: try again later",
}


def run_and_exit(command: Callable[[], object]) -> None:
    """Run the command line and end with its exit code."""
    _open_standard_streams()
    _collect_garbage_rarely()
    _own_process.set()
    # Messages of threads and destructors of libraries may quote the log; errors of our own work are raised there.
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None
    handle_signals()
    code = run(lambda: _after_clean_up(command))
    # Whatever happens from here on is tear-down of libraries, which has no business on the terminal and changes nothing
    # of what was done.
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    if (advised := advice()) is not None:
        say(advised)
    _close(2)
    _leave(code)


# Two departures from how Python runs a process. Median processor time of 20 runs each, taken in turn on two cores:
#                                     guarantee   inspect (50 users)
#   as below                            0.80 s      4.11 s
#   garbage collected as usual          0.81 s      4.51 s
#   ended by sys.exit                   0.90 s      4.98 s
# A threshold of 200,000 objects costs one look at all of them, 0.09 s, in `release` of 10,000 rows.


def _collect_garbage_rarely() -> None:
    """Look for garbage rarely: libraries make a million objects as they are loaded, and all of them stay."""
    gc.set_threshold(500_000, 20, 20)


_own_process = threading.Event()
"""Set if this process was started to run a command."""


def load_without_extras() -> None:
    """Hide pandas from Arrow's first look, SciPy from numba's, and most compilers of Ibis: commands need none of them.

    After that, Arrow does not know pandas' NA and NaT in columns of objects. So it is done only in a process that runs
    nothing but a command of ours: not in the studio's threads, not with methods, tasks or exports of other packages.
    """
    if not _own_process.is_set() or threading.current_thread() is not threading.main_thread() or _other_packages():
        return
    import pyarrow as pa

    from querycloak.engines.lazy_compilers import load_compilers_lazily

    with hidden("pandas"):
        pa.array([0])  # looks for pandas
    hide_from_numba("scipy.linalg")
    load_compilers_lazily()


def _other_packages() -> bool:
    return any(group.startswith("querycloak.") for group in entry_points().groups)


def _leave(code: int) -> NoReturn:
    """End the process after the clean-up of all libraries, without taking them apart.

    Python would also end itself by a signal if an interrupt came while a library ran Python code of its own.
    """
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # nobody may read it any more
        sys.stdout.flush()
    os._exit(code)


def _open_standard_streams() -> None:
    """Open missing standard streams: started with `>&-`, the first file opened would take the place of one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 (to the end)


def _after_clean_up(command: Callable[[], object]) -> object:
    """Remove leftovers of killed commands, and run."""
    clean_up(sys.argv[1:])
    return command()


def run(command: Callable[[], object]) -> int:
    """The exit code of a command; every failure is one line, also if signals come while it is composed."""
    received.clear()
    while True:
        try:
            return _run(command)
        except KeyboardInterrupt:  # within the last words of a command
            command = _stop


def _stop() -> NoReturn:
    raise KeyboardInterrupt


def _run(command: Callable[[], object]) -> int:
    try:
        result = command()
        sys.stdout.flush()
        return interrupted() if result == INTERRUPTED else result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        with unheard():
            return interrupted()
    except SystemExit as stop:  # the parser's way to end a completion, and to end when nobody reads on
        if stop.__context__ is None and isinstance(stop.code, int):
            return stop.code
        with unheard():
            return _ended_by(stop.__context__ if isinstance(stop.__context__, Exception) else stop)
    except Exception as error:  # broad: every failure ends in one line, without the log's texts
        with unheard():
            return _ended_by(error)


def _ended_by(error: BaseException) -> int:
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        return 0
    if received:  # libraries turn an interrupt into errors of their own
        return interrupted()
    if not isinstance(error, QuerycloakError) and (lacking := _lacking(error)) is not None:
        say(lacking)
        return 2
    from querycloak.cli.error_line import error_line, misuse  # not loaded where memory is used up

    if isinstance(error, QuerycloakError):
        say(error_line(error))
        return error.exit_code
    misused = misuse(error)
    if misused is not None:
        _write(misused)
        return 2
    say(f"this is a bug in querycloak ({type(error).__name__} at {_place(error)}); please report it with this line")
    return 1


def _lacking(error: BaseException) -> str | None:
    """The message for a resource that the machine lacks; None for other errors."""
    if lacks_memory(error):
        return MEMORY_USED_UP
    return _LACKING.get(error.errno or 0) if isinstance(error, OSError) else None


def interrupted() -> int:
    """Report the interruption; returns its exit code."""
    say("interrupted; nothing half-written is left, and what was charged to a ledger stays charged")
    try:
        sys.stdout.flush()
    except OSError:  # the terminal is gone, and with it the reader
        _close(1)
    return INTERRUPTED


def was_interrupted() -> bool:
    """True if the command was asked to end, also if a library changed the error."""
    return bool(received)


def say(message: str) -> None:
    """A line for people, on stderr."""
    _write(f"querycloak: {message}\n")


def say_all(messages: Iterable[str]) -> None:
    """Lines for people, on stderr."""
    for message in messages:
        say(message)


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:  # a closed pipe, or a terminal that is gone
        _close(2)


def _nobody_reads() -> bool:
    """True if stdout is a pipe that its reader has closed, as `| head` does; no more is written to it then."""
    watched = select.poll()
    watched.register(1, 0)
    if not watched.poll(0):
        return False
    _close(1)
    return True


def _close(stream: int) -> None:
    """Discard everything that is still to be written there, without a message when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace else "an unknown place"
