"""Kill the process of a method between payment and saving: `python -m querycloak.contract.killed`.

One process imports everything; each method then runs in a child that it forks, before any engine has threads.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from querycloak.errors import CheckFailed
from querycloak.files import fault
from querycloak.methods.method import Method
from querycloak.methods.option import options_of
from querycloak.privacy.ledger.ledger import Ledger

_POPULATION = "people"
_POINT = "after charge"


def killed_after_the_charge(methods: Sequence[Method], log_file: Path, folder: Path) -> list[str | None]:
    """Fault in the remains of each method after it dies between payment and saving; None if there is none.

    Each must be a method that a ledger can charge. Below `folder`, which is empty, each has a folder of its own.
    """
    roots = [folder / str(number) for number in range(len(methods))]
    for root in roots:
        root.mkdir()
        Ledger(root / "ledger.sqlite").set_limit(_POPULATION, 1e6, 0.999)
    try:
        jobs = pickle.dumps([(*_parts(method), log_file, root) for method, root in zip(methods, roots, strict=True)])
    except (pickle.PicklingError, AttributeError, TypeError):
        raise CheckFailed("a method must be a value of a class that can be imported: it cannot be pickled") from None
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "QUERYCLOAK_TMP": str(folder)}
    command = [sys.executable, "-m", "querycloak.contract.killed"]
    done = subprocess.run(command, input=jobs, capture_output=True, check=False, env=settings)
    if done.returncode != 0:
        raise CheckFailed("a method must be a value of a class that can be imported: another process cannot load it")
    codes = [int(word) for word in done.stdout.split()]
    return [_problem(root, code) for root, code in zip(roots, codes, strict=True)]


def _parts(method: Method) -> tuple[type[Method], dict[str, Any]]:
    """Arguments that build the same method in another process."""
    return type(method), {each.name: vars(method)[each.name] for each in options_of(type(method))}


def _problem(root: Path, code: int) -> str | None:
    charges = Ledger(root / "ledger.sqlite").show(_POPULATION)[0].charges
    left = sorted(path.name for path in root.iterdir() if not path.name.startswith("ledger.sqlite"))
    if code != -signal.SIGKILL:
        return f"it ended with {code} before it was charged"
    if [charge.status for charge in charges] != ["no release"]:
        return f"{len(charges)} charges are in the ledger, where one without a release should be"
    return f"{len(left)} files or folders are left" if left else None


def _run(kind: type[Method], options: dict[str, Any], log_file: Path, root: Path) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ[fault.VARIABLE] = _POINT
            _release(kind(**options), log_file, root)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended)


def _release(method: Method, log_file: Path, root: Path) -> None:
    from querycloak.audits.guarantees.user_rows import read_for
    from querycloak.engines import connect

    ledger = Ledger(root / "ledger.sqlite")
    with read_for(method, log_file, connect("duckdb")) as log:
        method.release(log, ledger=ledger, population=_POPULATION).save(root / "released")


def _main() -> None:
    import querycloak.audits.guarantees.user_rows
    import querycloak.engines.duckdb
    import querycloak.logs.searchlog
    import querycloak.releases.saving  # noqa: F401 (once for all children)

    jobs: list[tuple[type[Method], dict[str, Any], Path, Path]] = pickle.load(sys.stdin.buffer)
    sys.stdout.write(" ".join(str(_run(*job)) for job in jobs))


if __name__ == "__main__":
    _main()
