"""A measure as it is declared: what it is called, what it says, who defined it, what it depends on, and how it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Measure:
    """One measure of what a release keeps; better is `higher`, `lower`, or `none` where it is only described.

    `compute` gives its value from plain arrays; calling the measure calls it, with the measure's own parameters.
    """

    name: str
    meaning: str
    citation: str
    better: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    compute: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __call__(self, *values: Any, **options: Any) -> Any:
        """The measure's value; what to give is what `compute` takes."""
        if self.compute is None:
            raise TypeError(f"{self.name} is declared only: it has nothing that computes it")
        return self.compute(*values, **{**self.parameters, **options})

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        return f"{self.name}({said})" if said else self.name
