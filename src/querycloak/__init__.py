"""Release a search log that people can use, with a privacy guarantee that holds."""

from importlib import import_module

# Loaded when first used: `querycloak --help` must not wait for an engine.
_HOMES = {
    "Choices": "querycloak.logs.choices",
    "Profile": "querycloak.logs.profile",
    "SearchLog": "querycloak.logs.searchlog",
    "connect": "querycloak.engines",
    "profile": "querycloak.logs.profile",
    "read": "querycloak.logs.searchlog",
}

__all__ = ["Choices", "Profile", "SearchLog", "connect", "profile", "read"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"querycloak has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
