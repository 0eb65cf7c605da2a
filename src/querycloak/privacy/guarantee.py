"""Guarantee of a release: a frozen value that checks itself, and the sum of several."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import natural, number_above_zero, one_of, refuse, share
from querycloak.privacy.sampling.exact import rounded_up, shown_up, stated
from querycloak.shown_in_notebooks import ShownInNotebooks

KINDS = ("pure-dp", "approximate-dp", "syntactic", "sampling-only")
UNITS = ("user", "query")
NEIGHBOURS = ("add-remove-user", "replace-query")
FIELDS = ("kind", "unit", "neighbours", "epsilon", "delta", "k", "unprotected", "because")


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee(ShownInNotebooks):
    """One guarantee: for whom, between which logs, how strong, what it leaves out, and why it holds.

    Each number means the decimal that it prints as.
    """

    kind: str
    unit: str
    neighbours: str | None
    because: str
    epsilon: float | None = None
    delta: float | None = None
    k: int | None = None
    unprotected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        one_of("unit", self.unit, UNITS)
        if self.kind != "syntactic" or self.neighbours is not None:
            one_of("neighbours", self.neighbours, NEIGHBOURS)
        if not isinstance(self.because, str) or not self.because.strip():
            refuse("because", "a text", self.because, "say in a line why the guarantee holds")
        self._check_unprotected()
        if self.kind == "syntactic":
            self._check_syntactic()
        else:
            self._check_private()

    def _check_unprotected(self) -> None:
        listed = self.unprotected
        if not isinstance(listed, tuple | list) or not all(isinstance(item, str) for item in listed):
            refuse("unprotected", "a list of texts", listed, "name each quantity that no noise covers")
        object.__setattr__(self, "unprotected", tuple(listed))

    def _check_syntactic(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if value is not None:
                refuse(
                    name,
                    "absent where kind is syntactic",
                    value,
                    "leave it out: such a rule bounds no belief",
                )
        if self.k is not None:
            object.__setattr__(self, "k", natural("k", self.k, "give the smallest number of users, such as 5"))

    def _check_private(self) -> None:
        if self.k is not None:
            refuse("k", f"absent where kind is {self.kind}", self.k, "leave it out")
        object.__setattr__(self, "epsilon", self._checked_epsilon())
        object.__setattr__(self, "delta", self._checked_delta())

    def _checked_epsilon(self) -> float:
        if self.kind == "sampling-only" and self.epsilon == 0 and not isinstance(self.epsilon, bool):
            return 0.0  # the sampling step alone may well be (0, delta)
        return number_above_zero("epsilon", self.epsilon, "give a number such as 1")

    def _checked_delta(self) -> float:
        absent = self.delta is None or (self.delta == 0 and not isinstance(self.delta, bool))
        if self.kind == "pure-dp":
            if not absent:
                refuse("delta", "0 where kind is pure-dp", self.delta, "say approximate-dp, or leave delta out")
            return 0.0
        if self.kind == "sampling-only" and absent:
            return 0.0
        return share("delta", self.delta, "give a number such as 1e-7, or say pure-dp")

    @property
    def numbers(self) -> tuple[float, float]:
        """Epsilon and delta; a syntactic rule has neither, and asking it for them is an error."""
        if self.epsilon is None or self.delta is None:
            raise ParameterError("a syntactic guarantee has no epsilon and no delta; look at its kind first")
        return self.epsilon, self.delta

    @property
    def cost(self) -> tuple[Fraction, Fraction]:
        """Exact summand in sums of epsilons and deltas; a syntactic rule bounds nothing and adds nothing."""
        if self.kind == "syntactic":
            return Fraction(0), Fraction(0)
        epsilon, delta = self.numbers
        return stated(epsilon), stated(delta)

    @property
    def covers_release(self) -> bool:
        """True if it bounds all that a release tells about one person, rather than nothing or one step."""
        return self.kind in ("pure-dp", "approximate-dp")

    @property
    def line(self) -> str:
        """The guarantee in one line, for people; `explain` says what the numbers mean."""
        if self.kind == "syntactic":
            return "a rule, no differential privacy" if self.k is None else f"a rule, k = {self.k}"
        epsilon, delta = self.numbers
        numbers = f"epsilon {epsilon:g}" + (f", delta {shown_up(delta)}" if delta else "")
        return f"{numbers} for each {self.unit}" + (", one step only" if self.kind == "sampling-only" else "")

    def __repr__(self) -> str:
        return f"<Guarantee {self.kind}: {self.line}>"

    def explain(self) -> str:
        """Meaning of the numbers for one person, a paragraph for each point."""
        from querycloak.privacy.explanation import explain

        return explain(self)

    def __add__(self, other: "Guarantee") -> "Guarantee":
        return compose([self, other])

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as it stands in card.json and in `guarantee --json`."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        return fields | {"unprotected": list(self.unprotected)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Guarantee":
        """Return the guarantee that `to_json` wrote; every key must be there and no other."""
        if set(fields) != set(FIELDS):
            rule = f"an object with the keys {', '.join(FIELDS)}"
            refuse("guarantee", rule, sorted(map(str, fields)), "write it with to_json")
        if not isinstance(fields["unprotected"], list):
            refuse("unprotected", "a list of texts", fields["unprotected"], "write it with to_json")
        return cls(**fields)


def user_guarantee(
    epsilon: float | None, delta: float | None, because: str, unprotected: tuple[str, ...] = ()
) -> Guarantee:
    """Return differential privacy for one user, added or removed; pure only if delta is None, however small it is."""
    return Guarantee(
        kind="pure-dp" if delta is None else "approximate-dp",
        unit="user",
        neighbours="add-remove-user",
        epsilon=epsilon,
        delta=delta,
        unprotected=unprotected,
        because=because,
    )


def compose(parts: Iterable[Guarantee]) -> Guarantee:
    """Return what several releases of one log guarantee together: their epsilons and deltas add up."""
    listed = list(parts)
    if not listed:
        refuse("parts", "at least one guarantee", listed, "compose what was released")
    if len(listed) == 1:
        return listed[0]
    first = listed[0]
    for part in listed:
        _check_composable(first, part)
    epsilon, delta = (rounded_up(sum(each, Fraction(0))) for each in zip(*(p.cost for p in listed), strict=True))
    if delta >= 1:
        refuse("delta", f"below 1 for all {len(listed)} parts together", delta, "release less")
    return Guarantee(
        kind=_weakest(listed),
        unit=first.unit,
        neighbours=first.neighbours,
        epsilon=epsilon,
        delta=delta,
        unprotected=_without_repeats(text for part in listed for text in part.unprotected),
        because=f"sum of {len(listed)} parts: " + "; ".join(_without_repeats(part.because for part in listed)),
    )


def coverage(parts: Iterable[Guarantee]) -> str | None:
    """Say how many of several releases a sum of their numbers is about; None if about all."""
    covered = [part.covers_release for part in parts]
    if all(covered):
        return None
    return f"covers {sum(covered)} of {len(covered)} releases; the others bound nothing, or one step only"


def _check_composable(first: Guarantee, part: Guarantee) -> None:
    if part.kind == "syntactic":
        refuse("kind", "pure-dp, approximate-dp or sampling-only to be added up", part.kind, "list it apart")
    if part.unit != first.unit:
        refuse("unit", f"{first.unit} in all parts", part.unit, "bring the parts to one unit before adding")
    if part.neighbours != first.neighbours:
        way_out = "bring the parts to one neighbouring relation before adding"
        refuse("neighbours", f"{first.neighbours} in all parts", part.neighbours, way_out)


def _weakest(parts: list[Guarantee]) -> str:
    order = ("pure-dp", "approximate-dp", "sampling-only")
    return max((part.kind for part in parts), key=order.index)


def _without_repeats(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
