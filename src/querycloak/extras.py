"""Packages that only an extra brings: a missing one is named with its extra, before any work."""

from __future__ import annotations

from importlib.util import find_spec

from querycloak.errors import ResourceError

COMPARE = "compare"
PACKAGES = {COMPARE: ("altair", "ortools", "vl_convert")}


def require(extra: str, what: str) -> None:
    """Refuse what needs an extra that is not installed."""
    missing = [package for package in PACKAGES[extra] if find_spec(package) is None]
    if missing:
        raise ResourceError(
            f"{what} needs {' and '.join(missing)}, not installed here: pip install 'querycloak[{extra}]'"
        )
