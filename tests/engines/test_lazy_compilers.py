"""Ibis without the compilers of other databases: what a command loads, and what stays within reach."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from querycloak.engines.lazy_compilers import COMPILERS
from tests.logs import ROWS, aol, write

RELEASED = """
import os, sys
from querycloak import __main__
def leave(code):
    print(*[name for name in sys.modules if name.startswith("ibis.backends.sql.compilers.")])
    sys.stdout.flush()
    end(code)
end, os._exit = os._exit, leave
__main__.main()
"""
REACHED = """
from querycloak.engines import connect
from querycloak.engines.lazy_compilers import load_compilers_lazily
load_compilers_lazily()
load_compilers_lazily()  # once is enough
import ibis.backends.sql.compilers as compilers
engine = connect("duckdb")
engine.close()
print(compilers.trino.compiler.dialect.__name__, hasattr(compilers, "nothing"))
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_loads_the_compiler_of_its_engine_alone(tmp_path: Path) -> None:
    log, out = write(tmp_path / "log.tsv", aol(ROWS)), tmp_path / "out"
    arguments = ["release", "queries", str(log), "--epsilon", "1", "--delta", "1e-6", "--out", str(out)]
    loaded = run(RELEASED, *arguments).splitlines()[-1].split()
    assert {name.removeprefix(f"{COMPILERS}.") for name in loaded if "._" not in name} == {"base", "duckdb"}
    assert (out / "card.json").exists()


def test_other_compilers_are_within_reach() -> None:
    assert run(REACHED).split() == ["Trino", "False"]


def test_ibis_only_lists_its_compilers_there() -> None:
    """What an empty package stands in for: a package that imports its modules and does nothing else."""
    spec = find_spec(COMPILERS)
    assert spec is not None
    assert spec.origin is not None
    statements = ast.parse(Path(spec.origin).read_text()).body
    assert [each for each in statements if not isinstance(each, ast.ImportFrom | ast.Assign)] == []
