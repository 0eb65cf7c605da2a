"""Queries as concepts that at least k users asked for (what that means: generalize.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from querycloak.methods.forcing_accounts import accounts_of_a_rule
from querycloak.methods.method import Counted, CountedRows, Drawn, Method
from querycloak.methods.option import option
from querycloak.methods.unprotected import SEARCHES_OF_EACH, TWO_RELEASES, WITHOUT_GUARANTEE
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import whole
from querycloak.releases.row_kinds import RowKind

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.calibration.accuracy import TableAccuracy
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.releases.tables import Table

_UNPROTECTED = (
    *WITHOUT_GUARANTEE,
    "which concepts belong to one person: together they can name somebody, although each is shared by k users",
    "who asked for a concept: somebody who knows all its users except one learns about that one",
    SEARCHES_OF_EACH,
    "how finely concepts were split: this shows whether k users asked for a concept",
    TWO_RELEASES,
)


@dataclass(frozen=True, kw_only=True)
class Generalize(Method):
    """Release each search as the most specific WordNet concept that at least `min_users` users asked for."""

    name = "generalize"
    summary = "Concepts that k users asked for."

    min_users: int | None = option(help="How many users must have asked for a concept.")
    k: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        k = whole("min_users", self.min_users, "say how many users must share a concept, such as 10", least=2)
        object.__setattr__(self, "k", k)

    def parameters(self) -> dict[str, Any]:
        """Given options."""
        return {"min_users": self.min_users, "taxonomy": "WordNet 3.0 nouns"}

    def proven(self) -> Guarantee:
        """A rule about the output; no bound on what it tells."""
        return Guarantee(
            kind="syntactic",
            unit="user",
            neighbours=None,
            k=self.k,
            unprotected=(*_UNPROTECTED, accounts_of_a_rule(self.k, "concept")),
            because=f"queries become concepts of WordNet, general enough for {self.min_users} users to share each, "
            "and are left out where only the root would be (generalize.md)",
        )

    def reach(self) -> Mapping[str, TableAccuracy]:
        """The rule itself, about concepts."""
        from querycloak.methods.counted_users import NO_COUNT
        from querycloak.privacy.calibration.accuracy import Range, TableAccuracy

        users = Range(self.k, self.k)
        note = "Users are those of a concept, or of anything below it that too few asked for."
        return {"log": TableAccuracy(NO_COUNT, users50=users, users95=users, spurious=0.0, notes=(note,))}

    def count(self, log: SearchLog) -> Counted:
        """Match, count users of concepts, cut."""
        from querycloak.methods.distinct_queries import uses_of

        uses = uses_of(log)
        generalised = self._generalised(log, uses)

        def drawn(randomness: Randomness) -> Drawn:
            tables = {"log": _renamed(log, uses, generalised, randomness)}
            return Drawn(tables, counts="exact", rows=RowKind.GENERALISED)

        return CountedRows(drawn)

    def _generalised(self, log: SearchLog, uses: ir.Table) -> ir.Table:
        """query and concept, for the queries that come out, in the engine."""
        import numpy as np
        import pyarrow as pa

        from querycloak.methods.generalize.clusters import generalise
        from querycloak.text.wordnet import wordnet

        log.progress("matching queries", 0.0)
        taxonomy = wordnet()
        if log.engine.name == "spark":
            from querycloak.methods.generalize.clusters import renamings

            return renamings(log.engine, uses, taxonomy, self.k)
        generalised = generalise(log.engine, uses, taxonomy)
        becomes = generalised.becomes(self.k)
        kept = np.flatnonzero((becomes >= 0) & (becomes != taxonomy.root))
        shown = pa.array([taxonomy.shown(concept) for concept in range(len(taxonomy))], pa.string())
        log.progress("writing", 0.0)
        return log.engine.upload(
            pa.table(
                {"query": generalised.queries.take(pa.array(kept)), "concept": shown.take(pa.array(becomes[kept]))}
            )
        )


def _renamed(log: SearchLog, uses: ir.Table, renamings: ir.Table, randomness: Randomness) -> Table:
    """The searches as concepts, under names that only this release has."""
    from querycloak.methods.distinct_queries import searches_of
    from querycloak.methods.keyed_digest import streamed

    joined = uses.join(renamings, "query")
    searches = searches_of(joined.select("user", "searches", query=joined.concept))
    return streamed(log, searches, ["user", "query"], randomness)
