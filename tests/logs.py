"""Small logs in every format, written by tests for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from querycloak.engines import Engine
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read

AOL_HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"

# (user, time, query, rank, url); the times are whole seconds of one day, so that every format can say them.
ROWS: list[tuple[str, str, str, str, str]] = [
    ("7", "12:00:00", "Weather  Channel", "1", "http://www.weather.example/today?zip=12345#now"),
    ("7", "12:00:00", "weather channel", "2", "http://www.weather.example/maps"),
    ("7", "12:40:01", "say \"cheese\" 'now'", "", ""),
    ("8", "12:00:00", "ＷＡＴＥＲ polo", "3", "http://u:pw@polo.example/rules;jsessionid=1"),
    ("8", "12:00:01", "天气 预报", "1", "http://天气.example/北京"),
    ("8", "12:30:01", "Ärger\u00a0mit Straße", "", ""),
    ("9", "12:00:00", "zebra", "1", "http://z.example/"),
    ("9", "12:00:00", "aardvark", "1", "http://a.example/"),
]
KEPT: list[tuple[Any, ...]] = [
    ("7", "12:00:00", "weather channel", 1, "http://www.weather.example/today"),
    ("7", "12:00:00", "weather channel", 2, "http://www.weather.example/maps"),
    ("7", "12:40:01", "say \"cheese\" 'now'", None, None),
    ("8", "12:00:00", "water polo", 3, "http://polo.example/rules"),
    ("8", "12:00:01", "天气 预报", 1, "http://天气.example/北京"),
    ("8", "12:30:01", "ärger mit straße", None, None),
    ("9", "12:00:00", "zebra", 1, "http://z.example/"),
    ("9", "12:00:00", "aardvark", 1, "http://a.example/"),
]
Row = tuple[str, str, str, str, str]


def aol(rows: Iterable[Row]) -> str:
    return "\n".join([AOL_HEADER, *("\t".join((u, q, f"1970-01-01 {t}", r, a)) for u, t, q, r, a in rows)]) + "\n"


def excite(rows: Iterable[Row]) -> str:
    return "".join(f"{u}\t700101{t.replace(':', '')}\t{q}\n" for u, t, q, _, _ in rows)


def sogou(rows: Iterable[Row]) -> str:
    return "".join(f"{t}\t{u}\t[{q}]\t{r or '0'} 1\t{a}\n" for u, t, q, r, a in rows)


def csv(rows: Iterable[Row]) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = (",".join(map(quoted, (f"1970-01-01T{t}Z", u, q, a, r))) for u, t, q, r, a in rows)
    return "\r\n".join(["when,who,what,target,position", *lines]) + "\r\n"


def jsonl(rows: Iterable[Row]) -> str:
    made = (
        {"user": u, "time": f"1970-01-01 {t}", "query": q, "rank": r or None, "url": a or None}
        for u, t, q, r, a in rows
    )
    return "".join(json.dumps(row) + "\n" for row in made)


WRITERS: dict[str, Callable[[Iterable[Row]], str]] = {
    "aol": aol, "excite": excite, "sogou": sogou, "csv": csv, "jsonl": jsonl,
}  # fmt: skip
COLUMNS = {"csv": {"user": "who", "time": "when", "query": "what", "rank": "position", "url": "target"}}


def open_rows(engine: Engine, path: Path, name: str, **options: Any) -> SearchLog:
    return read(path, columns=COLUMNS.get(name), engine=engine, **options)


def rows_of(log: SearchLog) -> list[tuple[Any, ...]]:
    found = log.engine.fetch(log.rows).to_pylist()
    return sorted(((r["user"], f"{r['time']:%H:%M:%S}", r["query"], r["rank"], r["url"]) for r in found), key=repr)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def chosen(**choices: Any) -> Choices:
    return Choices(**choices)
