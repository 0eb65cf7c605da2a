"""Spark's own standalone cluster as processes of this machine: a master, two workers, a Spark Connect server.

Everything listens on loopback and writes below one folder, which whoever starts a cluster gives and removes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import LIGHT_JAVA

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE = 600.0
"""Seconds after which a part that does not answer hangs: many, for no test may fail because a machine is busy."""


@dataclass
class Cluster:
    """A cluster that runs."""

    folder: Path
    master_port: int
    connect_port: int
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def standalone(self) -> str:
        """Where the master is."""
        return f"spark://127.0.0.1:{self.master_port}"

    @property
    def connect(self) -> str:
        """Where the Spark Connect server is."""
        return f"sc://127.0.0.1:{self.connect_port}"

    def environment(self) -> dict[str, str]:
        """For processes of the cluster and for those that use it."""
        import pyspark

        return {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(REPOSITORY / "tests" / "fixtures" / "cluster"),
            "SPARK_DAEMON_MEMORY": "640m",
            "JAVA_TOOL_OPTIONS": LIGHT_JAVA,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
            # Executors import what the tests do.
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        }

    def start(self, workers: int = 2) -> None:
        """The master and its workers."""
        master = "org.apache.spark.deploy.master.Master"
        place = ["--host", "127.0.0.1", "--port", str(self.master_port), "--webui-port", "0"]
        self.others.append(self._started("master", "spark-class", master, *place))
        _wait_for(self.master_port, self.others[-1])
        for _ in range(workers):
            self.add_worker()

    def add_worker(self) -> None:
        """One more worker, with room for two programs at a time, even if all of their executors come here."""
        name = f"worker-{len(self.workers) + 1}"
        worker = "org.apache.spark.deploy.worker.Worker"
        room = ["--cores", "4", "--memory", "4g", "--work-dir", str(self.folder / name), "--webui-port", "0"]
        place = ["--host", "127.0.0.1", *room, self.standalone]
        self.workers.append(self._started(name, "spark-class", worker, *place))
        self._wait_for_line(name, "Successfully registered with master", self.workers[-1])

    def start_connect_server(self) -> None:
        """A Spark Connect server whose executors are the cluster's."""
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        port = f"spark.connect.grpc.binding.port={self.connect_port}"
        arguments = ["--master", self.standalone, "--class", server, "--conf", port]
        self.others.append(self._started("connect", "spark-submit", *arguments, "spark-internal"))
        _wait_for(self.connect_port, self.others[-1])

    def stop(self) -> None:
        """End everything that was started here."""
        for process in (*reversed(self.others), *self.workers):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # of its own session: executors and their Pythons go with it
            process.wait()

    def logged(self) -> str:
        """All that the cluster's processes have written about their work."""
        files = [path for name in ("*.log", "worker-*/*/*/std*") for path in self.folder.glob(name)]
        return "\n".join(path.read_text(errors="replace") for path in files)

    def _started(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = self.environment()
        path = Path(environment["SPARK_HOME"]) / "bin" / program
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [path, *arguments], stdout=log, stderr=log, env=environment, cwd=self.folder, start_new_session=True
            )

    def wait_for_program(self) -> None:
        """Until a program has come to the master."""
        self._wait_for_line("master", "Registered app", self.others[0])

    def _wait_for_line(self, name: str, line: str, process: subprocess.Popen[bytes]) -> None:
        for _ in _until_it_ends(process, name):
            if line in (self.folder / f"{name}.log").read_text(errors="replace"):
                return


@contextlib.contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and its workers, as long as the block lasts."""
    master, connect = _free_ports(2)
    cluster = Cluster(folder, master, connect)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in _until_it_ends(process, f"port {port}"):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return


def _until_it_ends(process: subprocess.Popen[bytes], name: str) -> Iterator[None]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        yield
        time.sleep(0.1)
    raise RuntimeError(f"the cluster's {name} did not start: its log is in the folder of the cluster")
