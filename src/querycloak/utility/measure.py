"""A measure as it is declared: what it is called, what it says, who defined it, what it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Measure:
    """One measure of what a release keeps; better is `higher`, `lower`, or `none` where it is only described."""

    name: str
    meaning: str
    citation: str
    better: str
    parameters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        return f"{self.name}({said})" if said else self.name
