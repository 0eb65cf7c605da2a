"""A method in another process of this machine: spelled as JSON here, made again there."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from typing import Any

from querycloak.methods.method import Method

__all__ = ["can_be_spelled", "made_from", "spelled", "started"]


def spelled(method: Method) -> dict[str, Any]:
    """A method as another process can make it: its class and what was given."""
    kind = type(method)
    options = {each.name: vars(method)[each.name] for each in fields(method) if each.init}
    return {"module": kind.__module__, "name": kind.__qualname__, "options": options}


def can_be_spelled(method: Method) -> bool:
    """True if another process can make it: not if its class stands in a notebook or within a function."""
    kind = type(method)
    home = sys.modules.get(kind.__module__)
    if home is None or kind.__module__ == "__main__" or vars(home).get(kind.__qualname__) is not kind:
        return False
    try:
        json.dumps(spelled(method))
    except (TypeError, ValueError):
        return False
    return True


def made_from(spelling: dict[str, Any]) -> Method:
    """The method of a spelling."""
    made: Method = vars(import_module(spelling["module"]))[spelling["name"]](**spelling["options"])
    return made


def started(module: str, given: object) -> subprocess.Popen[str]:
    """`python -m module` with this JSON on its stdin; it sees the same packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError), process.stdin:  # a process that failed says so by its exit code
            process.stdin.write(json.dumps(given))
        process.stdin = None
    return process
