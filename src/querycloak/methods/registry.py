"""The methods by name; a method's module is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from querycloak.errors import ParameterError


class Entry(NamedTuple):
    """Where a method lives, and what it does in one line."""

    module: str
    class_name: str
    summary: str


METHODS: dict[str, Entry] = {
    "clicks": Entry("querycloak.methods.clicks.method", "Clicks", "Noisy counts of (query, url) pairs."),
    "sessions": Entry(
        "querycloak.methods.sessions.method", "Sessions", "Noisy counts of query sequences, and of clicks."
    ),
    "query-pool": Entry(
        "querycloak.methods.query_pool.method", "QueryPool", "What people asked of a public list of queries."
    ),
    "optimal": Entry("querycloak.methods.optimal.method", "Optimal", "Made-up users in the log's own schema."),
    "semantic": Entry("querycloak.methods.semantic.method", "Semantic", "Each query replaced by a similar one."),
    "affinity": Entry("querycloak.methods.affinity.method", "Affinity", "What k users asked, or something like it."),
    "generalize": Entry("querycloak.methods.generalize.method", "Generalize", "Concepts that k users asked for."),
    "k-anonymity": Entry(
        "querycloak.methods.k_anonymity.method", "KAnonymity", "What at least k users share; a baseline."
    ),
}


def method_class(name: str) -> type[Any]:
    """The class of the method of this name."""
    if name not in METHODS:
        raise ParameterError(f"there is no method {name!r}; there are {', '.join(METHODS)}")
    entry = METHODS[name]
    found: type[Any] = getattr(import_module(entry.module), entry.class_name)
    return found
