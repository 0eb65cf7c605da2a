"""YAML at the top of README.md, as the package `datasets` reads it: one configuration for each table."""

from __future__ import annotations

from typing import Any

from querycloak.files.documents import yaml_text
from querycloak.releases.card import Contents, TableFile

_LICENCES = frozenset(
    {
        "afl-3.0", "apache-2.0", "cc-by-2.0", "cc-by-3.0", "cc-by-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0",
        "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0",
        "cc-by-sa-3.0", "cc-by-sa-4.0", "cc0-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "cdla-sharing-1.0",
        "etalab-2.0", "mit",
    }
)  # fmt: skip
"""Identifiers of SPDX that are also those of the hub, in lower case."""
_OTHER_NAMES = {"odbl-1.0": "odbl", "odc-by-1.0": "odc-by", "pddl-1.0": "pddl"}
_TASKS = {
    "queries": ("text-generation",),
    "phrases": ("text-generation",),
    "clicks": ("text-ranking", "text-retrieval"),
    "transitions": ("text-generation",),
    "sessions": ("text-generation",),
    "log": ("text-retrieval", "text-generation"),
}
_SIZES = (
    (10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"), (10**11, "10B<n<100B"), (10**12, "100B<n<1T"),
)  # fmt: skip


def front_matter(contents: Contents) -> str:
    """The YAML between its two lines of dashes."""
    about = contents.release.about
    rows = max(table.rows for table in contents.tables)
    # The package cannot load a table without rows.
    shown = next((table for table in contents.tables if table.rows), contents.tables[0])
    tasks = dict.fromkeys(task for table in contents.tables for task in _TASKS.get(table.kind, ("other",)))
    document = {
        "pretty_name": ("NOT PRIVATE: " if contents.release.seeded else "") + contents.title,
        **_licence(str(about.get("licence", ""))),
        "task_categories": list(tasks),
        "size_categories": [next((size for most, size in _SIZES if rows < most), "n>1T")],
        "tags": ["search-log", contents.release.method, *about.get("keywords", ())],
        "configs": [_config(table, default=table is shown) for table in contents.tables],
    }
    return f"---\n{yaml_text(document)}---"


def _licence(name: str) -> dict[str, str]:
    """The hub's identifier of a licence; its own words under `other`; unknown if the owner gives none."""
    identifier = _OTHER_NAMES.get(name.lower(), name.lower())
    if not name:
        return {"license": "unknown"}
    if identifier in _LICENCES or identifier in _OTHER_NAMES.values():
        return {"license": identifier}
    link = {"license_link": name} if name.startswith(("http://", "https://")) else {}
    return {"license": "other", "license_name": name, **link}


def _config(table: TableFile, *, default: bool) -> dict[str, Any]:
    """One table; texts such as null stay texts in a text file, and only an empty field is missing."""
    text = {} if table.dialect is None else {"keep_default_na": False, "na_values": [""]}
    tabs = {"sep": "\t"} if table.file.endswith(".tsv") else {}
    return {
        "config_name": table.kind,
        **({"default": True} if default else {}),
        "data_files": [{"split": "train", "path": table.file}],
        **tabs,
        **text,
    }
