"""The command line as a user runs it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def querycloak(*arguments: str | Path, tmp: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command; `tmp` is where its private folder goes."""
    settings = {**os.environ, **environment}
    if tmp is not None:
        settings["QUERYCLOAK_TMP"] = str(tmp)
    command = [sys.executable, "-m", "querycloak", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=settings, timeout=300)
