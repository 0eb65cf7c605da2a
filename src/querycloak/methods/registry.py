"""The methods by name: those that come with querycloak, and those of other packages (docs/own-method.md).

A method's module is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from querycloak.errors import InputError, ParameterError
from querycloak.methods.method import Method

GROUP = "querycloak.methods"
"""The group of entry points by which a package adds methods: name = "module:Class"."""
BUILT_IN = {
    "queries": "querycloak.methods.queries.method:Queries",
    "clicks": "querycloak.methods.clicks.method:Clicks",
    "sessions": "querycloak.methods.sessions.method:Sessions",
    "query-pool": "querycloak.methods.query_pool.method:QueryPool",
    "optimal": "querycloak.methods.optimal.method:Optimal",
    "semantic": "querycloak.methods.semantic.method:Semantic",
    "affinity": "querycloak.methods.affinity.method:Affinity",
    "generalize": "querycloak.methods.generalize.method:Generalize",
    "k-anonymity": "querycloak.methods.k_anonymity.method:KAnonymity",
}


class MethodsByName(Mapping[str, type[Method]]):
    """Every method there is; those of other packages come last, by name."""

    def __getitem__(self, name: str) -> type[Method]:
        if name in BUILT_IN:
            module, _, class_name = BUILT_IN[name].partition(":")
            found: type[Method] = vars(import_module(module))[class_name]
            return found
        return _loaded(_added()[name])

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from _added()

    def __len__(self) -> int:
        return len(BUILT_IN) + len(_added())


METHODS: Mapping[str, type[Method]] = MethodsByName()


def method_class(name: str) -> type[Method]:
    """The class of the method of this name."""
    if name not in METHODS:
        raise ParameterError(f"there is no method {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]


def _added() -> dict[str, EntryPoint]:
    """What other packages add; none of them can take the name of one that comes with querycloak."""
    return {each.name: each for each in sorted(entry_points(group=GROUP)) if each.name not in BUILT_IN}


def _loaded(entry: EntryPoint) -> type[Method]:
    problem = ""
    try:
        found = entry.load()
    except Exception as error:  # whatever a foreign package does when it is imported
        problem = type(error).__name__
    if problem:
        raise InputError(f"the method {entry.name!r} of another package cannot be loaded: {problem}; mend or remove it")
    if not isinstance(found, type) or not issubclass(found, Method):
        raise InputError(f"the method {entry.name!r} of another package is no querycloak Method; mend or remove it")
    if found.name != entry.name:
        raise InputError(f"the method {entry.name!r} of another package calls itself {found.name!r}; mend or remove it")
    return found
