"""Queries as concepts that at least k users asked for (what that means: generalize.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import ParameterError
from querycloak.methods.method import checked_choice
from querycloak.methods.unprotected import AGREED_ACCOUNTS, ALWAYS, SEARCHES_OF_EACH, TWO_RELEASES
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import whole

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.privacy.chance.randomness import Randomness
    from querycloak.releases.release import Release
    from querycloak.releases.tables import Table

_UNPROTECTED = (
    *ALWAYS,
    "which concepts belong to one person: together they can name somebody, though each is shared by k users",
    "who asked for a concept: whoever knows all its users but one learns about that one",
    AGREED_ACCOUNTS,
    SEARCHES_OF_EACH,
    "how finely concepts were split: it tells about how many asked for each",
    TWO_RELEASES,
)


@dataclass(frozen=True, kw_only=True)
class Generalize:
    """Release each search as the most specific WordNet concept that at least `min_users` users asked for."""

    name: ClassVar[str] = "generalize"

    min_users: int | None = None
    variant: str = "default"

    def __post_init__(self) -> None:
        checked_choice("variant", self.variant, ("default",))
        if self.min_users is None:
            raise ParameterError("min_users must be given: how many users must share a concept, such as 10")
        whole("min_users", self.min_users, "say how many users must share a concept, such as 10", least=2)

    def parameters(self) -> dict[str, Any]:
        """What was given."""
        return {"min_users": self.min_users, "taxonomy": "WordNet 3.0 nouns"}

    def claimed(self) -> None:
        """The paper's own rule is what is proven; it claims nothing beyond it."""

    def proven(self) -> Guarantee:
        """A rule about the output; no bound on what it tells."""
        return Guarantee(
            kind="syntactic",
            unit="user",
            neighbours=None,
            k=self.min_users,
            unprotected=_UNPROTECTED,
            because=f"queries become concepts of WordNet, general enough for {self.min_users} users to share each, "
            "and are left out where only the root would be (generalize.md)",
        )

    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Match, count users of concepts, cut."""
        from querycloak.methods.releasing import Run
        from querycloak.methods.uses import uses_of

        run = Run.begin(self, log, ledger, population, randomness)
        uses = uses_of(log)
        log.checked()
        renamings = self._generalised(log, uses)
        return run.finish(
            lambda: {"log": _renamed(log, uses, renamings, run.drawing)}, counts="exact", rows="generalised"
        )

    def _generalised(self, log: SearchLog, uses: ir.Table) -> ir.Table:
        """query and concept, for the queries that come out, in the engine."""
        import numpy as np
        import pyarrow as pa

        from querycloak.methods.generalize.count import generalise
        from querycloak.words.wordnet import wordnet

        log.progress("matching queries", 0.0)
        taxonomy = wordnet()
        found = generalise(log.engine, uses, taxonomy)
        becomes = found.becomes(int(self.min_users or 0))
        kept = np.flatnonzero((becomes >= 0) & (becomes != taxonomy.root))
        shown = pa.array([taxonomy.shown(concept) for concept in range(len(taxonomy))], pa.string())
        log.progress("writing", 0.0)
        return log.engine.upload(
            pa.table({"query": found.queries.take(pa.array(kept)), "concept": shown.take(pa.array(becomes[kept]))})
        )


def _renamed(log: SearchLog, uses: ir.Table, renamings: ir.Table, randomness: Randomness) -> Table:
    """The searches as concepts, under names that only this release has."""
    from querycloak.methods.pseudonyms import streamed
    from querycloak.methods.uses import searches_of

    joined = uses.join(renamings, "query")
    searches = searches_of(joined.select("user", "searches", query=joined.concept))
    return streamed(log, searches, ["user", "query"], randomness)
