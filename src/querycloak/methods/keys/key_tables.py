"""Tables of keys between count and draw; the draw may choose the bound (proof: calibration/bound_choice.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.partition_selection import CountedKeys, count_keys
from querycloak.methods.keys.selection_plan import SplitBudget
from querycloak.methods.method import Drawn
from querycloak.privacy.accounting.draws import Draw
from querycloak.privacy.calibration.bound_choice import choose_plan
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Table

Publish = Callable[[str, pa.Table], Table]
AnyKeysMethod = TypeVar("AnyKeysMethod", bound="KeysMethod")


class LaterTables(Protocol):
    """Draws that follow the tables of keys and look at them."""

    def draw(self, released: Mapping[str, Table], randomness: Randomness) -> Drawn:
        """Draw further tables."""
        ...


@dataclass(frozen=True)
class KeyTables:
    """Tables whose plans are known, counted by key."""

    counted: Mapping[str, CountedKeys]
    counts: str
    """The kind of counts that come out, in a word of `releases.release.COUNTS`."""
    published: Publish
    later: LaterTables | None = None
    """Tables that look at these; None if there are none."""

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw table after table."""
        tables = self.released(randomness)
        if self.later is None:
            return Drawn(tables, self.counts)
        more = self.later.draw(tables, randomness)
        return replace(more, tables={**tables, **more.tables}, counts=self.counts)

    def released(self, randomness: Randomness) -> dict[str, Table]:
        """The published form of each table with released keys."""
        return {table: self.published(table, each.release(randomness).table) for table, each in self.counted.items()}


def count_tables(log: SearchLog, method: KeysMethod) -> KeyTables:
    """Read the contributions to each table, once, and count them by the method's plan."""
    counted = {
        table: count_keys(log.engine, rows, method.keys[table], method.plans[table])
        for table, rows in method.contributions(log).items()
    }
    counts = list(method.plans.values())[-1].counts
    return KeyTables(counted, counts, method.published, method.later_tables(log))


def draw_by_choice(
    methods: Sequence[AnyKeysMethod],
    users_by_keys: Mapping[str, Mapping[int, int]],
    budget: SplitBudget,
    draws_of: Callable[[AnyKeysMethod], Sequence[Draw] | None],
    draw: Callable[[AnyKeysMethod], Drawn],
    randomness: Randomness,
) -> Drawn:
    """Choose one of the methods by the exponential mechanism, then draw by it; the draw states what was chosen."""
    at = choose_plan([each.plans for each in methods], users_by_keys, budget.choosing, randomness)
    chosen, drawn = methods[at], draw(methods[at])
    return replace(
        drawn,
        parameters={**chosen.parameters(), **drawn.parameters},
        reach={**chosen.reach(), **drawn.reach},
        draws=draws_of(chosen),
        unprotected=chosen.proven().unprotected,
    )


@dataclass(frozen=True)
class UnboundedTables:
    """Contributions to tables, kept in the engine until the draw has chosen a candidate and its bound."""

    engine: Engine
    candidates: Mapping[str, KeysMethod]
    """Methods by the text of their choice."""
    budget: SplitBudget
    kept: Mapping[object, Mapping[str, ir.Table]]
    """Contributions to each table, by the candidates' cache key (`KeysMethod.reads`)."""
    users_by_keys: Mapping[str, Mapping[int, int]]
    """For each table, the number of users by their number of keys (private)."""
    published: Publish
    draws_of: Callable[[KeysMethod], Sequence[Draw] | None] = lambda _: None
    """The draws of a chosen candidate, to whose cost the ledger lowers its reserve; None if it keeps the reserve."""
    later: Mapping[str, LaterTables | None] = field(default_factory=dict)
    """Tables that look at these, by candidate."""

    def draw(self, randomness: Randomness) -> Drawn:
        """Choose by the exponential mechanism, count at that bound, draw."""
        methods = list(self.candidates.values())
        return draw_by_choice(
            methods,
            self.users_by_keys,
            self.budget,
            self.draws_of,
            lambda chosen: self.counted_at(chosen).draw(randomness),
            randomness,
        )

    def counted_at(self, chosen: KeysMethod) -> KeyTables:
        """Every table, counted by the plan of this candidate."""
        kept = self.kept[chosen.reads()]
        counted = {
            table: count_keys(self.engine, kept[table], chosen.keys[table], plan, kept=True)
            for table, plan in chosen.plans.items()
        }
        later = next((self.later.get(name) for name, each in self.candidates.items() if each is chosen), None)
        return KeyTables(counted, next(iter(chosen.plans.values())).counts, self.published, later)


def keep_contributions(log: SearchLog, method: KeysMethod) -> UnboundedTables:
    """Read the contributions of all candidates: they are read to choose, and again to release.

    The choice looks at the contributions that the method itself reads.
    """
    candidates = {str(each.choice): each.method for each in method.plan.candidates}
    contributions = {method.reads(): method.contributions(log)}
    for each in candidates.values():
        if each.reads() not in contributions:
            contributions[each.reads()] = each.contributions(log)
    staged: dict[object, ir.Table] = {}
    kept: dict[object, dict[str, ir.Table]] = {}
    for kind, tables in contributions.items():
        # Tables that are read in the same way, such as clicks beside any bound of sessions, are staged once.
        for rows in tables.values():
            if rows.op() not in staged:
                staged[rows.op()] = log.engine.stage(rows)
        kept[kind] = {table: staged[rows.op()] for table, rows in tables.items()}
    most = {table: max(each.plans[table].per_user for each in candidates.values()) for table in kept[method.reads()]}
    users = {table: users_by_keys(log.engine, rows, most[table]) for table, rows in kept[method.reads()].items()}
    budget = method.plan.budget or SplitBudget(0.0, 0.0)
    later = {name: each.later_tables(log) for name, each in candidates.items()}
    published, draws_of = method.published, method.plan.draws_of
    return UnboundedTables(log.engine, candidates, budget, kept, users, published, draws_of, later)


def users_by_keys(engine: Engine, keys: ir.Table, most: int) -> dict[int, int]:
    """The number of users who hold 1, 2, ... keys (private); those of more than `most` count as users of `most`."""
    per_user = keys.group_by("user").agg(keys=keys.count())
    clipped = per_user.mutate(keys=per_user["keys"].clip(upper=most))
    counted = engine.fetch(clipped.group_by("keys").agg(users=clipped.count()))
    return dict(zip(counted["keys"].to_pylist(), counted["users"].to_pylist(), strict=True))
