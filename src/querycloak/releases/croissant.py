"""croissant.json: the release for tools that read the Croissant 1.0 vocabulary of data sets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from querycloak.releases.card import Contents, TableFile
from querycloak.releases.datasheet import cited_as

CROISSANT = "croissant.json"
# The context that the specification asks every file to carry.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
} | {
    name: f"cr:{name}"
    for name in (
        "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
        "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references",
        "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
    )
}  # fmt: skip


def croissant_of(contents: Contents) -> dict[str, Any]:
    """The document."""
    description = "; ".join([*contents.warnings, *(table.described.meaning for table in contents.tables)])
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": contents.title,
        "description": f"{description}. Guarantee: card.json; how to read it: README.md.",
        "datePublished": contents.published.isoformat(),
        "version": "1.0.0",
        "isLiveDataset": False,
        "citeAs": cited_as(contents),
        "distribution": [_file(table) for table in contents.tables],
        "recordSet": [_records(table) for table in contents.tables],
    }


def _file(table: TableFile) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": table.file,
        "name": table.file,
        "description": table.described.meaning,
        "contentUrl": table.file,
        "contentSize": f"{table.size} B",
        "encodingFormat": table.media_type,
        "sha256": table.checksum,
    }


def _records(table: TableFile) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": table.kind,
        "name": table.kind,
        "description": table.described.meaning,
        "field": [_field(table, field) for field in table.schema],
    }


def _field(table: TableFile, field: pa.Field) -> dict[str, Any]:
    described = {
        "@type": "cr:Field",
        "@id": f"{table.kind}/{field.name}",
        "name": field.name,
        "description": table.described.columns[field.name][1],
        "dataType": _data_type(field.type),
        "source": {"fileObject": {"@id": table.file}, "extract": {"column": field.name}},
    }
    if pa.types.is_list(field.type):
        if table.file.endswith(".parquet"):
            return described | {"repeated": True}
        return described | {"description": f"{described['description']}; a JSON array of texts"}
    return described


def _data_type(of: pa.DataType) -> str:
    if pa.types.is_integer(of):
        return "sc:Integer"
    return "sc:DateTime" if pa.types.is_timestamp(of) else "sc:Text"
