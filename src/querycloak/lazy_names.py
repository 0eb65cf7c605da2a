"""Names that a package loads when they are first used: importing it stays fast."""

TYPE_CHECKING = False  # not from typing, as in `querycloak`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def loaded(package: str, name: str, homes: "Mapping[str, str]", names: "Sequence[str]") -> object:
    """Object of this name, from its home module; `names` are those that the package has."""
    if name not in homes:
        raise AttributeError(f"{package} has no {name!r}; it has {', '.join(names)}")
    from importlib import import_module

    return getattr(import_module(homes[name]), name)
