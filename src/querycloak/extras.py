"""Packages that must be loaded, and the versions that made a release.

A package that an extra lacks, or memory that does not suffice, is named before any work.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from querycloak.errors import ResourceError
from querycloak.memory_limits import ADDRESSES_OF_PICTURES, has_fewer_addresses, require_addresses

COMPARE, STUDIO = "compare", "studio"
MEMORY_USED_UP = "memory or address space (ulimit -v) is used up: use fewer threads, or try where more is free"
PACKAGES = {COMPARE: ("altair", "ortools", "vl_convert"), STUDIO: ("starlette", "uvicorn")}
PICTURES = ("altair", "vl_convert")
"""The packages of `compare` that pictures need."""


def require(extra: str, what: str, packages: tuple[str, ...] = ()) -> None:
    """Refuse `what` if packages that it needs are not installed or do not fit into memory.

    packages: those of the extra that it needs; empty for all of them.
    """
    needed = packages or PACKAGES[extra]
    if set(PICTURES) <= set(needed):
        require_addresses(ADDRESSES_OF_PICTURES, what)
    missing = [package for package in needed if find_spec(package) is None]
    if missing:
        raise ResourceError(
            f"{what} needs {' and '.join(missing)}, not installed here: pip install 'querycloak[{extra}]'"
        )


def installed(extra: str) -> bool:
    """True if all packages of an extra are installed."""
    return all(find_spec(package) is not None for package in PACKAGES[extra])


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Load modules; a failure raises ResourceError, which names the lack of memory or the package."""
    try:
        yield
        return
    except (ImportError, OSError, MemoryError) as error:
        problem = MEMORY_USED_UP
        if not lacks_memory(error):
            again = f" again ({error.name})" if isinstance(error, ImportError) else ""
            problem = f"{what} needs a package that cannot be loaded: install it{again}"
    raise ResourceError(f"{problem}; nothing was charged or written")


def lacks_memory(error: BaseException) -> bool:
    """True if memory or address space is used up: a library that does not fit into it cannot be mapped."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    text = str(error).lower() if isinstance(error, ImportError | OSError) else ""
    unmapped = "cannot allocate memory" in text or "failed to map segment" in text
    if isinstance(error, SystemError):  # a module failed to initialise and gave no reason
        return has_fewer_addresses()
    # Libraries raise their own error when a part of them cannot be mapped.
    cause = error.__cause__ or error.__context__
    return unmapped or isinstance(error, MemoryError) or (cause is not None and lacks_memory(cause))


RECORDED = ("querycloak", "opendp", "duckdb", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages in RECORDED, as cards state them; "not installed" for a missing one."""
    versions_used = {"python": platform.python_version()}
    for package in RECORDED:
        try:
            versions_used[package] = version(package)
        except PackageNotFoundError:
            versions_used[package] = "not installed"
    return versions_used
