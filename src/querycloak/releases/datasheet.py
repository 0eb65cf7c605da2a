"""README.md of a release folder: the datasheet for the people who receive it; its sentences are in datasheet.jinja.

The YAML at its top is for the package `datasets`: one configuration for each table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from querycloak.files.documents import yaml_text
from querycloak.privacy.explanation import explain, explanation_template
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.exact import shown_up
from querycloak.releases.about_file import TITLES
from querycloak.releases.card import Contents, TableFile
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.statements import cited_as, difference, limitations

_COUNTING = {"count", "viewers", "views", "searches"}
"""Columns of noisy numbers, one of which a table with counts has."""


def _code(text: str) -> str:
    """A text as Markdown shows it letter by letter, whatever it holds: between more backticks than stand in it."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text)
    runs = [len(run) for run in re.findall("`+", shown)]
    fence = "`" * (max(runs, default=0) + 1)
    blank = " " if runs else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


# The text is Markdown, not HTML: what is not ours goes through `code`. It is compiled before anything is paid, and so
# is the explanation within it.
_ENVIRONMENT = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
_ENVIRONMENT.filters |= {"code": _code, "up": shown_up}
_TEMPLATE = _ENVIRONMENT.from_string(Path(__file__).with_suffix(".jinja").read_text("utf-8"))
explanation_template()


def datasheet_of(contents: Contents) -> str:
    """The whole text."""
    release = contents.release
    counted = [table for table in contents.tables if _COUNTING & set(table.schema.names)]
    reached = [(table, release.reach[table.kind]) for table in contents.tables if table.kind in release.reach]
    tighter = release.composition.get("privacy_loss_distribution", {})
    filtered = contents.output_filter.to_json() if contents.output_filter is not None else {}
    return _TEMPLATE.render(
        RowKind=RowKind,
        contents=contents,
        release=release,
        front_matter=front_matter(contents),
        difference=difference(release),
        about=list(_about(release)),
        limitations=limitations(contents),
        counted=counted,
        has_counts=bool(counted),
        beyond=beyond_public_lists(release),
        meanings=[(table, reach.lines()) for table, reach in reached],
        has_margins=any(each.margin95 is not None and each.margin95.high > 0 for each in release.reach.values()),
        side_by_side=list(_side_by_side(release)),
        explanation=explain(release.proven),
        tighter=tighter if tighter.get("below_the_sum") else None,
        made_with=list(_made_with(release)),
        filtered=filtered if filtered.get("applied") else None,
        citation=cited_as(contents),
    )


def beyond_public_lists(release: Release) -> list[str]:
    """Rows that a release of public lists takes from the log, above a threshold."""
    if release.counts != "public-keys":
        return []
    clicks = ["clicks"] if release.parameters.get("clicks") == "threshold" else []
    return [*(["queries outside the pool"] if release.parameters.get("off_pool") else []), *clicks]


def _about(release: Release) -> Iterator[tuple[str, str]]:
    """The owner's statements, each under its title."""
    for name, value in release.about.items():
        if name in TITLES and name != "citation":
            yield TITLES[name], ", ".join(value) if isinstance(value, list) else str(value)


def _side_by_side(release: Release) -> Iterator[tuple[str, str, str]]:
    """Rows of the guarantee that is proven beside the one that is claimed."""
    rows = [("kind", "kind"), ("counts for each", "unit"), ("neighbouring logs", "neighbours")]
    for title, name in [*rows, *((name, name) for name in ("epsilon", "delta", "k"))]:
        proven, claimed = _cell(release.proven, name), _cell(release.claimed, name)
        if (proven, claimed) != ("-", "-"):
            yield title, proven, claimed


def _cell(guarantee: Guarantee | None, name: str) -> str:
    value = getattr(guarantee, name) if guarantee is not None else None
    if guarantee is None or value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return shown_up(value) if guarantee.covers_release else "none for the whole release"


def _made_with(release: Release) -> Iterator[tuple[str, list[str]]]:
    """Parameters, reading and software, each as name = value."""
    listed: dict[str, Mapping[str, Any]] = {
        "Parameters": release.parameters,
        "How its owner had the log read": release.log,
        "Software": release.versions,
    }
    for title, values in listed.items():
        if values:
            yield title, [_code(f"{name} = {json.dumps(each, ensure_ascii=False)}") for name, each in values.items()]


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
    """Code that reads a table: in text files, null stays a text, and only an empty field is missing."""
    text = {} if table.dialect is None else {"keep_default_na": False, "na_values": [""]}
    tabs = {"sep": "\t"} if table.file.endswith(".tsv") else {}
    return {
        "config_name": table.kind,
        **({"default": True} if default else {}),
        "data_files": [{"split": "train", "path": table.file}],
        **tabs,
        **text,
    }
