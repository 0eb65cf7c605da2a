"""What every method is: a frozen value, a guarantee from its parameters alone, and one place that reads the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from querycloak.errors import ParameterError
from querycloak.privacy.guarantee import Guarantee

if TYPE_CHECKING:  # whoever asks for a guarantee must not wait for engines
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.books.accounts import Account
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.privacy.chance.randomness import Randomness
    from querycloak.privacy.composing.draws import Mechanism
    from querycloak.releases.release import Release

VARIANTS = ("default", "paper")


class Method(Protocol):
    """One way of releasing a log."""

    name: ClassVar[str]

    @property
    def variant(self) -> str:
        """`default`, whose proven guarantee is real, or `paper`."""
        ...

    def parameters(self) -> dict[str, Any]:
        """Everything that decides the release, as plain values: what was given and what was solved for."""
        ...

    def claimed(self) -> Guarantee | None:
        """What the paper says, from the parameters alone."""
        ...

    def proven(self) -> Guarantee:
        """What we defend, from the parameters alone."""
        ...

    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Release the log: the only place that reads it. The ledger is charged before the first draw."""
        ...


def check_budget(method: Method, ledger: Ledger | None, population: str | None) -> Account | None:
    """The account that would pay, if any; raises what charging would raise, unless an earlier release has paid."""
    from querycloak.privacy.books.payment import require_budget

    if ledger is not None and population is not None and is_prepaid(method, ledger, population):
        return ledger.show(population)[0]
    return require_budget(ledger, population, method.proven())


def is_prepaid(method: Method, ledger: Ledger, population: str) -> bool:
    """Whether an earlier release has paid for this one; most methods know no such thing."""
    prepaid = getattr(method, "prepaid", None)
    return prepaid is not None and bool(prepaid(ledger, population))


def describe(method: Method) -> dict[str, Any]:
    """What `guarantee --json` prints and card.json holds."""
    claimed = method.claimed()
    return {
        "method": method.name,
        "variant": method.variant,
        "parameters": method.parameters(),
        "claimed": claimed and claimed.to_json(),
        "proven": method.proven().to_json(),
    }


def mechanisms_of(method: Method) -> list[dict[str, Any]]:
    """What a method will draw, as its charge records it; empty where nothing but its guarantee may be used.

    That is so for papers' variants: they may count a user several times for one key.
    """
    if method.variant == "paper":
        return []
    drawn: Iterable[Mechanism] = getattr(method, "mechanisms", tuple)()
    return [each.to_json() for each in drawn]


def checked_choice(name: str, value: object, accepted: tuple[str, ...]) -> None:
    """Refuse a value that is none of those accepted."""
    if value not in accepted:
        raise ParameterError(f"{name} must be one of {', '.join(accepted)}; it is {value!r}")


def budget_or_knobs(budget: Mapping[str, object], knobs: Mapping[str, object]) -> str:
    """Which of the two was given: all of one, and none of the other."""
    given = {name for name, value in {**budget, **knobs}.items() if value is not None}
    names = {"budget": list(budget), "knobs": list(knobs)}
    chosen = [kind for kind, members in names.items() if given & set(members)]
    either = f"the budget ({', '.join(budget)}) or the knobs ({', '.join(knobs)})"
    if len(chosen) != 1:
        raise ParameterError(f"give {either}{', never both: each follows from the other' if chosen else ''}")
    lacking = [name for name in names[chosen[0]] if name not in given]
    if lacking:
        raise ParameterError(f"{' and '.join(lacking)} must be given too: {either}, complete")
    return chosen[0]
