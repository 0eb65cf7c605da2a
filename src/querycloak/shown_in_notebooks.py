"""Base of values that notebooks display; `pages/` renders them."""

from __future__ import annotations

from importlib import import_module


class ShownInNotebooks:
    """A value with a form for notebooks; `pages/notebook.py` has one for each kind."""

    def _repr_html_(self) -> str:
        return str(import_module("querycloak.pages.notebook").html_of(self))
