"""Yield of a method at each bound, for logs whose figures may be seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.selection_plan import AUTO, BOUNDS, Choice
from querycloak.methods.method import Method
from querycloak.releases.release import Release
from querycloak.sentence import Sentence


@dataclass(frozen=True)
class BoundYield:
    """Rows released at one bound and the sum of their noisy counts (private, unless the log is public)."""

    bound: int
    parameters: dict[str, Any]
    keys: int
    volume: int
    covered: float | None = None
    """Covered volume (1 - missing mass): share of the pairs of user and key whose key came out; None if unknown."""

    def to_json(self) -> dict[str, Any]:
        """As `tune --json` prints it."""
        shown = {name: self.parameters.get(name) for name in ("selection", "noise", "threshold")}
        return {"per_user": self.bound, **shown, "keys": self.keys, "volume": self.volume, "covered": self.covered}


def tunable(method: Method) -> KeysMethod:
    """The method, if it has a bound that is still open."""
    if not isinstance(method, KeysMethod) or method.variant == "paper":
        raise ParameterError(f"{method.name}, {method.variant} variant, has no bound to tune; clicks has one")
    if method.max_keys_per_user not in (None, AUTO):
        raise ParameterError(Sentence("tune tries every bound: leave {max_keys_per_user} out"))
    return method


def yields(method: KeysMethod, log: SearchLog) -> Iterator[BoundYield]:
    """One release at each bound that the budget can pay; nothing is charged and nothing is kept."""
    log.stage()
    for bound in BOUNDS:
        try:
            bounded = method.at_choice(Choice(bound))
        except ParameterError:
            continue
        release = bounded.release(log)
        tables = [release.table(kind) for kind in release.tables]
        counted = [table for table in tables if "count" in table.column_names]
        volume = sum(int(sum(table["count"].fill_null(1).to_pylist())) for table in counted)
        keys = sum(table.num_rows for table in tables)
        yield BoundYield(bound, dict(release.parameters), keys, volume, _covered(method, log, release))


def _covered(method: KeysMethod, log: SearchLog, release: Release) -> float | None:
    covered = whole = 0
    for kind, contributions in method.contributions(log).items():
        columns, released = list(method.keys[kind]), release.table(kind)
        if not set(columns) <= set(released.column_names):
            return None  # sequences are published in other columns
        pairs = contributions.select("user", *columns).distinct()
        out = pairs.semi_join(log.engine.upload(released.select(columns)), columns)
        whole += log.engine.fetch(pairs.aggregate(pairs=pairs.count()))["pairs"][0].as_py()
        covered += log.engine.fetch(out.aggregate(pairs=out.count()))["pairs"][0].as_py()
    return covered / whole if whole else None
