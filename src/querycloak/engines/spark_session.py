"""Start of a Spark session and failures of Spark, silently: the words of Spark and Java may quote the log."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

from querycloak.errors import QuerycloakError, ResourceError
from querycloak.interruption import uninterrupted
from querycloak.sentence import Sentence

_PORTS = {"spark": 7077, "sc": 15002}
PATIENCE = 10.0
"""Seconds to wait for an answer."""
RETRIES = 5
"""Waits start at 0.05 seconds and grow fourfold: about 20 seconds in all."""


def require_answer(master: str) -> None:
    """Refuse an address at which nobody answers: Spark itself would go on trying for many minutes."""
    if master.partition("://")[0] in _PORTS and not answers_at(master):
        raise ResourceError(f"nobody answers at {master!r}: check the address, and that Spark runs there")


def answers_at(master: str) -> bool:
    """True if a server answers at this address."""
    scheme, _, places = master.partition("://")
    for place in places.partition("/")[0].partition(";")[0].split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", "")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host, int(port or _PORTS[scheme])), timeout=PATIENCE).close()
            return True
    return False


def is_running() -> bool:
    """True if this process already has a session of another owner; it is used and left running."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # A session is active only in the thread that started it, and ours are started in one of their own.
    return SparkSession.getActiveSession() is not None or SparkContext._active_spark_context is not None


def _hush() -> None:
    """Turn off the loggers of Spark's Python side: they quote the value that an error is about."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging", "py4j"):
        logging.getLogger(name).disabled = True
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # which loggers below it take over
    logging.getLogger().addFilter(_is_not_of_spark)  # some of it goes to everybody's logger
    from pyspark.accumulators import AccumulatorServer

    # Its threads write tracebacks when Java ends.
    AccumulatorServer.handle_error = lambda *_: None


def _is_not_of_spark(record: logging.LogRecord) -> bool:
    return not any(f"{os.sep}{package}{os.sep}" in record.pathname for package in ("py4j", "pyspark"))


def new_session(master: str, threads: int, memory: str, folder: str) -> Any:
    """A session of our own, or the one that runs already."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    _hush()
    builder = SparkSession.builder.appName("querycloak")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        builder = builder.master(f"local[{threads}]" if master == "local" else master)
        java = f"-Djava.io.tmpdir={folder} -Dlog4j2.level=OFF -Dlog4j.rootLogger=OFF -XX:+ExitOnOutOfMemoryError"
        settings |= {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.driver.memory": memory,
            "spark.driver.bindAddress": "127.0.0.1" if master == "local" else "0.0.0.0",
            "spark.driver.extraJavaOptions": java,
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        }
        if master == "local":
            settings |= {
                "spark.local.dir": folder,
                "spark.driver.host": "127.0.0.1",
                "spark.sql.shuffle.partitions": str(2 * threads),
            }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _silence(), _own_signals():
        if master.startswith("sc://"):
            session = builder.getOrCreate()  # it starts no Java here
            _give_up_sooner(session)
        else:
            _start(builder.getOrCreate)
            session = builder.getOrCreate()  # the same one
            session.sparkContext.setLogLevel("OFF")
    return session


def _start(start: Callable[[], Any]) -> None:
    """Start Spark from a thread of its own, so that a signal ends the wait, and with it the Java that was started.

    Java that loses its Python while it starts would run for ever: it finds no place for its address, and waits.
    """
    from pyspark import java_gateway

    processes: list[subprocess.Popen[bytes]] = []
    call: Future[Any] = Future()
    given_up = threading.Event()
    popen = java_gateway.Popen

    def recorded(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        if given_up.is_set():
            raise InterruptedError
        # Out of memory, Java says so on its output: there nothing stands but what a command prints.
        processes.append(popen(*arguments, **{"stdout": subprocess.DEVNULL, **named}))
        return processes[-1]

    def work() -> None:
        try:
            call.set_result(start())
        except BaseException as error:  # broad: the waiting thread raises it
            call.set_exception(error)

    java_gateway.Popen = recorded
    try:
        threading.Thread(target=work, daemon=True).start()
        call.result()
    except KeyboardInterrupt:
        with uninterrupted():
            given_up.set()
            _end(call, processes)
        raise
    finally:
        java_gateway.Popen = popen


def _end(call: Future[Any], processes: list[subprocess.Popen[bytes]]) -> None:
    """End the Java that a start has made, also if it appears only now."""
    until = time.monotonic() + PATIENCE
    while True:
        for process in processes:
            process.kill()
        if call.done() or time.monotonic() > until:
            return
        wait([call], 0.1)


def _give_up_sooner(session: Any) -> None:
    """Retry calls that a server does not answer for about 20 seconds, not for Spark's ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep whatever answers Ctrl-C: with Spark's own handler an interrupt becomes an error of Java's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, kept)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Start what is started here with its error stream closed for good: Java logs would quote the log."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


PATIENCE_FOR_WORKERS = 600.0
"""Seconds that a job waits while no worker is there for it: Spark itself would wait for ever, without a word."""
_EVERY = 2.0
_ENDED = {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "EOFError"}
_UNANSWERED = {"RetriesExceeded", "SparkConnectGrpcException", "_InactiveRpcError", "_MultiThreadedRendezvous"}
_LOST_WORKERS = (
    "executorlostfailure",
    "has failed the maximum allowable number of times",
    "fetchfailed",
    "checkpoint_rdd_block_id_not_found",
)
_CANCELLED = "cancelled as part of cancellation of all jobs"
JAVA_ENDED = Sentence("Spark's Java has ended, killed or out of memory: give it more with {memory}, or free some")


class Desertion:
    """Watch of a cluster, in a thread of its own: it cancels all jobs after ten minutes without a worker."""

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext
        self._over = threading.Event()
        self._alone = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """Watch no longer."""
        self._over.set()

    def _watch(self) -> None:
        with contextlib.suppress(Exception):  # the thread that waits for Java's answer notices its end
            while not self._over.wait(_EVERY):
                self._look()

    def _look(self) -> None:
        tracker = self._context._jsc.sc().statusTracker()
        waits = (
            len(tracker.getActiveJobIds()) > 0 and len(tracker.getExecutorInfos()) < 2
        )  # one of them is this process
        self._alone = self._alone + _EVERY if waits else 0.0
        if self._alone >= PATIENCE_FOR_WORKERS:
            self._context.cancelAllJobs()  # `failure` explains it to the waiting thread
            self._alone = 0.0


def failure(error: Exception, session: Any, master: str, *, answers: bool) -> QuerycloakError | None:
    """Meaning of a Spark error; None if it may be a bug of ours."""
    words = str(error).lower()
    if _CANCELLED in words:
        return ResourceError(
            f"no worker of {master!r} was there for {PATIENCE_FOR_WORKERS:g} seconds: see that they run and have cores "
            "and memory free, then start again"
        )
    if not answers:
        return ResourceError(f"{master!r} no longer answers: see that Spark runs there, then start again")
    stopped = is_stopped(session)
    if not _ENDED.isdisjoint(_kinds(error)) or has_ended(session) or stopped is None:
        return ResourceError(JAVA_ENDED)
    if stopped:
        return ResourceError(
            f"Spark at {master!r} has ended this program: see what became of its workers, then start again"
        )
    if "no module named 'querycloak" in words:
        return ResourceError(
            "workers of Spark have no querycloak: install the same version on every one of them "
            "(pip install 'querycloak[spark]'), in the Python that PYSPARK_PYTHON names there"
        )
    if any(each in words for each in _LOST_WORKERS):
        return ResourceError(
            "workers of Spark were lost again and again, most likely for want of memory: give executors more "
            "(spark.executor.memory), or see what became of them"
        )
    return None


def _kinds(error: Exception) -> set[str]:
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    return {type(each).__name__ for each in chain}


def is_unanswered(error: Exception) -> bool:
    """True if a Spark Connect server may have gone."""
    return not _UNANSWERED.isdisjoint(_kinds(error))


def has_ended(session: Any) -> bool:
    """True if the Java that was started here runs no longer."""
    gateway = getattr(getattr(session, "_sc", None), "_gateway", None)
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def is_stopped(session: Any) -> bool | None:
    """True if Spark has ended the program, though its Java still runs; None: Java answers no longer."""
    java = getattr(getattr(session, "_sc", None), "_jsc", None)
    try:
        return java is not None and bool(java.sc().isStopped())
    except Exception:  # broad: a Java that has just ended fails in many types, of py4j and of sockets
        return None


def failed_start(error: Exception) -> QuerycloakError:
    """Reason that Spark did not start."""
    if isinstance(error, ModuleNotFoundError):
        return ResourceError("Spark is not installed: pip install 'querycloak[spark]'")
    home = os.environ.get("SPARK_HOME")
    if home and not Path(home, "bin", "spark-submit").is_file():
        return ResourceError(f"SPARK_HOME is {home!r}, where no Spark is: unset it, or set it to the folder of one")
    if "JAVA_GATEWAY_EXITED" in str(error) or isinstance(error, FileNotFoundError):
        return ResourceError("Spark found no Java: install Java 17 or newer, or set JAVA_HOME")
    return ResourceError(f"Spark did not start ({type(error).__name__}): check the address and that it can be reached")
