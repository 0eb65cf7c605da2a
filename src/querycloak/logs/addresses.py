"""How much of a clicked address is kept: query strings, fragments, passwords and session ids carry secrets."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.logs.choices import KeepUrl
from querycloak.words.spans import Spans


def shortened(urls: Spans, keep: KeepUrl, *, with_scheme_only: bool = False) -> Spans:
    """`path` drops what follows `?`, `#` or `;`, and any `name:password@`; `host` drops the path and scheme too.

    With `with_scheme_only`, texts without `://` are object ids, not addresses, and stay as they are.
    """
    if keep == "full" or not len(urls):
        return urls
    data, starts, ends = urls.data, urls.starts.copy(), urls.ends.copy()
    hosts, logins = starts.copy(), starts.copy()
    _cut(data, starts, ends, hosts, logins, keep == "host", with_scheme_only)
    if keep == "host":
        return Spans(data, logins, ends)
    named = np.flatnonzero(logins > hosts)
    if len(named):
        data = data.copy()
        starts = _without_logins(data, starts, hosts, logins, named)
    return Spans(data, starts, ends)


def _without_logins(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    hosts: NDArray[np.int64],
    logins: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Move the scheme up against the host, over the name and password; where the addresses then begin."""
    moved = starts.copy()
    for row in rows:
        scheme = data[starts[row] : hosts[row]].copy()
        moved[row] = logins[row] - len(scheme)
        data[moved[row] : logins[row]] = scheme
    return moved


@njit(cache=True, nogil=True)
def _cut(data, starts, ends, hosts, logins, host_only, with_scheme_only):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        host, login, path, has_scheme = starts[row], starts[row], np.int64(-1), False
        i = starts[row]
        while i < ends[row]:
            byte = data[i]
            if byte == 47:  # a slash begins the path, unless it is the scheme's
                if not has_scheme and path < 0 and _scheme_ends(data, starts[row], i, ends[row]):
                    has_scheme = True
                    i += 1
                    host = login = i + 1
                elif path < 0:
                    path = i
            elif byte == 64:
                if path < 0:
                    login = i + 1
            elif byte in (63, 35, 59):
                break
            i += 1
        if with_scheme_only and not has_scheme:
            continue
        hosts[row], logins[row] = host, login
        ends[row] = path if host_only and path >= 0 else i


@njit(cache=True, nogil=True)
def _scheme_ends(data, start, slash, end):  # type: ignore[no-untyped-def]
    """Whether this slash is the first of `://`."""
    return slash > start and data[slash - 1] == 58 and slash + 1 < end and data[slash + 1] == 47
