"""The command line as a user runs it: in a process of its own, or, for what needs none, within this one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from querycloak.cli.cli import app
from querycloak.cli.running import run
from tests.message_law import not_options_of

Done = subprocess.CompletedProcess[str]
PATIENCE = 1800
"""Seconds after which a command hangs: many, for no test may fail because a machine is busy."""


def querycloak(*arguments: str | Path, tmp: Path | None = None, **environment: str) -> Done:
    """Run a command in a process of its own; `tmp` is where its private folder goes."""
    command = [sys.executable, "-m", "querycloak", *map(str, arguments)]
    settings = {**os.environ, **_settings(tmp, environment)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=settings, timeout=PATIENCE)


def in_process(*arguments: str | Path, tmp: Path | None = None, **environment: str) -> Done:
    """Run a command here, with its own output and exit code: many times faster, for commands that only parse,
    compute a guarantee or read a small log. What signals, pipes or a crash do needs a process."""
    words = list(map(str, arguments))
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, _settings(tmp, environment)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run(lambda: app(words, prog_name="querycloak", standalone_mode=False))
    if code:
        assert not_options_of(words, err.getvalue()) == set(), err.getvalue()
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def _settings(tmp: Path | None, environment: dict[str, str]) -> dict[str, str]:
    return environment if tmp is None else {**environment, "QUERYCLOAK_TMP": str(tmp)}
