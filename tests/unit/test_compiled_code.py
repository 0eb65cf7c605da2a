"""Compiled code finds a place without a writable home or package, and nobody else's folder is believed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from querycloak import compiled_code

# As for a service without a home, with the package on a read-only disk: nothing but one folder can be written.
SERVICE = """
import os, sys
access, allowed = os.access, {allowed!r}
os.access = lambda path, *more, **others: str(path).startswith(allowed) and access(path, *more, **others)
import querycloak
import numba.core.caching as caching
for each in (caching.InTreeCacheLocator, caching.UserWideCacheLocator):
    each.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError("read-only"))
from querycloak.cli.running import run_and_exit
def work():
    from querycloak.logs.reading.times import iso_or_epoch
    from querycloak.text.spans import Spans
    import pyarrow as pa
    times, readable = iso_or_epoch(Spans.of(pa.array(["2006-03-01 10:00:00"])))
    print(readable.tolist(), os.environ.get("NUMBA_CACHE_DIR"))
run_and_exit(work)
"""


@pytest.fixture(autouse=True)
def _nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled_code, "_chosen", [])
    monkeypatch.delitem(sys.modules, "numba", raising=False)


def test_without_a_writable_home_or_package_it_works_and_says_how_to_keep_what_is_compiled(tmp_path: Path) -> None:
    settings = {**os.environ, "QUERYCLOAK_TMP": str(tmp_path), "HOME": "/nonexistent", "XDG_CACHE_HOME": ""}
    script = SERVICE.format(allowed=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=settings, check=False)
    assert (done.returncode, done.stdout) == (0, f"[True] {tmp_path}/.querycloak-compiled-{os.getuid()}\n"), done.stderr
    assert done.stderr == f"querycloak: {compiled_code.ADVICE}\n"
    assert list(tmp_path.rglob("*.nbc")) != []


def only(monkeypatch: pytest.MonkeyPatch, allowed: Path) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path).startswith(str(allowed)) and access(path, mode))


def test_numba_keeps_its_own_place_where_it_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "yet"))
    only(monkeypatch, tmp_path)
    compiled_code.choose_place()
    assert compiled_code.VARIABLE not in os.environ
    assert compiled_code.advice() is None


def test_a_place_that_is_named_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "mine")
    only(monkeypatch, Path("/nowhere"))
    compiled_code.choose_place()
    assert os.environ["NUMBA_CACHE_DIR"] == "mine"


@pytest.mark.parametrize("taken", ["others may write", "a link"])
def test_what_others_can_have_written_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    place = tmp_path / f".querycloak-compiled-{os.getuid()}"
    if taken == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
        place.chmod(0o777)
    monkeypatch.setenv("QUERYCLOAK_TMP", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    only(monkeypatch, Path("/nowhere"))
    compiled_code.choose_place()
    chosen = Path(os.environ["NUMBA_CACHE_DIR"])
    assert chosen != place
    assert chosen.stat().st_mode & 0o777 == 0o700
