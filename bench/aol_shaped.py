"""`python -m bench.aol_shaped FILE [--rows N] [--head N]`: a log of AOL's shape for benches, without meaning.

Rows, users, distinct queries and clicks are in AOL's proportions. Zipf's law shares out 55 % of the rows to the queries
of the head; the others are drawn evenly from `tail` numbers. Two numbers may have the same text.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

# Counts of AOL's log of 2006.
ROWS, USERS, DISTINCT = 36_389_567, 657_426, 10_154_742
CLICK_SHARE = 19_442_629 / ROWS
HEADER = b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
_BLOCK = 1_000_000
_WORDS = 60_000
_HEAD_QUERIES = 200_000


def write_log(
    path: Path, rows: int, seed: int = 1, *, sessions: bool = False, head: int = _HEAD_QUERIES, tail: int | None = None
) -> Path:
    """Write an AOL-format log of so many rows; with sessions, users search several times in a row."""
    random = np.random.default_rng(seed)
    words = pa.array(
        ["".join(random.choice(list("abcdefghijklmnoprstuvw"), random.integers(3, 9))) for _ in range(_WORDS)]
    )
    with path.open("wb") as file:
        file.write(HEADER)
        for first in range(0, rows, _BLOCK):
            lines = _lines(
                random,
                words,
                first,
                min(_BLOCK, rows - first),
                rows,
                (head, tail or rows * DISTINCT // ROWS + 1),
                sessions,
            )
            offsets = pa.array([0, len(lines)], pa.int32())
            file.write(pc.binary_join(pa.ListArray.from_arrays(offsets, lines), "\n")[0].as_py().encode() + b"\n")
    return path


def _lines(
    random: np.random.Generator,
    words: pa.Array,
    first: int,
    count: int,
    rows: int,
    queries: tuple[int, int],
    sessions: bool,
) -> pa.Array:
    users = max(1, rows * USERS // ROWS)
    user = np.sort(random.integers(first * users // rows, (first + count) * users // rows + 1, count))
    head, tail = queries
    number = np.where(
        random.random(count) < 0.55,
        np.power(float(head), random.random(count)).astype(np.int64),
        head + random.integers(0, tail, count),
    )
    second = random.integers(0, 92 * 86_400, count)
    if sessions:
        number, second = _in_sessions(random, number, second)
    moment = np.datetime64("2006-03-01", "s") + second.astype("timedelta64[s]")
    clicked = pa.array(random.random(count) < CLICK_SHARE)
    rank = pa.array(1 + random.geometric(0.35, count)).cast(pa.string())
    host = (number * 31 + random.geometric(0.5, count)) % 1_600_000
    names = words.take(pa.array(host % _WORDS)), pa.array(host // _WORDS).cast(pa.string())
    url = pc.binary_join_element_wise("http://www.", *names, ".com", "")
    return pc.binary_join_element_wise(
        pa.array(user + 100).cast(pa.string()),
        _queries(words, number),
        pc.strftime(pa.array(moment), "%Y-%m-%d %H:%M:%S"),
        pc.if_else(clicked, rank, ""),
        pc.if_else(clicked, url, ""),
        "\t",
    )


def _in_sessions(
    random: np.random.Generator, number: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the rows, 45 % begin a session, 25 % ask something else in it, 10 % turn a page, 20 % are further clicks."""
    kind = np.searchsorted([0.45, 0.70, 0.80], random.random(number.size), side="right")
    kind[0] = 0
    places = np.arange(number.size)
    asked = np.maximum.accumulate(np.where(kind <= 1, places, 0))
    later = np.cumsum(np.where(kind == 3, 0, random.integers(10, 600, number.size)))
    began = np.maximum.accumulate(np.where(kind == 0, places, 0))
    return number[asked], second[began] + later - later[began]


def _queries(words: pa.Array, number: NDArray[np.int64]) -> pa.Array:
    """One to five words, the same for the same number."""
    lengths = np.searchsorted([27, 47, 68, 82], number * 2_654_435_761 % 100, side="right") + 1
    state = number.astype(np.uint64)
    parts = []
    for place in range(5):
        state = state * np.uint64(6_364_136_223_846_793_005) + np.uint64(1_442_695_040_888_963_407 + place)
        share = (state >> np.uint64(33)).astype(np.float64) / 2**31
        word = words.take(pa.array(np.power(float(_WORDS), share).astype(np.int64) % _WORDS))
        parts.append(pc.if_else(pa.array(lengths > place), word, ""))
    return pc.utf8_rtrim_whitespace(pc.binary_join_element_wise(*parts, " "))


def main() -> None:
    """Write a log."""
    parser = argparse.ArgumentParser(prog="python -m bench.aol_shaped", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--head", type=int, default=_HEAD_QUERIES)
    parser.add_argument("--tail", type=int, help="AOL's number of distinct queries, in proportion, if not given")
    parser.add_argument("--sessions", action="store_true", help="users search several times in a row")
    given = parser.parse_args()
    write_log(given.file, given.rows, sessions=given.sessions, head=given.head, tail=given.tail)


if __name__ == "__main__":
    main()
