"""Limits of the machine: what a container or a shell allows is read, and an engine gets a share of it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from querycloak.errors import ResourceError
from querycloak.extras import MEMORY_USED_UP
from querycloak.memory_limits import USUAL, container_limit, engine_memory
from querycloak.pages import charts


@pytest.fixture(autouse=True)
def _no_limit_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        ({"sys/fs/cgroup/memory.max": "943718400\n"}, 943718400),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "900000000\n"}, 900000000),
        (
            {
                "proc/self/cgroup": "3:cpu:/x\n2:memory:/docker/c\n",
                "sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes": "800000000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            800000000,
        ),
    ],
)
def test_limits_of_containers(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    assert container_limit(machine(tmp_path, files)) == limit


def test_an_engine_gets_a_share_of_a_limit_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_memory(root=tmp_path) == (USUAL, None)
    machine(tmp_path, {"sys/fs/cgroup/memory.max": "900000000"})
    assert engine_memory(root=tmp_path) == (
        540_000_000, "540 MB of memory for the engine, 60% of the container's limit (900 MB)",
    )  # fmt: skip
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**9, 10**9))
    amount, sentence = engine_memory(root=tmp_path)
    assert amount == 250_000_000
    assert "25% of the limit of address space (ulimit -v) (1,000 MB)" in str(sentence)


def limited(kilobytes: int, *words: object) -> tuple[int, str]:
    """Exit code and message of a command with this limit of address space."""
    script = f"ulimit -v {kilobytes}; exec {sys.executable} -m querycloak {' '.join(map(str, words))}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("kilobytes", [300_000, 500_000])
def test_libraries_that_do_not_fit_are_no_bug_of_ours(tmp_path: Path, kilobytes: int) -> None:
    release = Path(__file__).parents[1] / "fixtures" / "releases" / "sessions"
    code, message = limited(kilobytes, "report", release, "--out", tmp_path / "page")
    assert (code, message.partition(":")[2]) == (2, f" {MEMORY_USED_UP}\n")


def test_pictures_that_do_not_fit_are_refused_before_any_work(tmp_path: Path) -> None:
    """The library that draws them reserves 69 GB of addresses, and aborts if it cannot."""
    code, message = limited(4_000_000, "ledger", "show", "--ledger", tmp_path / "l", "--picture", tmp_path / "p.html")
    assert (code, message) == (
        2,
        "querycloak: the limit of address space (ulimit -v) is 4,096 MB, and a picture of budgets needs at least "
        "80,000 MB: raise it\n",
    )


def test_a_page_with_pictures_says_that_they_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4 * 10**9, 4 * 10**9))
    with pytest.raises(ResourceError, match="a page with pictures needs at least 80,000 MB"):
        charts._svg({})


def test_too_little_address_space_is_a_clear_line(tmp_path: Path) -> None:
    """Libraries that do not fit would end the process from within."""
    assert limited(700_000, "inspect", tmp_path) == (
        2,
        "querycloak: the limit of address space (ulimit -v) is 717 MB, and reading a log needs at least 2,000 MB: "
        "raise it\n",
    )
