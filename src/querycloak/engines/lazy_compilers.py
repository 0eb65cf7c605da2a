"""Ibis's compilers, each loaded when it is first used.

Ibis loads the compilers of all its databases at once, with their dialects: a tenth of the processor time of a small
release. Its package of compilers only lists them, so an empty package that finds the same modules can stand in for it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

COMPILERS = "ibis.backends.sql.compilers"


def load_compilers_lazily() -> None:
    """Put an empty package in place of Ibis's list of compilers; nothing if that is loaded already."""
    if COMPILERS in sys.modules or (spec := find_spec(COMPILERS)) is None:
        return
    package = module_from_spec(spec)  # not executed
    vars(package)["__getattr__"] = _compiler
    sys.modules[COMPILERS] = package
    parent, _, name = COMPILERS.rpartition(".")
    setattr(sys.modules[parent], name, package)


def _compiler(name: str) -> ModuleType:
    """The module of a compiler, as an attribute of its package."""
    try:
        return import_module(f"{COMPILERS}.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"{COMPILERS} has no module {name!r}") from None
