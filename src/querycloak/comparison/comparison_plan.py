"""Releases of a comparison: every method at each budget, or those of a file; and the run that each paper reports."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from querycloak.errors import InputError, ParameterError, QuerycloakError
from querycloak.evaluation.task import K_ANONYMITY, NO_DATA, ORIGINAL, PSEUDONYMS
from querycloak.files.documents import parsed_toml
from querycloak.methods.eu_records.european_rules import RULES
from querycloak.methods.method import Method
from querycloak.methods.option import current_options, options_of
from querycloak.methods.registry import METHODS
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import checked_epsilon, share
from querycloak.sentence import Sentence

EPSILONS, DELTA, MIN_USERS = (8.0,), 1e-6, 5
RESERVED = (ORIGINAL, PSEUDONYMS, K_ANONYMITY, NO_DATA)
"""Names of the baselines beside all releases."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEYS = ("name", "method", "options")
# What a method must be told beside its budget.
_USUAL: Mapping[str, Mapping[str, Any]] = {"semantic": {"max_queries": 4, "domain": "auto"}}


@dataclass(frozen=True)
class PlannedRelease:
    """A release to be made, by the name of its folder."""

    name: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> Method:
        """The method with these options."""
        kind = METHODS[self.method]
        options = current_options(kind, self.options)
        known = [each.name for each in options_of(kind)]
        unknown = [name for name in options if name not in known]
        if unknown:
            listed = ", ".join(name.replace("_", "-") for name in known)
            raise ParameterError(f"{self.method} has no option {unknown[0]!r}; it has {listed}")
        return kind(**options)

    def to_json(self) -> dict[str, Any]:
        """The planned release as plain values."""
        return {"name": self.name, "method": self.method, "options": dict(self.options)}


DMA = PlannedRelease("k-anonymity-dma", "k-anonymity", {"preset": "dma"})
"""The thresholds under the EU's DMA until 2026; they stand beside every method."""
PAPER_AFFINITY = PlannedRelease(
    f"affinity-k{MIN_USERS}-paper", "affinity", {"min_users": MIN_USERS, "variant": "paper"}
)
"""Beside every method of the demo: affinity as its paper has it, every word of a query needs two users, for any k."""
EU_RECORDS = "eu-records"


def checked_budgets(epsilons: Sequence[float], delta: float) -> tuple[tuple[float, ...], float]:
    """The budgets, ascending and each once; a ParameterError if there is none or one is out of range."""
    way_out = "give one or several, such as 1,8"
    if not epsilons:
        raise ParameterError("there must be an epsilon at least: give one or several, such as 1,8")
    budgets = tuple(dict.fromkeys(checked_epsilon(each, way_out) for each in epsilons))
    return tuple(sorted(budgets)), share("delta", delta, "give a number such as 1e-6")


def usual_releases(epsilons: Sequence[float] = EPSILONS, delta: float = DELTA) -> Iterator[PlannedRelease]:
    """One release of each method and budget; a method without a budget releases what five users share."""
    for name, kind in METHODS.items():
        taken = {each.name for each in options_of(kind)}
        if "epsilon" in taken:
            for epsilon in epsilons:
                budget = {"epsilon": epsilon, **({"delta": delta} if "delta" in taken else {})}
                yield PlannedRelease(f"{name}-e{epsilon:g}", name, {**budget, **_USUAL.get(name, {})})
        elif "min_users" in taken:
            yield PlannedRelease(f"{name}-k{MIN_USERS}", name, {"min_users": MIN_USERS})
            if name == DMA.method:
                yield DMA
        elif name == EU_RECORDS:
            for preset in RULES:
                yield PlannedRelease(f"{name}-{preset}", name, {"preset": preset})
        else:
            yield PlannedRelease(f"{name}-release" if name in RESERVED else name, name)


def releases_in(path: Path) -> list[PlannedRelease]:
    """The releases that a file lists: TOML, `[[release]]` with name, method and options each."""
    problem = f"the file of releases {str(path)!r} cannot be read; it must be TOML with [[release]] tables"
    try:
        document = parsed_toml(path.read_bytes())
    except (OSError, ValueError):
        document = {}
    if not document:
        raise InputError(problem)
    listed = document.get("release")
    if not isinstance(listed, list) or not listed or set(document) != {"release"}:
        raise InputError(f"the file of releases {str(path)!r} must hold [[release]] tables: name, method, options")
    planned = [_planned(number, entry) for number, entry in enumerate(listed, 1)]
    _check_methods(planned)
    _check_names(planned)
    for each in planned:
        _check_options(each)
    return planned


def _planned(number: int, entry: object) -> PlannedRelease:
    where = f"release {number} of the file"
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} must be a table: name, method, options")
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        raise InputError(f"{where} has {unknown[0]!r}; it may have {', '.join(_KEYS)}")
    name, method, options = entry.get("name"), entry.get("method"), entry.get("options", {})
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"{where} must have a name of letters, digits, dots and hyphens; it names a folder")
    if not isinstance(method, str) or not isinstance(options, Mapping):
        raise InputError(f"{where} must have a method, and options as a table if any")
    return PlannedRelease(name, method, {key.replace("-", "_"): value for key, value in options.items()})


def _check_methods(planned: Sequence[PlannedRelease]) -> None:
    unknown = list(dict.fromkeys(each.method for each in planned if each.method not in METHODS))
    if unknown:
        raise ParameterError(f"there is no method {', '.join(map(repr, unknown))}; there are {', '.join(METHODS)}")


def _check_names(planned: Sequence[PlannedRelease]) -> None:
    names = [each.name for each in planned]
    for name in names:
        if name in RESERVED:
            raise InputError(f"a release must not be called {name!r}: that stands beside all of them; rename it")
        if names.count(name) > 1:
            raise InputError(f"two releases are called {name!r}; rename one: names of folders and rows must differ")


def _check_options(planned: PlannedRelease) -> None:
    try:
        planned.made()
        return
    except QuerycloakError as error:
        why = error.sentence
    except TypeError:
        why = Sentence("an option has a value of the wrong kind")
    raise ParameterError(Sentence("the release {name!r} cannot be made: {why}", name=planned.name, why=why))


class PublishedRun(NamedTuple):
    """A run of a paper: where it stands, and the options that make it."""

    where: str
    options: Mapping[str, Any]


_ZHANG_2017 = {"noise": 1.0, "threshold": 20, "max_keys_per_user": 4}
PUBLISHED_RUNS: Mapping[str, PublishedRun] = {
    "clicks": PublishedRun("Zhang and Yang 2017, DP_C of Table 5", _ZHANG_2017),
    "sessions": PublishedRun("Zhang and Yang 2017, DP_S of Table 5", _ZHANG_2017),
    "query-pool": PublishedRun("Zhang et al. 2016, Tables 4 and 5", {"epsilon": 29.99}),
    "optimal": PublishedRun("Hong et al. 2012, Tables 5 and 6", {"epsilon": math.log(2), "delta": 0.5}),
    "semantic": PublishedRun("Sánchez et al. 2018, its largest epsilon", {"epsilon": 10.0}),
}
"""Rules claim what is proven of them, so they are not here."""


class Published(NamedTuple):
    """Claimed and proven guarantee of a published run."""

    where: str
    claimed: Guarantee
    proven: Guarantee


def published(method: str) -> Published | None:
    """The published run of a method's paper; None if there is no paper, or if it claims no more than is proven."""
    if method not in PUBLISHED_RUNS:
        return None
    run = PUBLISHED_RUNS[method]
    made = METHODS[method](variant="paper", **run.options)
    claimed = made.claimed()
    return None if claimed is None else Published(run.where, claimed, made.proven())
