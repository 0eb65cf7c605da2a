"""card.json: description and guarantee of a release for machines, and the schema of a loaded card.

Its first keys are those of `guarantee --json`. The schema is checked once, when a card is
loaded: anybody can write a card.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from querycloak.privacy.accounting.gaussian_filter import GaussianCost
from querycloak.privacy.explanation import caught_at_most
from querycloak.releases.output_filter import OutputFilter
from querycloak.releases.release import Release
from querycloak.releases.tables import TableKind

VERSION = 2
NOT_PRIVATE = (
    "NOT PRIVATE: the random numbers came from a seed, for a test. Somebody who knows the seed can remove the noise. "
    "Do not give this folder to anybody."
)
_WARNINGS = {
    "syntactic": "Not differentially private: a rule about what the output looks like, no limit on what it reveals.",
    "sampling-only": "Not differentially private as a whole: the guarantee covers the sampling step only.",
}
_REGISTRY_VARIANTS = {"pure-dp": "Pure DP", "approximate-dp": "Approximate DP"}


@dataclass(frozen=True)
class TableFile:
    """A table as it was written."""

    kind: str
    described: TableKind
    file: str
    media_type: str
    rows: int
    schema: pa.Schema
    checksum: str
    size: int
    dialect: str | None = None
    """Form of text files, in the words of Python's csv; None for Parquet."""

    @property
    def order(self) -> str:
        """Order of the rows."""
        if "count" in self.schema.names:
            return "by count, then by key"
        if "session" in self.schema.names and "day" in self.schema.names:
            return "by session, then as they were asked"
        return "by user, then by query" if "user" in self.schema.names else "by key"


@dataclass(frozen=True)
class Contents:
    """The facts from which card, datasheet and Croissant are made."""

    release: Release
    tables: tuple[TableFile, ...]
    output_filter: OutputFilter | None
    published: date

    @property
    def title(self) -> str:
        """A name for the release."""
        return self.release.title

    @property
    def warnings(self) -> list[str]:
        """Warnings that nobody may overlook."""
        proven = self.release.proven
        sentences = [NOT_PRIVATE] if self.release.seeded else []
        sentences += [_WARNINGS[proven.kind]] if proven.kind in _WARNINGS else []
        if proven.kind == "sampling-only" and proven.neighbours == "add-remove-user":
            sentences.append(
                f"Delta ({proven.delta:g}) is the chance that a user of the log appears. If it is above one "
                "divided by the number of users, at least one user is expected to appear."
            )
        return [*sentences, *self.release.warnings]


def upgraded(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card of any earlier version as one of the current version; a release's digest is of the bytes as stored."""
    current = dict(card)
    while (version := current["card_version"]) < VERSION:
        current = {**_UPGRADES[version](current), "card_version": version + 1}
    return current


def _with_all_keys(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card of version 1, which lacks keys without a value (in 0.1 also `rows`), as version 2."""
    return {"rows": "asked", "composition": {}, "population_size": None, "options": None, **card}


_UPGRADES: Mapping[int, Callable[[Mapping[str, Any]], dict[str, Any]]] = {1: _with_all_keys}
"""Steps from each earlier version to the next."""


def card_of(contents: Contents, checksums: Mapping[str, str]) -> dict[str, Any]:
    """The card as a document."""
    release, look = contents.release, contents.output_filter
    return {
        "method": release.method,
        "variant": release.variant,
        "parameters": dict(release.parameters),
        "claimed": release.claimed and release.claimed.to_json(),
        "proven": release.proven.to_json(),
        "card_version": VERSION,
        "published": contents.published.isoformat(),
        "warnings": contents.warnings,
        "seeded": release.seeded,
        "accounting": release.accounting.to_json(),
        "composition": dict(release.composition),
        "gaussian_dp": dict(release.gaussian_dp),
        "trade_off": _trade_off(release),
        "population_size": release.population_size,
        "options": None if release.options is None else dict(release.options),
        "counts": release.counts,
        "rows": release.rows,
        "log": dict(release.log),
        "about": dict(release.about),
        "last_look": look.to_json() if look is not None else {"applied": False},
        "tables": {table.kind: _table(table, release) for table in contents.tables},
        "checksums": {"algorithm": "sha256", **checksums},
        "versions": dict(release.versions),
        "deployment": _deployment(contents),
    }


def _trade_off(release: Release) -> list[list[float]]:
    """The most that a test detects at a few shares of false alarms, by squared losses or by epsilon and delta."""
    if not release.gaussian_dp:
        return []
    curve = GaussianCost.from_json(release.gaussian_dp).trade_off()
    return [
        [share, min(detected, math.ceil(caught_at_most(share, *release.proven.numbers) * 1e6) / 1e6)]
        for share, detected in curve
    ]


def _table(table: TableFile, release: Release) -> dict[str, Any]:
    described, reach = table.described, release.reach.get(table.kind)
    columns = {f.name: {"type": _type_name(f.type), "meaning": described.columns[f.name][1]} for f in table.schema}
    return {
        "file": table.file,
        "meaning": described.meaning,
        "rows": table.rows,
        "order": table.order,
        "columns": columns,
        "reach": reach and reach.to_json(),
        **({} if table.dialect is None else {"dialect": table.dialect}),
    }


def _type_name(of: pa.DataType) -> str:
    return "list of strings" if pa.types.is_list(of) else str(of)


def _deployment(contents: Contents) -> dict[str, Any] | None:
    """The facts in the field names of the OpenDP deployments registry, as its published entries use them.

    The registry is for differential privacy: what is not, is not described in its terms.
    """
    release, proven = contents.release, contents.release.proven
    if proven.kind not in _REGISTRY_VARIANTS or release.seeded:
        return None
    return {
        "basic": {
            "name": contents.title,
            "description": "; ".join(f"{table.kind}: {table.described.meaning}" for table in contents.tables),
            "intended_use": "; ".join(table.described.good_for for table in contents.tables if table.rows) or "none",
            "publication_date": contents.published.isoformat(),
        },
        "dp_variant": {
            "variant_name": _REGISTRY_VARIANTS[proven.kind],
            "data_domain": "search logs: users, times, queries, clicked results",
            "unprotected_quantities": "; ".join(proven.unprotected) or "none",
        },
        "privacy_loss": {
            "privacy_unit": f"{proven.unit.capitalize()}-level",
            "privacy_unit_details": f"neighbours: {proven.neighbours}",
            "privacy_parameters": {"epsilon": proven.epsilon, "delta": proven.delta},
        },
        "deployment_model": {
            "model_name": "Central",
            "release_type": "One release",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "composition": _composition(release),
            "post_processing": "none"
            if contents.output_filter is None
            else "rows that match the output filter are dropped",
        },
        "implementation": {"mechanisms": proven.because},
    }


def _composition(release: Release) -> str:
    if release.accounting.charge is None:
        return "this release alone; it was not accounted with others of the same log"
    return (
        "composed with other releases about the same population in a ledger: by sums of epsilon and delta or, under "
        "Gaussian accounting, of squared losses and additive deltas"
    )


Check: TypeAlias = Callable[[Any], "str | None"]
"""Takes a value and returns the rule that it breaks, beginning with the place inside the value; None if it keeps it."""
MOST_ROWS = 10**12
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _is(kind: type | tuple[type, ...], rule: str) -> Check:
    def check(value: Any) -> str | None:
        wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        return f" must be {rule}" if wrong else None

    return check


def _null_or(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _whole(most: int) -> Check:
    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        return None if fits else f" must be a whole number from 0 to {most}"

    return check


def _number(value: Any) -> str | None:
    # Compared, not converted: a whole number may be larger than any float.
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return None if fits else " must be a finite number"


def _each(check: Check) -> Check:
    def check_all(value: Any) -> str | None:
        problems = map(check, value) if isinstance(value, list) else iter([" must be a list"])
        return next((problem for problem in problems if problem is not None), None)

    return check_all


def _values(check: Check) -> Check:
    def check_all(value: Any) -> str | None:
        problems = map(check, value.values()) if isinstance(value, Mapping) else iter([" must be an object"])
        return next((problem for problem in problems if problem is not None), None)

    return check_all


def _object(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with these keys; other keys are let through, because a later version may add some."""
    known = {**required, **(optional or {})}

    def check(value: Any) -> str | None:
        if not isinstance(value, Mapping):
            return " must be an object"
        for name in required:
            if name not in value:
                return f".{name} is missing"
        for name, inner in known.items():
            if name in value and (problem := inner(value[name])) is not None:
                return f".{name}{problem}"
        return None

    return check


def _accounting(value: Any) -> str | None:
    if value == "not accounted":
        return None
    return _object({"population": _TEXT, "charge": _whole(2**63 - 1)}, {"run": _TEXT})(value)


def _checksums(value: Any) -> str | None:
    if not isinstance(value, Mapping) or value.get("algorithm") != "sha256":
        return " must be an object whose algorithm is sha256"
    digests = [digest for name, digest in value.items() if name != "algorithm"]
    fits = all(isinstance(digest, str) and _SHA256.fullmatch(digest) for digest in digests)
    return None if fits else " must be SHA-256 digests"


def _about(value: Any) -> str | None:
    """Texts by name, and keywords as a list of texts."""
    if not isinstance(value, Mapping):
        return " must be an object"
    for name, text in value.items():
        problem = (_TEXTS if name == "keywords" else _TEXT)(text)
        if problem is not None:
            return f".{name}{problem}"
    return None


def _date(value: Any) -> str | None:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return " must be a date, such as 2006-03-01"
    return None


_TEXT, _TRUTH, _MAPPING = _is(str, "a text"), _is(bool, "true or false"), _is(Mapping, "an object")
_TEXTS = _each(_TEXT)
_GUARANTEE = _object(
    {
        "kind": _TEXT,
        "unit": _null_or(_TEXT),
        "neighbours": _null_or(_TEXT),
        "epsilon": _null_or(_number),
        "delta": _null_or(_number),
        "k": _null_or(_whole(MOST_ROWS)),
        "unprotected": _TEXTS,
        "because": _TEXT,
    }
)
_TABLE = _object(
    {"file": _TEXT, "rows": _whole(MOST_ROWS), "columns": _MAPPING}, {"reach": _null_or(_MAPPING), "dialect": _TEXT}
)
_SIZES = (
    "min_users", "longest", "queries_per_session", "sessions_per_user", "cells_per_user", "counted_per_user",
    "pairs_per_user", "max_queries",
)  # fmt: skip
_USED_PARAMETERS = _object(
    {},
    {
        **dict.fromkeys(_SIZES, _null_or(_whole(MOST_ROWS))),
        **dict.fromkeys(("by", "domain_of", "times", "count_of", "sequences"), _null_or(_TEXT)),
        **dict.fromkeys(("gap_minutes", "auto_share"), _null_or(_number)),
    },
)
"""Parameters that evaluation and attacks use; others are only shown and compared."""
OUR_METHODS = frozenset({
    "queries", "clicks", "sessions", "phrases", "synthetic", "query-pool", "optimal", "semantic", "affinity",
    "generalize", "k-anonymity", "eu-records",
})  # fmt: skip
"""Methods of querycloak. Those of other packages give parameters of these names the types that they like."""


def card_problem(card: Mapping[str, Any]) -> str | None:
    """The first rule that a card of the current version breaks; None if it keeps the schema.

    Parameters are not named: names of parameters in messages are those that a reader can set.
    """
    problem = _CARD(card)
    if problem is None and card["method"] in OUR_METHODS and _USED_PARAMETERS(card["parameters"]) is not None:
        return ".parameters must have values of the types that querycloak writes"
    return problem


_LOG = _object({}, {"since": _null_or(_date), "until": _null_or(_date), "attributes": _null_or(_TEXTS)})
_CARD = _object(
    {
        "method": _TEXT,
        "variant": _TEXT,
        "parameters": _MAPPING,
        "claimed": _null_or(_GUARANTEE),
        "proven": _GUARANTEE,
        "seeded": _TRUTH,
        "accounting": _accounting,
        "composition": _MAPPING,
        "population_size": _null_or(_whole(MOST_ROWS)),
        "options": _null_or(_MAPPING),
        "counts": _TEXT,
        "rows": _TEXT,
        "log": _LOG,
        "tables": _values(_TABLE),
        "checksums": _checksums,
        "versions": _object({}, {"querycloak": _TEXT}),
    },
    {
        "published": _TEXT,
        "warnings": _TEXTS,
        "gaussian_dp": _values(_number),
        "trade_off": _each(_each(_number)),
        "about": _about,
        "last_look": _MAPPING,
    },
)
