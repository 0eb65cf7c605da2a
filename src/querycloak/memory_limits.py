"""Memory that this process may use: limits of containers (cgroups) and of the shell (ulimit)."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

from querycloak.errors import ResourceError

SHARE, SHARE_OF_ADDRESSES = 0.6, 0.25
"""Part of a limit that an engine gets. The rest is for Python, for libraries, and for what they map without using."""
_LEAST = 200 << 20
_CONTROLLERS = (("memory.max", ""), ("memory.limit_in_bytes", "memory"))
"""Files with the limit of a cgroup, and the folder of its controller: version 2, then version 1."""


LEAST_ADDRESSES = 2 * 10**9
"""Bytes that an engine and its libraries map, with one thread; most of them are never used."""
ADDRESSES_OF_PICTURES = 80 * 10**9
"""Bytes that the library that draws pictures reserves, 69 * 10^9 as measured; nearly all of them are never used."""
USUAL = 3 * 10**9
"""Bytes of an engine without limits, as `--memory` has it if it is not given."""


def engine_memory(usual: int = USUAL, root: Path = Path("/")) -> tuple[int, str | None]:
    """Bytes for an engine that was given no amount, and a sentence if a limit made them fewer than usual, else None."""
    limits = {}
    if (container := container_limit(root)) is not None:
        limits["the container's limit"] = (container, SHARE)
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    if addresses != resource.RLIM_INFINITY:
        limits["the limit of address space (ulimit -v)"] = (addresses, SHARE_OF_ADDRESSES)
    shares = {name: max(int(limit * share), _LEAST) for name, (limit, share) in limits.items()}
    name = min(shares, key=lambda each: shares[each], default=None)
    if name is None or shares[name] >= usual:
        return usual, None
    limit, share = limits[name]
    amount = shares[name]
    return amount, f"{amount / 1e6:,.0f} MB of memory for the engine, {share:.0%} of {name} ({limit / 1e6:,.0f} MB)"


def require_addresses(least: int = LEAST_ADDRESSES, what: str = "reading a log") -> None:
    """Refuse a limit of address space that libraries do not fit into: they would end the process, without a word."""
    if has_fewer_addresses(least):
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        raise ResourceError(
            f"the limit of address space (ulimit -v) is {limit / 1e6:,.0f} MB, and {what} needs at least "
            f"{least / 1e6:,.0f} MB: raise it"
        )


def has_fewer_addresses(least: int = LEAST_ADDRESSES) -> bool:
    """True if address space is limited to less than this."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit != resource.RLIM_INFINITY and limit < least


def container_limit(root: Path = Path("/")) -> int | None:
    """The smallest limit of this process's cgroups and those above them; None without one."""
    limits = []
    for path in _groups(root):
        for file, controller in _CONTROLLERS:
            base = root / "sys/fs/cgroup" / controller
            for group in (path, *path.parents):
                with suppress(OSError, ValueError):
                    limits.append(int((base / group / file).read_text()))
    real = [limit for limit in limits if 0 < limit < 1 << 60]  # version 1 writes a large number for no limit
    return min(real, default=None)


def _groups(root: Path) -> list[Path]:
    """Paths of this process's cgroups; the top one if the system does not tell, as in some containers."""
    groups = [Path()]
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            groups.append(Path(line.rpartition(":")[2].lstrip("/")))
    return groups
