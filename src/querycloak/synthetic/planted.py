"""Queries that give their author away, planted here and there, each with its kind written down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from querycloak.synthetic.heavy_tails import Ints
from querycloak.synthetic.people import People
from querycloak.synthetic.queries import Queries
from querycloak.synthetic.visits import Sessions
from querycloak.synthetic.world import World

# The share of people who type one.
KINDS = {
    "own name": 0.06,
    "surname and town": 0.04,
    "card number": 0.004,
    "social security number": 0.003,
    "rare disease": 0.02,
    "secret": 0.004,
}
_SECRET_BEGINNINGS = ("visa", "account", "password", "pin", "policy", "case")


@dataclass(frozen=True)
class Planted:
    """Which queries were replaced, by what, and of which kind it is."""

    query: Ints
    text: list[str]
    kind: list[str]


def plant(world: World, people: People, sessions: Sessions, queries: Queries, random: np.random.Generator) -> Planted:
    """Choose who gives something away, and in which of their queries; a query is chosen once at most."""
    person_of = sessions.person[queries.session]
    count = np.bincount(person_of, minlength=len(people))
    first = np.cumsum(count) - count
    planted: dict[int, tuple[str, str]] = {}
    for kind, share in KINDS.items():
        for person in np.flatnonzero(random.random(len(people)) < share).tolist():
            query = int(first[person] + random.integers(0, count[person]))
            planted.setdefault(query, (_text(kind, person, world, people, random), kind))
    order = sorted(planted)
    return Planted(np.array(order, np.int64), [planted[q][0] for q in order], [planted[q][1] for q in order])


def _text(kind: str, person: int, world: World, people: People, random: np.random.Generator) -> str:
    def piece(number: int) -> str:
        return str(world.texts[int(number)].as_py())

    if kind == "own name":
        return f"{piece(people.given[person])} {piece(people.surname[person])}"
    if kind == "surname and town":
        return f"{piece(people.surname[person])} {piece(people.town[person])}"
    if kind == "card number":
        return _card_number(random)
    if kind == "social security number":
        area, group, serial = random.integers(1, 665), random.integers(1, 100), random.integers(1, 10_000)
        return f"{area:03}-{group:02}-{serial:04}"
    if kind == "rare disease":
        # The last half of them: hardly anybody else asks for it.
        rare = world.diseases[len(world.diseases) // 2 :]
        return piece(world.things.first + int(random.choice(rare)))
    letters = "".join(chr(ord("a") + each) for each in random.integers(0, 26, 3))
    return f"{random.integers(100, 1000)}{letters} {_SECRET_BEGINNINGS[random.integers(0, len(_SECRET_BEGINNINGS))]}"


def _card_number(random: np.random.Generator) -> str:
    """Sixteen digits that pass the check that all payment cards pass."""
    digits = [4, 0, 0, 0, *random.integers(0, 10, 11).tolist()]
    doubled = sum(sum(divmod(2 * digit, 10)) if place % 2 == 0 else digit for place, digit in enumerate(digits))
    digits.append(-doubled % 10)
    text = "".join(map(str, digits))
    return " ".join(text[i : i + 4] for i in range(0, 16, 4)) if random.random() < 0.5 else text


def with_planted(texts: pa.Array, planted: Planted) -> pa.Array:
    """The texts with what was planted in its place."""
    import pyarrow.compute as pc

    mask = np.zeros(len(texts), np.bool_)
    mask[planted.query] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(planted.text, pa.string()))
