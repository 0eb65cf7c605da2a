"""Side channels of a command: exit code, messages, files, their sizes, time. One user must not change them.

A command is run on a log without and with one odd user, and what can be seen from outside is compared. What the card
lists as unprotected may differ: that the format was recognised, and that not too many rows were bad.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from querycloak.audits.guarantees.user_rows import AOL_HEADER

_USERS = 400
_LISTED = re.compile(r"rows are bad|format fits|one format|log-format|no row", re.IGNORECASE)
_SLOWER, _SECONDS = 4.0, 5.0
_LARGER = 1.5
_SMALL_FILE = 4096


class CompletedRun(Protocol):
    """Traces of a finished command."""

    @property
    def returncode(self) -> int:
        """Its exit code."""
        ...

    @property
    def stdout(self) -> str:
        """Text on standard output."""
        ...

    @property
    def stderr(self) -> str:
        """Text on standard error."""
        ...


Run = Callable[[Sequence[str]], CompletedRun]
Words = Callable[[Path, Path], Sequence[str]]


@dataclass(frozen=True)
class Observed:
    """Observations that need no look into the tables."""

    exit_code: int
    messages: tuple[str, ...]
    files: tuple[str, ...]
    sizes: Mapping[str, int]
    seconds: float


@dataclass(frozen=True)
class Channel:
    """Something that differs between two runs; `listed` if cards say that it may."""

    command: str
    user: str
    what: str
    without: str
    having: str
    listed: bool


def observe(run: Run, words: Sequence[str], out: Path) -> Observed:
    """Run a command that writes below a folder; numbers in its messages are left out, as noise moves them."""
    start = time.perf_counter()
    done = run(words)
    seconds = time.perf_counter() - start
    files = sorted(path for path in out.rglob("*") if path.is_file()) if out.exists() else []
    messages = re.sub(r"\d[\d,.]*", "#", done.stderr.replace(str(out), "OUT"))
    return Observed(
        done.returncode,
        tuple(messages.splitlines()),
        tuple(str(path.relative_to(out)) for path in files),
        {str(path.relative_to(out)): path.stat().st_size for path in files},
        seconds,
    )


def failure_channels(
    run: Run,
    commands: Mapping[str, Words],
    folder: Path,
    users: Mapping[str, Callable[[], Sequence[bytes]]] | None = None,
) -> list[Channel]:
    """Every difference that one odd user makes to any of the commands.

    commands: for each name the words to run, given a log and a folder to write. users: ODD_USERS if not given.
    """
    channels: list[Channel] = []
    odd = ODD_USERS if users is None else users
    nobody = _written(folder / "nobody.tsv", [])
    logs = {user: _written(folder / f"{user}.tsv".replace(" ", "-"), rows()) for user, rows in odd.items()}
    for command, words in commands.items():

        def seen(log: Path, who: str, command: str = command, words: Words = words) -> Observed:
            out = folder / f"out-{command}-{who}".replace(" ", "-")
            return observe(run, words(log, out), out)

        without = seen(nobody, "nobody")
        for user, log in logs.items():
            channels += _differences(command, user, without, seen(log, user))
    return channels


def _written(log: Path, odd: Sequence[bytes]) -> Path:
    """A log that begins with these rows."""
    log.write_bytes(b"\n".join([AOL_HEADER.encode(), *odd, *_rows()]) + b"\n")
    return log


def _differences(command: str, user: str, without: Observed, having: Observed) -> Iterator[Channel]:
    differing = [each for each in {*without.messages} ^ {*having.messages} if each.strip()]
    refusal = without.exit_code != having.exit_code and any(map(_LISTED.search, differing))

    def channel(what: str, one: object, other: object, *, listed: bool = False) -> Channel:
        return Channel(command, user, what, str(one), str(other), listed)

    if without.exit_code != having.exit_code:
        yield channel("exit code", without.exit_code, having.exit_code, listed=refusal)
    if without.messages != having.messages:
        listed = refusal or (bool(differing) and all(map(_LISTED.search, differing)))
        yield channel("messages", " / ".join(without.messages), " / ".join(having.messages), listed=listed)
    if without.files != having.files:
        yield channel("files", without.files, having.files, listed=refusal)
    for name in set(without.sizes) & set(having.sizes):
        sizes = sorted((without.sizes[name], having.sizes[name]))
        if sizes[1] > _SMALL_FILE and sizes[1] > _LARGER * sizes[0]:
            yield channel("sizes", f"{name} {without.sizes[name]}", f"{name} {having.sizes[name]}")
    times = sorted((without.seconds, having.seconds))
    if times[1] > _SLOWER * times[0] and times[1] - times[0] > _SECONDS:
        yield channel("time", f"{without.seconds:.1f} s", f"{having.seconds:.1f} s")


def _rows() -> list[bytes]:
    """A log of people who ask for a few things, some of them often."""
    topics = ("weather", "tennis", "maps", "asthma", "hotels", "chess")
    return [
        _row(topics[user * place % len(topics)], f"u{user}", 60 * place, f"http://{place}.example/")
        for user in range(_USERS)
        for place in range(3)
    ]


def _row(text: str | bytes, user: str | bytes = b"odd", second: int = 0, url: str = "http://odd.example/") -> bytes:
    texts = (each if isinstance(each, bytes) else each.encode() for each in (user, text))
    at = f"2006-03-02 00:{second // 60:02}:{second % 60:02}"
    return b"\t".join([*texts, at.encode(), b"1", url.encode()])


ODD_USERS: Mapping[str, Callable[[], Sequence[bytes]]] = {
    "megabytes of queries": lambda: [_row(f"{place} " + "x" * 2000, second=place % 3600) for place in range(2500)],
    "words of 64 KiB": lambda: [_row(f"{place}" + "w" * 65_000, second=place) for place in range(8)],
    "32,000 words": lambda: [_row(" ".join(["w"] * 32_000), second=place) for place in range(8)],
    "rows of another format first": lambda: [
        b'{"user_id": "odd", "query_id": "1", "user_query": "x", "timestamp": "2006-03-02T00:00:00Z"}',
        b"00:00:00\todd\t[x]\t1 1\thttp://odd.example/",
    ],
    "magic bytes as a user": lambda: [
        _row("x", user=magic, second=place)
        for place, magic in enumerate(
            (b"\x1f\x8b\x08", b"PAR1", b"BZh9", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xef\xbb\xbf")
        )
    ],
    "control characters": lambda: [_row("a\x00b\x1fc\x1e0\x0b\x0c\x85", second=place) for place in range(3)],
}
"""For each kind of odd user its rows, which come first of all."""
