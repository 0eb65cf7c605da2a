"""The plan of a sign-off: a TOML file that is fixed before the log is opened.

population = "readers"          the ledger's name for the people in the log
population_size = 20000         about how many they are, if that is public
unit = "account"                who is a user: account, cookie, device, household or user
about = "about.toml"            owner, purpose, contact ...; or a table [about]
method = "clicks"
test = 0.1                      the share of users that the evidence is measured on; 0.1 if not given

[options]                       of the method
epsilon = 4
delta = 1e-6

[log]                           how the log is read, if options are needed for that
columns = "user=WHO,time=WHEN,query=TEXT"
leave_out = "bots.txt"          users to leave out, one a line: a list that was made without looking at the log
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from querycloak.errors import InputError, ParameterError
from querycloak.files.documents import parsed_toml
from querycloak.methods.method import Method
from querycloak.methods.option import options_of
from querycloak.methods.registry import METHODS, method_class
from querycloak.pages.officer_answers import UNITS
from querycloak.releases.about_file import About

_NEEDED = {
    "population": "the ledger's name for the people in the log",
    "population_size": "about how many people they are, as a public number",
    "unit": f"who is a user: {', '.join(UNITS)}",
    "about": "owner, purpose and contact, as a table or as the name of a TOML file",
    "method": f"one of {', '.join(METHODS)}",
    "options": "the options of the method, with its budget, as a table",
}
_ALLOWED = (*_NEEDED, "log", "test")
_ABOUT = ("owner", "contact", "purpose")
"""Fields without which nobody can sign."""
_TEST = 0.1


@dataclass(frozen=True)
class SignoffPlan:
    """All decisions of a sign-off, made before the log is opened."""

    population: str
    population_size: int
    unit: str
    about: About
    method: Method
    log: Mapping[str, Any] = field(default_factory=dict)
    test: float = _TEST
    left_out: str | None = None
    """Digest of the list of users to leave out; None without a list."""

    @property
    def digest(self) -> str:
        """A digest of the decisions that the evidence and the release depend on."""
        method = [self.method.name, self.method.variant, self.method.options()]
        decisions = [method, self.population, self.population_size, self.unit, dict(self.log), self.test]
        decisions += [] if self.left_out is None else [self.left_out]
        return hashlib.sha256(json.dumps(decisions, sort_keys=True, default=str).encode()).hexdigest()


def read_plan(path: Path) -> SignoffPlan:
    """The plan in a TOML file; all that is missing is named at once."""
    given = _document(path)
    unknown = [name for name in given if name not in _ALLOWED]
    if unknown:
        raise InputError(f"the plan has {unknown[0]!r}, which is unknown; it may have {', '.join(_ALLOWED)}")
    missing = [f"{name} ({meaning})" for name, meaning in _NEEDED.items() if given.get(name) in (None, "", {})]
    about = None if "about" not in given else _about(given["about"], path.parent)
    if about is not None:
        missing += [f"{name} in about" for name in _ABOUT if not getattr(about, name)]
    if missing or about is None:
        raise InputError(f"the plan {str(path)!r} lacks {'; '.join(missing)}")
    _check_kinds(given)
    method = _method(given["method"], given["options"])
    log = {name.replace("-", "_"): value for name, value in given.get("log", {}).items()}
    return SignoffPlan(
        population=given["population"],
        population_size=given["population_size"],
        unit=given["unit"],
        about=about,
        method=method,
        log=MappingProxyType(log),
        test=given.get("test", _TEST),
        left_out=_digest(log.get("leave_out")),
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        return parsed_toml(path.read_bytes())
    except (OSError, ValueError):
        pass
    raise InputError(f'the plan {str(path)!r} cannot be read; it must be TOML, such as population = "readers"')


def _digest(users: object) -> str | None:
    """Digest of the list of users to leave out; None without one."""
    if users is None:
        return None
    try:
        return hashlib.sha256(Path(str(users)).read_bytes()).hexdigest()
    except OSError:
        pass
    raise InputError("the plan's list of users to leave out cannot be read; it must be a text file, one user a line")


def _about(given: object, beside: Path) -> About:
    if isinstance(given, str):
        return About.of(beside / given)
    if isinstance(given, Mapping):
        return About.of(given)
    raise InputError("the plan's about must be a table of fields, or the name of a TOML file")


def _check_kinds(given: Mapping[str, Any]) -> None:
    size, share, unit = given["population_size"], given.get("test", _TEST), given["unit"]
    if not isinstance(given["population"], str):
        raise InputError("the plan's population must be a text: the ledger's name for the people in the log")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError("the plan's size of the population must be a whole number, 1 or more")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError("the plan's test must be a share between 0 and 1, such as 0.1")
    if unit not in UNITS:
        raise InputError(f"the plan's unit must say who is a user: {', '.join(UNITS)}")
    for name in ("options", "log"):
        if not isinstance(given.get(name, {}), Mapping):
            raise InputError(f"the plan's {name} must be a table: [{name}], then an option a line")


def _method(name: object, options: Mapping[str, Any]) -> Method:
    if name not in METHODS:
        raise ParameterError(f"the plan's method must be one of {', '.join(METHODS)}")
    kind = method_class(str(name))
    given = {option.replace("-", "_"): value for option, value in options.items()}
    known = {each for declared in options_of(kind) for each in (declared.name, *declared.formerly)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ParameterError(f"the plan's options have {unknown[0]!r}; {name} has {', '.join(sorted(known))}")
    method = kind(**given)
    proven = method.proven()
    if proven.unit != "user":
        raise ParameterError(
            f"{name} with these options protects each single {proven.unit}, not a user; a sign-off is about people"
        )
    return method


def checked_options(plan: SignoffPlan, known: Mapping[str, object]) -> dict[str, Any]:
    """The plan's options for reading, if all of them are known ones."""
    unknown = [name for name in plan.log if name not in known]
    if unknown:
        names = ", ".join(sorted(known))
        raise InputError(f"the plan's log has {unknown[0]!r}, which is no option of reading; {names} are")
    return dict(plan.log)
