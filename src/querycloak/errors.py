"""Every exception that querycloak raises on purpose.

QuerycloakError
├── InputError            the log or a file given cannot be used                exit 2
│   ├── UnknownFormat       no format, or more than one, fits the log
│   ├── MissingColumn       a column mapping names what is not there
│   ├── ChargeGone          the ledger no longer holds the charge of a release
│   └── TooManyBadLines     more lines were rejected as bad than the owner allows
├── ParameterError        a parameter breaks its rule                           exit 2
├── ResourceError         the machine lacks something: disk, memory, a package  exit 2
├── BudgetRefused         the ledger does not allow the spending                exit 3
├── CheckFailed           an audit or a check found what it looked for          exit 4
├── OrderError            a method does not count, pay, draw in this order      exit 1
└── EngineError           an engine failed in an unforeseen way: our bug        exit 1

Messages name the culprit, the rule and the way out. They never quote what a log holds, nor the name of
a file found in one: both may name a person. A message that names parameters is a `Sentence`: its text in
Python has their names, the command line writes them as options. A plain text is shown unchanged.
"""

from __future__ import annotations

from typing import Self

from querycloak.sentence import Sentence

__all__ = [
    "BudgetRefused",
    "ChargeGone",
    "CheckFailed",
    "EngineError",
    "InputError",
    "MissingColumn",
    "OrderError",
    "ParameterError",
    "QuerycloakError",
    "ResourceError",
    "TooManyBadLines",
    "UnknownFormat",
]


class QuerycloakError(Exception):
    """Anything that querycloak raises on purpose."""

    exit_code = 1

    def __init__(self, message: str | Sentence = "") -> None:
        super().__init__(message)
        self.sentence = message if isinstance(message, Sentence) else Sentence("{text}", text=message)

    @classmethod
    def of(cls, template: str, /, **values: object) -> Self:
        """The error of a sentence, by its template and values (`Sentence`)."""
        return cls(Sentence(template, **values))

    def __str__(self) -> str:
        return str(self.sentence)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class InputError(QuerycloakError):
    """The log, or a file given beside it, cannot be used."""

    exit_code = 2


class UnknownFormat(InputError):
    """No format fits the log, or more than one does."""


class ChargeGone(InputError):
    """The ledger no longer holds the charge of a release: another file took its place."""


class MissingColumn(InputError):
    """A column mapping names a column that is not there."""


class TooManyBadLines(InputError):
    """More lines were rejected as bad than the owner allows."""


class ParameterError(QuerycloakError):
    """A parameter breaks its rule, or several do not go together.

    For one parameter: its name, the rule that it breaks, the value received and the way out. Values other than texts
    and numbers are kept as their repr.
    """

    exit_code = 2

    def __init__(
        self,
        message: str | Sentence = "",
        *,
        parameter: str | None = None,
        rule: str | Sentence = "",
        value: object = None,
        way_out: str | Sentence = "",
    ) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.rule = rule
        self.value = value if isinstance(value, str | int | float | None) else repr(value)
        self.way_out = way_out


class ResourceError(QuerycloakError):
    """The machine lacks something: disk, memory, a package, an engine."""

    exit_code = 2


class BudgetRefused(QuerycloakError):
    """The ledger does not allow the spending."""

    exit_code = 3


class CheckFailed(QuerycloakError):
    """An audit or a check found what it looked for."""

    exit_code = 4


class OrderError(QuerycloakError):
    """A method does not keep to the order of a release (count, pay, draw): a bug of the method."""


class EngineError(QuerycloakError):
    """An engine failed in an unforeseen way."""
