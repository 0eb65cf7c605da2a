"""Shortening of clicked addresses, whose query strings, fragments, passwords and session ids carry secrets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from querycloak.logs.choices import Choices, KeepUrl
from querycloak.text.compiled import inlined, kernel, part
from querycloak.text.normalisation import MAY_HIDE, without_hidden
from querycloak.text.spans import Mask, Positions, Spans

_CARRIES, _MAY_HIDE = 1, 2
# Flags of each byte: the address may have a part to be cut (_CARRIES), or a hidden character (_MAY_HIDE).
_NOTICED = np.zeros(256, np.uint8)
_NOTICED[list(b"#;?@")] = _CARRIES
_NOTICED[MAY_HIDE] |= _MAY_HIDE


def url_texts(urls: Spans, choices: Choices, *, with_scheme_only: bool = False) -> Spans:
    """The addresses as the log will show them: trimmed, shortened, and normalised if the owner chose so.

    with_scheme_only: texts without `://` are object ids, not addresses, and stay as they are.
    """
    urls = urls.trimmed()
    noticed = urls.noticed(_NOTICED)
    kept = _shortened(urls, noticed & _CARRIES > 0, choices.keep_url, with_scheme_only=with_scheme_only)
    # A normalised address holds no control character that a terminal would obey.
    return without_hidden(kept, noticed & _MAY_HIDE > 0) if choices.normalise else kept


def _shortened(urls: Spans, carrying: Mask, keep: KeepUrl, *, with_scheme_only: bool) -> Spans:
    """`path` drops what follows `?`, `#` or `;`, and any `name:password@`; `host` drops the path and scheme too."""
    if keep == "full" or (keep == "path" and not carrying.any()):
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
    starts: Positions,
    hosts: Positions,
    logins: Positions,
    rows: NDArray[np.int64],
) -> Positions:
    """Move the scheme next to the host, over the name and password; returns the new starts of the addresses."""
    moved = starts.copy()
    for row in rows:
        scheme = data[starts[row] : hosts[row]].copy()
        moved[row] = logins[row] - len(scheme)
        data[moved[row] : logins[row]] = scheme
    return moved


@kernel
def _cut(data, starts, ends, hosts, logins, host_only, with_scheme_only):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        if not host_only and not _carries(data, start, end):
            continue
        host = _host(data, start, end)
        if with_scheme_only and host < start + 3:
            continue
        login, path = _login(data, host, end)
        cut = start
        while cut < end and (data[cut] not in (63, 35, 59) or host <= cut < login):
            cut += 1
        if cut < host:
            host = login = start
        hosts[row], logins[row] = host, login
        inner = path
        while inner + 1 < cut:
            if _scheme_ends(data, start, inner, cut):
                inner += 2
                if _login(data, inner, cut)[0] > inner:
                    cut = inner
            else:
                inner += 1
        ends[row] = min(path, cut) if host_only else cut


@inlined
def _carries(data, start, end):  # type: ignore[no-untyped-def]
    """True if an address holds one of `#;?@`, hence a part to cut; most addresses do not."""
    for i in range(start, end):  # noqa: SIM110
        if data[i] in (35, 59, 63, 64):
            return True
    return False


@part
def _host(data, start, end):  # type: ignore[no-untyped-def]
    """Start of the host or of its login: after `://` or a leading `//`, else the start of the address."""
    for i in range(start, end):
        if data[i] == 47:
            leading = i == start and i + 1 < end and data[i + 1] == 47
            return i + 2 if leading or _scheme_ends(data, start, i, end) else start
        if data[i] in (63, 35):
            break
    return start


@part
def _login(data, host, end):  # type: ignore[no-untyped-def]
    """End of the login, and start of the path."""
    login, i = host, host
    while i < end and data[i] not in (47, 63, 35):
        if data[i] == 64:
            login = i + 1
        i += 1
    return login, i


@part
def _scheme_ends(data, start, slash, end):  # type: ignore[no-untyped-def]
    """True if this slash is the first of `://`."""
    return slash > start and data[slash] == 47 and data[slash - 1] == 58 and slash + 1 < end and data[slash + 1] == 47
