"""Commands in processes that are forked from one that has loaded everything: a run takes a fraction of a second."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

LOADED = (
    "ibis.backends.duckdb",
    "querycloak.cli.cli",
    "querycloak.logs.searchlog",
    "querycloak.engines.duckdb",
    "querycloak.methods.clicks.method",
    "querycloak.methods.sessions.method",
    "querycloak.methods.k_anonymity.method",
    "querycloak.releases.saving",
    "querycloak.synthetic.log_writer",
    "querycloak.evaluation.split_folder",
    "querycloak.methods.evidence",
    "querycloak.releases.folder",
    "querycloak.pages.comparison_page",
    "querycloak.reproduction.workbench",
    "querycloak.evaluation.evaluation",
    "querycloak.audits.release_audit",
    "querycloak.logs.profile",
    "querycloak.methods.queries.method",
    "querycloak.methods.affinity.method",
    "querycloak.methods.generalize.method",
    "querycloak.methods.query_pool.method",
    "querycloak.methods.optimal.method",
    "querycloak.methods.phrases.method",
    "querycloak.methods.eu_records.method",
    "querycloak.exports.export",
    "querycloak.signing.signoff",
    "querycloak.text.wordnet",
    "querycloak.pages.signing_report",
    "querycloak.evaluation.tasks.counts",
    "querycloak.evaluation.tasks.completion",
    "querycloak.methods.synthetic.made_up_log",
    "querycloak.methods.optimal.made_up_users",
    "querycloak.methods.affinity.ngram_concepts",
    "querycloak.methods.keys.cell_counts",
    "querycloak.methods.accuracy_target",
    "querycloak.methods.sessions.count",
    "querycloak.privacy.accounting.composition",
    "querycloak.privacy.ledger.campaigns",
    "querycloak.releases.release_model",
    "ibis.expr.types.groupby",
    "ibis.formats.pyarrow",
    "pyarrow.dataset",
    "altair",
)


def load() -> None:
    """Load what commands need; no thread is started, for a fork takes none along."""
    from importlib import import_module

    from typer.main import get_command

    from querycloak.cli.cli import app
    from querycloak.methods.generalize.clusters import matcher_of
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.text.wordnet import wordnet

    for name in LOADED:
        import_module(name)
    _build(get_command(app))
    Randomness().make_ready()
    matcher_of(wordnet())


def _build(group: Any) -> None:
    """Import each command's module, which happens when its group is asked for it."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            _build(command)


def start(arguments: Sequence[str], said: Path, settings: Mapping[str, str]) -> int:
    """Start a command in a child; what it says goes into a file."""
    return start_work(lambda: _run(arguments), said, settings)


def start_work(work: Callable[[], object], said: Path, settings: Mapping[str, str]) -> int:
    """Start any work in a child."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ.update(settings)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        _leave(code)
    return 0


def _leave(code: int) -> None:
    import atexit

    atexit._run_exitfuncs()
    os._exit(code)


def _run(arguments: Sequence[str]) -> None:
    from querycloak.cli.cli import app
    from querycloak.cli.running import run_and_exit

    run_and_exit(lambda: app(list(arguments), prog_name="querycloak", standalone_mode=False))


def ended(child: int) -> int:
    """The exit code of a child, below 0 if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ended_within(child: int, seconds: float, clock: Callable[[int], float] = lambda _: time.monotonic()) -> int | None:
    """The same, nothing if it still runs by then.

    clock: the seconds that count, of the clock on the wall, or those that a child has `worked`.
    """
    until = clock(child) + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if clock(child) >= until:
            return None
        time.sleep(0.002)


def worked(child: int) -> float:
    """Processor seconds of a child, and of those of its children that have ended."""
    numbers = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")


def ended_in_bounds(child: int, seconds: float, megabytes: int) -> tuple[int | None, int]:
    """Exit code of a child, and megabytes that it held more than this process.

    A child that takes more of either is killed; its exit code is None.
    """
    until, before = time.monotonic() + seconds, _resident(os.getpid())
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        used = (usage.ru_maxrss - before) // 1024 if ended else (_resident(child) - before) // 1024
        if ended:
            return os.waitstatus_to_exitcode(status), max(0, used)
        if time.monotonic() >= until or used > megabytes:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, used
        time.sleep(0.005)


def _resident(process: int) -> int:
    """Kilobytes that a process holds; 0 if it is about to end."""
    lines = Path(f"/proc/{process}/status").read_text().split("VmRSS:")
    return int(lines[1].split()[0]) if len(lines) > 1 else 0


def exit_code(arguments: Sequence[str]) -> int:
    """Run a command in this process, to its end."""
    from querycloak.cli.cli import app
    from querycloak.cli.running import run

    return run(lambda: app(list(arguments), prog_name="querycloak", standalone_mode=False))


def run(arguments: Sequence[str], said: Path, settings: Mapping[str, str]) -> int:
    """Run a command to its end."""
    return ended(start(arguments, said, settings))
