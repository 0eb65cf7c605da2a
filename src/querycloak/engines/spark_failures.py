"""Failures of Spark, in one line each: Java that ended, a server that is gone, a cluster without workers.

Spark's own words are looked at, and never passed on: they may quote the log.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

from querycloak.errors import QuerycloakError, ResourceError
from querycloak.sentence import Sentence

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
    """Watches a cluster from a thread of its own, and says so if no workers come."""

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext
        self._over = threading.Event()
        self._alone = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """Watch no longer."""
        self._over.set()

    def _watch(self) -> None:
        with contextlib.suppress(Exception):  # Java that has ended is noticed by whoever waits for its answer
            while not self._over.wait(_EVERY):
                self._look()

    def _look(self) -> None:
        tracker = self._context._jsc.sc().statusTracker()
        waits = (
            len(tracker.getActiveJobIds()) > 0 and len(tracker.getExecutorInfos()) < 2
        )  # one of them is this process
        self._alone = self._alone + _EVERY if waits else 0.0
        if self._alone >= PATIENCE_FOR_WORKERS:
            self._context.cancelAllJobs()  # whoever waits is told so, and `failure` knows the words
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
