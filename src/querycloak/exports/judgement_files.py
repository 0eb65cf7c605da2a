"""Judgements as other tools read them: TREC qrels, Quepid's CSV, OpenSearch's Search Relevance Workbench."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING

from querycloak.exports.grades import Judgements, judgements
from querycloak.releases.safe_text import escaped_json, safe_text

if TYPE_CHECKING:
    from querycloak.exports.export import Output
    from querycloak.releases.release import Release

_BLANK = re.compile(r"\s")


def qrels(release: Release, output: Output, grades: str, levels: int) -> None:
    """Write TREC qrels (query id, 0, url, grade), and beside them the queries and the rule of the grades."""
    judged = judgements(release, grades, levels)
    ids = judged.queries
    lines = (f"{ids[row.query]} 0 {document_id(row.url)} {row.grade}\n" for row in judged.rows)
    output.write("".join(lines).encode())
    output.write_beside(
        "".join(f"{number}\t{safe_text(query)}\n" for query, number in ids.items()).encode(), ".queries.tsv"
    )
    output.write_beside(_rule(judged), ".rule.txt")


def quepid(release: Release, output: Output, grades: str, levels: int) -> None:
    """Write Quepid's CSV of ratings (query, docid, rating), and beside it the rule of the grades."""
    judged = judgements(release, grades, levels)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("query", "docid", "rating"))
    writer.writerows((safe_text(row.query), safe_text(row.url), row.grade) for row in judged.rows)
    output.write(text.getvalue().encode())
    output.write_beside(_rule(judged), ".rule.txt")


def workbench(release: Release, output: Output, grades: str, levels: int) -> None:
    """Write the body of a request that imports a judgement list into the Search Relevance Workbench."""
    judged = judgements(release, grades, levels)
    ratings: dict[str, list[dict[str, str]]] = {}
    for row in judged.rows:
        ratings.setdefault(row.query, []).append({"docId": row.url, "rating": f"{row.grade:.1f}"})
    document = {
        "name": release.title,
        "description": judged.rule,
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [{"query": query, "ratings": rated} for query, rated in ratings.items()],
    }
    lines = json.dumps(document, ensure_ascii=False, indent=1).split("\n")
    output.write("".join(f"{escaped_json(line)}\n" for line in lines).encode())


def document_id(url: str) -> str:
    """Return a url as one field of a qrels line: white space is percent-encoded."""
    return _BLANK.sub(lambda blank: "".join(f"%{byte:02X}" for byte in blank[0].encode()), url)


def _rule(judged: Judgements) -> bytes:
    return f"{judged.rule}\n".encode()
