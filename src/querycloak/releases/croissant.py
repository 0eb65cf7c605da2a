"""croissant.json: the release for tools that read the vocabulary of Croissant 1.1, responsible AI included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from querycloak.privacy.explanation import explain
from querycloak.releases.card import Contents, TableFile
from querycloak.releases.statements import cited_as, difference, limitations

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
        "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject",
        "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset",
        "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references",
        "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
    )
}  # fmt: skip


def croissant_of(contents: Contents) -> dict[str, Any]:
    """The document."""
    description = "; ".join([*contents.warnings, *(table.described.meaning for table in contents.tables)])
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": contents.title,
        "description": f"{description}. Guarantee: card.json; how to read it: README.md.",
        "datePublished": contents.published.isoformat(),
        "version": "1.0.0",
        "isLiveDataset": False,
        "citeAs": cited_as(contents),
        **_owner(contents.release.about),
        **_responsible(contents),
        "distribution": [_file(table) for table in contents.tables],
        "recordSet": [_records(table) for table in contents.tables],
    }


def _owner(about: Mapping[str, Any]) -> dict[str, Any]:
    """The owner's statements in the words of schema.org."""
    doi, owner, licence = (about.get(name) for name in ("doi", "owner", "licence"))
    contact = {"description": f"Contact: {about['contact']}"} if about.get("contact") else {}
    return {
        **({"license": licence} if licence else {}),
        **({"keywords": about["keywords"]} if about.get("keywords") else {}),
        **({"url": f"https://doi.org/{doi}"} if doi else {}),
        **({"creator": {"@type": "sc:Organization", "name": owner, **contact}} if owner else {}),
    }


_OF_EVERY_RELEASE = {
    "rai:dataCollection": "Searches and clicks of people who used a search engine, as its log recorded them.",
    "rai:dataCollectionType": "User-generated content",
    "rai:dataCollectionMissingData": "A row that is missing is not a zero: it did not pass the method's selection.",
    "rai:dataCollectionRawData": "The log itself is not published.",
    "rai:dataBiases": "What many people ask is here, what few people ask is not; active people count up to a bound.",
    "rai:dataSocialImpact": "Shows what people in general look for. Facts about groups come out, sensitive or not.",
}


def _responsible(contents: Contents) -> dict[str, Any]:
    """Fields of the responsible-AI vocabulary for every data set."""
    release = contents.release
    uses = dict.fromkeys(table.described.good_for for table in contents.tables if table.rows)
    unprotected = "; ".join(release.proven.unprotected) or "nothing beyond what the numbers allow"
    review = release.about.get("review_date")
    plan = (
        f"To be reviewed on {review}." if review else "Fixed once published; a newer release has a folder of its own."
    )
    return {
        **_OF_EVERY_RELEASE,
        "rai:dataPreprocessingProtocol": f"The log as it was read: {json.dumps(dict(release.log), ensure_ascii=False)}",
        "rai:dataManipulationProtocol": f"Method {release.method}: {difference(release)}. card.json has parameters.",
        "rai:dataUseCases": list(uses) or ["none: no row came out"],
        "rai:dataLimitations": limitations(contents),
        "rai:personalSensitiveInformation": f"{explain(release.proven)} Not protected: {unprotected}.",
        "rai:dataReleaseMaintenancePlan": plan,
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
