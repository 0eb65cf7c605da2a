"""The methods by name."""

from __future__ import annotations

from querycloak.methods.clicks import Clicks
from querycloak.methods.k_anonymity import KAnonymity

METHODS: dict[str, type[Clicks] | type[KAnonymity]] = {Clicks.name: Clicks, KAnonymity.name: KAnonymity}
