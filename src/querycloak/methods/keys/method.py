"""What methods share that count keys and release those that enough users hold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from querycloak.methods.keys.auto_bound import AutoBound
from querycloak.methods.keys.plans import Counts, FixedPlans
from querycloak.methods.method import Counted, Method
from querycloak.methods.option import option
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy
    from querycloak.releases.tables import Table


@dataclass(frozen=True, kw_only=True)
class KeysMethod(Method):
    """Contributions are bounded and counted by key; a partition selection decides which keys come out."""

    keys: ClassVar[Mapping[str, Sequence[str]]]
    """The columns of a key, by table."""
    max_keys_per_user: int | Literal["auto"] | None = option(
        formerly="per_user",
        help="How many keys of one user count. auto chooses this number on the log, for a part of epsilon; if neither "
        "this nor a selection is given, auto chooses both. With a selection: 256 if not given, 32 with Gaussian noise, "
        "1 with Laplace noise, 4 in the paper variant.",
    )
    counts: Counts = option("noisy", help="none: keys without counts; more keys come out of the same budget.")
    planned: FixedPlans | AutoBound = field(init=False, repr=False)
    """Settled at construction: plans, or how they are chosen on the log."""

    @abstractmethod
    def at_bound(self, bound: int, epsilon: float | None = None) -> Self:
        """The same method with this number of keys per user, perhaps with another epsilon."""

    def reads(self) -> object:
        """What else, beside the log and the options, decides what users may add before a bound."""
        return None

    @abstractmethod
    def contributions(self, log: SearchLog) -> Mapping[str, ir.Table]:
        """What each user may add to each table, before a plan's bound: `user`, the key's columns and `earliest`."""

    def published(self, table: str, released: pa.Table) -> Table:  # noqa: ARG002
        """The table as it is published."""
        return released

    @property
    def plans(self) -> Mapping[str, TablePlan]:
        """Noise, threshold and bound of each table, if they are known before the data."""
        return self.planned.plans

    def claimed(self) -> Guarantee | None:
        """What the paper says, in its variant."""
        return self.planned.claimed

    def proven(self) -> Guarantee:
        """What the method's note proves."""
        return self.planned.proven

    def draws(self) -> Sequence[Draw]:
        """What is drawn, so that several releases can be added up."""
        return self.planned.draws()

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Those of the plans; if the bound is chosen on the log, of all plans."""
        return self.planned.routes()

    def reach(self) -> Mapping[str, TableAccuracy]:
        """How exact counts will be by the plan; if the bound is chosen on the log, over all plans."""
        return self.planned.reach()

    def count(self, log: SearchLog) -> Counted:
        """Bound every user's contributions and count them by key."""
        return self.planned.count(log, self)
