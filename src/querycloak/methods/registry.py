"""Methods by name: those of querycloak, those of other packages (docs/own-method.md), and papers' variants.

A module is imported when its method is asked for. `papers/` stands below `methods/`, so it is named here as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from querycloak.errors import InputError, ParameterError
from querycloak.methods.method import Method

GROUP = "querycloak.methods"
"""The group of entry points by which a package adds methods: name = "module:Class"."""
BUILT_IN = {
    "queries": "querycloak.methods.queries.method:Queries",
    "clicks": "querycloak.methods.clicks.method:Clicks",
    "sessions": "querycloak.methods.sessions.method:Sessions",
    "phrases": "querycloak.methods.phrases.method:Phrases",
    "synthetic": "querycloak.methods.synthetic.method:Synthetic",
    "query-pool": "querycloak.methods.query_pool.method:QueryPool",
    "optimal": "querycloak.methods.optimal.method:Optimal",
    "semantic": "querycloak.methods.semantic.method:Semantic",
    "affinity": "querycloak.methods.affinity.method:Affinity",
    "generalize": "querycloak.methods.generalize.method:Generalize",
    "k-anonymity": "querycloak.methods.k_anonymity.method:KAnonymity",
    "eu-records": "querycloak.methods.eu_records.method:EuRecords",
}

VARIANTS = {
    ("clicks", "paper"): "querycloak.papers.zhang2017:PaperClicks",
    ("sessions", "paper"): "querycloak.papers.zhang2017:PaperSessions",
    ("query-pool", "paper"): "querycloak.papers.zhang2016:PaperQueryPool",
    ("optimal", "paper"): "querycloak.papers.hong2012:PaperOptimal",
    ("semantic", "paper"): "querycloak.papers.sanchez2018:PaperSemantic",
    ("semantic", "log"): "querycloak.methods.semantic.log_domain:LogSemantic",
    ("affinity", "paper"): "querycloak.papers.carpineto2015:PaperAffinity",
}
"""The class of each variant that has one (mostly in querycloak.papers), by name of the method and of the variant."""


class MethodsByName(Mapping[str, type[Method]]):
    """All methods; those of other packages come last, by name."""

    def __getitem__(self, name: str) -> type[Method]:
        return _at_home(BUILT_IN[name]) if name in BUILT_IN else _loaded(_added()[name])

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


def variant_class(kind: type[Method], options: Mapping[str, Any]) -> type[Method]:
    """The class that makes a method with these options, if `kind` is called: of a paper's variant, its own class.

    A subclass in another package cannot make a variant that has its own class: it would claim the paper's guarantee.
    """
    homes = {variant: home for (name, variant), home in VARIANTS.items() if name == kind.name}
    given = options.get("variant", "default")
    home = f"{kind.__module__}:{kind.__qualname__}"
    if home in (BUILT_IN.get(kind.name), *homes.values()):
        return _at_home(homes[given] if given in homes else BUILT_IN[kind.name])
    if given in homes and not issubclass(kind, _at_home(homes[given])):
        raise TypeError(f"{kind.__name__} makes no variant {given!r}: derive it from {homes[given]}")
    return kind


def _at_home(home: str) -> type[Method]:
    module, _, name = home.partition(":")
    kind: type[Method] = vars(import_module(module))[name]
    return kind


def _added() -> dict[str, EntryPoint]:
    """Methods of other packages; none of them can take the name of one that comes with querycloak."""
    return {each.name: each for each in sorted(entry_points(group=GROUP)) if each.name not in BUILT_IN}


def _loaded(entry: EntryPoint) -> type[Method]:
    problem = ""
    try:
        kind = entry.load()
    except Exception as error:  # broad: the import runs code of another package
        problem = type(error).__name__
    if problem:
        raise InputError(f"the method {entry.name!r} of another package cannot be loaded: {problem}; mend or remove it")
    if not isinstance(kind, type) or not issubclass(kind, Method):
        raise InputError(f"the method {entry.name!r} of another package is no querycloak Method; mend or remove it")
    if kind.name != entry.name:
        raise InputError(f"the method {entry.name!r} of another package calls itself {kind.name!r}; mend or remove it")
    return kind
