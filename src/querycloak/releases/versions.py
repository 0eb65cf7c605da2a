"""Software that made a release; nothing about the machine it ran on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("querycloak", "opendp", "duckdb", "pyarrow")


def versions() -> dict[str, str]:
    """The versions of Python and of every package that reads, counts, draws or writes."""
    versions_used = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions_used[package] = version(package)
        except PackageNotFoundError:
            versions_used[package] = "not installed"
    return versions_used
