"""The entry for OpenDP's registry of deployments: YAML with the registry's field names.

Field names, enumerations and tiers follow the registry's published schema (opendp/deployments-registry-data).
"""

from __future__ import annotations

import json
import re
from typing import Any

from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.description import Description
from querycloak.releases.about_file import About
from querycloak.releases.release import Release
from querycloak.sentence import Sentence

_VARIANTS = {"pure-dp": "Pure DP", "approximate-dp": "Approximate DP"}
_NEEDED = {"owner": "data_curators", "region": "data_product_region", "purpose": "intended_use"}


def registry_entry(
    release: Release, described: Description, about: About, *, digest: str, published: str
) -> dict[str, Any]:
    """The entry as a document; refused where the registry does not fit or the owner has not said enough."""
    _check(release, about)
    deployment = {
        "basic": _basic(release, described, about, published),
        "dp_variant": {
            "variant_name": _VARIANTS[release.proven.kind],
            "data_domain": "Search logs: rows of user, time, query, and the result that was clicked, if any.",
            "unprotected_quantities": "; ".join(release.proven.unprotected) or "none",
        },
        "privacy_loss": _privacy_loss(release),
        "deployment_model": _deployment_model(about),
        "accounting": {"post_processing": _post_processing(release), "composition": _composition(release)},
        "implementation": _implementation(release),
        "administrative": {
            "sources": f"card.json of the release, sha256 {digest}",
            "registry_authors": [about.contact or about.owner],
        },
    }
    slug = re.sub(r"[^a-z0-9]+", "-", f"{release.method} {about.owner} {published[:4]}".lower()).strip("-")
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}


def _check(release: Release, about: About) -> None:
    """Refuse what the registry does not list, and what it asks for and the owner does not give."""
    if release.proven.kind not in _VARIANTS or release.seeded:
        raise ParameterError(
            Sentence(
                "the registry lists differential privacy only, and this release has none that holds; leave {to} out"
            )
        )
    missing = [name for name in _NEEDED if not getattr(about, name)]
    if missing:
        raise InputError(
            Sentence(
                "the registry asks for {fields}, which {about} does not give; add {names} to it",
                fields=", ".join(_NEEDED[name] for name in missing), names=", ".join(missing),
            )
        )  # fmt: skip


def _basic(release: Release, described: Description, about: About, published: str) -> dict[str, Any]:
    return {
        "name": f"{about.owner}: {release.title}",
        "data_curators": [about.owner],
        "intended_use": about.purpose,
        "data_product_type": _type(release),
        "data_product_region": about.region,
        "description": "; ".join(f"{kind}: {table.meaning}" for kind, table in described.tables.items()),
        "publication_date": published,
        "data_product_sector": "Technology",
    }


def _privacy_loss(release: Release) -> dict[str, Any]:
    epsilon, delta = release.proven.numbers
    return {
        "privacy_unit": f"{release.proven.unit.capitalize()}-level",
        "privacy_unit_details": _neighbours(release),
        "privacy_parameters": {"epsilon": epsilon, **({"delta": delta} if delta else {})},
        "privacy_parameters_details": release.proven.because,
    }


def _deployment_model(about: About) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "actors": f"People who search; {about.owner}, which holds the log and runs the release; "
        f"{about.audience or 'readers'}.",
        "release_type": "One release",
        "data_source_type": "Static",
        "data_source_type_details": about.period or "not stated",
        "access_type": "Non-interactive",
    }


def _implementation(release: Release) -> dict[str, Any]:
    return {
        "preprocessing_and_hyperparameter_tuning": json.dumps(dict(release.log), sort_keys=True, default=str),
        "mechanisms": f"{release.proven.because}. Integer noise from exact samplers (OpenDP's and our own), no "
        f"floats. querycloak {release.versions.get('querycloak', '')}, parameters "
        f"{json.dumps(dict(release.parameters), default=str)}.",
        "justification": "The guarantee follows from the parameters alone, before any data is read.",
    }


def _type(release: Release) -> str:
    if release.counts == "synthetic":
        return "Synthetic data"
    return "Dataset" if "log" in release.tables else "Summary statistics"


def _neighbours(release: Release) -> str:
    if release.proven.neighbours == "replace-query":
        return "Two logs with the same users and as many queries of each; all queries of one user may be replaced."
    return "Two logs that differ in all rows of one user: one has them, the other has not."


def _post_processing(release: Release) -> str:
    if release.counts == "synthetic":
        return "Output counts, sizes and made-up users are computed from the noisy tables alone."
    return "Rows are sorted by count and key; rows that look like identifiers may be dropped (card.json, last_look)."


def _composition(release: Release) -> str:
    if release.accounting.charge is None:
        return "This release alone; it was not accounted with others about the same people."
    return (
        "Composed with other releases about the same population in a ledger that is charged before the draw: by sums "
        "of epsilon and delta or, under Gaussian accounting, of squared losses and additive deltas."
    )
