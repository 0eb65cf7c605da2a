"""JSON lines and UBI against DuckDB's own `read_json` with the same columns, and UBI with its joins."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measuring import MEMORY, THREADS, Run, Work, duckdb_connection, once
from bench.reading import CSV, TOUCH, close, our_parse

LINES = """read_json('{path}', format = 'newline_delimited', columns = {{
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'}})"""
DOCUMENTS = """read_json('{path}', format = 'newline_delimited', columns = {{
    'application': 'VARCHAR', 'query_id': 'VARCHAR', 'client_id': 'VARCHAR', 'user_id': 'VARCHAR',
    'user_query': 'VARCHAR', 'action_name': 'VARCHAR', 'timestamp': 'TIMESTAMP',
    'event_attributes': 'STRUCT("object" STRUCT(object_id VARCHAR, internal_id VARCHAR), object_id VARCHAR,
                         "position" STRUCT(ordinal INTEGER, "index" INTEGER), ordinal INTEGER)'}})"""
# One document for each row, and one for each click; ids as long as UBI's own.
UBI = """
WITH numbered AS (SELECT *, row_number() OVER () AS number FROM {csv}),
shared AS (SELECT *, 'c0a8012e-7d1f-4c55-9a4b-' || lpad("user"::VARCHAR, 12, '0') AS client,
           '1b4e28ba-2fa1-4d2b-883f-' || lpad(number::VARCHAR, 12, '0') AS id,
           strftime(time, '%Y-%m-%dT%H:%M:%S.000Z') AS moment FROM numbered)
SELECT json_object('application', 'bench', 'query_id', id, 'client_id', client, 'user_query', query,
                   'query_attributes', json_object(), 'timestamp', moment)
FROM shared UNION ALL
SELECT json_object('application', 'bench', 'action_name', 'click', 'query_id', id, 'client_id', client,
                   'timestamp', moment, 'message_type', 'CLICK_THROUGH', 'event_attributes', json_object(
                   'object', json_object('object_id', url, 'object_id_field', 'url'),
                   'position', json_object('ordinal', "rank")))
FROM shared WHERE url IS NOT NULL AND url <> ''"""
# Every column that our reader hands over is touched on both sides: what nobody asks for, `read_json` does not convert.
UBI_TOUCH = """count(*), sum(length(query_id)), sum(length(client_id)), sum(length(user_query)), max(timestamp),
    sum(length(event_attributes.object.object_id)), sum(event_attributes.position.ordinal), count(user_id),
    count(action_name)"""
RUNS = 3


def write_lines(log: Path, path: Path, spill: Path) -> None:
    source = CSV.format(path=log)
    duckdb_connection(str(spill)).sql(f"COPY (SELECT * FROM {source}) TO '{path}' (FORMAT json)")


def write_documents(log: Path, path: Path, spill: Path) -> None:
    source = UBI.format(csv=CSV.format(path=log))
    layout = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\\x01'"
    duckdb_connection(str(spill)).sql(f"COPY ({source}) TO '{path}' ({layout})")


def duckdb_lines(path: str, spill: str) -> Any:
    return duckdb_connection(spill).sql(f"SELECT {TOUCH} FROM {LINES.format(path=path)}").fetchall()[0]


def duckdb_documents(path: str, spill: str) -> Any:
    return duckdb_connection(spill).sql(f"SELECT {UBI_TOUCH} FROM {DOCUMENTS.format(path=path)}").fetchall()[0]


def our_documents(path: str, _: str) -> Any:
    """The documents, before they are joined."""
    from querycloak.engines import connect
    from querycloak.logs.formats.ubi_documents import EVENT
    from querycloak.logs.searchlog import prepare

    engine = connect(threads=THREADS, memory=MEMORY)
    found = engine.table(prepare([path], log_format="ubi").source)
    touched = found.agg(
        rows=found.count(),
        ids=found.query_id.length().sum(),
        clients=found.client.length().sum(),
        query=found.query.length().sum(),
        last=found.time.max(),
        url=found.url.length().sum(),
        rank=found["rank"].sum(),
        accounts=found.account.count(),
        events=(found.kind == EVENT).sum(),
    )
    values = tuple(engine.fetch(touched).to_pylist()[0].values())
    engine.close()
    return values


def our_bytes(path: str, _: str) -> Any:
    """The file, in blocks of whole records."""
    from querycloak.logs.searchlog import prepare

    source = prepare([path]).source
    return sum(len(block.data) for block in source.blocks(source.parts(None)[0]))


def our_columns(path: str, _: str) -> Any:
    """The file as Arrow columns, checked and normalised, before any engine sees them."""
    from querycloak.logs.searchlog import prepare

    source = prepare([path]).source
    return sum(source.parse(block).num_rows for block in source.blocks(source.parts(None)[0]))


def our_joined(path: str, _: str) -> Any:
    """The rows of the log, each click with its query."""
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        return log.engine.fetch(log.rows.agg(rows=log.rows.count(), query=log.rows.query.length().sum())).to_pylist()


def line(name: str, documents: int, ours: Run, theirs: Run | None) -> dict[str, Any]:
    """One line of the table; processor seconds are what a busy machine changes least."""
    told: dict[str, Any] = {
        "bench": name,
        "documents": documents,
        "documents_a_second": round(documents / ours.seconds),
        "documents_a_second_two_cores": round(2 * documents / ours.processor_seconds),
        "seconds": round(ours.seconds, 2),
        "processor_seconds": round(ours.processor_seconds, 2),
        "load": " ".join(f"{each:.1f}" for each in os.getloadavg()[:2]),
    }
    if theirs is not None:
        told |= {
            "duckdb_seconds": round(theirs.seconds, 2),
            "duckdb_processor_seconds": round(theirs.processor_seconds, 2),
            "ratio": round(ours.seconds / theirs.seconds, 2),
            "processor_ratio": round(ours.processor_seconds / theirs.processor_seconds, 2),
        }
    return told


def beginning_of(path: Path, folder: Path | None = None) -> Path:
    """The first thousand lines of a log, in a file of their own."""
    short = (folder or path.parent) / f"{path.stem}-beginning{path.suffix}"
    with path.open("rb") as file:
        short.write_bytes(b"".join(itertools.islice(file, 1000)))
    return short


def best(works: Sequence[Work], path: Path, spill: Path) -> list[Run]:
    """Of each the run with least processor time; they take turns, for what else the machine does changes."""
    first = beginning_of(path)
    rounds = [[once(work, path, spill, first) for work in works] for _ in range(RUNS)]
    return [min(runs, key=lambda run: run.processor_seconds) for runs in zip(*rounds, strict=True)]


def compare(name: str, ours: Work, theirs: Work, path: Path, spill: Path) -> dict[str, Any]:
    our, their, read, parsed = best((ours, theirs, our_bytes, our_columns), path, spill)
    if not close(our.result, their.result):
        raise SystemExit(f"{name}: the two do not count the same: {our.result} and {their.result}")
    told, documents = line(name, our.result[0], our, their), our.result[0]
    steps = {
        "reading": read.processor_seconds,
        "bytes_to_columns": parsed.processor_seconds - read.processor_seconds,
        "engine": our.processor_seconds - parsed.processor_seconds,
    }
    return told | {f"nanoseconds_{step}": round(seconds / documents * 1e9) for step, seconds in steps.items()}


def main(path: Path, rows: int, folder: Path) -> None:
    """One line of JSON for each bench."""
    lines, documents = folder / f"lines-{rows}.jsonl", folder / f"ubi-{rows}.ndjson"
    if not lines.exists():
        write_lines(path, lines, folder)
    if not documents.exists():
        write_documents(path, documents, folder)
    print(json.dumps(compare("JSON lines", our_parse, duckdb_lines, lines, folder)), flush=True)
    found = compare("UBI documents", our_documents, duckdb_documents, documents, folder)
    print(json.dumps(found), flush=True)
    (joined,) = best((our_joined,), documents, folder)
    print(json.dumps(line("UBI joined", found["documents"], joined, None)), flush=True)
