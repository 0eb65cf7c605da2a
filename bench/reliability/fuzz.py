"""Inputs of every format with bytes changed at random: rows or a refusal, nothing else, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.reliability.finding import Finding
from querycloak.errors import QuerycloakError
from querycloak.logs.log_tables import LogSource
from querycloak.logs.searchlog import prepare

ROWS = 40
MOST_MEGABYTES = 1_500
TEXTS = ["weather", "new york", 'say "cheese"', "天气", "=1+1", "", "x" * 300]
ODD = [
    b"\x00",
    b"\xff",
    b"\n",
    b"\t",
    b'"',
    b"{",
    b"[" * 3_000,
    b"\xe2\x80\xae",
    b"PAR1",
    b"\x1f\x8b",
    b"9" * 40,
    b"\r\n",
    b",",
]


def _aol(row: int) -> str:
    return f"u{row % 7}\t{TEXTS[row % 7]}\t2006-03-01 10:00:{row:02}\t1\thttp://a.example/{row}\n"


def _ubi(row: int) -> str:
    asked = f'{{"query_id": "q{row}", "client_id": "c{row % 5}", "user_query": "weather {row}", "timestamp": "2024-03-01T10:00:00Z"}}\n'  # noqa: E501  # fmt: skip
    clicked = f'{{"query_id": "q{row}", "client_id": "c{row % 5}", "action_name": "click", "timestamp": 1709287200000, "event_attributes": {{"object": {{"object_id": "o{row}"}}, "position": {{"ordinal": 1}}}}}}\n'  # noqa: E501  # fmt: skip
    return asked + clicked


TEXT_FORMATS: dict[str, Callable[[int], str]] = {
    "aol": _aol,
    "excite": lambda row: f"u{row % 7}\t9709161054{row:02}\t{TEXTS[row % 7]}\n",
    "sogou": lambda row: f"10:00:{row:02}\tu{row % 7}\t[{TEXTS[row % 7]}]\t1 1\thttp://a.example/{row}\n",
    "ubi": _ubi,
    "csv": lambda row: ("" if row else "user,time,query,url\n") + f"u{row % 7},01.03.2024 10:00,weather {row},http://a.example/\n",
    "jsonl": lambda row: f'{{"user": {row % 7}, "time": 1733824800, "query": "weather {row}"}}\n',
}  # fmt: skip


def whole_files(folder: Path) -> dict[str, tuple[str, str, bytes]]:
    """A small file of each format, plain and compressed: format, ending, bytes."""
    made = {}
    for name, row in TEXT_FORMATS.items():
        data = "".join(map(row, range(ROWS))).encode()
        made[name] = (name, "", data)
        made[f"{name}.gz"] = (name, ".gz", gzip.compress(data))
        made[f"{name}.bz2"] = (name, ".bz2", bz2.compress(data))
        made[f"{name}.zst"] = (name, ".zst", bytes(pa.Codec("zstd").compress(data, asbytes=True)))
    columns = {
        "user": ["a", "b"] * 20,
        "time": ["2006-03-01 10:00:00"] * 40,
        "query": ["x", "y"] * 20,
        "rank": [1.0, None] * 20,
    }
    pq.write_table(pa.table(columns), folder / "whole.parquet")
    made["parquet"] = ("parquet", "", (folder / "whole.parquet").read_bytes())
    return made


def changed(data: bytes, chance: random.Random) -> bytes:
    """The bytes after a few changes: flipped, cut, doubled, moved, or something odd put in."""
    held = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at, to = sorted((chance.randrange(len(held) + 1), chance.randrange(len(held) + 1)))
        kind = chance.randrange(6)
        if kind == 0 and held:
            held[chance.randrange(len(held))] = chance.randrange(256)
        elif kind == 1:
            del held[at : min(to, at + 200)]
        elif kind == 2:
            held[at:at] = held[at : min(to, at + 400)]
        elif kind == 3:
            held[at:at] = chance.choice(ODD)
        elif kind == 4:
            del held[max(to, 1) :]
        else:
            held[at:at] = bytes(chance.randrange(256) for _ in range(8))
    return bytes(held)


def fuzz(folder: Path, inputs: int, seed: int = 1) -> Finding:
    """Change, read whole and in parts, compare."""
    found = Finding(
        "fuzzed inputs",
        "every format, plain, gzip, bzip2 and zstd, bytes changed at random, format named or not",
        f"rows or a refusal; the same rows whole and in parts; at most {MOST_MEGABYTES:,} MB more than before",
    )
    chance, files = random.Random(seed), whole_files(folder)
    before = _forget_the_peak()
    names = sorted(files)
    outcomes: Counter[str] = Counter()
    for number in range(inputs):
        name = names[number % len(names)]
        log_format, ending, data = files[name]
        path = folder / f"fuzzed{ending}"
        path.write_bytes(changed(data, chance))
        try:
            source = prepare(path, log_format=log_format if chance.random() < 0.7 else None).source
            rows = _rows(source, None)
            outcomes["read"] += 1
            if _rows(source, chance.randint(64, 4_096)) != rows:
                found.problems.append(f"{name}, input {number}: other rows in parts")
        except QuerycloakError:
            outcomes["refused"] += 1
        except Exception as error:
            found.problems.append(f"{name}, input {number}: {type(error).__name__}")
        found.runs += 1
    used = _megabytes("VmHWM") - before
    found.expect(used < MOST_MEGABYTES, f"{used:,} MB of memory")
    found.counts = dict(outcomes)
    return found


def _rows(source: LogSource, size: int | None) -> Counter[str]:
    rows: Counter[str] = Counter()
    for part in source.parts(size):
        for block in source.blocks(part):
            rows.update(map(repr, source.parse(block).to_pylist()))
    return rows


def _forget_the_peak() -> int:
    """What this process holds now; its peak begins here, for it may have held more before."""
    Path("/proc/self/clear_refs").write_text("5")
    return _megabytes("VmRSS")


def _megabytes(what: str) -> int:
    return int(Path("/proc/self/status").read_text().split(f"{what}:")[1].split()[0]) // 1024
