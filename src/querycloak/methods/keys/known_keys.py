"""Keys that an earlier release published are public: counted again with noise, without a threshold (known_keys.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from querycloak.errors import EngineError, ParameterError
from querycloak.privacy.accounting.draws import PublicCounts
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.parameters import path_of

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from querycloak.engines import Engine
    from querycloak.methods.keys.selection_plan import SelectionPlan
    from querycloak.methods.method import Counted, Drawn
    from querycloak.privacy.budget import Budget
    from querycloak.privacy.ledger.accounts import Account
    from querycloak.privacy.sampling.randomness import Randomness


@dataclass(frozen=True)
class KnownRelease:
    """The keys of a release that verifies, is differentially private for users, and was not made from a seed."""

    digest: str
    neighbours: str
    table: str
    keys: pa.Table = field(repr=False, compare=False)

    @classmethod
    def of(cls, folder: str, table: str, key: Sequence[str]) -> KnownRelease:
        """Read the keys of a release folder; refuse one whose keys are not public by a guarantee."""
        from querycloak.methods.evidence import digest_of
        from querycloak.releases.loading import load_card

        place = path_of("known", folder, "name the folder of an earlier release")
        load_card(place)  # refuses what is no release folder
        return _read(str(place), digest_of(place), table, tuple(key))

    def parameters(self, draw: PublicCounts) -> dict[str, Any]:
        """Parameters of known keys on the card."""
        return {
            "known": self.digest,
            "known_keys": self.keys.num_rows,
            "known_noise": draw.noise.size,
            "known_cut": cut_of(draw),
            "known_counted_per_user": draw.per_user,
        }

    def note(self, draw: PublicCounts) -> str:
        """Exactness of counts of known keys, for the card."""
        return (
            f"{self.keys.num_rows:,} keys of an earlier release are counted again with {draw.noise.words}, of each "
            f"user the first {draw.per_user}, and come out if this number exceeds {cut_of(draw)}; of those that nobody "
            f"holds any more about one in six does, {self.keys.num_rows * 0.16:,.0f} rows at most. The other figures "
            "are about new keys."
        )

    def check_account(self, account: Account | None) -> None:
        """Refuse a release that the account which pays does not hold."""
        if account is None:
            raise ParameterError.of(
                "{known} needs {ledger} and {population}: the ledger must hold the charge that paid for it"
            )
        paid = [charge for charge in account.charges if self.digest in charge.releases]
        if not any(charge.guarantee.neighbours == self.neighbours for charge in paid):
            raise ParameterError.of(
                "the release given with {known} does not stand in the ledger of population {population!r}: only "
                "keys that this population has paid for are known; leave it out, or name the population that paid",
                population=account.population,
            )


@lru_cache(maxsize=4)
def _read(folder: str, digest: str, table: str, key: tuple[str, ...]) -> KnownRelease:
    from querycloak.methods.evidence import load, verify

    verified = verify(folder, digest=digest)
    problem = verified.problems[0] if verified.problems else None
    release = load(folder, digest=digest)
    if problem is None and not (release.proven.covers_release and release.proven.unit == "user"):
        problem = "it is not differentially private for a user, so nobody has paid for its keys"
    if problem is None and release.seeded:
        problem = "it was made from a seed, so its noise protects nobody"
    if problem is None and (table not in release.tables or not set(key) <= set(release.tables[table].schema.names)):
        problem = f"it has no table {table!r} of such keys"
    if problem is not None:
        raise ParameterError.of("the release given with {known} is not known: {problem}; leave it out", problem=problem)
    keys = release.table(table).select(list(key)).group_by(list(key)).aggregate([])
    ordered = keys.sort_by([(name, "ascending") for name in key])
    return KnownRelease(digest, str(release.proven.neighbours), table, ordered)


def with_known(
    plan: SelectionPlan, given: Budget, release: KnownRelease, share: float, per_user: int | None = None
) -> SelectionPlan:
    """The plan of new keys with the counts of known ones beside it, and what both guarantee (claim)."""
    from querycloak.privacy.calibration.selection import KNOWN_PER_USER, known_draw, total_delta

    draw = known_draw(given.epsilon, given.delta, share, per_user or KNOWN_PER_USER)
    delta = total_delta(given.epsilon, [*plan.draws(), draw])
    if delta > given.delta:
        raise EngineError(f"delta {given.delta!r} was missed by rounding; this is a bug in querycloak")
    because = (
        f"{release.keys.num_rows:,} keys of an earlier release are public: each of them, held or not, gets its number "
        f"of users, of each user the first {draw.per_user}, with {draw.noise.words}, and is printed if that exceeds "
        f"{cut_of(draw)} (methods/keys/known_keys.md); of other keys: {plan.proven.because}"
    )
    proven = user_guarantee(given.epsilon, delta, because, plan.proven.unprotected)
    return replace(plan, proven=proven, known=draw)


def cut_of(draw: PublicCounts) -> int:
    """The noisy number that a known key must exceed to be printed: one standard deviation of its noise."""
    return math.ceil(draw.noise.size)


@dataclass(frozen=True)
class CountedWithKnown:
    """New keys, counted for a plan, and numbers of users of known keys, waiting for their noise."""

    new: Counted
    table: str
    known: pa.Table
    """The known keys with `n`, their number of users (private); 0 if nobody holds them."""
    draws: PublicCounts

    @classmethod
    def of(
        cls, engine: Engine, new: Counted, contributions: ir.Table, release: KnownRelease, draws: PublicCounts
    ) -> CountedWithKnown:
        """Count known keys among the contributions: of each user the first ones."""
        from querycloak.methods.keys.contribution_bounding import first_keys

        key = release.keys.schema.names
        mine = contributions.semi_join(engine.upload(release.keys), key)
        first = first_keys(mine, key, draws.per_user)
        counts = engine.fetch(first.group_by(key).agg(n=first.count()))
        known = release.keys.join(counts, key, join_type="left outer").sort_by([(name, "ascending") for name in key])
        return cls(new, release.table, known, draws)

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw new keys, then the noise of every known key; one table holds both."""
        import pyarrow as pa

        from querycloak.methods.keys.thresholded import by_noisy_count
        from querycloak.releases.tables import whole_table

        drawn = self.new.draw(randomness)
        true = self.known["n"].fill_null(0).to_numpy()
        noisy = true + randomness.noise(self.draws.noise, true.size)
        printed = noisy > cut_of(self.draws)
        keys = self.known.drop_columns(["n"]).filter(pa.array(printed))
        known = keys.append_column("count", pa.array(np.asarray(noisy[printed], np.int64)))
        fresh = whole_table(self.table, drawn.tables[self.table])
        together, key = pa.concat_tables([fresh, known.cast(fresh.schema)]), keys.schema.names
        ordered = by_noisy_count(together.select(key), together["count"].fill_null(0).to_numpy(), key)
        return replace(drawn, tables={**drawn.tables, self.table: ordered})
