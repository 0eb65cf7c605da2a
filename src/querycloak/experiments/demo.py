"""The demo's log."""

from __future__ import annotations

from importlib.resources import files

from querycloak.logs.searchlog import SearchLog, read


def demo_log() -> SearchLog:
    """The small invented log that comes with querycloak."""
    return read(str(files("querycloak.experiments") / "data" / "demo.tsv.gz"))
