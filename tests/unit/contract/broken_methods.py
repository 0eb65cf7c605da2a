"""Methods that each break one rule of the contract, and one that breaks none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from querycloak.files import fault
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Counted, Drawn, Method
from querycloak.methods.option import option
from querycloak.privacy.calibration.accuracy import Range, TableAccuracy
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness

if TYPE_CHECKING:
    from querycloak.releases.tables import Table


@dataclass(frozen=True)
class Rows:
    """Rows to be noised, and what must be said of them."""

    rows: list[tuple[str, int]]
    parameters: Mapping[str, Any]
    drawing: Callable[[Randomness], Randomness] = lambda randomness: randomness

    def draw(self, randomness: Randomness) -> Drawn:
        noise = self.drawing(randomness).noise(Laplace(2), len(self.rows))
        counted = [(query, 1000 * count + int(add)) for (query, count), add in zip(self.rows, noise, strict=True)]
        counted.sort(key=lambda row: (-row[1], row[0]))
        tables: dict[str, Table] = {"queries": table(counted)}
        return Drawn(tables, "one-draw", parameters=self.parameters)


def table(rows: list[tuple[str, int]]) -> pa.Table:
    return pa.table(
        {"query": [query for query, _ in rows], "count": pa.array([count for _, count in rows], pa.int64())}
    )


@dataclass(frozen=True, kw_only=True)
class Sound(Method):
    """Breaks nothing, though it protects nobody."""

    name = "sound"
    summary = "Two queries, with noise."
    epsilon: float = option(1.0, help="The budget.")

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "chosen": None}

    def proven(self) -> Guarantee:
        return user_guarantee(self.epsilon, None, "a test")

    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        return [("golf", 2), ("tennis", 1)]

    def chosen(self, log: SearchLog) -> dict[str, Any]:
        return {"chosen": 3}

    def count(self, log: SearchLog) -> Counted:
        return Rows(self.queries(log), self.chosen(log))


class CanBeChanged(Sound):
    def __setattr__(self, name: str, value: object) -> None:
        if value is not None:
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class IsNoValue(Sound):
    """Two with the same options are different."""

    made: object = field(init=False, default_factory=object)


class HasABadName(Sound):
    name = "Sound Method"


class HasNoSummary(Sound):
    summary = " "


@dataclass(frozen=True, kw_only=True)
class HasNoHelp(Sound):
    """An option that nobody explains."""

    depth: int = option(1, help="")


class HasATuple(Sound):
    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "chosen": None, "list": (1, 2)}


class HasAnObject(Sound):
    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "chosen": None, "noise": Laplace(1)}


class PromisesByTheLog(Sound):
    """Remembers what it saw."""

    def proven(self) -> Guarantee:
        return user_guarantee(vars(self).get("seen", 1.0), None, "a test")

    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        object.__setattr__(self, "seen", 0.5)
        return super().queries(log)


class ReleasesNothing(Sound):
    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        return []


@dataclass(frozen=True)
class Unsorted:
    def draw(self, randomness: Randomness) -> Drawn:
        tables: dict[str, Table] = {"queries": table([("golf", 1), ("tennis", 2)])}
        return Drawn(tables, "exact", parameters={"chosen": 3})


class IsUnsorted(Sound):
    def count(self, log: SearchLog) -> Counted:
        return Unsorted()


class SpeaksOfOtherTables(Sound):
    def reach(self) -> Mapping[str, TableAccuracy]:
        return {"clicks": TableAccuracy.of_rule("users", Range(2, 2))}


class ChangesItsCard(Sound):
    def chosen(self, log: SearchLog) -> dict[str, Any]:
        return {"epsilon": 0.1}


class CostsNothing(Sound):
    def proven(self) -> Guarantee:
        return user_guarantee(1e-12, None, "a test")


class DrawsElsewhere(Sound):
    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        """So many that two draws are hardly ever equal."""
        return [(f"golf {number}", number) for number in range(1, 31)]

    def count(self, log: SearchLog) -> Counted:
        return Rows(self.queries(log), self.chosen(log), lambda _: Randomness())


class TakesTheFirstRow(Sound):
    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        return [(next(iter(log.engine.stream(log.rows.select("query"))))["query"][0].as_py(), 1)]


class AsksTheEngine(Sound):
    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        return [(f"golf {id(log.engine)}", 1)]


class NamesAUser(Sound):
    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        return [(log.engine.fetch(log.rows.select("user").order_by("user").limit(1))["user"][0].as_py(), 1)]


class WritesARareQueryOnTheCard(Sound):
    def chosen(self, log: SearchLog) -> dict[str, Any]:
        longest = log.engine.fetch(log.rows.order_by(log.rows.query.length().desc()).select("query").limit(1))
        return {"chosen": longest["query"][0].as_py()}


class FailsElsewhere(Sound):
    def queries(self, log: SearchLog) -> list[tuple[str, int]]:
        if os.environ.get(fault.VARIABLE):
            raise RuntimeError("not here")
        return super().queries(log)


class Explodes(Sound):
    def count(self, log: SearchLog) -> Counted:
        Randomness().below(2, 1)
        return super().count(log)
