"""Everything that a draw and a folder need is loaded before anything is paid: what cannot be loaded costs no budget."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from querycloak import Ledger, Queries, read
from querycloak.errors import ResourceError
from querycloak.privacy.sampling import randomness
from tests.logs import ROWS, aol, write

# Releases in a new process, and prints the modules loaded between the charge and the completion of the release.
RELEASED = """
import sys
from querycloak import Ledger, read
from querycloak.methods.registry import METHODS
name, log, out, *given = sys.argv[1:]
loaded = set()
charge, complete = Ledger.charge, Ledger.complete
def charging(self, *arguments, **named):
    made = charge(self, *arguments, **named)
    loaded.update(sys.modules)
    return made
def completing(self, *arguments, **named):
    print(*sorted(set(sys.modules) - loaded), sep="\\n")
    return complete(self, *arguments, **named)
Ledger.charge, Ledger.complete = charging, completing
ledger = Ledger(out + ".ledger")
ledger.set_limit("people", 100, 0.01)
options = dict(pair.split("=") for pair in given)
for key, value in options.items():
    options[key] = float(value) if "." in value else int(value) if value.isdigit() else value
opened = read(log)
METHODS[name](**options).release(opened, ledger=ledger, population="people").save(out)
opened.engine.close()
"""
BUDGET = ("epsilon=20.0", "delta=0.001")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = [
        (f"{user}", "12:00:00", query, "1", f"http://{query}.example/") for user in range(40) for query in ("a", "b")
    ]
    return write(tmp_path / "log.tsv", aol([*ROWS, *rows]))


def test_a_library_that_cannot_be_loaded_costs_no_budget(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    randomness._opendp_sampler.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp.measurements", None)
    ledger = Ledger(tmp_path / "ledger")
    ledger.set_limit("people", 1, 1e-6)
    with pytest.raises(ResourceError, match=r"a release needs a package that cannot be loaded: .*nothing was charged"):
        Queries(epsilon=1, delta=1e-6).release(read(log), ledger=ledger, population="people")
    assert ledger.show("people")[0].charges == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("queries", BUDGET),
        ("clicks", BUDGET),
        ("clicks", (*BUDGET, "counts=none")),
        ("sessions", BUDGET),
        ("phrases", BUDGET),
        ("query-pool", BUDGET),
        ("optimal", BUDGET),
        ("semantic", ("epsilon=20.0", "max_queries=1")),
    ],
)
def test_nothing_is_loaded_between_charge_and_release(
    log: Path, tmp_path: Path, method: str, options: tuple[str, ...]
) -> None:
    arguments = [sys.executable, "-c", RELEASED, method, str(log), str(tmp_path / "out"), *options]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [], done.stdout
