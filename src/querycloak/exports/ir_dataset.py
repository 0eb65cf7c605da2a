"""A release as a data set of the package ir_datasets: queries, qrels, documents (urls), and a function to load it.

FOLDER/  queries.tsv (id, query)  docs.tsv (id, url)  qrels (TREC)  rule.txt
`querycloak.exports.ir_dataset.register("NAME", FOLDER)` makes it known as `ir_datasets.load("NAME")`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from querycloak.errors import InputError, ResourceError
from querycloak.exports.grades import judgements
from querycloak.exports.judgement_files import document_id
from querycloak.releases.safe_text import safe_text

if TYPE_CHECKING:
    from querycloak.exports.export import Output
    from querycloak.releases.release import Release

QUERIES, DOCUMENTS, QRELS, RULE = "queries.tsv", "docs.tsv", "qrels", "rule.txt"


def write(release: Release, output: Output, grades: str, levels: int) -> None:
    """Write queries, urls and judgements in the layout that `register` and `ir_datasets.create_dataset` read."""
    judged = judgements(release, grades, levels)
    ids = judged.queries
    urls = dict.fromkeys(row.url for row in judged.rows)
    output.write(_lines(f"{number}\t{safe_text(query)}" for query, number in ids.items()), QUERIES)
    output.write(_lines(f"{document_id(url)}\t{safe_text(url)}" for url in urls), DOCUMENTS)
    output.write(_lines(f"{ids[row.query]} 0 {document_id(row.url)} {row.grade}" for row in judged.rows), QRELS)
    output.write(f"{judged.rule}\n".encode(), RULE)


def _lines(lines: Any) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def register(name: str, folder: str | os.PathLike[str]) -> Any:
    """Make an exported folder known to ir_datasets under a name, and return the data set."""
    place = Path(folder)
    missing = [file for file in (QUERIES, DOCUMENTS, QRELS) if not (place / file).is_file()]
    if missing:
        raise InputError(f"{str(place)!r} is no ir-datasets export: it has no {', '.join(missing)}; export it again")
    try:
        import ir_datasets
    except ImportError:
        raise ResourceError(
            "register needs the package ir_datasets, not installed here: pip install ir_datasets"
        ) from None
    dataset = ir_datasets.create_dataset(
        docs_tsv=str(place / DOCUMENTS), queries_tsv=str(place / QUERIES), qrels_trec=str(place / QRELS)
    )
    ir_datasets.registry.register(name, dataset)
    return dataset
