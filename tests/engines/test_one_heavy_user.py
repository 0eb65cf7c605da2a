"""One user's rows never decide whether a release ends: what they make an engine hold is bounded before it expands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from querycloak.engines import Engine, connect
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.affinity.method import Affinity
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.generalize.method import Generalize
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.sessions.method import Sessions
from tests.conftest import FIXTURES
from tests.logs import AOL_HEADER, write

MEMORY = "256MB"
POOL = str(FIXTURES / "pool.txt")
METHODS: dict[str, Method] = {
    "clicks priors": Clicks(epsilon=9, delta=1e-3, priors="public"),
    "clicks gaussian priors": Clicks(epsilon=4, delta=1e-3, selection="gaussian", priors="public"),
    "sessions of seven": Sessions(epsilon=8, delta=1e-3, sessions_per_user=1, queries_per_session=7, no_clicks=True),
    "sessions priors": Sessions(epsilon=8, delta=1e-3, priors="public"),
    "sessions paper": Sessions(noise=1, threshold=200, sessions_per_user=2, queries_per_session=6, variant="paper"),
    "pool": QueryPool(epsilon=12, delta=1e-3, pool=POOL, off_pool=True, clicks="threshold"),
    "pool paper": QueryPool(noise=1, threshold=10, pool=POOL, variant="paper"),
    "optimal": Optimal(epsilon=8, delta=1e-2, max_keys_per_user=8, linked_per_user=3),
    "k log": KAnonymity(min_users=3, keys="log"),
    "affinity": Affinity(min_users=3, concept_users=5),
    "generalize": Generalize(min_users=3),
    "semantic": Semantic(epsilon=4, domain="sport", max_queries=8),
}


def heavy_rows() -> Iterator[str]:
    """Queries of 32,000 words, words of 64 KiB, urls as long, sessions of long queries: all within the field limit."""
    texts = [" ".join(f"{(place * (number + 3)) % 16:x}" for place in range(32_000)) for number in range(6)]
    texts += [f"y{number}{'x' * 65_000}" for number in range(6)]
    texts += [f"{number} {'z' * 16_000}" for number in range(240)]
    at = datetime(2006, 3, 2)
    for number, text in enumerate(texts):
        at += timedelta(minutes=40 if number % 8 == 0 else 1)
        url = f"http://{number}.example/{'p' * 60_000}" if number < 12 else ""
        yield f"heavy\t{text}\t{at}\t{'1' if url else ''}\t{url}"


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [AOL_HEADER, *heavy_rows()]
    rows += [
        f"u{user}\tquery {asked}\t2006-03-01 12:{asked:02}:00\t1\thttp://{asked}.example/"
        for user in range(40)
        for asked in range(8)
    ]
    return write(tmp_path_factory.mktemp("heavy") / "log.tsv", "\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def small_engine() -> Iterator[Engine]:
    engine = connect("duckdb", threads=2, memory=MEMORY)
    yield engine
    engine.close()


@pytest.fixture
def log(small_engine: Engine, log_file: Path) -> SearchLog:
    return read(log_file, log_format="aol", engine=small_engine)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_release_ends_whatever_one_user_wrote(method: Method, log: SearchLog) -> None:
    assert method.release(log).tables
