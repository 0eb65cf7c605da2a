"""What is final in a class cannot be replaced: not by a subclass, a later assignment or a value of the class."""

from __future__ import annotations

from abc import ABCMeta
from types import FunctionType
from typing import TYPE_CHECKING, Any

from querycloak.methods.option import TakesFormerNames


class Sealed(TakesFormerNames, ABCMeta):
    """The kind of classes whose functions marked as `final` cannot be replaced."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **more: Any) -> None:
        super().__init__(name, bases, body, **more)
        for place, base in enumerate(cls.__mro__):
            sealed = sealed_names(base) if isinstance(base, Sealed) else []
            # Where Python looks before it looks there: also in classes that stand beside it.
            for replaced in (each for each in sealed for before in cls.__mro__[:place] if each in vars(before)):
                _refuse(name, replaced)
            if sealed and any("__getattribute__" in vars(before) for before in cls.__mro__[:place]):
                _refuse(name, "__getattribute__")

    if not TYPE_CHECKING:  # for type checkers, editors and help a class takes what its __init__ takes

        def __call__(cls, *given: Any, **named: Any) -> Any:
            """A value of the class, which has nothing of its own under a sealed name."""
            made = super().__call__(*given, **named)
            for name in _all_sealed(cls):
                if name in vars(made):
                    _refuse(cls.__name__, name)
            return made

    def __setattr__(cls, name: str, value: Any) -> None:
        if name in _all_sealed(cls):
            _refuse(cls.__name__, name)
        super().__setattr__(name, value)


def sealed_names(kind: type) -> list[str]:
    """What is marked as final in this very class."""
    members = vars(kind).items()
    return [
        name for name, each in members if isinstance(each, FunctionType | classmethod) and "__final__" in vars(each)
    ]


def _all_sealed(kind: type) -> list[str]:
    return [name for base in kind.__mro__ if isinstance(base, Sealed) for name in sealed_names(base)]


def _refuse(kind: str, name: str) -> None:
    raise TypeError(f"{kind} must not define {name}: every method is released the same way")
