"""How much of a clicked address is kept: query strings, fragments, passwords and session ids carry secrets."""

from __future__ import annotations

from numba import njit

from querycloak.logs.choices import KeepUrl
from querycloak.words.spans import Spans


def shortened(urls: Spans, keep: KeepUrl, *, with_scheme_only: bool = False) -> Spans:
    """`path` drops what follows `?`, `#` or `;`, and any `name:password@`; `host` drops the path and scheme too.

    With `with_scheme_only`, texts without `://` are object ids, not addresses, and stay as they are.
    """
    if keep == "full" or not len(urls):
        return urls
    data, starts, ends = urls.data.copy(), urls.starts.copy(), urls.ends.copy()
    _shorten(data, starts, ends, keep == "host", with_scheme_only)
    return Spans(data, starts, ends)


@njit(cache=True, nogil=True)
def _shorten(data, starts, ends, host_only, with_scheme_only):  # type: ignore[no-untyped-def]
    slash, colon, at_sign = 47, 58, 64
    for row in range(starts.size):
        start, end = starts[row], ends[row]
        host = start
        for i in range(start, end - 2):
            if data[i] == colon and data[i + 1] == slash and data[i + 2] == slash:
                host = i + 3
                break
            if data[i] == slash or data[i] == 63 or data[i] == 35:
                break
        if with_scheme_only and host == start:
            continue
        for i in range(host, end):
            if data[i] == 63 or data[i] == 35 or data[i] == 59:
                end = i
                break
        path = end
        for i in range(host, end):
            if data[i] == slash:
                path = i
                break
        login = host
        for i in range(host, path):
            if data[i] == at_sign:
                login = i + 1
        if host_only:
            starts[row], ends[row] = login, path
            continue
        # Move the scheme up against the host, over the name and password.
        shift = login - host
        if shift:
            for i in range(host - 1, start - 1, -1):
                data[i + shift] = data[i]
        starts[row], ends[row] = start + shift, end
