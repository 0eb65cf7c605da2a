"""A release as a data set of the package ir_datasets: queries, documents (urls), judgements, query log; and its loader.

FOLDER/  queries.tsv (id, query)  docs.tsv (id, url)  qrels (TREC) and rule.txt  qlogs.jsonl (a search a line)
A release with clicks has qrels, one with rows (eu-records, synthetic) has qlogs.jsonl.
`querycloak.exports.ir_dataset.register("NAME", FOLDER)` makes it known as `ir_datasets.load("NAME")`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from querycloak.errors import InputError, ParameterError, ResourceError
from querycloak.exports.click_sessions import searches
from querycloak.exports.grades import Judgements, judgements
from querycloak.exports.judgement_files import document_id
from querycloak.files.documents import parsed_json
from querycloak.releases.safe_text import escaped_json, safe_text

if TYPE_CHECKING:
    from querycloak.exports.export import Output
    from querycloak.releases.release import Release

QUERIES, DOCUMENTS, QRELS, QLOGS, RULE = "queries.tsv", "docs.tsv", "qrels", "qlogs.jsonl", "rule.txt"


class LogItem(NamedTuple):
    """A result of a search; `rank` is None if the release has none."""

    doc_id: str
    rank: int | None
    clicked: bool


class LoggedSearch(NamedTuple):
    """A search of the query log; `time` is midnight where the release has days, None where it has neither."""

    session_id: str
    query_id: str
    query: str
    time: datetime | None
    items: tuple[LogItem, ...]


def write(release: Release, output: Output, grades: str, levels: int) -> None:
    """Write what the release has in the layout that `register` reads."""
    log = _log(release)
    judged = (
        Judgements((), "") if log is not None and "clicks" not in release.tables else _judged(release, grades, levels)
    )
    logged = [] if log is None else [text for text in log["query"].unique().to_pylist() if text not in judged.queries]
    ids = {**judged.queries, **{text: f"q{n}" for n, text in enumerate(logged, start=len(judged.queries) + 1)}}
    urls = dict.fromkeys(row.url for row in judged.rows)
    if log is not None:
        urls |= dict.fromkeys(url for url in log["url"].unique().to_pylist() if url is not None)
    output.write(_lines(f"{number}\t{safe_text(query)}" for query, number in ids.items()), QUERIES)
    output.write(_lines(f"{document_id(url)}\t{safe_text(url)}" for url in urls), DOCUMENTS)
    if judged.rows:
        output.write(_lines(f"{ids[row.query]} 0 {document_id(row.url)} {row.grade}" for row in judged.rows), QRELS)
        output.write(f"{judged.rule}\n".encode(), RULE)
    if log is not None:
        output.write(_lines(escaped_json(json.dumps(each, ensure_ascii=False)) for each in _searches(log, ids)), QLOGS)


def _judged(release: Release, grades: str, levels: int) -> Judgements:
    if "clicks" not in release.tables:
        raise ParameterError(
            f"ir-datasets needs clicks or a log of searches, and this release has {', '.join(release.tables)}; clicks, "
            "sessions and k-anonymity release clicks, eu-records and synthetic a log"
        )
    return judgements(release, grades, levels)


def _log(release: Release) -> pa.Table | None:
    """The table `log` if each of its rows is a result of a search; None otherwise."""
    table = release.tables.get("log")
    names = set() if table is None else set(table.schema.names)
    if not {"query", "url"} <= names or not {"session", "user"} & names or "count" in names:
        return None
    return release.table("log")


def _searches(log: pa.Table, ids: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A search a time, its results by rank; without results if no row of it has a url."""
    number = searches(log)
    ranks = log["rank"].fill_null(0).to_numpy() if "rank" in log.column_names else np.zeros(log.num_rows)
    order = np.lexsort((ranks, number))
    person = "session" if "session" in log.column_names else "user"
    moment = next((name for name in ("time", "day") if name in log.column_names), None)
    rows = zip(number[order].tolist(), log.take(pa.array(order)).to_pylist(), strict=True)
    for _, group in groupby(rows, key=lambda each: each[0]):
        results = [row for _, row in group]
        first = results[0]
        yield {
            "session_id": first[person],
            "query_id": ids[first["query"]],
            "query": first["query"],
            "time": None if moment is None or first[moment] is None else str(first[moment]),
            "items": [
                {"doc_id": document_id(row["url"]), "rank": row.get("rank"), "clicked": row.get("clicked", True)}
                for row in results
                if row["url"] is not None
            ],
        }


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def logged_searches(folder: str | os.PathLike[str]) -> Iterator[LoggedSearch]:
    """Read the query log of an exported folder."""
    with (Path(folder) / QLOGS).open(encoding="utf-8") as file:
        for line in file:
            search = parsed_json(line)
            time = search["time"] and datetime.fromisoformat(search["time"])
            items = tuple(LogItem(**item) for item in search["items"])
            yield LoggedSearch(search["session_id"], search["query_id"], search["query"], time, items)


def register(name: str, folder: str | os.PathLike[str]) -> Any:
    """Make an exported folder known to ir_datasets under a name, in this process, and return the data set."""
    place = Path(folder)
    missing = [file for file in (QUERIES, DOCUMENTS) if not (place / file).is_file()]
    has_qrels, has_qlogs = ((place / file).is_file() for file in (QRELS, QLOGS))
    if not has_qrels and not has_qlogs:
        missing.append(f"{QRELS} or {QLOGS}")
    if missing:
        raise InputError(f"{str(place)!r} is no ir-datasets export: it has no {', '.join(missing)}; export it again")
    try:
        import ir_datasets
    except ImportError:
        raise ResourceError(
            "register needs the package ir_datasets, not installed here: pip install ir_datasets"
        ) from None
    if name in ir_datasets.registry:
        raise InputError(
            f"ir_datasets has a data set {name!r} in this process already: ir_datasets.load({name!r}) gives it; "
            "for another folder, choose another name"
        )
    dataset = ir_datasets.create_dataset(
        docs_tsv=str(place / DOCUMENTS),
        queries_tsv=str(place / QUERIES),
        qrels_trec=str(place / QRELS) if has_qrels else None,
    )
    if has_qlogs:
        dataset = ir_datasets.datasets.base.Dataset(dataset, _query_log(ir_datasets, place))
    ir_datasets.registry.register(name, dataset)
    return dataset


def _query_log(ir_datasets: Any, place: Path) -> Any:
    """The query log as a component of a data set of ir_datasets."""

    class QueryLog(ir_datasets.formats.BaseQlogs):  # type: ignore[misc]  # the package has no types
        def qlogs_iter(self) -> Iterator[LoggedSearch]:
            return logged_searches(place)

        def qlogs_cls(self) -> type[LoggedSearch]:
            return LoggedSearch

        def qlogs_count(self) -> int:
            return sum(1 for _ in logged_searches(place))

    return QueryLog()
