"""Form of the studio: typed fields, the method and plan made of them, and the equivalent commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from querycloak.comparison.advice import usual_delta
from querycloak.errors import InputError
from querycloak.methods.method import Method
from querycloak.methods.registry import method_class
from querycloak.studio.twin_grid import NEEDS, Need

ACCURACY, EPSILON = "accuracy", "epsilon"
"""Starting points of an owner."""
MADE = "# a plan that the studio of querycloak wrote\n"
"""First line of plans that the studio wrote: only such a file is ever replaced."""
EXAMPLE_USERS = 20_000
"""Number of people for the picture until the owner gives one; no sign-off begins with it."""
LONGEST = 4_096
"""Characters of a field; what is longer is cut."""


@dataclass(frozen=True)
class StudioForm:
    """The fields of the screen, as they were typed; empty: not filled yet, or the usual number."""

    log: str = ""
    log_format: str = ""
    columns: str = ""
    leave_out: str = ""
    unit: str = "account"
    population: str = ""
    population_size: str = ""
    searches_per_user: str = "10"
    need: str = NEEDS[0].name
    by: str = ""
    start: str = ACCURACY
    for_users: str = "50"
    for_error: str = ""
    epsilon: str = "4"
    delta: str = ""
    max_keys_per_user: str = ""
    owner: str = ""
    contact: str = ""
    purpose: str = ""
    out: str = "signed"
    limit_epsilon: str = ""
    limit_delta: str = ""

    @classmethod
    def of(cls, posted: Mapping[str, str]) -> StudioForm:
        """The form with the fields that were sent; others keep their usual values."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: _plain(value) for name, value in posted.items() if name in known})

    @property
    def chosen_need(self) -> Need:
        """The need that was chosen."""
        for need in NEEDS:
            if need.name == self.need:
                return need
        raise InputError(f"the need must be one of {', '.join(need.name for need in NEEDS)}")

    @property
    def users(self) -> int:
        """People behind the log, a public number; an example as long as the field is empty."""
        return _whole(self.population_size, "the number of people") if self.population_size else EXAMPLE_USERS

    @property
    def searches(self) -> float:
        """Searches of each of them, a public number."""
        return _number(self.searches_per_user, "the searches of each person")

    @property
    def options(self) -> dict[str, Any]:
        """Options of the method other than epsilon, with their usual values where a field is empty."""
        need = self.chosen_need
        delta = _number(self.delta, "delta") if self.delta else usual_delta(self.users)
        bound = self.max_keys_per_user
        keys = _whole(bound, "the keys per person") if bound else need.bound(self.searches)
        bounds = {"max_keys_per_user": keys} if need.bounded else {}
        if need.by and not self.by:
            raise InputError("columns to count by must be named, such as country; the log must have them")
        return {"delta": delta, **bounds, **({"by": self.by} if need.by else {})}

    @cached_property
    def method(self) -> Method:
        """The method at the epsilon that was chosen, or at the smallest that gives the accuracy asked for."""
        name, options = self.chosen_need.method, self.options
        if self.start == ACCURACY:
            error = None if not self.for_error else _whole(self.for_error, "the error", least=0)
            return _solved(name, _whole(self.for_users, "the users of a query"), error, tuple(options.items()))
        kind: Any = method_class(name)
        method: Method = kind(epsilon=_number(self.epsilon, "epsilon"), **options)
        return method

    @property
    def reading(self) -> dict[str, str]:
        """Options of reading that were filled in."""
        given = {"log_format": self.log_format, "columns": self.columns, "leave_out": self.leave_out}
        return {name: value for name, value in given.items() if value}

    @property
    def guarantee_command(self) -> list[str]:
        """The command that prints what the screen shows."""
        words = ["querycloak", "guarantee", self.chosen_need.method]
        if self.start != ACCURACY:
            words += ["--epsilon", f"{_number(self.epsilon, 'epsilon'):g}"]
        elif self.for_error:
            words += ["--for-error", self.for_error, "--at-users", self.for_users]
        else:
            words += ["--for-users", self.for_users]
        for name, value in self.options.items():
            words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
        words += ["--population", self.population] if self.population else []
        return [*words, "--population-size", str(self.users), "--explain"]

    @property
    def plan_path(self) -> Path:
        """The file of the plan: beside the folder that is written."""
        folder = Path(self.out or "signed")
        return folder.with_name(f"{folder.name}.toml")

    def signoff_command(self, *, yes: bool) -> list[str]:
        """The command that the button runs."""
        words = ["querycloak", "signoff", self.log or "LOG", "--plan", str(self.plan_path), "--out", self.out]
        return [*words, *(["--yes"] if yes else [])]

    @property
    def budget_command(self) -> list[str]:
        """The command that sets the budget of a population."""
        limits = ["--epsilon", self.limit_epsilon or "EPSILON", "--delta", self.limit_delta or "DELTA"]
        return ["querycloak", "ledger", "set", self.population or "NAME", *limits]

    @property
    def plan_text(self) -> str:
        """The plan of the sign-off, as TOML."""
        method = self.method
        reading = dict(self.reading)
        if method.attributes:
            reading["attributes"] = ",".join(method.attributes)
        about = {"owner": self.owner, "contact": self.contact, "purpose": self.purpose}
        fields = {
            "population": _quoted(self.population),
            "population_size": self.users,
            "unit": _quoted(self.unit),
            "method": _quoted(method.name),
        }
        lines = [
            *(f"{name} = {value}" for name, value in fields.items()),
            *_table("about", about),
            *_table("options", {"epsilon": vars(method)["epsilon"], **self.options}),
            *(_table("log", reading) if reading else []),
        ]
        return MADE + "\n".join(lines) + "\n"

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Fields without which no sign-off begins: their names, and what they are called on the screen."""
        return [(name, title) for name, title in _NEEDED.items() if not getattr(self, name)]


_NEEDED = {
    "log": "the log",
    "population_size": "the number of people",
    "population": "a name for the people",
    "owner": "the owner",
    "contact": "a contact",
    "purpose": "the purpose",
    "out": "the folder to write",
}


@lru_cache(maxsize=256)
def _solved(name: str, users: int, error: int | None, options: tuple[tuple[str, Any], ...]) -> Method:
    kind = method_class(name)
    if error is None:
        return kind.for_users(users, **dict(options))
    return kind.for_error(error, at_users=users, **dict(options))


def _plain(text: str) -> str:
    """A field without control characters and blanks around it."""
    return "".join(each for each in text[:LONGEST] if each.isprintable()).strip()


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(f"{what} must be a number above 0, such as 4")
    return value


def _whole(text: str, what: str, least: int = 1) -> int:
    if not text.isdecimal() or not least <= int(text) < 10**12:
        raise InputError(f"{what} must be a whole number, {least} or more")
    return int(text)


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    lines = [f"{key} = {_quoted(value) if isinstance(value, str) else repr(value)}" for key, value in values.items()]
    return ["", f"[{name}]", *lines]


def _quoted(text: str) -> str:
    """A text of printable characters as TOML writes it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
