"""Both engines, one suite. Without Java the Spark half is skipped, unless QUERYCLOAK_REQUIRE_SPARK says it must run."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from querycloak.engines import Engine, connect

pytest_plugins = ["tests.message_law"]
FIXTURES = Path(__file__).parent / "fixtures"
SLOW_CASES = Path(__file__).parent / "slow_cases.txt"
# No test fails because a machine is busy.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")
# A shell starts background jobs deaf to Ctrl-C, nohup those deaf to a hang-up; so would be the tests that send these
# signals, and the processes they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's second compiler does not pay off for small logs."""
LONGEST = {"spark": 0, "cluster": 1}


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """Gives every test with "spark" in its name to one worker: a second Spark would cost more than it helps.

    Those of the cluster, which has processes of its own, go together to one that may be another. All others stay with
    their file, so that what its tests share is made once.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid)


def _group(nodeid: str) -> str:
    if "tests/cluster/" in nodeid:
        return "cluster"
    return "spark" if "spark" in nodeid else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    config.option.loadscopereorder = False  # it would go by the number of tests, and these two have few and long ones
    return OneSpark(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is listed and what Spark would only repeat (`same_on_spark`). The longest groups go first."""
    items.sort(key=lambda item: LONGEST.get(_group(item.nodeid), len(LONGEST)))
    listed = slow_cases()
    for item in items:
        names = {item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]}
        if names & listed:
            item.add_marker("listed")
        if names & listed or (item.get_closest_marker("same_on_spark") and "spark" in item.name):
            item.add_marker("slow")


def slow_cases() -> frozenset[str]:
    """Files, tests and cases of tests that are slow by their measured time."""
    lines = SLOW_CASES.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def pytest_collection_finish() -> None:
    """What is there now stays until the end: looking through it for garbage, again and again, takes some 5 % longer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def pytest_sessionfinish() -> None:
    """Now it may go: libraries that count their objects at the end would complain."""
    gc.unfreeze()


def require_java() -> None:
    reason = None
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        reason = "no Java for Spark; install Java 17 or newer"
    elif find_spec("pyspark") is None:
        reason = "no Spark; install querycloak[spark]"
    if reason is not None:
        if os.environ.get("QUERYCLOAK_REQUIRE_SPARK"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[Engine]:
    engine = connect("duckdb")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[Engine]:
    require_java()
    with pytest.MonkeyPatch.context() as patch:
        # Commands that tests start get Spark's settings as users do.
        patch.setenv("JAVA_TOOL_OPTIONS", LIGHT_JAVA)
        patch.setenv("SPARK_CONF_DIR", str(FIXTURES / "spark"))
        engine = connect("spark", threads=2, memory="4g")
    yield engine
    engine.close()


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def spark_or_duckdb(engine_name: str) -> None:
    """Skips, or fails where Spark is required, a test that starts its own Spark without Java."""
    if engine_name == "spark":
        require_java()
